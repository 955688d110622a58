"""Who gets in, and what is refused: links, cookies, origins, hosts, forged and replayed words."""

import os
import socket
import stat
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.surfaces.process import commanded
from tests.together import together
from tests.web.stand import ConsoleStand, Person, console

PAGES = ("/", "/work", "/descent", "/evidence", "/logs", "/doctor", "/events", "/work/issue/us-1")


@together("path", PAGES)
def test_without_a_session_every_page_says_how_to_get_one(stand: ConsoleStand, path: str) -> None:
    found = Person(stand.base).get(path)
    assert found.status == 401
    assert "understudy web --link" in found.text
    assert "set-cookie" not in found.headers


def test_a_link_opens_once(stand: ConsoleStand) -> None:
    link = stand.another_link()
    first = Person(stand.base).enter(link)
    assert first.get("/").status == 200
    parts = urlsplit(link)
    second = Person(stand.base).get(f"{parts.path}?{parts.query}")
    assert second.status == 401
    assert "used already" in second.text


def test_looking_at_a_link_does_not_use_it_up(stand: ConsoleStand) -> None:
    link = stand.another_link()
    parts = urlsplit(link)
    assert Person(stand.base).ask("HEAD", f"{parts.path}?{parts.query}").status != 200
    assert Person(stand.base).enter(link).get("/").status == 200


def test_no_secret_is_in_a_page_or_behind_the_first_request(
    stand: ConsoleStand, person: Person
) -> None:
    token = person.cookie.partition("=")[2]
    for path in PAGES[:-2]:
        found = person.get(path)
        assert token not in found.text
        assert "enter?key" not in found.text
        assert found.headers["cache-control"] == "no-store"
        assert "unsafe" not in found.headers["content-security-policy"]
        assert "script-src 'self'" in found.headers["content-security-policy"]
        assert found.headers["referrer-policy"] == "same-origin"


def test_the_cookie_is_for_this_page_alone(stand: ConsoleStand) -> None:
    parts = urlsplit(stand.another_link())
    cookie = Person(stand.base).get(f"{parts.path}?{parts.query}").headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {each.strip() for each in cookie.split(";")}
    assert "Domain" not in cookie


@together("cookie", ["x=y", "understudy", "understudy-1=" + "A" * 43, "\x01;=", "a" * 5000])
def test_a_forged_cookie_is_nothing(stand: ConsoleStand, cookie: str) -> None:
    name = f"understudy-{urlsplit(stand.base).port}"
    for each in (cookie, f"{name}={cookie}"):
        assert Person(stand.base, cookie=each).get("/").status in (400, 401)


def test_a_cookie_that_was_signed_out_stays_so(stand: ConsoleStand) -> None:
    person = stand.visit()
    before = Person(stand.base, cookie=person.cookie, csrf=person.csrf)
    assert person.post("/leave").status == 303
    assert before.get("/").status == 401
    assert before.post("/act/pause", {"scope": "*"}).status == 401


def test_sessions_outlive_the_console(tmp_path: Path) -> None:
    port = _free_port()
    with console(tmp_path, "--port", str(port)) as first:
        person = first.visit()
        kept = first.state_dir / "run" / "web-sessions.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert person.cookie.partition("=")[2] not in kept.read_text("utf-8")
    with console(tmp_path, "--port", str(port)) as second:
        again = Person(second.base, cookie=person.cookie)
        assert again.get("/").status == 200


@together(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1", "[::2]", "localhost:x"]
)
def test_a_foreign_host_is_refused(stand: ConsoleStand, host: str) -> None:
    person = stand.visit()
    assert person.get("/", host=host).status in (400, 421)


@together("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST:1"])
def test_our_own_hosts_are_let_in(stand: ConsoleStand, host: str) -> None:
    assert stand.visit().get("/", host=host).status == 200


def _paused(stand: ConsoleStand) -> bool:
    return "nothing is paused" not in stand.told("pause", "--list")


@together(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
    ],
)
def test_a_change_from_another_page_is_refused(
    stand: ConsoleStand, headers: dict[str, str]
) -> None:
    person = stand.visit()
    assert person.post("/act/pause", {"scope": "*"}, **headers).status == 403
    assert not _paused(stand)


def test_a_change_that_says_nothing_of_its_origin_is_refused(stand: ConsoleStand) -> None:
    person = stand.visit()
    assert person.ask("POST", "/act/pause", f"csrf={person.csrf}&scope=*").status == 403
    assert not _paused(stand)


@together("word", ["", "0" * 64, "é", "x" * 10_000])
def test_a_change_needs_the_word_of_its_own_session(stand: ConsoleStand, word: str) -> None:
    person, other = stand.visit(), stand.visit()
    assert person.post("/act/pause", {"csrf": word, "scope": "*"}).status == 403
    assert person.post("/act/pause", {"csrf": other.csrf, "scope": "*"}).status == 403
    assert not _paused(stand)


def test_a_change_by_get_is_none(stand: ConsoleStand, person: Person) -> None:
    assert person.get("/act/pause?scope=*").status in (404, 405)
    assert person.ask("PUT", "/act/pause").status == 405
    assert person.ask("OPTIONS", "/").status == 405
    assert not _paused(stand)


