"""Something on the socket that is no sidecar."""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from tests.patience import PATIENCE_SECONDS
from understudy.authority import SOCKET

GREETING = b'{"hello":{"protocol":1,"node":"n1","pid":1}}\n'


class Impostor:
    """Something on the socket that follows a script: one act for each connection in turn."""

    def __init__(self, state_dir: Path, *acts: Callable[[socket.socket], None]) -> None:
        self._path = state_dir / SOCKET
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.settimeout(PATIENCE_SECONDS)
        folder = os.open(state_dir, os.O_RDONLY)
        self._listener.bind(f"/proc/self/fd/{folder}/{SOCKET}")
        os.close(folder)
        self._listener.listen()
        self._acts = acts
        self._thread = threading.Thread(target=self._play)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        self._thread.join(PATIENCE_SECONDS)

    def _play(self) -> None:
        for act in self._acts:
            with suppress(OSError):
                channel, _ = self._listener.accept()
                channel.settimeout(PATIENCE_SECONDS)
                if act is self._acts[-1]:
                    self._leave()  # no other client is let in
                with channel:
                    act(channel)

    def _leave(self) -> None:
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # a thread that waits for a guest waits no longer
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def hang_up(channel: socket.socket) -> None:
    """Say nothing."""


def greet_and_hang_up(channel: socket.socket) -> None:
    channel.makefile("rb").readline()
    channel.sendall(GREETING)


def tear(channel: socket.socket) -> None:
    """Hear three requests, give half of an answer, and then nothing."""
    lines = channel.makefile("rb")
    lines.readline()
    channel.sendall(GREETING)
    for _ in range(3):
        lines.readline()
    channel.sendall(b'{"id":0,"result":"acc')


def obey(channel: socket.socket) -> None:
    """Answer everything, until the other side leaves."""
    lines = channel.makefile("rb")
    lines.readline()
    channel.sendall(GREETING)
    while line := lines.readline():
        answer = {"id": orjson.loads(line)["id"], "result": "accepted", "failureClasses": []}
        channel.sendall(orjson.dumps(answer) + b"\n")
