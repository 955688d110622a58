"""An authority whose hot actions are decided in C, byte for byte as the reference decides them.

lines --hot--> kernel --rows-+--> journal
  \\--cold--> reference --rows-/      | changes
                 ^------ settle ------/ (before the reference is asked again)

I1  Kernel and reference never both decide a line, and lines are decided in their order.
I2  Before the reference decides, its state holds the changes of every row before.
I3  Before the kernel decides, it knows every change that the reference made.
"""

import secrets
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import UNSET

from ...contracts import (
    DISPATCH_KIND,
    ESCALATION,
    FAILURES,
    NORMALIZER_ID,
    PROFILE_ID,
    STEP_KIND,
    STRENGTH,
    Door,
    Garbage,
    HostAction,
    Issue,
    Lease,
    LeaseState,
    Reason,
    Request,
    ScopePause,
    Stamp,
    canonical,
    contract_digest,
    evidence_routes,
    excused_of,
    host_actions,
    is_cancelled,
    issue_of,
    issue_resource,
    limits,
    parse,
)
from ..journal.clock import SteadyClock
from ..journal.journal import Entry, Head, Journal, Row, Steps, changes_of
from ..law.budget import has_run_out, may_forbid
from ..law.descent.queue import is_gluing
from ..law.outcome import (
    Answered,
    BudgetDropped,
    BudgetPut,
    Change,
    ChecksSet,
    CoverPut,
    DependencyAdded,
    DependencyDropped,
    FiberDropped,
    FiberPut,
    InstanceDropped,
    InstancePut,
    IssueAdded,
    IssueSet,
    LeaseDropped,
    LeasePut,
    PauseDropped,
    PausePut,
    PolicySet,
    SectionPut,
    SpendPut,
    SubleaseDropped,
    SubleasePut,
    TallyPut,
    decode_changes,
)
from ..law.scope import covers, withheld
from ..law.state import State, apply
from .answers import Answers
from .engine import Authority, Proposal, Run
from .envelope import EFFECT_SCHEMA
from .ffi import Flawed, Kernel, KernelStop, Lines, Position

# `enum us_action`, in order.
HOT = ("issue.claim", "issue.lease_renew", "issue.lease_release", "issue.close")
_STATUS = {"open": 0, "in_progress": 1, "blocked": 2, "closed": 3}
_STATUS_OTHER = 4
_FOREIGN, _TORN, _WAITING, _AWAITED = 1, 2, 4, 8
_REASON_COUNT = 82  # US_REASON_COUNT
_STREAK_MAX = 15  # lines that the reference takes on trust, where C took none before them


class _Made(NamedTuple):
    """What came of lines so far."""

    answers: Answers
    entries: list[Entry]
    steps: list[Row | Steps]


