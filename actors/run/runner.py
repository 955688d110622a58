"""One command under one lease, on an issue, job or branch: claim, run, renew, complete, hand back.

    claim --> run --exit 0--> complete            renewed at a third of its time, with jitter
               |---exit 75--> hand back           the journal is heard for who takes it
               |---else-----> hand back, failed
               |---signal---> passed on, hand back
               \\--lost------> stopped, with all its descendants

I1  Nothing of the command runs after the lease's deadline, whether or not others are reached: the
    warden ends it by our own, earlier clock, also while this process is frozen.
I2  The lease is given back only when nothing of the command is left.
I3  A lease that another holder may be working under is not worked under.
"""

import os
import random
import secrets
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from ...authority import Storage, Unavailable, open_journal
from ...authority.service import fence_check
from ...contracts import BY_WIRE, FAILURES, Exit, Reason, ends_lease, limits
from ..leasing.holding import Holding, Timing
from ..leasing.moment import DICE_MAX, Moment
from ..leasing.work_kind import WORK, Family, HeldLease, for_worker
from ..process.guard.descendants import now_ms
from ..process.port import GRACE_MS, Command, Ended, ProcessGroup, keeper
from .artifacts import VARIABLE, ArtifactsInvalid, artifacts_file, members, read_artifacts
from .attempts import Attempt, begun, check_logs, write_record
from .evidence_process import taken
from .section_file import VARIABLE as SECTION_VARIABLE
from .section_file import LegReport, read_report
from .spending import VARIABLE as SPEND_VARIABLE
from .spending import SpendFile, spend_members

HAND_BACK: Final = int(Exit.TRY_LATER)  # what a command ends with to have its work handed back

_GRACE_PART = 3  # of a lease's time, which the grace is never longer than
_LOOK_MS = 1_000  # between looks whether the lease is still ours
_FOLLOW_MS = 250  # between looks whether a row has taken it
_ROWS_MAX = 512  # read at once
_LOST_GRACE_MS = 500  # what works without a lease is in the way of the next holder
_RETRY_MS = 1_000  # after the authority could not be asked
_CURTAIN_MS = 30_000  # how long a command may go on after it closed its own work

_TOO_LATE = (
    Reason.LEASE_STALE.wire,
    "it could not be renewed in time, so the command was stopped before the lease ends",
)
# Who took the lease, by the action that did.
_TAKEN_BY = {
    "issue.cancel": (
        Reason.ISSUE_CANCELLED.wire,
        "an operator has cancelled it; `understudy retry ID` brings it back",
    ),
    "job.cancel": (Reason.JOB_CANCELLED.wire, "an operator has cancelled it"),
    "issue.lease_break": (Reason.LEASE_MISSING.wire, "an operator has broken its lease"),
    "pause.set": (
        Reason.WORK_PAUSED.wire,
        "an operator has paused it and handed it back; `understudy unpause` lets it go on",
    ),
    "spend.report": (Reason.BUDGET_EXCEEDED.wire, "its budget is used up"),
}
# A completion that is refused like this leaves the lease as it is.
_UNFIT = frozenset(
    each.wire
    for each in (
        Reason.CLOSE_UNATTESTED,  # done, and without a witness of it
        Reason.JOB_SNAPSHOT_MISSING,
        Reason.JOB_ARTIFACT_INVALID,
        Reason.JOB_COORDINATOR_REQUIRED,
        Reason.JOB_KIND_NOT_PERMITTED,
        Reason.DESCENT_PAYLOAD_INVALID,
        Reason.SECTION_OUT_OF_SCOPE,
        Reason.SECTION_TARGET_OTHER,
    )
)

