"""A worker: one process group at a time, under one lease. Idle ones are used again.

    [idle] --StartWorker--> [working] --ends, with all its descendants--> [done] --Heard--> [idle]

I1  The lease's time is enforced by the group's warden, so that a frozen cell changes nothing.
I2  What became of a job is said until the dispatcher has heard it: there may be none just now.
I3  A cell that dies takes its command along.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from ..dispatch.orders import Spent, StartWorker, StopWorker, WorkerExited
from ..leasing.work_kind import HeldLease, for_worker
from ..otp import Caller, Exited, ExitReason, GenServer, Next, Readable, Word
from ..process.port import Command, Ended, ProcessGroup, keeper
from ..run.attempts import Attempt, begun, write_record
from ..run.section_file import VARIABLE as SECTION_VARIABLE
from ..run.section_file import read_report
from ..run.spending import VARIABLE as SPEND_VARIABLE
from ..run.spending import SpendFile, spend_members
from .plan import Plan

UNAVAILABLE: Final = "executor_unavailable"  # as the retry policy knows it
_LOOK_MS = 25  # between looks whether it has ended, where its end does not wake us
_WATCHED_MS = 1_000  # where it does
_SAY_AGAIN_MS = 1_000
_UNSOUND_MAX = 5  # of the lines of one look that say nothing
_TAIL_BYTES = 400  # of what it printed, for a person who reads why it failed


@dataclass(frozen=True, slots=True)
class Begun:
    """To the dispatcher: these processes work, and are gone when the job is over."""

    worker: str
    pid: int | None
    warden_pid: int | None


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
class WorkerLook:
    """What it works on, or has done: a `Doing`."""


@dataclass(frozen=True, slots=True)
class Doing:
    holder: HeldLease | None = None
    pid: int | None = None
    warden_pid: int | None = None
    exited: WorkerExited | None = None  # done, and the dispatcher has not heard it


@dataclass(frozen=True, slots=True)
class _Poll:
    """Time to see whether it has ended."""

    worker: str


@dataclass(frozen=True, slots=True)
class _SayAgain:
    worker: str


@dataclass(slots=True)
class WorkerJob:
    """What is being worked on."""

    order: StartWorker
    attempt: Attempt
    group: ProcessGroup
    opened: ExitStack  # closes the two
    spending: SpendFile
    is_halted: bool = False

    @property
    def worker(self) -> str:
        return self.order.holder.owner


class Worker(GenServer):
    """Answers `WorkerLook`; the rest are casts."""

    subject = "issue"  # what is worked on

    def __init__(self, plan: Plan, dispatcher: str) -> None:
        self._plan, self._dispatcher = plan, dispatcher
        self._job: WorkerJob | None = None
        self._exited: WorkerExited | None = None
        self._timer: str | None = None

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        keeper().warm()
        return None

    def handle_call(self, request: object, caller: Caller) -> object:
        if isinstance(request, WorkerLook):
            return self._doing()
        return super().handle_call(request, caller)

    def handle_cast(self, message: object) -> Next:
        match message:
            case StartWorker():
                self._take_up(message)
            case StopWorker(worker, grace_ms):
                if job := self._job_of(worker):
                    job.is_halted = True
                    job.group.terminate(grace_ms)
            case Extend(worker, until_ms):
                if job := self._job_of(worker):
                    job.group.keep_until(until_ms - self._plan.grace_ms)
            case Heard(worker):
                if self._exited is not None and self._exited.worker == worker:
                    self._exited = None
            case _:
                return super().handle_cast(message)
        return None

    def handle_info(self, message: object) -> Next:
        match message:
            case _Poll(worker):
                if job := self._job_of(worker):
                    self._look(job)
            case _SayAgain(worker):
                if self._exited is not None and self._exited.worker == worker:
                    self._say(self._exited)
            case Readable():
                if self._job is not None:
                    self._look(self._job)
            case Exited():
                pass  # a cell that linked to us; our parent is heard elsewhere
            case _:
                return super().handle_info(message)
        return None

    def terminate(self, reason: ExitReason) -> None:  # noqa: ARG002 - a callback of OTP
        if self._job is not None:
            self._job.group.terminate()
            self._job.group.wait()
            self._close(self._job)

    def summary(self) -> object:
        return {self.subject: self._job and self._job.order.holder.name}

    # --- a job ----------------------------------------------------------------------------------

    def _take_up(self, order: StartWorker) -> None:
        assert self._job is None, "one job at a time"
        self._exited = None
        opened = ExitStack()
        try:
            fresh = begun(self._plan.state_dir, order.holder.title, order.attempt)
            attempt = opened.enter_context(fresh)
            group = opened.enter_context(ProcessGroup(self._command(order, attempt)))
        except OSError as error:
            opened.close()
            self._finish(_not_started(order.holder.owner, str(error)))
            return
        self._job = WorkerJob(order, attempt, group, opened, SpendFile(_spent(attempt)))
        self._wait(self._job)

    def _words(self, order: StartWorker) -> tuple[str, ...]:  # noqa: ARG002 - for subclasses
        """What is run for it."""
        return (*self._plan.leg, *self._plan.argv)

    def _environment(self, order: StartWorker, attempt: Attempt) -> dict[str, str]:
        """How it is told what it works on."""
        own = {SECTION_VARIABLE: str(_made(attempt))} if self._plan.leg else {}
        return order.holder.environment(self._plan.state_dir) | own

    def _command(self, order: StartWorker, attempt: Attempt) -> Command:
        plan = self._plan
        return Command(
            self._words(order),
            env=for_worker(os.environ)
            | self._environment(order, attempt)
            | {SPEND_VARIABLE: str(_spent(attempt))},
            cwd=plan.cwd,
            stdin=orjson.dumps(dict(order.issue), option=orjson.OPT_APPEND_NEWLINE),
            log=attempt.path,
            grace_ms=plan.grace_ms,
            until_ms=order.until_ms - plan.grace_ms,
        )

    def _look(self, job: WorkerJob) -> None:
        known = job.group.pid
        ended = job.group.poll()
        if known is None and job.group.pid is not None:
            pids = (job.group.pid, job.group.warden_pid)
            self.cast(self._dispatcher, Begun(job.worker, *pids))
        self._count(job, is_over=ended is not None)
        if ended is None:
            self._wait(job)
            return
        exited = self._exit_of(job, ended)
        self._write_down(job, ended, exited)
        self._close(job)
        self._finish(exited)

    def _count(self, job: WorkerJob, *, is_over: bool) -> None:
        """Say what the command spent since the last look."""
        unsound: list[str] = []
        spent = job.spending.look(unsound.append, is_over=is_over)
        if spent is not None or unsound:
            members = {} if spent is None else spend_members(spent)
            self.cast(self._dispatcher, Spent(job.worker, members, tuple(unsound[:_UNSOUND_MAX])))

    def _wait(self, job: WorkerJob) -> None:
        pause_ms = _WATCHED_MS if self.cell.watch(job.group.fileno()) else _LOOK_MS
        if self._timer is not None:
            self.cell.cancel(self._timer)
        self._timer = self.cell.after(pause_ms, _Poll(job.worker))

    def _exit_of(self, job: WorkerJob, ended: Ended) -> WorkerExited:
        kind, code = ended.reason.kind, ended.reason.code
        signal = code if kind == "signal" else None
        exited = WorkerExited(
            job.worker,
            code=None if kind == "signal" else code or 0,
            signal=signal,
            detail=ended.reason.detail if not ended.began else _tail(job.attempt),
            was_stopped=job.is_halted or ended.late,
        )
        return self._with_section(job, exited) if self._plan.leg else exited

    def _with_section(self, job: WorkerJob, exited: WorkerExited) -> WorkerExited:
        """What its leg left: a section, where it ended well, or a fault of the tree."""
        left = read_report(_made(job.attempt))
        if exited.was_stopped or (exited.code != 0 and not left.fault):
            return exited
        made = (left.section,) if left.section and not left.fault else ()
        return replace(exited, artifacts=made, unsound=left.unsound, fault=left.fault)

    def _write_down(self, job: WorkerJob, ended: Ended, exited: WorkerExited) -> None:
        holder = job.order.holder
        record = {
            f"{self.subject}Id": holder.name,
            "assignee": holder.owner,
            "leaseId": holder.lease_id,
            "fence": holder.fence,
            "attempt": job.attempt.number,
            "exitCode": exited.code,
            "signal": exited.signal,
            "wasStopped": exited.was_stopped,
            "bytes": ended.size,
            "bytesDropped": ended.dropped,
            "endedAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        try:
            write_record(job.attempt, record)
        except OSError:
            return  # it is for people, and the disk is full

    def _finish(self, exited: WorkerExited) -> None:
        self._exited = exited
        self._say(exited)

    def _say(self, exited: WorkerExited) -> None:
        self.cast(self._dispatcher, exited)
        self.cell.after(_SAY_AGAIN_MS, _SayAgain(exited.worker))

    def _close(self, job: WorkerJob) -> None:
        self.cell.unwatch(job.group.fileno())
        job.opened.close()
        self._job = None

    # --- looking --------------------------------------------------------------------------------

    def _job_of(self, worker: str) -> WorkerJob | None:
        """None where it is over."""
        return self._job if self._job is not None and self._job.worker == worker else None

    def _doing(self) -> Doing:
        if self._job is None:
            return Doing(exited=self._exited)
        group = self._job.group
        return Doing(self._job.order.holder, group.pid, group.warden_pid, self._exited)


def _spent(attempt: Attempt) -> Path:
    """Where the command says what it spends; it goes when the log goes."""
    return attempt.path.with_name(f"{attempt.path.name}.spend")


def _made(attempt: Attempt) -> Path:
    """Where the leg says what came of the command; it goes when the log goes."""
    return attempt.path.with_name(f"{attempt.path.name}.section")


def _tail(attempt: Attempt) -> str:
    """The end of what it printed."""
    try:
        with attempt.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _not_started(name: str, detail: str) -> WorkerExited:
    return WorkerExited(name, failure_classes=(UNAVAILABLE,), detail=f"not started: {detail}")


WORKER_SHUTDOWN_SLACK_MS: Final = 5_000  # beyond the grace of its command