class NativeAuthority(Authority):
    """As `Authority`, and beside requests it takes the lines that requests come as.

    An `image` of the journal's end saves C from learning every issue one by one; any other bytes
    cost nothing but the look at them.
    """

    def __init__(
        self, journal: Journal, physical_ms: SteadyClock | None = None, image: bytes | None = None
    ) -> None:
        # The answers of rows that were decided in C, by batch and with their number, as far as
        # they are worth remembering; and whether there are such rows. Neither is in our own state.
        self._answered: deque[tuple[bytes, int]] = deque()
        self._answered_count = 0
        self._unsettled = False
        super().__init__(journal, physical_ms)
        self.hot_count = 0
        self.stops: Counter[KernelStop] = Counter()  # why lines were cold
        self._kernel: Kernel | None = open_kernel(journal.node())
        self._stop = KernelStop.END  # why C stopped the last time
        self.from_image = image is not None and self._becomes(image)
        if not self.from_image:
            self.learn()

    @property
    def state(self) -> State:
        """The state after every row so far."""
        self.settle()
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    def settle(self) -> None:
        """Make the changes of rows that were decided in C (I2)."""
        if not self._unsettled:
            return
        self._unsettled = False
        assert self._kernel is not None
        for changes in self._kernel.settle():
            apply(self._state, decode_changes(changes))
        for answered, _ in self._answered:
            apply(self._state, decode_changes(b"[%b]" % answered))
        self._answered.clear()
        self._answered_count = 0

    def image(self) -> bytes | None:
        """What C knows at the head, for the next start; None where the reference decides alone."""
        self.settle()
        try:
            return None if self._kernel is None else self._kernel.image()
        except Flawed:  # there is no memory for it
            return None

    def catch_up(self) -> list[Row]:
        rows = super().catch_up()
        self._absorb(rows)
        return rows

    def propose(self, batch: Sequence[Request | Garbage]) -> Proposal:
        proposal = super().propose(batch)
        self._absorb(proposal.rows)
        return proposal

    def propose_lines(self, runs: Sequence[Run]) -> Proposal:
        """Decide in order. No caller hears of it before it is committed."""
        self._refuse_after_failure()
        made = _Made(Answers(), [], [])
        after_seq = self.head.seq
        try:
            for door, run in groupby(runs, itemgetter(0)):
                self._answer_run(list(chain.from_iterable(map(itemgetter(1), run))), door, made)
        except BaseException as error:
            self._failed = error
            raise
        return Proposal(made.answers, made.entries, after_seq, made.steps)

    def _answer_run(self, lines: list[bytes], door: Door, made: _Made) -> None:
        kernel = self._ready(door)
        laid_out = None
        if kernel is not None:
            laid_out = Lines(lines, STRENGTH[door.transport], frozen=door.frozen_clock)
        at = patience = streak = 0
        cold: list[Row] = []  # decided by the reference, and not known to C yet
        while at < len(lines):
            if kernel is not None and laid_out is not None and patience == 0:
                self._absorb(cold)
                cold = []
                kernel = self._kernel  # it is gone if it could not take the changes
                taken = 0 if kernel is None else self._hot(kernel, laid_out, at, made)
                at += taken
                if at == len(lines) or (taken and self._stop is KernelStop.OUT_FULL):
                    continue
                # Cold lines often come in crowds, and to try each of them in C costs more than
                # it takes to decide it.
                patience = streak = 0 if taken else min(2 * streak + 1, _STREAK_MAX)
            else:
                patience -= patience > 0
            rows: list[Row] = []
            made.answers.add(self._answer(parse(lines[at], door), rows))
            made.entries.extend(rows)
            made.steps.extend(rows)
            cold.extend(rows)
            self.stops[self._stop] += 1
            at += 1
        self._absorb(cold)

    def _hot(self, kernel: Kernel, lines: Lines, start: int, made: _Made) -> int:
        """Let C decide as many lines as it can; how many they were."""
        if self._epoch is None:
            return 0  # the writer of the first row takes over the journal
        try:
            decided = kernel.dispatch(lines, start, self._clock.physical_ms(), self._epoch)
        except MemoryError:  # before anything more was decided
            self.settle()
            self._kernel = None
            return 0
        self._stop = decided.stop
        packed = decided.packed
        if packed is None:
            return 0
        there = kernel.head
        self.head = Head(there.seq, there.digest, there.state_digest)
        self._clock.advance(Stamp(there.seq, there.wall_ms, there.counter, packed.node))
        made.answers.extend(decided.answers, decided.ends)
        made.entries.append(packed)
        made.steps.append(Steps(packed.first_seq, packed.last_seq, decided.steps))
        self._uncommitted.append(packed)
        self._unsettled = True
        self._remember(decided.answered, decided.answered_count)
        self.hot_count += len(decided.ends)
        return len(decided.ends)

    def _remember(self, answered: bytes, count: int) -> None:
        """Until they are settled; what newer ones have pushed out need not be."""
        if count == 0:
            return
        self._answered.append((answered, count))
        self._answered_count += count
        while self._answered_count - self._answered[0][1] >= limits.ANSWERS_MAX:
            self._answered_count -= self._answered.popleft()[1]

    def _ready(self, door: Door) -> Kernel | None:
        """The kernel; None where the reference decides alone."""
        return self._kernel if door.policy in ("", contract_digest()) else None

    def _becomes(self, image: bytes) -> bool:
        """Whether the kernel knows the state by this image."""
        kernel = open_kernel(self.journal.node())
        try:
            kernel.become(image)
        except Flawed:
            return False
        there = kernel.head
        if Head(there.seq, there.digest, there.state_digest) != self.head:
            return False
        kernel.head = self._position()
        self._kernel = kernel
        return True

    def learn(self) -> None:
        """Tell C the whole state."""
        kernel, state = self._kernel, self.state
        if kernel is None:
            return
        try:
            for issue_id in state.issues:
                _put(kernel, state, issue_id)
        except MemoryError:
            self._kernel = None
            return
        for request_id in state.forgetting:
            kernel.remember(request_id.encode())
        kernel.set_policy(is_open=state.policy.mutation == "open")
        kernel.head = self._position()

    def _absorb(self, rows: Sequence[Row]) -> None:
        """Tell the kernel what the reference decided (I3)."""
        if not rows or self._kernel is None:
            return
        kernel, state = self._kernel, self.state
        touched: dict[str, None] = {}
        for row in rows:
            for change in changes_of(row):
                touched.update(dict.fromkeys(_touched(state, change)))
                if isinstance(change, Answered):
                    kernel.remember(change.request_id.encode())
        try:
            for issue_id in touched:
                if issue_id in state.issues:
                    _put(kernel, state, issue_id)
        except MemoryError:
            self._kernel = None
            return
        kernel.set_policy(is_open=state.policy.mutation == "open")
        kernel.head = self._position()

    def _record_count(self) -> int:  # C makes none of them, so nothing need be settled
        return len(self._state.issues) + self._state.lane.record_count

    def _position(self) -> Position:
        wall_ms, counter = self._clock.position
        return Position(self.head.seq, wall_ms, counter, self.head.digest, self.head.state_digest)


