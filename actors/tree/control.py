"""Talks to a tree that runs in another process: one JSON line in, one JSON line out.

`<state directory>/run/tree.sock` belongs to the program that started the tree, and can be opened by
its user alone.

    {"ask":"picture"}                     the tree, as `launcher.Tree.picture` has it
    {"ask":"stop","drainMs":0}            begin to stop; the connection ends when it has stopped
"""

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson

from ...authority.service import sockets

SOCKET: Final = "tree.sock"
_LINE_BYTES_MAX = 64 * 1024
_PATIENCE_SECONDS = 10.0
_CALLERS_MAX = 16

Picture = Callable[[], dict[str, Any]]
Stop = Callable[[int | None], None]


class Server:
    """In the program of the tree: a thread that answers."""

    def __init__(self, run_dir: Path, picture: Picture, stop: Stop) -> None:
        self._picture, self._stop = picture, stop
        self._waiting: list[socket.socket] = []  # who asked for the stop, and hears of its end
        self._path = run_dir / SOCKET
        self._bell, self._rope = socket.socketpair()
        with sockets.socket_path(run_dir, SOCKET) as path:
            self._listener = sockets.bound(path)
        self._listener.listen(_CALLERS_MAX)
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def close_door(self) -> None:
        """Answer no more; who waits for the end still does."""
        if self._thread.is_alive():
            self._rope.send(b"!")
            self._thread.join()
        self._path.unlink(missing_ok=True)
        self._listener.close()

    def close(self) -> None:
        """The tree has ended, and the commands that wait for that hear it."""
        for each in self._waiting:
            with contextlib.suppress(OSError):
                each.sendall(orjson.dumps({"result": "stopped"}) + b"\n")
            each.close()
        self._bell.close()
        self._rope.close()

    def _serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._bell], [], [])
            if self._bell in ready:
                return
            caller, _ = self._listener.accept()
            caller.settimeout(_PATIENCE_SECONDS)
            with contextlib.suppress(OSError):
                if not self._answer(caller):
                    caller.close()

    def _answer(self, caller: socket.socket) -> bool:
        """Whether the caller stays: it waits for the end."""
        match _decoded(_line_of(caller)):
            case {"ask": "picture"}:
                caller.sendall(orjson.dumps(self._picture()) + b"\n")
            case {"ask": "stop", "drainMs": int() | None as drain_ms}:
                self._waiting.append(caller)
                self._stop(drain_ms)
                return True
            case _:
                caller.sendall(orjson.dumps({"error": "picture or stop"}) + b"\n")
        return False


class NoTree(Exception):
    """No tree runs on this state directory."""


def ask(run_dir: Path, request: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """One question to a tree that runs, and its answer; `NoTree` where there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout_s)
        try:
            sockets.connect(channel, run_dir, SOCKET)
            channel.sendall(orjson.dumps(request) + b"\n")
            answer: dict[str, Any] = orjson.loads(_line_of(channel, None))
        except (OSError, orjson.JSONDecodeError) as error:
            raise NoTree(str(error)) from error
    return answer


def _line_of(channel: socket.socket, size_max: int | None = _LINE_BYTES_MAX) -> bytes:
    data = b""
    while not data.endswith(b"\n") and (size_max is None or len(data) <= size_max):
        part = channel.recv(65_536)
        if not part:
            break
        data += part
    return data


def _decoded(line: bytes) -> object:
    with contextlib.suppress(orjson.JSONDecodeError):
        value: object = orjson.loads(line)
        return value
    return None
