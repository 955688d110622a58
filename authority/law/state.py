"""What is: the fold of the journal, and the only function that changes it.

    I1  Every lease's resource is an issue, a job or a spec that exists and is not finished.
    I2  A resource has at most one lease; a newer grant has a greater fence.
    I3  Subleases and instances hang on the lease whose fence they were made under.
    I4  `ready` holds exactly the open issues whose blockers are all closed, and no escalations.
    I5  Every lease stands either in `deadlines` or, once filed as lapsed, in `overdue`.
    I6  A fiber runs under the lease whose fence it has, and in a scope that runs; orphans are of
        earlier terms, and closed work has no fibers.
    I7  Hand-overs are of issues that exist, and a ledger hangs on its worker's session.
    I8  Decisions are about issues that exist and are not closed.
    I9  A job is leased exactly while it is claimed, and stands in the index of its state.
    I10 A spec counts the jobs of its steps, is materialized when it has them all, and is leased
        only before; its fence is that of its last lease.
    I11 What is being dispatched is a job of a spec that is neither dispatched nor completed.
    I12 What was spent was spent on work that exists, and the last attempt is a part of the total.
    I13 Sections are of issues that exist, and are filed by branch and row while they wait. An open
        one is of an issue whose status is `gluing`. An issue is in one open cover at most, overlaps
        are of sections that wait, and what is authorised on a branch is for that branch.

The indexes can be rebuilt from the records, and `check_invariants` does so in tests. Only which
leases were filed as lapsed is history: decisions see it, so images carry it.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, assert_never

import msgspec
from sortedcontainers import SortedList

from ...contracts import (
    BLOCKING_TYPES,
    ESCALATION,
    FIBER_TRANSITIONS,
    Budget,
    CheckPolicy,
    Decision,
    Dependency,
    Feature,
    Fiber,
    FiberMove,
    FiberState,
    Handover,
    Instance,
    Issue,
    Lease,
    Policy,
    ScopePause,
    Sublease,
    Tally,
    Witness,
    WorkerSession,
    WorkSpend,
    is_cancelled,
    is_glue,
    is_issue,
    issue_of,
    issue_resource,
    limits,
    rfc3339,
)
from . import outcome
from .descent.index import DescentIndex, check_descent
from .jobs.job_index import JobIndex, check_lane
from .outcome import Change


class RememberedAnswer(NamedTuple):
    """What a request id stood for the first time."""

    action: str
    args_digest: str
    seq: int


class Rank(NamedTuple):
    """The order in which work is handed out: urgent first, then old, then by id."""

    priority: int
    created_ms: int
    issue_id: str


class State:
    """All that decisions depend on. Only `apply` writes to it."""

    __slots__ = (
        "answers",
        "blocks",
        "budgets",
        "checks",
        "deadlines",
        "decisions",
        "dependencies",
        "descent",
        "features",
        "fibers",
        "forgetting",
        "handovers",
        "held",
        "instances",
        "issues",
        "lane",
        "leases",
        "overdue",
        "pauses",
        "policy",
        "ranks",
        "ready",
        "sessions",
        "spends",
        "subleases",
        "tallies",
        "torn",
        "witnesses",
    )

    def __init__(self) -> None:
        self.issues: dict[str, Issue] = {}
        self.dependencies: dict[str, tuple[Dependency, ...]] = {}
        self.leases: dict[str, Lease] = {}
        self.subleases: dict[str, dict[str, Sublease]] = {}
        self.instances: dict[str, dict[str, Instance]] = {}
        self.fibers: dict[str, dict[str, Fiber]] = {}
        self.handovers: dict[str, tuple[Handover, ...]] = {}  # by issue, oldest first
        self.sessions: dict[str, WorkerSession] = {}  # by worker
        self.features: dict[str, dict[str, Feature]] = {}
        self.lane = JobIndex()
        self.policy = Policy()
        self.pauses: dict[str, ScopePause] = {}  # by scope
        self.checks: CheckPolicy | None = None
        self.witnesses: dict[str, Witness] = {}  # by key, the oldest first
        self.decisions: dict[str, Decision] = {}  # by issue
        self.spends: dict[str, WorkSpend] = {}  # by resource
        self.tallies: dict[str, Tally] = {}  # by scope
        self.budgets: dict[str, dict[str, Budget]] = {}  # by scope, and what they are per
        self.descent = DescentIndex()
        self.answers: dict[str, RememberedAnswer] = {}
        self.forgetting: deque[str] = deque()  # request ids, oldest first
        # Indexes.
        self.blocks: dict[str, set[str]] = {}  # issue -> issues that wait for it
        self.ranks: dict[str, Rank] = {}
        self.ready: SortedList[Rank] = SortedList()
        self.deadlines: SortedList[tuple[int, str]] = SortedList()
        self.overdue: SortedList[Rank] = SortedList()
        self.held: dict[str, set[str]] = {}  # owner -> resources, lapsed ones included
        self.torn: set[str] = set()  # leased resources whose record disagrees with the lease

    def blockers(self, issue_id: str) -> list[str]:
        """Ids that the issue still waits for, in the order they were added."""
        return [
            each.depends_on_id
            for each in self.dependencies.get(issue_id, ())
            if each.type in BLOCKING_TYPES and not self._closed(each.depends_on_id)
        ]

    def stale_count(self, wall_ms: int) -> int:
        """How many leases are past their deadline."""
        return len(self.overdue) + self.deadlines.bisect_left((wall_ms, ""))

    def stale_ids(self, wall_ms: int) -> Iterator[str]:
        """Issues whose lease is past its deadline, in no order worth relying on."""
        yield from (place.issue_id for place in self.overdue)
        yield from (
            issue_of(key) for _, key in self.deadlines.irange(None, (wall_ms, ""), (True, False))
        )

    def running(self, resource: str) -> list[Fiber]:
        """The fibers that run under a lease, in the order in which they were spawned."""
        fibers = self.fibers.get(resource, {}).values()
        running = (each for each in fibers if each.state is FiberState.RUNNING)
        return sorted(running, key=lambda fiber: fiber.spawned_seq)

    def term(self, issue_id: str) -> tuple[int, int]:
        """Which term of an issue this is; see `Decision`."""
        lease = self.leases.get(issue_resource(issue_id))
        return (lease.fence if lease else 0, self.issues[issue_id].attempts)

    def _closed(self, issue_id: str) -> bool:
        issue = self.issues.get(issue_id)
        return issue is not None and issue.status == "closed"


def _rank(issue: Issue) -> Rank:
    return Rank(issue.priority, rfc3339.parse_ms(issue.created_at) or 0, issue.id)


def apply(state: State, changes: tuple[Change, ...] | list[Change]) -> None:  # noqa: PLR0915 - flat
    """Make the changes of one decision, and keep the indexes in step."""
    for change in changes:
        match change:
            case outcome.IssueAdded(issue):
                _put_issue(state, issue)
            case outcome.IssueSet(issue_id, members):
                _put_issue(state, msgspec.structs.replace(state.issues[issue_id], **members))
            case outcome.LeasePut(lease):
                _put_lease(state, lease)
            case outcome.LeaseDropped(resource):
                _drop_lease(state, resource)
            case outcome.Lapsed(wall_ms):
                _file_lapsed(state, wall_ms)
            case (
                outcome.JobPut() | outcome.LimitDrawn()  # with every claim
                | outcome.JobQuarantined() | outcome.DirectivePut()
                | outcome.MemberPut() | outcome.MemberDropped() | outcome.Designated()
                | outcome.SpecPut() | outcome.SpecMoved() | outcome.JobsDue()
                | outcome.LimitPut() | outcome.LimitDropped()
                | outcome.SchedulePut() | outcome.ScheduleDropped()
            ):  # fmt: skip
                state.lane.make(change)
            case outcome.OperationAdmitted(operation, digest):
                # The log is the journal's; what it did are the changes beside it.
                state.lane.seal(operation, digest)
            case outcome.SubleasePut(sublease):
                state.subleases.setdefault(sublease.resource, {})[sublease.sublease_id] = sublease
            case outcome.SubleaseDropped(resource, sublease_id):
                del state.subleases[resource][sublease_id]
            case outcome.InstancePut(instance):
                state.instances.setdefault(instance.resource, {})[instance.instance_id] = instance
            case outcome.InstanceDropped(resource, instance_id):
                del state.instances[resource][instance_id]
            case outcome.FiberPut(fiber):
                state.fibers.setdefault(fiber.resource, {})[fiber.fiber_id] = fiber
            case outcome.FiberDropped(resource, fiber_id):
                del state.fibers[resource][fiber_id]
            case outcome.HandoverPut(handover):
                left = (*state.handovers.get(handover.issue_id, ()), handover)
                state.handovers[handover.issue_id] = left[-limits.HANDOVERS_PER_ISSUE_MAX :]
            case outcome.SessionPut(session):
                state.sessions[session.worker] = session
            case outcome.SessionDropped(worker):
                del state.sessions[worker]
                state.features.pop(worker, None)
            case outcome.FeaturePut(feature):
                state.features.setdefault(feature.worker, {})[feature.feature_id] = feature
            case outcome.SpendPut(spend):
                state.spends[spend.resource] = spend
            case outcome.TallyPut(tally):
                state.tallies[tally.scope] = tally
            case outcome.BudgetPut(budget):
                state.budgets.setdefault(budget.scope, {})[budget.per] = budget
            case outcome.BudgetDropped(scope, per):
                del state.budgets[scope][per]
                if not state.budgets[scope]:
                    del state.budgets[scope]
            case (
                outcome.CoverPut() | outcome.SectionPut() | outcome.OverlapPut()
                | outcome.TargetPut() | outcome.ObstructionPut()
            ):  # fmt: skip
                state.descent.make(change)
            case outcome.DependencyAdded(dependency):
                _add_dependency(state, dependency)
            case outcome.DependencyDropped(dependency):
                _drop_dependency(state, dependency)
            case outcome.PausePut(pause):
                state.pauses[pause.scope] = pause
            case outcome.PauseDropped(scope):
                del state.pauses[scope]
            case outcome.PolicySet(policy):
                state.policy = policy
            case outcome.ChecksSet(checks):
                state.checks = checks
                state.decisions.clear()
            case outcome.WitnessPut(witness):
                _put_witness(state, witness)
            case outcome.DecisionPut(decision):
                state.decisions[decision.issue_id] = decision
            case outcome.Answered(request_id, action, args_digest, seq):
                _remember(state, request_id, RememberedAnswer(action, args_digest, seq))
            case _:
                assert_never(change)


def _put_issue(state: State, issue: Issue) -> None:
    before = state.issues.get(issue.id)
    state.issues[issue.id] = issue
    if before is None:
        state.ranks[issue.id] = _rank(issue)
    elif before.priority != issue.priority:
        _move(state, state.ranks[issue.id], _rank(issue))
    _refresh_ready(state, issue.id)
    _refresh_torn(state, issue_resource(issue.id))
    if issue.status == "closed":
        state.fibers.pop(issue_resource(issue.id), None)  # orphans; no request may name them now
        state.decisions.pop(issue.id, None)
    if (before is not None and before.status == "closed") != (issue.status == "closed"):
        for waiting in state.blocks.get(issue.id, ()):
            _refresh_ready(state, waiting)


def _move(state: State, old: Rank, new: Rank) -> None:
    state.ranks[new.issue_id] = new
    for index in (state.ready, state.overdue):
        if old in index:
            index.remove(old)
            index.add(new)


def _put_lease(state: State, lease: Lease) -> None:
    before = state.leases.get(lease.resource)
    _file_owner(state, before, lease)
    if not is_issue(lease.resource):
        state.leases[lease.resource] = lease
        if not is_glue(lease.resource):
            state.lane.file_lease(before, lease)
        return
    if before is not None:
        _unfile(state, before)
        if before.fence != lease.fence:
            _drop_dependents(state, lease.resource)
    state.leases[lease.resource] = lease
    state.deadlines.add((lease.deadline_ms, lease.resource))
    _refresh_torn(state, lease.resource)


def _drop_lease(state: State, resource: str) -> None:
    _file_owner(state, state.leases[resource], None)
    if not is_issue(resource):
        lease = state.leases.pop(resource)
        if not is_glue(resource):
            state.lane.file_lease(lease, None)
        return
    _unfile(state, state.leases.pop(resource))
    _drop_dependents(state, resource)
    _refresh_torn(state, resource)


def _file_owner(state: State, before: Lease | None, lease: Lease | None) -> None:
    if before is not None and (lease is None or lease.owner != before.owner):
        state.held[before.owner].discard(before.resource)
        if not state.held[before.owner]:
            del state.held[before.owner]
    if lease is not None:
        state.held.setdefault(lease.owner, set()).add(lease.resource)


def _unfile(state: State, lease: Lease) -> None:
    if (lease.deadline_ms, lease.resource) in state.deadlines:
        state.deadlines.remove((lease.deadline_ms, lease.resource))
    else:
        state.overdue.remove(state.ranks[issue_of(lease.resource)])


def _file_lapsed(state: State, wall_ms: int) -> None:
    file_overdue(state, list(state.deadlines.irange(None, (wall_ms, ""), (True, False))))


def file_overdue(state: State, entries: list[tuple[int, str]]) -> None:
    """Move leases, each by its deadline and resource, to those that can be reclaimed."""
    for entry in entries:
        state.deadlines.remove(entry)
        state.overdue.add(state.ranks[issue_of(entry[1])])


def _drop_dependents(state: State, resource: str) -> None:
    """The term is over: what hung on it is gone, and what still ran is orphaned."""
    running = state.running(resource)
    state.subleases.pop(resource, None)
    state.instances.pop(resource, None)
    state.fibers.pop(resource, None)
    for fiber in running:
        orphan = FIBER_TRANSITIONS[fiber.state, FiberMove.ORPHAN]
        state.fibers.setdefault(resource, {})[fiber.fiber_id] = msgspec.structs.replace(
            fiber, state=orphan
        )


def _add_dependency(state: State, dependency: Dependency) -> None:
    source = dependency.issue_id
    state.dependencies[source] = (*state.dependencies.get(source, ()), dependency)
    if dependency.type in BLOCKING_TYPES:
        state.blocks.setdefault(dependency.depends_on_id, set()).add(source)
        _refresh_ready(state, source)


def _drop_dependency(state: State, dependency: Dependency) -> None:
    source, target = dependency.issue_id, dependency.depends_on_id
    rest = tuple(each for each in state.dependencies[source] if each != dependency)
    if rest:
        state.dependencies[source] = rest
    else:
        del state.dependencies[source]
    if not any(each.depends_on_id == target and each.type in BLOCKING_TYPES for each in rest):
        waiting = state.blocks.get(target, set())
        waiting.discard(source)
        if not waiting:
            state.blocks.pop(target, None)
    _refresh_ready(state, source)


def _refresh_ready(state: State, issue_id: str) -> None:
    issue = state.issues.get(issue_id)
    if issue is None:
        return
    place = state.ranks[issue_id]
    is_ready = _may_be_ready(issue) and not state.blockers(issue_id)
    if is_ready and place not in state.ready:
        state.ready.add(place)
    elif not is_ready:
        state.ready.discard(place)


def _may_be_ready(issue: Issue) -> bool:
    return issue.status == "open" and issue.issue_type != ESCALATION


def _refresh_torn(state: State, resource: str) -> None:
    lease, issue = state.leases.get(resource), state.issues.get(issue_of(resource))
    if lease and issue and (issue.status, issue.assignee) != ("in_progress", lease.owner):
        state.torn.add(resource)
    else:
        state.torn.discard(resource)


def _put_witness(state: State, witness: Witness) -> None:
    state.witnesses.pop(witness.key, None)
    state.witnesses[witness.key] = witness
    while len(state.witnesses) > limits.WITNESSES_MAX:
        del state.witnesses[next(iter(state.witnesses))]


def _remember(state: State, request_id: str, answer: RememberedAnswer) -> None:
    state.answers[request_id] = answer
    state.forgetting.append(request_id)
    while len(state.forgetting) > limits.ANSWERS_MAX:
        del state.answers[state.forgetting.popleft()]


def check_invariants(state: State) -> None:
    """Assert I1 to I13; slow, for tests and for `issue.check`."""
    of_issues = {key: lease for key, lease in state.leases.items() if is_issue(key)}
    for resource, lease in of_issues.items():
        issue = state.issues[issue_of(resource)]
        is_over = issue.status == "closed" or is_cancelled(issue)
        assert not is_over, f"I1: {resource} is {issue.status} and leased"
        assert lease.resource == resource, f"I2: {resource} is filed under another name"
    owned = sorted((each.owner, each.resource) for each in state.leases.values())
    held = sorted((owner, key) for owner, keys in state.held.items() for key in keys)
    assert held == owned, "I2: a lease is filed under another owner"
    for nested in (state.subleases, state.instances):
        for resource, inner in nested.items():
            assert not inner or resource in state.leases, f"I3: orphans on {resource}"
    ready = [_rank(i) for i in state.issues.values() if _may_be_ready(i)]
    ready = sorted(place for place in ready if not state.blockers(place.issue_id))
    assert list(state.ready) == ready, "I4: the ready index differs from the records"
    filed = [key for _, key in state.deadlines]
    filed += [issue_resource(place.issue_id) for place in state.overdue]
    assert sorted(filed) == sorted(of_issues), "I5: a lease is filed twice or not at all"
    for deadline_ms, key in state.deadlines:
        assert state.leases[key].deadline_ms == deadline_ms, f"I5: {key} has another deadline"
    for resource, fibers in state.fibers.items():
        _check_fibers(state, resource, fibers)
    assert state.handovers.keys() <= state.issues.keys(), "I7: a hand-over of nothing"
    assert state.features.keys() <= state.sessions.keys(), "I7: a ledger without a session"
    for issue_id in state.decisions:
        assert state.issues[issue_id].status != "closed", f"I8: {issue_id} is closed and decided"
    check_lane(state.lane, {k: v for k, v in state.leases.items() if not is_glue(k)})
    for resource, spend in state.spends.items():
        name = resource.partition("/")[2]
        assert name in (state.issues if is_issue(resource) else state.lane.jobs), f"I12: {resource}"
        assert spend.attempt.tokens <= spend.total.tokens, f"I12: {resource} adds up to less"
    check_descent(state.descent, state.issues)


def _check_fibers(state: State, resource: str, fibers: dict[str, Fiber]) -> None:
    lease = state.leases.get(resource)
    status = state.issues[issue_of(resource)].status
    assert not fibers or status != "closed", f"I6: {resource} is closed and has fibers"
    for fiber in fibers.values():
        name = f"{resource} {fiber.fiber_id}"
        of_this_term = lease is not None and fiber.fence == lease.fence
        is_orphan = fiber.state is FiberState.ORPHANED
        assert of_this_term is not is_orphan, f"I6: {name} is {fiber.state} in the wrong term"
        has_ended = fiber.state in (FiberState.JOINED, FiberState.CANCELLED)
        assert has_ended is (fiber.ended_seq is not None), f"I6: {name} ended and did not"
        if fiber.state is FiberState.RUNNING and fiber.parent_fiber_id:
            parent = fibers[fiber.parent_fiber_id]
            assert parent.state is FiberState.RUNNING, f"I6: {name} runs in an ended scope"
            assert fiber.depth == parent.depth + 1, f"I6: {name} lies at another depth"