# --- the state, as C wants it -------------------------------------------------------------------


def _put(kernel: Kernel, state: State, issue_id: str) -> None:
    issue = state.issues[issue_id]
    resource = issue_resource(issue_id)
    lease = state.leases.get(resource)
    flags = (
        _FOREIGN * (_is_foreign(state, resource, lease) or _is_steered(state, issue))
        | _TORN * (resource in state.torn)
        | _WAITING * bool(state.blockers(issue_id))
        | _AWAITED * (_demands_witness(state) or bool(state.blocks.get(issue_id)))
    )
    texts = _texts(issue, lease)
    numbers = [
        *map(len, texts),
        _STATUS.get(issue.status, _STATUS_OTHER),
        flags,
        issue.attempts,
        *(
            (lease.fence, lease.granted_ms, lease.deadline_ms, lease.renewals)
            if lease
            else _NO_LEASE
        ),
    ]
    kernel.put_issue(numbers, b"".join(texts))


_NO_LEASE = (0, 0, 0, 0)


def _is_steered(state: State, issue: Issue) -> bool:
    """Whether people have a say in it, of which C knows nothing; for all other work, one look."""
    is_asked = issue.approval is not UNSET or issue.issue_type == ESCALATION
    is_awaited = issue.id in state.descent.covered or is_gluing(state, issue)
    if is_asked or is_awaited or is_cancelled(issue) or may_forbid(state, issue):
        return True
    return bool(state.pauses or state.policy.approve) and withheld(state, issue) is not None


def _demands_witness(state: State) -> bool:
    """Whether closing is more than C knows of; it hands back what others wait for."""
    return state.checks is not None and state.checks.close_requires == "witness"


def _is_foreign(state: State, resource: str, lease: Lease | None) -> bool:
    """Whether something hangs on the lease, or it stands where only the reference puts it.

    C hands over what came of many rows, not each: orphans would not notice that a term has passed.
    """
    if state.fibers.get(resource):
        return True
    if lease is None:
        return False
    hung = state.subleases.get(resource) or state.instances.get(resource)
    return bool(hung) or lease.state not in (LeaseState.ACTIVE, LeaseState.RENEWED)


def _texts(issue: Issue, lease: Lease | None) -> list[bytes]:
    """Id, the three constant parts of `issue_view`, assignee, lease id."""
    front: dict[str, Any] = {"id": issue.id, "issueType": issue.issue_type}
    if excused := excused_of(issue):
        front["excused"] = excused
    if issue.labels:
        front["labels"] = list(issue.labels)
    back: dict[str, Any] = {"title": issue.title}
    if issue.steered_by is not UNSET:
        back["steered"] = {"byName": issue.steered_by, "reason": issue.steered_why}
    middle = {"owner": issue.owner, "priority": issue.priority}
    return [
        issue.id.encode(),
        canonical.encode(front)[1:-1] + b",",
        canonical.encode(middle)[1:-1] + b',"status":"',
        b'",' + canonical.encode(back)[1:],
        issue.assignee.encode(),
        lease.lease_id.encode() if lease else b"",
    ]


