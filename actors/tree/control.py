"""Talks to a tree that runs in another process: one JSON line in, one JSON line out.

`<state directory>/run/tree.sock` belongs to the program that started the tree, and can be opened by
its user alone.

    {"ask":"picture"}                     the tree, as `launcher.Tree.picture` has it
    {"ask":"stop","drainMs":0}            begin to stop; the connection ends when it has stopped

I1  A caller that does not finish its line keeps no other one waiting: it is heard as it speaks, and
    hung up on when its time is over, or when it is the oldest of too many.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson

from ...authority.service import sockets
from ...contracts import limits

SOCKET: Final = "tree.sock"
_PATIENCE_SECONDS = 10.0  # for a line
_READ_SECONDS = 2.0  # for the caller to take its answer, while others wait
_LOOK_SECONDS = 1.0  # how often the time of callers is looked at
_PAUSE_SECONDS = 0.1  # where no more files can be opened

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
        self._listener.listen(limits.TREE_CALLERS_MAX)
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
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            callers: dict[socket.socket, _Caller] = {}  # the oldest first
            while True:
                ready = [
                    key.fileobj for key, _ in selector.select(_LOOK_SECONDS if callers else None)
                ]
                if self._bell in ready:
                    break
                for each in [callers[each] for each in ready if each in callers]:
                    self._hear(each)
                if self._listener in ready:
                    self._accept(selector, callers)
                now = time.monotonic()
                for channel, each in list(callers.items()):
                    if each.is_done or now > each.until or len(callers) > limits.TREE_CALLERS_MAX:
                        selector.unregister(channel)
                        del callers[channel]
                        each.leave()
            for each in callers.values():
                each.leave()

    def _accept(
        self, selector: selectors.BaseSelector, callers: dict[socket.socket, "_Caller"]
    ) -> None:
        try:
            channel, _ = self._listener.accept()
        except OSError:  # the program has too many files open: others may close theirs
            time.sleep(_PAUSE_SECONDS)
            return
        callers[channel] = _Caller(channel, time.monotonic() + _PATIENCE_SECONDS)
        selector.register(channel, selectors.EVENT_READ)

    def _hear(self, caller: "_Caller") -> None:
        with contextlib.suppress(OSError):
            if caller.hear():
                self._answer(caller)

    def _answer(self, caller: "_Caller") -> None:
        match _decoded(caller.line):
            case {"ask": "picture"}:
                caller.say(self._picture())
            case {"ask": "stop", "drainMs": drain_ms} if _is_drain(drain_ms):
                if len(self._waiting) < limits.TREE_CALLERS_MAX:
                    self._waiting.append(caller.keep())
                else:
                    caller.say({"error": "too many wait for the end"})
                self._stop(drain_ms)
            case _:
                caller.say({"error": "picture or stop"})


class _Caller:
    """One that has connected, and what it has said so far."""

    def __init__(self, channel: socket.socket, until: float) -> None:
        self.until = until
        self.line = b""
        self.is_done = False
        self._channel = channel
        self._is_kept = False
        channel.settimeout(_READ_SECONDS)

    def hear(self) -> bool:
        """Whether its line is whole, or longer than one may be."""
        self.is_done = True  # if it cannot be read
        part = self._channel.recv(limits.TREE_LINE_BYTES_MAX)
        self.line += part
        is_whole = self.line.endswith(b"\n") or len(self.line) > limits.TREE_LINE_BYTES_MAX
        self.is_done = is_whole or not part  # or it has hung up
        return is_whole

    def say(self, answer: dict[str, Any]) -> None:
        self._channel.sendall(orjson.dumps(answer) + b"\n")

    def keep(self) -> socket.socket:
        """It waits for the end, and is not hung up on before."""
        self._is_kept = True
        return self._channel

    def leave(self) -> None:
        if not self._is_kept:
            self._channel.close()


class NoTree(Exception):
    """No tree runs on this state directory."""


def ask(run_dir: Path, request: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """One question to a tree that runs, and its answer; `NoTree` where there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout_s)
        try:
            sockets.connect(channel, run_dir, SOCKET)
            channel.sendall(orjson.dumps(request) + b"\n")
            answer: dict[str, Any] = orjson.loads(_line_of(channel))
        except (OSError, orjson.JSONDecodeError) as error:
            raise NoTree(str(error)) from error
    return answer


def _line_of(channel: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and (part := channel.recv(65_536)):
        data += part
    return data


def _is_drain(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value <= limits.TREE_DRAIN_MS_MAX)


def _decoded(line: bytes) -> object:
    with contextlib.suppress(orjson.JSONDecodeError):
        value: object = orjson.loads(line)
        return value
    return None
