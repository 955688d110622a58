"""A worker: one process group at a time, under one lease. Idle ones are used again.

    [idle] --Begin--> [working] --ends, with all its descendants--> [done] --Heard--> [idle]

I1  The lease's time is enforced by the group's warden, so that a frozen cell changes nothing.
I2  What became of a job is said until the dispatcher has heard it: there may be none just now.
I3  A cell that dies takes its command along.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from ..dispatch.orders import Holder, WorkerExited
from ..otp import Caller, Exited, GenServer, Next, Readable, Reason, Word
from ..process.port import Command, Ended, ProcessGroup, keeper
from ..run.attempts import Attempt, begun, write_record
from ..trade import Held, without_work
from .plan import Plan

UNAVAILABLE: Final = "executor_unavailable"  # as the retry policy knows it
_LOOK_MS = 25  # between looks whether it has ended, where nobody tells us
_WATCHED_MS = 1_000  # where somebody does
_SAY_AGAIN_MS = 1_000
_TAIL_BYTES = 400  # of what it printed, for whoever reads why it failed


@dataclass(frozen=True, slots=True)
class Begin:
    """Work on this."""

    holder: Holder
    attempt: int
    issue: Mapping[str, Any]
    until_ms: int


@dataclass(frozen=True, slots=True)
class Begun:
    """To the dispatcher: these processes work, and are gone when the job is over."""

    worker: str
    pid: int | None
    warden_pid: int | None


@dataclass(frozen=True, slots=True)
class Halt:
    """End the job of this name, within the grace."""

    worker: str
    grace_ms: int


@dataclass(frozen=True, slots=True)
class Extend:
    """The job of this name may go on until then."""

    worker: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class Heard:
    """The dispatcher knows what became of the job of this name."""

    worker: str


@dataclass(frozen=True, slots=True)
class Look:
    """What it works on, or has done: a `Doing`."""


@dataclass(frozen=True, slots=True)
class Doing:
    holder: Holder | None = None
    pid: int | None = None
    warden_pid: int | None = None
    exited: WorkerExited | None = None  # done, and nobody has heard it


@dataclass(frozen=True, slots=True)
class _Poll:
    """Time to see whether it has ended."""

    worker: str


@dataclass(frozen=True, slots=True)
class _SayAgain:
    worker: str


class Worker(GenServer):
    """Answers `Look`; the rest are casts."""

    subject = "issue"  # what is worked on

    def __init__(self, plan: Plan, dispatcher: str) -> None:
        self._plan, self._dispatcher = plan, dispatcher
        self._holder: Holder | None = None
        self._group: ProcessGroup | None = None
        self._attempt: Attempt | None = None
        self._opened = ExitStack()
        self._exited: WorkerExited | None = None
        self._halted = False
        self._timer: str | None = None

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        keeper().warm()
        return None

    def handle_call(self, request: object, caller: Caller) -> object:
        if isinstance(request, Look):
            return self._doing()
        return super().handle_call(request, caller)

    def handle_cast(self, message: object) -> Next:
        match message:
            case Begin():
                self._take_up(message)
            case Halt(worker, grace_ms) if self._works_as(worker):
                assert self._group is not None
                self._halted = True
                self._group.terminate(grace_ms)
            case Extend(worker, until_ms) if self._works_as(worker):
                assert self._group is not None
                self._group.keep_until(until_ms - self._plan.grace_ms)
            case Heard(worker) if self._exited is not None and self._exited.worker == worker:
                self._exited = None
            case Halt() | Extend() | Heard():
                pass  # of a job that is over
            case _:
                return super().handle_cast(message)
        return None

    def handle_info(self, message: object) -> Next:
        match message:
            case _Poll(worker):
                if self._works_as(worker):
                    self._look()
            case _SayAgain(worker):
                if self._exited is not None and self._exited.worker == worker:
                    self._say()
            case Readable():
                if self._group is not None:
                    self._look()
            case Exited():
                pass  # somebody linked to us; our parent is heard elsewhere
            case _:
                return super().handle_info(message)
        return None

    def terminate(self, reason: Reason) -> None:  # noqa: ARG002
        if self._group is not None:
            self._group.terminate()
            self._group.wait()
            self._close()

    def summary(self) -> object:
        return {self.subject: self._holder and self._holder.issue_id}

    # --- a job ----------------------------------------------------------------------------------

    def _take_up(self, order: Begin) -> None:
        assert self._group is None, "one job at a time"
        self._holder, self._exited, self._halted = order.holder, None, False
        try:
            fresh = begun(self._plan.state_dir, self._shelf(order.holder), order.attempt)
            self._attempt = self._opened.enter_context(fresh)
            self._group = self._opened.enter_context(ProcessGroup(self._command(order)))
        except OSError as error:
            self._opened.close()
            self._finish(_not_started(order.holder.assignee, str(error)))
            return
        self._wait()

    def _shelf(self, holder: Holder) -> str:
        """Where the output of its attempts is kept."""
        return holder.issue_id

    def _words(self, order: Begin) -> tuple[str, ...]:  # noqa: ARG002
        """What is run for it."""
        return self._plan.argv

    def _environment(self, order: Begin) -> dict[str, str]:
        """How it is told what it works on."""
        holder = order.holder
        held = Held(holder.issue_id, holder.assignee, holder.lease_id, holder.fence, order.attempt)
        return held.environment(self._plan.state_dir)

    def _command(self, order: Begin) -> Command:
        plan = self._plan
        assert self._attempt is not None
        return Command(
            self._words(order),
            env=without_work(os.environ) | self._environment(order),
            cwd=plan.cwd,
            stdin=orjson.dumps(dict(order.issue), option=orjson.OPT_APPEND_NEWLINE),
            log=self._attempt.path,
            grace_ms=plan.grace_ms,
            until_ms=order.until_ms - plan.grace_ms,
        )

    def _look(self) -> None:
        assert self._group is not None
        assert self._holder is not None
        known = self._group.pid
        ended = self._group.poll()
        if known is None and self._group.pid is not None:
            pids = (self._group.pid, self._group.warden_pid)
            self.cast(self._dispatcher, Begun(self._holder.assignee, *pids))
        if ended is None:
            self._wait()
            return
        exited = self._exit_of(ended)
        self._write_down(ended, exited)
        self._close()
        self._finish(exited)

    def _wait(self) -> None:
        assert self._group is not None
        assert self._holder is not None
        pause_ms = _WATCHED_MS if self.cell.watch(self._group.fileno()) else _LOOK_MS
        if self._timer is not None:
            self.cell.cancel(self._timer)
        self._timer = self.cell.after(pause_ms, _Poll(self._holder.assignee))

    def _exit_of(self, ended: Ended) -> WorkerExited:
        assert self._holder is not None
        kind, code = ended.reason.kind, ended.reason.code
        signal = code if kind == "signal" else None
        return WorkerExited(
            self._holder.assignee,
            code=None if kind == "signal" else code or 0,
            signal=signal,
            detail=ended.reason.detail if not ended.began else self._tail(),
            was_stopped=self._halted or ended.late,
        )

    def _tail(self) -> str:
        """The end of what it printed."""
        assert self._attempt is not None
        try:
            with self._attempt.path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                return file.read().decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def _write_down(self, ended: Ended, exited: WorkerExited) -> None:
        assert self._attempt is not None
        assert self._holder is not None
        record = {
            f"{self.subject}Id": self._holder.issue_id,
            "assignee": self._holder.assignee,
            "leaseId": self._holder.lease_id,
            "fence": self._holder.fence,
            "attempt": self._attempt.number,
            "exitCode": exited.code,
            "signal": exited.signal,
            "wasStopped": exited.was_stopped,
            "bytes": ended.size,
            "bytesDropped": ended.dropped,
            "endedAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        try:
            write_record(self._attempt, record)
        except OSError:
            return  # it is for people, and the disk is full

    def _finish(self, exited: WorkerExited) -> None:
        self._holder, self._exited = None, exited
        self._say()

    def _say(self) -> None:
        assert self._exited is not None
        self.cast(self._dispatcher, self._exited)
        self.cell.after(_SAY_AGAIN_MS, _SayAgain(self._exited.worker))

    def _close(self) -> None:
        if self._group is not None:
            self.cell.unwatch(self._group.fileno())
        self._opened.close()
        self._group = None

    # --- looking --------------------------------------------------------------------------------

    def _works_as(self, worker: str) -> bool:
        return self._holder is not None and self._holder.assignee == worker

    def _doing(self) -> Doing:
        group = self._group
        pids = (None, None) if group is None else (group.pid, group.warden_pid)
        return Doing(self._holder, *pids, self._exited)


def _not_started(name: str, detail: str) -> WorkerExited:
    return WorkerExited(name, failure_classes=(UNAVAILABLE,), detail=f"not started: {detail}")


WORKER_SHUTDOWN_SLACK_MS: Final = 5_000  # beyond the grace of its command
