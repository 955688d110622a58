"""Notices when it is the tree that is at fault, and not the work.

    cannot run    exit 126 or 127 of a command that has not worked so far
    keeps failing as many different pieces of work as are allowed, one after another, in one way

What is handed back then burns nothing, and the dispatcher claims no more. Whatever is done well
ends a row of failures. A worker that was lost is left to the policy: that may be the work's doing.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from ..leasing.work_kind import HeldLease
from .escalation import FailedAttempt, matched
from .worklist import LOST

_CANNOT_RUN: Final = (126, 127)  # what a shell, a warden and our own handlers say


@dataclass(slots=True)
class Breaker:
    stop_after: int  # different pieces of work; 0: any number may fail
    fault: dict[str, Any] | None = None  # what is wrong with the tree, once it is known
    _way: tuple[str, int | None] = ("", None)
    _names: set[str] = field(default_factory=set)  # that failed in this way, one after another
    _proven: set[str] = field(default_factory=set)  # kinds of work that something was done of

    def works(self, lease: HeldLease) -> None:
        """Something was done, and the authority has taken it."""
        self._proven.add(lease.kind)
        self._names.clear()

    def blame(self, lease: HeldLease, detail: str) -> None:
        """The tree is at fault, as the worker itself knows."""
        if self.fault is None:
            self.fault = {"cannotRun": True, "failed": 1, "name": lease.name, "detail": detail}

    def trips(self, lease: HeldLease, failure: FailedAttempt | None, code: int | None) -> bool:
        """Whether this end is the tree's fault."""
        if failure is None or matched(failure.decision) in LOST:
            return False
        way = (matched(failure.decision), code)
        if way != self._way:
            self._way, self._names = way, set()
        self._names.add(lease.name)
        cannot_run = code in _CANNOT_RUN and lease.kind not in self._proven
        allowed = 1 if cannot_run else self.stop_after
        if not 0 < allowed <= len(self._names):
            return False
        if self.fault is None:
            known = {"cannotRun": cannot_run, "failed": len(self._names)}
            self.fault = known | {"name": lease.name, "detail": failure.detail}
        return True