__all__ = [
    "HAND_BACK",
    "PASSED_ON",
    "Family",
    "HeldLease",
    "Outcome",
    "Runner",
    "Task",
    "keeper",
    "report",
]

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
Result = Literal[
    "completed",  # exit 0, and the work is done
    "handed_back",  # it asked for that
    "failed",  # any other end; handed back too
    "interrupted",  # by a signal to us; handed back too
    "not_started",  # there is no such command; handed back too
    "lost",  # the lease was
    "refused",  # there was no lease to begin with
    "unrecorded",  # it ended, and the authority could not be told in time, or would not hear it
]


@dataclass(frozen=True, slots=True)
class Task:
    """What to run, and for which issue or job. With a lease id and a fence, that lease is gone on
    with."""

    name: str
    owner: str
    argv: Sequence[str]
    family: Family = "issue"
    ttl_seconds: int | None = None
    lease_id: str | None = None
    fence: int | None = None
    cwd: Path | None = None
    env: Mapping[str, str] | None = None  # on top of which comes what names the lease
    stdin: int | None = None  # a descriptor
    record_on_stdin: bool = False  # the issue or job as one JSON object, in place of that
    echo: tuple[int, int] | None = None
    keep_log: bool = True
    grace_ms: int = GRACE_MS
    has_worktree: bool = False  # it runs under a leg, and leaves a section


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. `code` is what a command line should end with."""

    result: Result
    code: int
    held: HeldLease | None = None
    ended: Ended | None = None
    log: Path | None = None
    failure: str | None = None  # a failure class, where there was one
    diagnostic: str = ""


class Runner:
    """Runs one task. `ask` goes to the authority, through whichever door its caller has."""

    def __init__(
        self,
        task: Task,
        ask: Ask,
        state_dir: Path,
        *,
        boundary: str | None = None,
        wake: int | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`wake` is read for the numbers of signals to pass on, as `signal.set_wakeup_fd` does."""
        self._task, self._ask, self._state_dir = task, ask, state_dir
        self._kind = WORK[task.family]
        self._boundary, self._wake, self._tell = boundary, wake, tell
        self._dice = random.Random()  # noqa: S311 - nothing hangs on it but the load
        self._name = f"exec-{secrets.token_hex(8)}"  # of our requests
        self._asked = 0
        self._holding: Holding  # from the claim on
        self._look_at_ms = self._follow_at_ms = 0
        self._journal: Storage | None = None
        self._seq = 0  # of the last row that was heard of
        self._lost: tuple[str, str] | None = None  # the class, and what was said
        self._closed = False  # by the command itself
        self._signal: int | None = None
        self._attempt: Attempt | None = None
        self._artifacts: Path | None = None  # where the command says what it has produced
        self._section: Path | None = None  # where its leg says what it has made
        self._spending: SpendFile  # and what it spends; from the claim on

    def run(self) -> Outcome:
        if self._task.keep_log:
            check_logs(self._state_dir)  # before a claim is made
        keeper().warm()  # it gets ready while we claim
        taken = self._take()
        if isinstance(taken, Outcome):
            return taken
        self._holding, held = taken, taken.lease
        self._hear()
        if self._signal is not None:
            return self._settle(None)
        self._tell(f"{held.title}: held by {held.owner}, fence {held.fence}")
        with ExitStack() as opened:
            if self._task.keep_log:
                fresh = begun(self._state_dir, held.title, held.attempt)
                self._attempt = opened.enter_context(fresh)
            left = opened.enter_context(artifacts_file())
            self._artifacts = left if self._task.family == "job" else None
            self._section = left.with_name("section") if self._task.has_worktree else None
            self._spending = SpendFile(left.with_name("spend"))
            self._journal = self._opened_journal(opened)
            group = opened.enter_context(ProcessGroup(self._command(held)))
            self._attend(group)
            self._count(group, is_over=True)
            outcome = self._settle(group.ended)
            self._write_down(outcome)
            while not group.drain(_LOOK_MS) and not self._hear():
                pass  # a reader is slow, and has not had enough
        return outcome

    # --- the lease ------------------------------------------------------------------------------

    def _take(self) -> Outcome | Holding:
        """Claim the work, or go on with a lease; an outcome if that is refused."""
        task = self._task
        going_on = task.fence is not None or task.lease_id is not None
        proof = {"leaseId": task.lease_id, "fence": task.fence} if going_on else None
        asked_ms = now_ms()
        ttl_ms = None if task.ttl_seconds is None else task.ttl_seconds * 1_000
        answer = self._request(*self._kind.claim(task.name, task.owner, ttl_ms, proof))
        if answer["result"] != "accepted":
            return _refusal(answer["failureClasses"][0], answer["diagnostic"])
        held, self._seq = self._kind.held(self._kind.shown(answer)), answer["seq"]
        if not going_on and held.fence != answer["seq"]:  # I3: not granted, only extended
            said = f"{task.family} {task.name}: {task.owner} holds it with fence {held.fence}"
            remedy = "another process may be at work; go on with its lease id and fence, or wait"
            return _refusal(Reason.LEASE_CONTENDED.wire, f"{said}: {remedy}")
        return Holding.granted(held, self._timing(answer), asked_ms, self._moment())

    def _timing(self, answer: dict[str, Any]) -> Timing:
        ttl_ms = self._kind.ttl_ms(answer)
        return Timing(ttl_ms, min(self._task.grace_ms, ttl_ms // _GRACE_PART))

    def _moment(self) -> Moment:
        return Moment(now_ms(), lambda: self._dice.randint(0, DICE_MAX))

    def _renew(self, group: ProcessGroup) -> None:
        holding, asked_ms = self._holding, now_ms()
        low_ms, high_ms = limits.TTL_SECONDS_MIN * 1_000, limits.TTL_SECONDS_MAX * 1_000
        ttl_ms = min(max(holding.timing.ttl_ms, low_ms), high_ms)
        try:
            answer = self._request(*self._kind.renewal(holding.lease, ttl_ms))
        except (Unavailable, OSError) as error:
            said = str(error)
        else:
            if answer["result"] == "accepted":
                holding.timing = self._timing(answer)
                holding.extend(asked_ms, self._moment())
                group.keep_until(holding.stop_ms)
                return
            failure, said = answer["failureClasses"][0], answer["diagnostic"]
            if ends_lease(failure):
                self._give_up(group, failure, said)
                return
        self._tell(f"{holding.lease.title}: not renewed yet: {said}")
        holding.put_off(self._moment())

    def _opened_journal(self, opened: ExitStack) -> Storage | None:
        """What takes a lease is heard of by its row, if the journal can be read from here."""
        try:
            return opened.enter_context(open_journal(self._state_dir, read_only=True))
        except (Unavailable, OSError):
            return None  # then a look or a renewal tells

    def _follow(self, group: ProcessGroup) -> None:
        """Between looks: whether a row has taken the lease."""
        self._follow_at_ms = now_ms() + _FOLLOW_MS
        if self._journal is None:
            return
        try:
            rows = self._journal.rows(self._seq, _ROWS_MAX)
        except (Unavailable, OSError):
            self._journal = None
            return
        if not rows:
            return
        self._seq = rows[-1].seq
        if len(rows) == _ROWS_MAX:
            self._follow_at_ms = now_ms()  # there is more
        for resource, action in taken(rows):
            if resource == self._holding.lease.resource:
                self._give_up(group, *_TAKEN_BY[action])
                return

    def _look(self, group: ProcessGroup) -> None:
        """Between renewals: whether an operator or a newer holder has taken it."""
        held = self._holding.lease
        self._look_at_ms = now_ms() + _LOOK_MS
        try:
            standing = fence_check.glance(
                self._state_dir, held.resource, held.fence, self._boundary
            )
        except (Unavailable, OSError):
            return  # the deadline holds without the authority
        if standing.failure is not None:
            self._give_up(group, standing.failure, standing.diagnostic)

    def _count(self, group: ProcessGroup, *, is_over: bool = False) -> None:
        """Report what the command says that it spent; a budget that is used up ends the lease."""
        held, spent = self._holding.lease, None
        if self._lost is None and not self._closed:
            spent = self._spending.look(self._tell, is_over=is_over)
        if spent is None:
            return
        payload = self._kind.proof(held) | spend_members(spent)
        try:
            answer = self._request("spend.report", payload)
        except (Unavailable, OSError) as error:
            self._tell(f"{held.title}: what it spent was not counted: {error}")
            return
        if answer["result"] != "accepted":
            self._tell(f"{held.title}: what it spent was not counted: {answer['diagnostic']}")
            return
        for use in answer["budgets"]:
            if use["state"] != "within":
                words = f"{use['percent']} % of the budget {use['scope']} per {use['per']}"
                self._tell(f"{held.title}: {words}")
        if answer["stopped"]:
            words = "its budget is used up, and the command was stopped"
            self._give_up(group, Reason.BUDGET_EXCEEDED.wire, words)

    def _give_up(self, group: ProcessGroup, failure: str, diagnostic: str) -> None:
        """The lease is gone. If the command itself closed its work, it may take a bow."""
        if failure in self._kind.settled and self._closed_by_us():
            self._closed = True
            group.keep_until(now_ms() + _CURTAIN_MS)
            return
        self._lost = (failure, diagnostic)
        grace_ms = self._holding.timing.grace_ms
        is_ours = self._lost == _TOO_LATE  # for as long as the grace is
        group.terminate(grace_ms if is_ours else min(grace_ms, _LOST_GRACE_MS))
        self._tell(f"{self._holding.lease.title}: {diagnostic}")

    def _closed_by_us(self) -> bool:
        held = self._holding.lease
        try:
            answer = self._ask(*self._kind.look(held.name))
        except (Unavailable, OSError):
            return False
        return self._kind.finished_by(self._kind.shown(answer)) == held.owner

    # --- the command ----------------------------------------------------------------------------

    def _command(self, held: HeldLease) -> Command:
        task = self._task
        stdin: bytes | int | None = task.stdin
        if task.record_on_stdin:
            shown = self._kind.shown(self._ask(*self._kind.look(held.name)))
            stdin = orjson.dumps(shown, option=orjson.OPT_APPEND_NEWLINE)
        env = for_worker(os.environ if task.env is None else task.env)
        if self._artifacts is not None:
            env[VARIABLE] = str(self._artifacts)
        if self._section is not None:
            env[SECTION_VARIABLE] = str(self._section)
        env[SPEND_VARIABLE] = str(self._spending.path)
        return Command(
            task.argv,
            env={**env, **held.environment(self._state_dir)},
            cwd=task.cwd,
            stdin=stdin,
            log=self._attempt.path if self._attempt else None,
            echo=task.echo,
            grace_ms=self._holding.timing.grace_ms,
            until_ms=self._holding.stop_ms,
        )

    def _attend(self, group: ProcessGroup) -> None:
        """Stay with it until nothing of it is left."""
        self._look_at_ms = now_ms() + _LOOK_MS
        inbox = select.poll()
        inbox.register(group, select.POLLIN)
        if self._wake is not None:
            inbox.register(self._wake, select.POLLIN)
        while group.poll() is None:
            over = self._lost is not None or self._closed
            due_ms = min(self._holding.renew_ms, self._look_at_ms, self._follow_at_ms) - now_ms()
            inbox.poll(_LOOK_MS if over else max(0, min(_LOOK_MS, due_ms)))
            self._pass_on(group)
            if over or group.poll() is not None:
                continue
            if now_ms() >= self._holding.stop_ms:
                self._give_up(group, *_TOO_LATE)
            elif now_ms() >= self._holding.renew_ms:
                self._renew(group)
            elif now_ms() >= self._look_at_ms:
                self._look(group)
                self._count(group)
            elif now_ms() >= self._follow_at_ms:
                self._follow(group)

    def _hear(self) -> list[int]:
        """Signals that came meanwhile; the first one is remembered."""
        if self._wake is None:
            return []
        heard: list[int] = []
        while select.select([self._wake], [], [], 0)[0]:
            numbers = os.read(self._wake, 64)
            if not numbers:
                break
            heard += [each for each in numbers if each in PASSED_ON]
        if heard and self._signal is None:
            self._signal = heard[0]
        return heard

    def _pass_on(self, group: ProcessGroup) -> None:
        again = self._signal is not None
        for number in self._hear():
            # The command has its grace to end by itself; who insists does not get it.
            group.terminate(0 if again else self._holding.timing.grace_ms, number)
            again = True

    # --- the end --------------------------------------------------------------------------------

    def _settle(self, ended: Ended | None) -> Outcome:
        """Say to the authority what came of it, and to the caller."""
        if ended is not None and ended.left:  # I2
            words = f"{ended.left} processes cannot be ended; the lease is left to lapse"
            return self._outcome("unrecorded", Exit.FAILED, ended, None, words)
        if self._lost is None and ended is not None and ended.late and not self._closed:
            self._lost = _TOO_LATE
        if self._lost == _TOO_LATE:
            self._let_go()
        if self._lost is not None:
            return self._outcome("lost", Exit.LEASE_LOST, ended, *self._lost)
        if self._closed and ended is not None:
            return self._outcome("completed", ended.code, ended)
        if self._signal is not None:
            return self._end("interrupted", 128 + self._signal, ended)
        assert ended is not None
        if not ended.began:
            return self._end("not_started", ended.code, ended, ended.reason.detail)
        if self._section is not None and (fault := read_report(self._section).fault):
            return self._end("not_started", Exit.CONFIG, ended, fault)
        if ended.code == 0:
            return self._completed(ended)
        return self._end("handed_back" if ended.code == HAND_BACK else "failed", ended.code, ended)

    def _completed(self, ended: Ended) -> Outcome:
        """It has done its work, if what it says of its results can be read."""
        if self._section is not None:
            return self._completed_by(read_report(self._section), ended)
        try:
            path = self._artifacts
            produced = members(read_artifacts(path, self._holding.lease.name)) if path else []
        except ArtifactsInvalid as error:
            return self._unfit(Reason.JOB_ARTIFACT_INVALID.wire, ended, str(error))
        return self._end("completed", 0, ended, produced=produced)

    def _completed_by(self, left: LegReport, ended: Ended) -> Outcome:
        """Its leg has made a section, or nothing was changed."""
        if left.unsound:
            return self._unfit(Reason.DESCENT_PAYLOAD_INVALID.wire, ended, left.unsound)
        if left.section is None:
            return self._end("completed", 0, ended)
        words = "its section waits for `understudy descent glue`"
        return self._end("completed", 0, ended, words, produced=[dict(left.section)])

    def _unfit(self, failure: str, ended: Ended | None, words: str) -> Outcome:
        """Done, and not to be completed like that: handed back with the reason why."""
        handed = self._end("failed", FAILURES[BY_WIRE[failure]].exit, ended, words)
        return replace(handed, failure=handed.failure or failure)

    def _end(
        self,
        result: Result,
        code: int,
        ended: Ended | None,
        words: str = "",
        produced: Sequence[dict[str, Any]] = (),
    ) -> Outcome:
        """Complete the work or hand it back; try until our deadline."""
        kind, held = self._kind, self._holding.lease
        if result == "completed":
            action, payload = kind.completion(held, produced or None)
        else:
            reason = words or f"{result}: {_ending(ended, self._signal)}"
            orderly = result in ("handed_back", "interrupted", "not_started")
            action, payload = kind.release(held, reason, handed_back=orderly)
        payload |= {"requestId": self._next_id()}
        while True:
            try:
                answer = self._ask(action, payload)
            except (Unavailable, OSError) as error:
                known = error.reason if isinstance(error, Unavailable) else Reason.AUTHORITY_BUSY
                failure, said, is_final = known.wire, str(error), False
            else:
                if answer["result"] == "accepted":
                    return self._outcome(result, code, ended, None, words)
                failure, said = answer["failureClasses"][0], answer["diagnostic"]
                if failure in kind.settled and self._closed_by_us():
                    return self._outcome("completed", code, ended)
                if failure in _UNFIT and result == "completed":
                    return self._unfit(failure, ended, said)
                if ends_lease(failure):
                    return self._outcome("lost", Exit.LEASE_LOST, ended, failure, said)
                is_final = FAILURES[BY_WIRE[failure]].retry == "never"
            left_ms = self._holding.until_ms - now_ms()
            if is_final or left_ms <= 0 or self._hear():  # in vain, too late, told not to wait
                exit_code = FAILURES[BY_WIRE[failure]].exit
                return self._outcome("unrecorded", exit_code, ended, failure, said)
            time.sleep(min(_RETRY_MS, left_ms) / 1000)

    def _let_go(self) -> None:
        """Nothing of the command is left: the next one need not wait for the lease to lapse."""
        with suppress(Unavailable, OSError):
            self._request(*self._kind.release(self._holding.lease, _TOO_LATE[1]))

    def _outcome(
        self,
        result: Result,
        code: int,
        ended: Ended | None,
        failure: str | None = None,
        words: str = "",
    ) -> Outcome:
        log = self._attempt.path if self._attempt else None
        return Outcome(result, int(code), self._holding.lease, ended, log, failure, words)

    def _write_down(self, outcome: Outcome) -> None:
        if self._attempt is None or outcome.held is None:
            return
        record = report(outcome) | {"endedAt": datetime.now(UTC).isoformat(timespec="milliseconds")}
        try:
            write_record(self._attempt, record)
        except OSError as error:
            self._tell(f"{outcome.held.title}: its record is not written: {error}")

    # --- asking ---------------------------------------------------------------------------------

    def _request(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        return self._ask(action, payload | {"requestId": self._next_id()})

    def _next_id(self) -> str:
        self._asked += 1
        return f"{self._name}-{self._asked}"


PASSED_ON: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM})


def report(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON."""
    found: dict[str, Any] = {
        "result": "accepted" if outcome.result in ("completed", "handed_back") else "rejected",
        "failureClasses": [outcome.failure] if outcome.failure else [],
        "outcome": outcome.result,
        "exitCode": outcome.code,
    }
    if outcome.diagnostic:
        found["diagnostic"] = outcome.diagnostic
    if outcome.held is not None:
        held = outcome.held
        kind = WORK[held.family]
        subject = "issueId" if held.family == "issue" else kind.subject
        found |= {subject: held.name, kind.role: held.owner}
        found |= {"leaseId": held.lease_id, "fence": held.fence, "attempt": held.attempt}
    if outcome.log is not None:
        found["log"] = str(outcome.log)
    if outcome.ended is not None:
        ended = outcome.ended
        found["command"] = {
            "began": ended.began,
            "kind": ended.reason.kind,
            "code": ended.reason.code or 0,
            "bytes": ended.size,
            "bytesDropped": ended.dropped,
        }
    return found


def _ending(ended: Ended | None, number: int | None) -> str:
    """How a command ended, in a few words for the next holder."""
    if number is not None:
        return f"signal {number} to its runner"
    assert ended is not None
    return f"{ended.reason.kind} {ended.reason.code or 0}"


def _refusal(failure: str, diagnostic: str) -> Outcome:
    code = FAILURES[BY_WIRE[failure]].exit
    return Outcome("refused", int(code), failure=failure, diagnostic=diagnostic)
