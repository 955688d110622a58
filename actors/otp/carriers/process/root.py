"""The root of a system: the parent of its first cells, and what the program outside talks to.

Orders come as frames on a socket that only the program and the root have; each has a number, and
gets one answer with it. What is inside a message is not opened here on its way in.

I1  Every order gets one answer, or the socket is closed.
I2  First cells end in the reverse order of their start, one after the other, before the root does.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ...calls import Calls
from ...cell import (
    KILL,
    NORMAL,
    SHUTDOWN,
    CallFailed,
    Cell,
    Down,
    Exited,
    ExitReason,
    Located,
    OtpError,
    Readable,
    Ref,
    Started,
    StartFailed,
    Target,
)
from .cell import Body
from .frames import Frames, Sealed, encoded

TIDY_MS: Final = 30_000
_READ_BYTES: Final = 262_144
_FLUSH_MS: Final = 5
_GOODBYE_SECONDS: Final = 1.0


# --- orders ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawn:
    start: bytes
    label: str
    on: Mapping[str, object]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Ask:
    target: Target
    request: bytes
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Tell:
    target: Target
    message: bytes


@dataclass(frozen=True, slots=True)
class Signal:
    target: Target
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class Join:
    target: Target
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class Find:
    name: str


@dataclass(frozen=True, slots=True)
class Close:
    timeout_ms: int


Order = Spawn | Ask | Tell | Signal | Join | Find | Close


@dataclass(frozen=True, slots=True)
class Numbered:
    number: int
    order: Order


@dataclass(frozen=True, slots=True)
class RootAnswer:
    number: int
    value: object  # an `OtpError` is raised on the other side


@dataclass(frozen=True, slots=True)
class _Unjoined:
    """The program waits for this end no more."""

    monitor: str


class _Tidy:
    """The roll wants to be looked through."""


class _Flush:
    """The socket was full."""


@dataclass(frozen=True, slots=True)
class _Late:
    """A start, or the end of everything, has taken too long."""

    ref: Ref | None


# --- the root -------------------------------------------------------------------------------------


class RootCell:
    """The behaviour of the root."""

    cell: Body

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)  # noqa: FBT003 - the only argument it has
        self._frames = Frames()
        self._out = bytearray()
        self._first: dict[Ref, None] = {}
        self._starts: dict[Ref, int] = {}
        self._joins: dict[str, int] = {}
        self._closing: int | None = None
        self._leaver: Ref | None = None  # which of the first cells was asked to end

    def start(self, cell: Cell) -> bool:
        assert isinstance(cell, Body)
        self.cell = cell
        self.calls = Calls(cell)
        cell.trap_exits = True
        cell.watch(self._socket.fileno())
        cell.after(TIDY_MS, _Tidy())
        return True

    def receive(self, cell: Cell, message: object) -> None:  # noqa: ARG002 - it is ours
        match message:
            case Readable():
                self._read()
            case Started(ref=ref):
                self._answer(self._starts.pop(ref, None), ref)
            case Exited(ref=ref, reason=reason):
                self._exited(ref, reason)
            case Down(monitor=monitor, reason=reason) if monitor in self._joins:
                self._answer(self._joins.pop(monitor), reason)
            case _Unjoined(monitor=monitor) if monitor in self._joins:
                self.cell.demonitor(monitor)
                self._answer(self._joins.pop(monitor), None)
            case Located(question=question, ref=ref):
                self._answer(int(question), ref)
            case _Late(ref=ref):
                self._kill_late(ref)
            case _Tidy():
                self.cell.roll.tidy(self.cell.me.system)
                self.cell.after(TIDY_MS, _Tidy())
            case _Flush():
                self._flush()
            case _:
                self.calls.take(message)

    def stop(self, cell: Cell, reason: ExitReason) -> None:  # noqa: ARG002 - as the carrier calls it
        """Let the last answers out."""
        with suppress(OSError):
            self._socket.settimeout(_GOODBYE_SECONDS)
            self._socket.sendall(self._out)

    def summary(self) -> object:
        return {"first": len(self._first), "calls": len(self.calls), "joins": len(self._joins)}

    # --- in ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            data = None
        if data == b"":
            self.cell.exit(SHUTDOWN)  # no program is left to work for
            return
        for each in self._frames.feed(data or b""):
            assert isinstance(each, Numbered)
            try:
                self._obey(each.number, each.order)
            except OtpError as error:
                self._answer(each.number, error)
        self.cell.watch(self._socket.fileno())

    def _obey(self, number: int, order: Order) -> None:
        match order:
            case Spawn():
                self._spawn(number, order)
            case Ask(target=target, request=request, timeout_ms=timeout_ms):
                self.calls.ask(
                    target, Sealed(request), timeout_ms, lambda value: self._answer(number, value)
                )
            case Tell(target=target, message=message):
                self.cell.send(target, Sealed(message))
                self._answer(number, None)
            case Signal(target=target, reason=reason):
                self.cell.signal(target, reason)
                self._answer(number, None)
            case Join(target=target, timeout_ms=timeout_ms):
                monitor = self.cell.monitor(target)
                self._joins[monitor] = number
                if timeout_ms is not None:
                    self.cell.after(timeout_ms, _Unjoined(monitor))
            case Find(name=name):
                self.cell.whereis(name, str(number))
            case Close(timeout_ms=timeout_ms):
                self._closing = number
                self.cell.after(timeout_ms, _Late(None))
                self._close_next()

    def _spawn(self, number: int, order: Spawn) -> None:
        if self._closing is not None:
            raise StartFailed(SHUTDOWN)
        ref = self.cell.spawn_sealed(order.start, order.label, order.on)
        self._first[ref] = None
        self._starts[ref] = number
        self.cell.after(order.timeout_ms, _Late(ref))

    # --- ends -------------------------------------------------------------------------------------

    def _exited(self, ref: Ref, reason: ExitReason) -> None:
        if ref not in self._first:  # it is the operating system that wants an end
            self._closing = self._closing or 0
            self._close_next()
            return
        del self._first[ref]
        number = self._starts.pop(ref, None)
        if number is not None:
            self._answer(number, StartFailed(reason))
        if self._closing is not None:
            self._close_next()

    def _kill_late(self, ref: Ref | None) -> None:
        if ref is None:
            for each in reversed(self._first):
                self.cell.signal(each, KILL)
        elif ref in self._starts:
            self._answer(
                self._starts.pop(ref), StartFailed(ExitReason("timeout", "not ready in time"))
            )
            self.cell.signal(ref, KILL)

    def _close_next(self) -> None:
        if self._first:
            last = next(reversed(self._first))
            if last != self._leaver:
                self._leaver = last
                self.cell.signal(last, SHUTDOWN)
            return
        self._answer(self._closing or None, None)
        self.cell.exit(NORMAL)

    # --- out --------------------------------------------------------------------------------------

    def _answer(self, number: int | None, value: object) -> None:
        if number is None:
            return
        try:
            frame = encoded(RootAnswer(number, value))
        except Exception as error:  # noqa: BLE001 - whatever a value does when it is pickled
            failure = CallFailed("root", ExitReason("crash", f"the answer cannot be sent: {error}"))
            frame = encoded(RootAnswer(number, failure))
        self._out += frame
        self._flush()

    def _flush(self) -> None:
        try:
            sent = self._socket.send(self._out)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.cell.exit(SHUTDOWN)
            return
        del self._out[:sent]
        if self._out:
            self.cell.after(_FLUSH_MS, _Flush())