def _touched(state: State, change: Change) -> Iterator[str]:
    """The issues that a change may have made different, for C."""
    match change:
        case IssueAdded(issue):
            yield issue.id
            yield from state.blocks.get(issue.id, ())
        case IssueSet(issue_id, members):
            yield issue_id
            if "status" in members:
                yield from state.blocks.get(issue_id, ())
        case LeasePut(lease):
            yield issue_of(lease.resource)
        case SubleasePut(sublease):
            yield issue_of(sublease.resource)
        case InstancePut(instance):
            yield issue_of(instance.resource)
        case FiberPut(fiber):
            yield issue_of(fiber.resource)
        case (
            LeaseDropped(resource)
            | SubleaseDropped(resource)
            | InstanceDropped(resource)
            | FiberDropped(resource)
        ):
            yield issue_of(resource)
        case DependencyAdded(dependency) | DependencyDropped(dependency):
            yield dependency.issue_id
            yield dependency.depends_on_id
        case SpendPut(spend):
            yield issue_of(spend.resource)
        case SectionPut(section):
            yield section.issue_id
        case CoverPut(cover):
            yield from cover.issue_ids
        case TallyPut(tally) if has_run_out(state, tally):
            yield from state.issues
        case ChecksSet() | PolicySet() | BudgetPut() | BudgetDropped():
            yield from state.issues
        case PausePut(ScopePause(scope=scope)) | PauseDropped(scope):
            yield from (key for key, issue in state.issues.items() if covers(scope, issue))
        case _:
            pass  # what is about all of them, or about jobs


# --- the contract, as C wants it ----------------------------------------------------------------


def open_kernel(node: str) -> Kernel:
    """A kernel that knows the contract, and no state yet."""
    actions = [host_actions()[name] for name in HOT]
    setup = {
        "seed": [secrets.randbits(64), secrets.randbits(64)],
        "now_ms_max": limits.NOW_MS_MAX,
        "ttl_seconds_min": limits.TTL_SECONDS_MIN,
        "ttl_seconds_max": limits.TTL_SECONDS_MAX,
        "ttl_seconds_default": limits.TTL_SECONDS_DEFAULT,
        "answers_max": limits.ANSWERS_MAX,
        "counter_max": limits.COUNTER_MAX,
        "ids_max": limits.PROJECTION_IDS_MAX,
        "doors": [sum(1 << STRENGTH[name] for name in each.transports) for each in actions],
    }
    texts = [text for action in actions for text in _action_texts(action, node)]
    texts += _shared_texts(node)
    for number in range(_REASON_COUNT):
        texts += _reason_texts(number)
    return Kernel(setup, texts, node, limits.BATCH_MAX)


def _action_texts(action: HostAction, node: str) -> list[bytes]:
    """`enum us_action_text`."""
    name, resolver, world = action.action.encode(), b"", {}
    profile: dict[str, Any] = {"profileId": PROFILE_ID}
    if action.resolver_ref is not None:
        resolver = b"," + canonical.encode(action.resolver_ref)
        profile["resolverWitnessRef"] = action.resolver_ref
        world["worldBinding"] = {
            "operationId": action.operation_id,
            "routeFamilyId": action.route_family,
            "worldId": action.world_id,
            "morphismRowId": action.morphism_row_id,
        }
    meaning = {"schema": 1, "semanticDigest": action.semantic_digest}
    head = {"action": action.action, "actionId": action.action_id}
    (route,) = evidence_routes()[action.action]  # the check at the start refuses another table
    return [
        name,
        b'{"action":"%b","context":' % name,
        canonical.encode(head)[:-1] + b",",
        b'{"action":"%b","argsDigest":"' % name,
        b'["host-effect://%b/' % name,
        resolver,
        canonical.encode(profile)[1:-1] + b',"result":"',
        b'",' + canonical.encode(meaning)[1:-1] + b',"seq":',
        b"," + canonical.encode(world)[1:] if world else b"}",
        b'{"action":"%b","digest":"' % name,
        b'",%b,"schema":1,"stepId":"%b.'
        % (canonical.encode({"route": route.route_id})[1:-1], canonical.encode(node)[1:-1]),
        b'.%b",%b,"witnessRefs":' % (name, canonical.encode({"stepKind": STEP_KIND})[1:-1]),
    ]


def _shared_texts(node: str) -> list[bytes]:
    """`enum us_shared_text`."""
    binding = {"normalizerId": NORMALIZER_ID, "policyDigest": contract_digest()}
    return [
        b',"policy":"%b"}' % contract_digest().encode(),
        b"," + canonical.encode(binding)[1:-1] + b',"prev":"',
        b'",' + canonical.encode({"schema": EFFECT_SCHEMA})[1:-1] + b',"seq":',
        b"," + canonical.encode({"node": node})[1:-1] + b',"wallMs":',
        canonical.encode({"dispatchKind": DISPATCH_KIND})[1:-1] + b',"effect":',
    ]


def _reason_texts(number: int) -> list[bytes]:
    """The class of a reason, and what is said behind the detail of its diagnostic."""
    if number not in Reason.__members__.values():
        return [b"", b""]
    failure = FAILURES[Reason(number)]
    tail = canonical.encode(f": {failure.meaning}; {failure.remedy}")
    return [failure.wire.encode(), tail[1:-1]]
