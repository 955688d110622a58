"""Hooks of a tree: who is told what became of work, and that a bad hook harms nothing."""

import hashlib
import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import orjson
import pytest

from tests.limits import stands_on
from tests.patience import eventually
from tests.surfaces.process import understudy
from tests.tree.house import Up, add, statuses
from understudy.actors.process.port import ProcessGroup
from understudy.actors.run import webhook
from understudy.actors.tree import Plan, notifier
from understudy.contracts import Exit, limits

pytestmark = pytest.mark.timeout(120)


@contextmanager
def receiver(status: int = 200) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """A server on loopback, and what it was posted."""
    posted: list[tuple[dict[str, str], bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append((dict(self.headers), body))
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", posted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_commands_are_told_what_is_done_and_what_waits_for_a_person(
    state_dir: Path, tmp_path: Path
) -> None:
    add(state_dir, "good", "bad")
    told = tmp_path / "told"
    hook = f'printf "%s %s " "$UNDERSTUDY_EVENT" "$UNDERSTUDY_ISSUE" >> {told}; cat >> {told}'
    command = '[ "$UNDERSTUDY_ISSUE" = good ] || { echo no luck; exit 3; }'
    with Up(
        state_dir, "--exec", command, "--on-done", hook, "--on-escalation", hook, "--until-done"
    ) as up:
        assert up.wait() == Exit.WORK_BLOCKED, up.complaint()
    lines = dict(line.split(" {", 1) for line in told.read_text().splitlines())
    assert set(lines) == {"done good", "escalation bad"}
    escalated = orjson.loads("{" + lines["escalation bad"])
    assert escalated["issue"] == "bad"
    assert escalated["event"] == "escalation"
    assert "no luck" in escalated["detail"]


def test_a_budget_that_is_used_up_is_told(state_dir: Path, tmp_path: Path) -> None:
    add(state_dir, "dear")
    command = 'echo usd=1 >> "$UNDERSTUDY_SPEND_FILE"; sleep 600'
    words = ("--exec", command, "--max-usd-per-issue", "1", "--until-done")
    with Up(state_dir, *words, "--on-escalation", f"cat >> {tmp_path / 'told'}") as up:
        assert up.wait() == Exit.WORK_BLOCKED, up.complaint()
    assert orjson.loads((tmp_path / "told").read_bytes())["what"] == "budget exceeded"


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("echo begun; echo no luck; exit 3", "exit code 3: no luck"),
        ("no-such-command", "not found"),
        ("kill -9 $$", "exit code 137"),
    ],
)
def test_a_hook_that_fails_fails_nothing_else(state_dir: Path, hook: str, why: str) -> None:
    add(state_dir, "a", "b")
    with Up(state_dir, "--exec", "true", "--on-done", hook, "--until-done") as up:
        assert up.wait() == 0, up.complaint()
        assert "hook failed  a: on done: " in up.complaint()
        assert why in up.complaint()
    assert statuses(state_dir) == {"a": "closed", "b": "closed"}


def test_a_hook_that_hangs_holds_up_no_work(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    with Up(state_dir, "--exec", "true", "--on-done", "sleep 600").ready():
        eventually(lambda: statuses(state_dir) == {"a": "closed", "b": "closed"})


def test_a_webhook_that_fails_does_not_tell_its_path(state_dir: Path) -> None:
    add(state_dir, "a")
    with receiver(500) as (url, _):
        words = ("--exec", "true", "--webhook", f"{url}/s3cret", "--until-done")
        with Up(state_dir, *words) as up:
            assert up.wait() == 0, up.complaint()
            assert "a: on done: exit code 1: 127.0.0.1: status 500" in up.complaint()
            assert "s3cret" not in up.complaint()


def test_a_webhook_is_signed(state_dir: Path, tmp_path: Path) -> None:
    add(state_dir, "a")
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")
    with receiver() as (url, posted):
        words = ("--exec", "true", "--webhook", url, "--webhook-secret", secret, "--until-done")
        with Up(state_dir, *words) as up:
            assert up.wait() == 0, up.complaint()
    [(headers, body)] = posted
    expected = hmac.new(b"open sesame", body, hashlib.sha256).hexdigest()
    assert headers["X-Understudy-Signature"] == f"sha256={expected}"
    assert headers["X-Understudy-Event"] == "done"
    assert orjson.loads(body)["issue"] == "a"


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_receiver_that_does_not_take_it_is_a_failure_and_no_redirect_is_followed(
    status: int,
) -> None:
    with receiver(status) as (url, posted):
        assert webhook.post(url, b"{}", b"") == status
    assert len(posted) == 1
    assert "X-Understudy-Signature" not in posted[0][0]


@pytest.mark.parametrize(
    "url", ["", "ftp://x/y", "file:///etc/passwd", "http://", "http://x:port/"]
)
def test_what_is_no_webhook_is_refused_before_the_tree_starts(state_dir: Path, url: str) -> None:
    done = understudy("up", "--exec", "true", "--webhook", url, "--state-dir", state_dir)
    assert done.returncode == 2
    assert webhook.webhook_problem(url)


def test_nothing_is_posted_unsigned_where_a_signature_is_wanted(
    state_dir: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(" \n")
    up = ("up", "--exec", "true", "--state-dir", state_dir, "--webhook-secret", secret)
    with receiver() as (url, posted):
        for words, said in (((), "--webhook"), (("--webhook", url), "it is empty")):
            done = understudy(*up, *words)
            assert done.returncode == 2
            assert said in done.stderr.decode()
        assert webhook.main(url, str(secret)) == 1  # emptied while the tree runs
    assert "the secret is empty" in capfd.readouterr().err
    assert not posted


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> notifier.Notifier:
    """A notifier whose first hook has not ended."""
    plan = Plan(state_dir=tmp_path, argv=("true",), hooks=(("done", ("true",)),))
    found = notifier.Notifier(plan)
    monkeypatch.setattr(found, "_next", lambda: None)
    monkeypatch.setattr(found, "_tell", lambda *_: None)
    return found


@stands_on("HOOKS_WAITING_MAX")
def test_so_many_reports_wait_and_then_the_oldest_is_left_out(busy: notifier.Notifier) -> None:
    def waiting(count: int) -> list[int]:
        busy._waiting.clear()
        for number in range(count):
            busy.handle_cast(notifier.Told({"what": "done", "issue": "a", "number": number}))
        return [row["number"] for _, row in busy._waiting]

    most = limits.HOOKS_WAITING_MAX
    assert waiting(most) == list(range(most))
    assert waiting(most + 1) == list(range(1, most + 1))


@stands_on("HOOK_SECONDS_MAX")
def test_a_hook_is_ended_when_its_time_is_over(
    busy: notifier.Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_late(seconds: str) -> bool:
        command = busy._command(("sleep", seconds), {"what": "done", "event": "done"})
        with ProcessGroup(command) as group:
            ended = group.wait()
        assert ended is not None
        return ended.late

    monkeypatch.setattr(limits, "HOOK_SECONDS_MAX", 1)
    busy._plan.run_dir.mkdir()
    assert not is_late("0")
    assert is_late("600")
