"""A sidecar as a process of its own, with something wrong below it, and callers that keep a log."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tests.authority.sidecar.peer import HELLO, connected
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import Serve, encoded


class Served(Serve):
    """A sidecar whose block begins when it answers, or has ended."""

    def __enter__(self) -> Self:
        try:
            eventually(lambda: self.process.poll() is not None or self.serves())
        except BaseException:
            self.kill()
            raise
        return self


class Caller:
    """One connection. What it hears, it hears once: nothing is asked again."""

    def __init__(self, state_dir: Path) -> None:
        self._socket = connected(state_dir)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._file = self._socket.makefile("rb")
        self.send(HELLO)
        self.greeting = self.line()

    @property
    def greeted(self) -> bool:
        """Whether it was let in."""
        return b'"hello"' in self.greeting

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
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
    """Several at once, each with so many requests in flight, until no answer comes any more."""

    def __init__(self, count: int, window: int, notes: int = 0) -> None:
        self.sent: list[list[dict[str, Any]]] = [[] for _ in range(count)]
        self.heard: list[bytes] = []  # but not what was refused at the door
        self._window = window
        self._notes = "n" * notes

    def call(self, state_dir: Path, rounds: int) -> None:
        """Go on with new requests; returns when all have been answered, or no answer comes."""
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
        with suppress(OSError), Caller(state_dir) as caller:
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
