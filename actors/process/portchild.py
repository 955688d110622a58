"""A cell that is an operating-system process: a supervisor can own it like any other child.

    start --begun, healthy--> ready --ends by itself--> exit with its code or signal
                                    \\-told to end-----> terminate --all gone--> exit as told
                                    \\-unhealthy-------> terminate --all gone--> exit with `crash`

I1  The cell ends after the command and all its descendants have.
I2  A cell that is killed takes the command along: only its owner holds a group.

A cell is woken by messages alone, so the end of a command is looked for: soon after the start, and
then every `LOOK_MS`. (Thespian can wake an actor for a descriptor, and `ProcessGroup` has one; a
carrier that shows it to cells could save the looking.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..otp.calls import Call, Reply
from ..otp.cell import Cell, Exited, ExitReason
from ..otp.inspection import Statistics
from .guard.descendants import now_ms
from .port import Command, Ended, ProcessGroup

LOOK_MS: Final = 50
_FIRST_LOOK_MS = 2  # doubled each time
_STARTING_MS = 100  # between checks of a command that is not well yet


@dataclass(frozen=True, slots=True)
class Health:
    """How to tell that a command is well: a callable, or a command that exits with 0.

    The first check that is good makes the cell ready; until then, failures count only after
    `start_ms`, since what starts is not well yet. A callable must come back by itself, since it
    runs in the cell. A command is ended at the timeout, and gets neither input nor a log.
    """

    check: Callable[[], bool] | Sequence[str | Path]
    every_ms: int = 5_000
    timeout_ms: int = 2_000
    failures_max: int = 3  # in a row; then the command is ended
    start_ms: int = 10_000  # how long it may take to be well for the first time


@dataclass(frozen=True, slots=True)
class _Look:
    """Time to see whether it has ended."""


@dataclass(frozen=True, slots=True)
class _Examine:
    """Time for a health check."""


class PortChild:
    """The behaviour. `Start(PortChild, (command, health))` makes a child of it."""

    def __init__(self, command: Command, health: Health | None = None) -> None:
        self._command = command
        self._health = health
        self._group: ProcessGroup | None = None
        self._examiner: ProcessGroup | None = None
        self._failures = 0
        self._well_by_ms = 0
        self._has_begun = self._was_well = False
        self._why: ExitReason | None = None  # why it is being ended, and so the cell
        self._look_ms = _FIRST_LOOK_MS
        self._started_ms = 0

    def start(self, cell: Cell) -> bool:
        cell.trap_exits = True
        self._started_ms = cell.now_ms()
        self._group = ProcessGroup(self._command)
        cell.after(self._look_ms, _Look())
        return False

    def receive(self, cell: Cell, message: object) -> None:
        match message:
            case _Look():
                self._look(cell)
            case _Examine() if self._health is not None:
                self._examine(cell, self._health)
            case Exited(ref, reason) if ref == cell.parent or not reason.is_clean:
                self._end(reason)
            case Call(caller, Statistics()):
                up_ms = cell.now_ms() - self._started_ms
                known = {"up_ms": up_ms, "mailbox": cell.backlog()}
                cell.send(caller.ref, Reply(caller.question, known))
            case Call(caller):
                cell.send(caller.ref, Reply(caller.question, self.summary()))
            case _:
                pass  # a process is told nothing else

    def stop(self, cell: Cell, reason: ExitReason) -> None:  # noqa: ARG002 - as the carrier calls it
        for group in (self._examiner, self._group):
            if group is None:
                continue
            if group.poll() is None:  # we are ended by other means than a message
                group.terminate()
                group.wait(group.command.grace_ms + _FIRST_LOOK_MS)
            group.close()

    def summary(self) -> dict[str, object]:
        group = self._group
        return {
            "command": str(self._command.argv[0]),
            "pid": group.pid if group else None,
            "ending": self._why.kind if self._why else None,
            "failedChecks": self._failures,
        }

    # --- the command ----------------------------------------------------------------------------

    def _look(self, cell: Cell) -> None:
        assert self._group is not None
        ended = self._group.poll()
        if ended is not None:
            cell.exit(self._why or ended.reason)
            return
        if self._group.pid is not None and not self._has_begun and self._why is None:
            self._begun(cell)
        if self._examiner is not None and self._health is not None:
            self._hear(cell, self._health, self._examiner.poll())
        self._look_ms = min(self._look_ms * 2, LOOK_MS)
        cell.after(self._look_ms, _Look())

    def _begun(self, cell: Cell) -> None:
        self._has_begun = True
        if self._health is None:
            cell.ready()
        else:
            self._well_by_ms = cell.now_ms() + self._health.start_ms
            cell.after(0, _Examine())

    def _end(self, reason: ExitReason) -> None:
        assert self._group is not None
        if self._why is None:
            self._why = reason
            self._look_ms = _FIRST_LOOK_MS
            self._group.terminate()

    # --- its health -----------------------------------------------------------------------------

    def _examine(self, cell: Cell, health: Health) -> None:
        if self._why is not None:
            return
        if not callable(health.check):
            until_ms = now_ms() + health.timeout_ms
            self._examiner = ProcessGroup(Command(health.check, grace_ms=0, until_ms=until_ms))
            return
        try:
            good, detail = health.check(), "the check says no"
        except Exception as error:  # noqa: BLE001 - whatever it is, the command is not well
            good, detail = False, repr(error)
        self._judge(cell, health, "" if good else detail)

    def _hear(self, cell: Cell, health: Health, ended: Ended | None) -> None:
        if ended is None or self._examiner is None:
            return
        self._examiner.close()
        self._examiner = None
        reason = ended.reason
        words = "" if reason.is_clean else f"the check ended with {reason.kind} {reason.code}"
        self._judge(cell, health, words)

    def _judge(self, cell: Cell, health: Health, trouble: str) -> None:
        pause_ms = health.every_ms
        if not trouble:
            self._failures = 0
            if not self._was_well:
                self._was_well = True
                cell.ready()
        elif self._was_well or cell.now_ms() >= self._well_by_ms:
            self._failures += 1
        else:
            pause_ms = min(pause_ms, _STARTING_MS)
        if self._failures >= health.failures_max:
            self._end(ExitReason("crash", f"unhealthy: {trouble}"))
        else:
            cell.after(pause_ms, _Examine())
