"""A sidecar as a process of its own, with something wrong below it, and callers that keep a log."""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tests.patience import PATIENCE_SECONDS
from tests.surfaces.process import UNDERSTUDY, encoded, environment
from understudy.authority import Unavailable
from understudy.authority.client import Client, _connected

ROOT = Path(__file__).parents[2]
HELLO = {"hello": {"protocol": 1, "transport": "mcp"}}
_PAUSE_SECONDS = 0.002


class Served:
    """`understudy authority serve`. The block begins when it answers, or has ended.

    Leaving the block ends it, whatever happened.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        program: Sequence[str | Path] = (UNDERSTUDY,),
        changes: dict[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.state_dir = state_dir
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [*program, "authority", "serve", "--state-dir", state_dir],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
            cwd=ROOT,
            env=environment(**(changes or {})),
            preexec_fn=prepare,  # noqa: PLW1509
        )

    def __enter__(self) -> Self:
        try:
            wait_until(lambda: self.process.poll() is not None or self._answers())
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._said.close()

    def end(self) -> int:
        """Tell it to stop; its exit code."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.wait()

    def said(self) -> str:
        self._said.seek(0)
        return self._said.read().decode()

    def _answers(self) -> bool:
        with suppress(Unavailable, OSError), Client(self.state_dir, "mcp") as client:
            return bool(client.server["pid"] == self.process.pid)
        return False


def wait_until(holds: Callable[[], object]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / _PAUSE_SECONDS)):
        if holds():
            return
        pause.wait(_PAUSE_SECONDS)
    raise AssertionError("it never came to that")


class Caller:
    """One connection. What it hears, it hears once: nothing is asked again."""

    def __init__(self, state_dir: Path) -> None:
        self._socket = _connected(state_dir)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._file = self._socket.makefile("rb")
        self.send(HELLO)
        self.line()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *requests: dict[str, Any]) -> None:
        with suppress(ConnectionError):
            self._socket.sendall(encoded(requests))

    def line(self) -> bytes:
        """The next answer without its line feed; nothing when there are no more."""
        with suppress(ConnectionError):
            line = self._file.readline()
            if line.endswith(b"\n"):
                return line[:-1]
        return b""

    def ask(self, action: str, /, **payload: object) -> dict[str, Any]:
        self.send({"action": action, "payload": payload})
        line = self.line()
        assert line, "the sidecar hung up"
        answer: dict[str, Any] = orjson.loads(line)
        return answer


class Callers:
    """Several at once, each with so many requests in flight, until nobody answers any more."""

    def __init__(self, count: int, window: int, notes: int = 0) -> None:
        self.sent: list[list[dict[str, Any]]] = [[] for _ in range(count)]
        self.heard: list[bytes] = []  # but not what was refused at the door
        self._window = window
        self._notes = "n" * notes

    def call(self, state_dir: Path, rounds: int) -> None:
        """Go on with new requests; returns when all have been answered, or nobody answers."""
        places = range(len(self.sent))
        threads = [
            threading.Thread(target=self._call, args=(state_dir, place, rounds)) for place in places
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()

    def call_again(self, state_dir: Path) -> list[bytes]:
        """Everything that was ever sent, in the old order; all answers."""
        answers = []
        with Caller(state_dir) as caller:
            for requests in self.sent:
                for request in requests:
                    caller.send(request)
                    answers.append(caller.line())
        return answers

    def _call(self, state_dir: Path, place: int, rounds: int) -> None:
        with suppress(Unavailable), Caller(state_dir) as caller:
            for _ in range(rounds):
                window = list(self._requests(place))
                self.sent[place] += window
                caller.send(*window)
                for _ in window:
                    line = caller.line()
                    if not line:
                        return
                    if b'"effect":' in line:
                        self.heard.append(line)

    def _requests(self, place: int) -> Iterator[dict[str, Any]]:
        """Add, claim, add, claim."""
        first = place * 1_000_000 + len(self.sent[place])
        for number in range(first, first + self._window):
            issue = {"id": f"i{number // 2}", "requestId": f"r{number}"}
            if number % 2 == 0:
                payload = issue | {"title": "work", "notes": self._notes}
                yield {"id": number, "action": "issue.add", "payload": payload}
            else:
                payload = issue | {"assignee": f"caller-{place}"}
                yield {"id": number, "action": "issue.claim", "payload": payload}
