"""A runner or a courier in a cell: turns when they are due, or when there is news.

A turn blocks this cell for as long as the authority takes; nothing depends on being quicker. What
is held is given back when the cell ends, also when it ends by an error; what a killed or frozen one
held lapses by itself.
"""

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from ..dispatch.orders import Wake
from ..otp import Caller, Exited, ExitReason, GenServer, Next, Word
from ..process.guard.descendants import now_ms
from ..specs.lease_loop import RoundsReport
from ..specs.shell import Shift
from . import news
from .plan import Plan

SHUTDOWN_MS: Final = 20_000  # to give back what is held, and for a turn that is under way
_LULL_MS = 1  # between two turns: mail comes in between
_TOLD_MAX = 50  # reports that are kept for people


@dataclass(frozen=True, slots=True)
class LoopLook:
    """What it has in hand and has done, for people: a dictionary."""


@dataclass(frozen=True, slots=True)
class _LoopDue:
    """Time for a turn."""

    number: int


class RoundsCell(GenServer):
    """Answers `LoopLook`; takes `Wake` as a cast."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._told: deque[dict[str, Any]] = deque(maxlen=_TOLD_MAX)
        self._timer: str | None = None
        self._alarms = 0

    @abstractmethod
    def begin(self) -> Shift:
        """What it does."""

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        self._shift = self.begin()
        self._set_alarm(0)
        return None

    def handle_call(self, request: object, caller: Caller) -> object:
        if isinstance(request, LoopLook):
            known = self._shift.machine.summary(now_ms())
            return known | {"reports": list(self._told)}
        return super().handle_call(request, caller)

    def handle_cast(self, message: object) -> Next:
        if not isinstance(message, Wake):
            return super().handle_cast(message)
        self._shift.wake()
        self._set_alarm(self._shift.pause_ms)
        return None

    def handle_info(self, message: object) -> Next:
        match message:
            case _LoopDue(number):
                if number == self._alarms:
                    self._set_alarm(self._shift.turn())
            case Exited():
                pass  # a cell that linked to us
            case _:
                return super().handle_info(message)
        return None

    def terminate(self, reason: ExitReason) -> None:
        self._shift.stop("it stops" if reason.is_clean else "it fails")
        self._shift.close()

    def summary(self) -> object:
        return self._shift.machine.summary(now_ms())

    def tell(self, said: RoundsReport) -> None:
        """Keep it for people."""
        row = news.tell(self.cell, "rounds", said.what, said.detail, issue=said.subject)
        self._told.append(row)

    def _set_alarm(self, pause_ms: int) -> None:
        if self._timer is not None:
            self.cell.cancel(self._timer)
        self._alarms += 1
        self._timer = self.cell.after(max(_LULL_MS, pause_ms), _LoopDue(self._alarms))
