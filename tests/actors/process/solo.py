"""A cell for one behaviour, in the thread of the test and in real time: no carrier is needed."""

import heapq
import itertools
import threading
import time
from typing import Any

from understudy.actors.otp.cell import Behaviour, Exited, ExitReason, Ref, Start, Target


class Solo:
    """Does what a behaviour asks for as far as it concerns the behaviour alone."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.me = Ref("test", "me")
        self.parent: Ref | None = Ref("test", "parent")
        self.trap_exits = False
        self.is_ready = False
        self.reason: ExitReason | None = None
        self._behaviour = behaviour
        self._timers: list[tuple[int, int, object]] = []
        self._serial = itertools.count()
        self._pause = threading.Event()

    def run(self, seconds: float, *, until_ready: bool = False) -> None:
        """Go on until it ends, until it is ready if that is asked for, or for so long."""
        give_up = time.monotonic() + seconds
        while self.reason is None and time.monotonic() < give_up:
            if until_ready and self.is_ready:
                return
            if self._timers and self._timers[0][0] <= self.now_ms():
                self._behaviour.receive(self, heapq.heappop(self._timers)[2])
            else:
                self._pause.wait(0.001)
        if self.reason is not None:
            self._behaviour.stop(self, self.reason)

    def begin(self) -> None:
        if self._behaviour.start(self):
            self.ready()

    def told_to_end(self, reason: ExitReason) -> None:
        """What a supervisor does."""
        assert self.parent is not None
        if self.trap_exits:
            self.after(0, Exited(self.parent, reason))
        else:
            self.exit(reason)

    # --- what a behaviour asks for --------------------------------------------------------------

    def ready(self) -> None:
        assert not self.is_ready, "once"
        self.is_ready = True

    def exit(self, reason: ExitReason) -> None:
        self.reason = self.reason or reason

    def after(self, delay_ms: int, message: object) -> str:
        serial = next(self._serial)
        heapq.heappush(self._timers, (self.now_ms() + delay_ms, serial, message))
        return str(serial)

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def _never(self, *_: Any) -> Any:
        raise AssertionError("a behaviour that stands alone has no use for it")

    def spawn(self, start: Start) -> Ref:
        return self._never(start)  # type: ignore[no-any-return]  # it never returns

    def send(self, to: Target, message: object) -> None:
        self._never(to, message)

    def signal(self, to: Target, reason: ExitReason) -> None:
        self._never(to, reason)

    def link(self, ref: Ref) -> None:
        self._never(ref)

    def unlink(self, ref: Ref) -> None:
        self._never(ref)

    def monitor(self, target: Target) -> str:
        return self._never(target)  # type: ignore[no-any-return]  # it never returns

    def demonitor(self, monitor: str) -> None:
        self._never(monitor)

    def cancel(self, timer: str) -> None:
        self._never(timer)

    def backlog(self) -> int:
        return 0

    def watch(self, fd: int) -> bool:
        return False

    def unwatch(self, fd: int) -> None: ...

    def register(self, name: str) -> bool:
        return self._never(name)  # type: ignore[no-any-return]  # it never returns

    def whereis(self, name: str, reply_with: str) -> None:
        self._never(name, reply_with)
