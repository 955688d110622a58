"""A raw connection to a sidecar: bytes out, lines in, and nothing of the client in between."""

import os
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tests.patience import PATIENCE_SECONDS
from understudy.authority import SOCKET

HELLO = {"hello": {"protocol": 1, "transport": "mcp"}}
TOO_LARGE = "transport_request_too_large"
OVERLOADED = "authority_overloaded"


def add(mark: int, **payload: object) -> dict[str, Any]:
    return {
        "id": mark,
        "action": "issue.add",
        "payload": {"id": f"i{mark}", "title": "t"} | payload,
    }


def show(mark: int, issue_id: str) -> dict[str, Any]:
    return {"id": mark, "action": "issue.show", "payload": {"id": issue_id}}


def lines_of(*requests: dict[str, Any]) -> bytes:
    return b"".join(orjson.dumps(request) + b"\n" for request in requests)


class Peer:
    """A raw connection: bytes out, lines in."""

    def __init__(self, state_dir: Path, hello: dict[str, Any] | None = HELLO) -> None:
        self.socket = connected(state_dir)
        self.socket.settimeout(PATIENCE_SECONDS)
        self._file = self.socket.makefile("rb")
        if hello is not None:
            try:
                self.server = self._greeted(hello)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _greeted(self, hello: dict[str, Any]) -> dict[str, Any]:
        server: dict[str, Any] = self.ask(hello)["hello"]
        return server

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, *requests: dict[str, Any]) -> None:
        self.write(lines_of(*requests))

    def line(self) -> bytes:
        """The next line; nothing at the end, whether it came with a bang or without."""
        try:
            return self._file.readline()
        except ConnectionError:
            return b""

    def answer(self) -> dict[str, Any]:
        line = self.line()
        assert line.endswith(b"\n"), f"hung up with {line!r}"
        value: dict[str, Any] = orjson.loads(line)
        return value

    def answers(self, count: int) -> list[dict[str, Any]]:
        return [self.answer() for _ in range(count)]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.send(request)
        return self.answer()

    def rest(self) -> list[bytes]:
        """What still comes until the other side hangs up."""
        lines = []
        while line := self.line():
            lines.append(line)
        return lines

    def is_still_unanswered(self) -> bool:
        """Nothing comes, for as long as an answer takes otherwise."""
        return not select.select([self.socket], [], [], 0.05)[0]

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def refusal(answer: dict[str, Any]) -> str | None:
    classes: list[str] = answer["failureClasses"]
    return classes[0] if classes else None


def results(answers: Sequence[dict[str, Any]]) -> dict[int, str | None]:
    """How each request ended, by its id; no id comes twice."""
    found = {answer["id"]: refusal(answer) for answer in answers}
    assert len(found) == len(answers)
    return found


def served_by(state_dir: Path) -> int | None:
    """The process that answers on the socket, if there is one."""
    with suppress(OSError, AssertionError), Peer(state_dir) as peer:
        return int(peer.server["pid"])
    return None


def connected(state_dir: Path) -> socket.socket:
    """However long the directory's path is."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        channel.connect(f"/proc/self/fd/{folder}/{SOCKET}")
    except OSError:
        channel.close()
        raise
    finally:
        os.close(folder)
    return channel
