"""All that the dispatcher hears and all that it asks for, as values.

    shell --events--> dispatcher --effects--> shell

Whatever is asked of the authority has a token, and its answer brings the token back. The token of
a change is its `requestId`: asked again, it gets the first answer again. Answers may be late, lost
or doubled. A worker is named as the assignee of its lease, which no other start ever shares.

The words are those of issues. In the dialect of jobs (`jobs`) an issue is a job, its type the job's
kind, to close is to complete, and to release is to yield.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..leasing.work_kind import HeldLease

# --- asked of the authority ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskDiagnostics:
    """What is wrong with the dependencies: `Diagnosed`."""

    token: str


@dataclass(frozen=True, slots=True)
class AskReady:
    """What can be claimed, and whose lease has lapsed: `Listed`."""

    token: str


@dataclass(frozen=True, slots=True)
class AskHeld:
    """The live leases whose owner's name begins with one of these: `Held`."""

    token: str
    prefixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskIssues:
    """Some issues whole: `Shown`."""

    token: str
    issue_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """`Claimed` or `RequestRefused`."""

    token: str
    issue_id: str
    assignee: str
    ttl_seconds: int


@dataclass(frozen=True, slots=True)
class Renewal:
    token: str
    holder: HeldLease
    ttl_seconds: int


@dataclass(frozen=True, slots=True)
class RenewMany:
    """All that are due about now, at once: `Renewed`, and `RequestRefused` for each other one."""

    renewals: tuple[Renewal, ...]


@dataclass(frozen=True, slots=True)
class CloseWork:
    """The work is done: `Settled` or `RequestRefused`."""

    token: str
    holder: HeldLease
    artifacts: tuple[Mapping[str, Any], ...] = ()  # of a job; of an issue, the section it made


@dataclass(frozen=True, slots=True)
class Release:
    """The work is given back, open: `Settled` or `RequestRefused`."""

    token: str
    holder: HeldLease
    reason: str = ""  # only jobs remember it
    handed_back: bool = False  # nothing has failed


@dataclass(frozen=True, slots=True)
class Expire:
    """A job whose claim has lapsed can be claimed again: `Settled` or `RequestRefused`."""

    token: str
    issue_id: str
    claim: str  # the very claim that has lapsed
    fence: int


@dataclass(frozen=True, slots=True)
class Discover:
    """A new issue is filed under the lease: `Settled` or `RequestRefused`."""

    token: str
    holder: HeldLease
    new_id: str
    title: str
    description: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Amend:
    """Members of the issue are changed; what is None stays: `Settled` or `RequestRefused`."""

    token: str
    holder: HeldLease
    status: str | None
    notes: str | None


@dataclass(frozen=True, slots=True)
class CountSpend:
    """What a worker has spent under its lease: `Counted` or `RequestRefused`."""

    token: str
    holder: HeldLease
    spent: Mapping[str, int]  # as `spend.report` names it


Ask = (
    AskDiagnostics
    | AskReady
    | AskHeld
    | AskIssues
    | Claim
    | RenewMany
    | CloseWork
    | Release
    | Expire
    | Discover
    | Amend
    | CountSpend
)

# --- asked of others ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start it under this lease. `WorkerExited` follows, also where it cannot be started."""

    holder: HeldLease
    attempt: int
    issue: Mapping[str, Any]  # as `issue.show` has it
    until_ms: int  # on our clock: when it must be gone, unless `ExtendWorkers` says otherwise


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Ask it to end, and after the grace end it, with all its descendants. May come twice."""

    worker: str
    grace_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class ExtendWorkers:
    """Their leases were renewed: worker, and until when it may live."""

    until_ms: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Something that a person may want to know; nothing hangs on it."""

    what: str
    detail: str
    issue_id: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)  # the same in members, for programs


@dataclass(frozen=True, slots=True)
class Stopped:
    """The last effect: no worker lives. The issues that are named keep their lease till it lapses.

    `is_failure` where the stop was not asked for.
    """

    reason: str
    is_failure: bool
    abandoned: tuple[str, ...] = ()


Effect = Ask | StartWorker | StopWorker | ExtendWorkers | Report | Stopped

# --- heard --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DispatcherStarted:
    """The first event: the workers that an earlier dispatcher started and did not bury.

    One that has ended is followed by its `WorkerExited`. Leases of ours without a worker were held
    by one that is dead: `dead` are owners' names, or beginnings of them, that count as ours
    beside our own.
    """

    workers: tuple[HeldLease, ...] = ()
    dead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Wake:
    """There may be work that was not there before."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """This issue's lease may have been taken away: ask for more time at once, and see."""

    issue_id: str


