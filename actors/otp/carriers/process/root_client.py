"""The program's end of the door: any number of threads, each with an order of its own.

The thread that waits first reads for all; the others sleep until their answer is there or it is
their turn to read. No thread is started for it.
"""

import math
import select
import socket
import threading
import time
from itertools import count

from ...cell import OtpError
from .frames import Frames, encoded
from .root import Numbered, Order, RootAnswer

_READ_BYTES = 262_144


class Hung(OtpError):
    """The other side is there no more."""


class Line:
    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
        self._frames = Frames()
        self._numbers = count(1)
        self._writing = threading.Lock()
        self._state = threading.Condition()
        self._open: dict[int, RootAnswer | None] = {}
        self._is_read = False
        self._is_closed = False

    def ask(self, order: Order, timeout_s: float | None) -> object:
        """The answer; raises `TimeoutError`, or `Hung` where none will come."""
        with self._state:
            number = next(self._numbers)
            self._open[number] = None
        try:
            self._write(encoded(Numbered(number, order)))
            return self._wait(number, timeout_s)
        finally:
            with self._state:
                del self._open[number]  # what comes later is dropped

    def close(self) -> None:
        with self._state:
            self._is_closed = True
            self._state.notify_all()
        self._socket.close()

    def _write(self, frame: bytes) -> None:
        with self._writing:
            try:
                self._socket.sendall(frame)
            except OSError as error:
                raise Hung(str(error)) from error

    def _wait(self, number: int, timeout_s: float | None) -> object:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._state:
            while (answer := self._open[number]) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if self._is_closed:
                    raise Hung("closed")
                if left is not None and left <= 0:
                    raise TimeoutError(f"no answer after {timeout_s} s")
                if self._is_read:
                    self._state.wait(left)
                else:
                    self._read(left)
        return answer.value

    def _read(self, left: float | None) -> None:
        """Be the one who reads; called with the state locked, and left so."""
        self._is_read = True
        self._state.release()
        data: bytes | None = None
        try:
            if self._poll.poll(None if left is None else math.ceil(left * 1000)):
                data = self._socket.recv(_READ_BYTES)
        except (OSError, ValueError):  # closed by another thread
            data = b""
        finally:
            self._state.acquire()
            self._is_read = False
            self._state.notify_all()
        if data == b"":
            self._is_closed = True
        for each in self._frames.feed(data or b""):
            assert isinstance(each, RootAnswer)
            if each.number in self._open:
                self._open[each.number] = each
