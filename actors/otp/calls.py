"""One question and its answer between two cells: matched by name, ended by an answer or a death.

    ask --Call--> server --Reply--> then(value)
     |                 \\--Down---> then(CallFailed(reason))
     \\--the deadline passes------> then(CallFailed(timeout))

I1  `then` is called once for every question, unless the asker ends or forgets it before.
I2  A reply that no call waits for, late or meant for another incarnation, is dropped and counted.
I3  A question to a cell that is not there fails with `noproc` at once, not when its time is over.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .cell import CallFailed, Cell, Down, ExitReason, Ref, Target

TIMEOUT_MS = 5_000  # of a call that names no other


@dataclass(frozen=True, slots=True)
class Caller:
    """Who waits for an answer, and until when on the clock of its own system."""

    ref: Ref
    question: str
    deadline_ms: int | None = None

    def remaining_ms(self, me: Ref, now_ms: int) -> int | None:
        """What is left for an answer; None where there is no end, or none on our clock."""
        if self.deadline_ms is None or self.ref.system != me.system:
            return None
        return self.deadline_ms - now_ms


@dataclass(frozen=True, slots=True)
class Call:
    """A request that wants a `Reply`."""

    caller: Caller
    request: object


@dataclass(frozen=True, slots=True)
class Reply:
    question: str
    value: object


@dataclass(frozen=True, slots=True)
class Cast:
    """A request that wants none."""

    message: object


@dataclass(frozen=True, slots=True)
class _Overdue:
    question: str


Then = Callable[[object], None]  # gets the value, or the `CallFailed` that says why there is none


@dataclass(frozen=True, slots=True)
class _Open:
    target: Target
    then: Then
    monitor: str
    timer: str | None


class Calls:
    """The questions that one cell has asked and that are still open."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._asked = 0
        self._open: dict[str, _Open] = {}
        self._monitors: dict[str, str] = {}
        self.late = 0
        self.foreign = 0

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, target: Target, request: object, timeout_ms: int | None, then: Then) -> str:
        """Ask, and go on: `then` is called with the value or with a `CallFailed`."""
        if timeout_ms is not None and timeout_ms < 0:
            raise ValueError(f"timeout_ms: {timeout_ms} is before now")
        self._asked += 1
        question = f"{self._cell.me.serial}/{self._asked}"
        deadline_ms = None if timeout_ms is None else self._cell.now_ms() + timeout_ms
        timer = None if timeout_ms is None else self._cell.after(timeout_ms, _Overdue(question))
        # The monitor is set first: if the cell ends now, either it or the reply arrives.
        monitor = self._cell.monitor(target)
        self._open[question] = _Open(target, then, monitor, timer)
        self._monitors[monitor] = question
        self._cell.send(target, Call(Caller(self._cell.me, question, deadline_ms), request))
        return question

    def forget(self, question: str) -> None:
        """Wait no longer; a reply that still comes is late."""
        self._close(question)

    def take(self, message: object) -> bool:
        """Whether a message belonged to a question; what follows from it is done."""
        if isinstance(message, Reply):
            self._answered(message)
            return True
        if isinstance(message, _Overdue):
            self._failed(message.question, ExitReason("timeout", "no answer in time"))
            return True
        if isinstance(message, Down) and message.monitor in self._monitors:
            self._failed(self._monitors[message.monitor], message.reason)
            return True
        return False

    def _answered(self, reply: Reply) -> None:
        found = self._close(reply.question)
        if found is not None:
            found.then(reply.value)
        elif reply.question.rpartition("/")[0] == self._cell.me.serial:
            self.late += 1
        else:
            self.foreign += 1

    def _failed(self, question: str, reason: ExitReason) -> None:
        found = self._close(question)
        if found is not None:
            found.then(CallFailed(found.target, reason))

    def _close(self, question: str) -> _Open | None:
        found = self._open.pop(question, None)
        if found is None:
            return None
        del self._monitors[found.monitor]
        self._cell.demonitor(found.monitor)
        if found.timer is not None:
            self._cell.cancel(found.timer)
        return found
