"""The real console in a process of its own, and people with browsers made of `http.client`."""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.patience import PATIENCE_SECONDS
from tests.services.server import Server
from tests.surfaces.process import ROOT, UNDERSTUDY, commanded, environment

_URL = re.compile(r"https?://[^\s\"]+/enter\?key=[\w-]+")
_CSRF = re.compile(r'name="csrf" content="([0-9a-f]+)"')


class WebAnswer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Person:
    """One browser: where it looks, and the cookie that it has."""

    base: str
    cookie: str = ""
    csrf: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def netloc(self) -> str:
        return urlsplit(self.base).netloc

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.netloc, timeout=PATIENCE_SECONDS)

    def ask(
        self, method: str, path: str, body: str | bytes | None = None, **headers: str
    ) -> WebAnswer:
        """One request; `_` in the name of a header is a dash, and `host=""` leaves it out."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"accept": "text/html"} | self.headers | named
        if self.cookie:
            sent.setdefault("cookie", self.cookie)
        channel = self.connection()
        try:
            channel.request(method, path, body, sent)
            found = channel.getresponse()
            lowered = {name.lower(): value for name, value in found.getheaders()}
            return WebAnswer(found.status, lowered, found.read())
        finally:
            channel.close()

    def get(self, path: str, **headers: str) -> WebAnswer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, form: dict[str, str] | None = None, **headers: str) -> WebAnswer:
        """A form of one of our own pages."""
        whole = {"csrf": self.csrf} | (form or {})
        sent = {"origin": self.base, "content_type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, urlencode(whole), **(sent | headers))

    def enter(self, link: str) -> "Person":
        """Follow a link, as a browser would."""
        parts = urlsplit(link)
        entered = self.get(f"{parts.path}?{parts.query}")
        assert entered.status == 200, entered.text
        self.cookie = entered.headers["set-cookie"].partition(";")[0]
        found = _CSRF.search(self.get("/").text)
        assert found is not None
        self.csrf = found[1]
        return self


@dataclass(frozen=True)
class ConsoleStand:
    """Where it serves, and whose."""

    base: str
    link: str
    state_dir: Path
    log: Path
    pid: int

    def visit(self) -> Person:
        """A person who has just followed a fresh link."""
        return Person(self.base).enter(self.another_link())

    def another_link(self, *options: str) -> str:
        said = self.told("web", "--link", *options)
        return said.strip()

    def told(self, *words: str | Path) -> str:
        """What a command on the same state directory prints."""
        done = commanded("--state-dir", self.state_dir, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()


@contextmanager
def console(folder: Path, *options: str, **variables: str) -> Iterator[ConsoleStand]:
    """A console on a state directory in this folder; made unless it is there."""
    state_dir, log = folder / "state", folder / "web.log"
    if not state_dir.exists():
        assert commanded("--state-dir", state_dir, "init").returncode == 0
    log.write_bytes(b"")
    words: list[str | Path] = [UNDERSTUDY, "web", "--state-dir", state_dir]
    if "--port" not in options:
        words += ["--port", "0"]
    with Server([*words, *options], log, env=environment(PYTHONPATH=str(ROOT), **variables)) as it:
        it.wait_for(lambda: _URL.search(log.read_text("utf-8")) is not None)
        found = _URL.search(log.read_text("utf-8"))
        assert found is not None
        base = found[0].partition("/enter")[0]
        yield ConsoleStand(base, found[0], state_dir, log, it.process.pid)