@together(
    "path",
    [
        "/static/../serve.py", "/static/%2e%2e/serve.py", "/static/..%2fserve.py", "/static/",
        "/static//etc/passwd", "//evil.example/", "/%00", "/work/issue/%00", "/nowhere",
        "/work/issue/" + "a" * 4000, "/evidence/-1", "/evidence/99999999999999999999999",
        "/evidence?before=-1", "/work?before=%ff", "/logs/read/../../journal.db",
        "/logs/read/issue%2f..%2f..%2fjournal.db", "/logs/download/issue/..%2f..%2fjournal.db",
    ],
)  # fmt: skip
def test_odd_paths_are_calm(person: Person, path: str) -> None:
    found = person.get(path)
    assert found.status in (200, 400, 404, 405), found.text
    assert b"SQLite format" not in found.body
    assert b"root:" not in found.body


def test_a_page_leads_back_to_itself_and_nowhere_else(stand: ConsoleStand, person: Person) -> None:
    for back in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x"):
        found = person.post("/act/unpause", {"scope": "*", "back": back})
        assert (found.status, found.headers["location"]) == (303, "/")


def test_a_body_that_is_too_long_is_refused(person: Person) -> None:
    assert person.post("/act/pause", {"scope": "x" * 2_000_000}).status == 413


def test_headers_cannot_be_smuggled_into_an_answer(stand: ConsoleStand, person: Person) -> None:
    found = person.post("/act/unpause", {"scope": "*", "back": "/\r\nset-cookie: a=b"})
    assert "set-cookie" not in found.headers


def test_another_user_of_the_machine_gets_nothing(stand: ConsoleStand) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    script = (
        "import http.client, socket, sys\n"
        "os_port, sock = int(sys.argv[1]), sys.argv[2]\n"
        "c = http.client.HTTPConnection('127.0.0.1', os_port)\n"
        "c.request('GET', '/', headers={'accept': 'text/html'}); print(c.getresponse().status)\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        'try:\n    s.connect(sock); s.sendall(b\'{"ask":"link","name":""}\\n\')\n'
        "    print(s.recv(4096) or 'nothing')\n"
        "except OSError as e: print('closed')\n"
    )
    port = urlsplit(stand.base).port
    sock = stand.state_dir / "run" / "web.sock"
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-c", script, str(port), str(sock)],
        capture_output=True,
        user=65534,
        timeout=PATIENCE_SECONDS,
        cwd="/",
        check=False,
    )
    assert done.stdout.split() == [b"401", b"closed"], done.stderr


@together(
    "words",
    [
        ("--web-host", "0.0.0.0"),
        ("--web-host", "0.0.0.0", "--web-user", "ada"),
        ("--web-host", "::"),
        ("--web-cert", "here.pem"),
        ("--port", "70000"),
    ],
)
def test_other_addresses_need_tls_and_a_name(stand: ConsoleStand, words: tuple[str, ...]) -> None:
    free = stand.state_dir.parent / "free"
    if not free.exists():
        assert commanded("--state-dir", free, "init").returncode == 0
    done = commanded("--state-dir", free, "web", *words)
    assert done.returncode == 2, done.stdout
    assert b"http" not in done.stdout


def test_a_port_that_is_taken_is_said_so(stand: ConsoleStand) -> None:
    free = stand.state_dir.parent / "taken"
    assert commanded("--state-dir", free, "init").returncode == 0
    port = urlsplit(stand.base).port
    done = commanded("--state-dir", free, "web", "--port", str(port))
    assert done.returncode == 1
    assert b"--port" in done.stderr
    done = commanded("--state-dir", free, "up", "--web", str(port), "--exec", "true")
    assert done.returncode == 2
    assert b"--web" in done.stderr


def test_the_link_is_where_a_console_runs_and_nowhere_else(
    stand: ConsoleStand, tmp_path: Path
) -> None:
    done = commanded("--state-dir", stand.state_dir, "web", "--json", "--as", "ada")
    assert b"/enter?key=" in done.stdout
    assert commanded("--state-dir", tmp_path / "s", "init").returncode == 0
    done = commanded("--state-dir", tmp_path / "s", "web", "--link")
    assert done.returncode == 7
    assert b"understudy up --web" in done.stderr


def test_with_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    import ssl
    from http.client import HTTPSConnection

    chain, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-keyout", key, "-out", chain, "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("no openssl here")
    words = ("--web-host", "0.0.0.0", "--web-cert", str(chain), "--web-key", str(key))
    with console(tmp_path, *words, "--web-user", "ada") as it:
        assert it.base.startswith("https://")
        port, parts = urlsplit(it.base).port, urlsplit(it.link)
        trusted = ssl.create_default_context(cafile=chain)
        channel = HTTPSConnection("127.0.0.1", port, context=trusted, timeout=PATIENCE_SECONDS)
        channel.request("GET", f"{parts.path}?{parts.query}")
        cookie = channel.getresponse().headers["set-cookie"]
        assert cookie.startswith("__Host-understudy")
        assert "Secure" in cookie
        channel.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