@dataclass(frozen=True, slots=True)
class Diagnosed:
    token: str
    cycles: tuple[tuple[str, ...], ...]
    missing: tuple[tuple[str, str], ...]  # who waits, and for what does not exist


@dataclass(frozen=True, slots=True)
class Listing:
    """A line of the list of what is ready."""

    issue_id: str
    attempts: int
    assignee: str
    issue_type: str
    labels: tuple[str, ...] = ()
    excused: int = 0  # of the attempts


@dataclass(frozen=True, slots=True)
class Lapse:
    """A claim past its deadline, which must be expired before the job is claimed again."""

    issue_id: str
    claim: str
    fence: int


@dataclass(frozen=True, slots=True)
class Listed:
    token: str
    issues: tuple[Listing, ...]  # in the order in which work is handed out
    lapsed_ids: tuple[str, ...]  # that can be claimed as they are
    is_whole: bool  # False: there are more than an answer can list
    lapses: tuple[Lapse, ...] = ()  # that cannot
    more_ms: int | None = None  # in so long there may be more, by time alone


@dataclass(frozen=True, slots=True)
class Story:
    """One issue, as far as we care. Times are the authority's, so that only spans mean anything."""

    issue_id: str
    status: str
    attempts: int
    quiet_ms: int  # since its record was changed, or since its lease lapsed
    is_lapsed: bool
    notes: str = ""
    labels: tuple[str, ...] = ()
    issue_type: str = "task"
    excused: int = 0  # of the attempts

    @property
    def tries(self) -> int:
        """As the retry policy counts them."""
        return self.attempts - self.excused


@dataclass(frozen=True, slots=True)
class Shown:
    """Issues that do not exist are left out."""

    token: str
    issues: tuple[Story, ...]


@dataclass(frozen=True, slots=True)
class HeldIssue:
    holder: HeldLease
    attempts: int
    remaining_ms: int  # of the lease, when the authority looked
    labels: tuple[str, ...] = ()
    excused: int = 0  # of the attempts
    held_ms: int = 0  # for so long, by then
    title: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    token: str
    leases: tuple[HeldIssue, ...]
    is_whole: bool  # False: there are more than an answer can list


@dataclass(frozen=True, slots=True)
class Claimed:
    token: str
    holder: HeldLease
    attempt: int
    issue: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Renewed:
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    token: str


@dataclass(frozen=True, slots=True)
class Counted:
    """What was spent is in the books; `used` are budgets near their end, in words."""

    token: str
    used: tuple[str, ...] = ()
    is_over: bool = False  # a budget is used up, and the lease has ended


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """Decided, and not granted."""

    token: str
    failure_class: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No authority was there, or it could not decide; it may be asked again."""

    token: str


@dataclass(frozen=True, slots=True)
class WorkerExited:
    """A worker has ended, with all its descendants; without code and signal it was lost.

    `failure_classes` are what it said of itself; they come before what its end says. `was_stopped`
    where it was told to end, by us, by a dispatcher before us, or because its time was over.
    """

    worker: str
    code: int | None = None
    signal: int | None = None
    failure_classes: tuple[str, ...] = ()
    detail: str = ""  # for people: the end of what it printed
    was_stopped: bool = False
    artifacts: tuple[Mapping[str, Any], ...] = ()  # that it leaves
    unsound: str = ""  # what is wrong with those: then it has failed, however it ended
    fault: str = ""  # what is wrong with the tree, where that and not the work is why it ended


@dataclass(frozen=True, slots=True)
class Spent:
    """A worker says what it spent; of lines that say nothing, what is wrong with them."""

    worker: str
    spent: Mapping[str, int]
    unsound: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopDispatcher:
    """Claim nothing more, let workers go on for so long (None: to their end), then stop them."""

    drain_ms: int | None = 0
    reason: str = "asked to stop"


Event = (
    DispatcherStarted
    | Tick
    | Wake
    | Doubt
    | Diagnosed
    | Listed
    | Shown
    | Held
    | Claimed
    | Renewed
    | Settled
    | Counted
    | RequestRefused
    | Unanswered
    | WorkerExited
    | Spent
    | StopDispatcher
)
