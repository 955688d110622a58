"""The job lane as the authority remembers it: jobs, specs, routes, nodes, and where to find them.

    pending      what can be claimed, by kind, then priority, then in the order of scheduling
    delayed      what can be claimed from a moment on, by that moment
    scheduled    all jobs, in the order of scheduling
    held         how many jobs of a kind, or below a prefix, are claimed
    deadlines    what is claimed, by the deadline of its lease
    waiting      what cannot be claimed, oldest first: dependencies missing, or attempts spent
    awaited      which jobs wait for which operation
    unfinished   specs that lack a job, the oldest first: what runners can claim
    dispatches   jobs of specs that can be claimed and have no file, the oldest first

The indexes follow from the records; a job is free in the moment in which the last operation that
it waited for is applied, without a change of its own. A job whose time has come stands in `delayed`
until a change files it (`JobsDue`); whoever reads `pending` reads it together with such jobs.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from functools import lru_cache

from msgspec.structs import asdict, replace
from sortedcontainers import SortedList

from ....contracts import (
    TERMINAL,
    Author,
    CallerStamp,
    Designation,
    Directive,
    JobRecord,
    JobState,
    KindLimit,
    Lease,
    Member,
    Operation,
    Schedule,
    Spec,
    SpecState,
    completed_job,
    completion_of,
    dispatch_resource,
    is_dispatch,
    is_job,
    is_spec,
    is_spent,
    job_resource,
    limits,
    spec_resource,
    step_job,
)
from ..outcome import (
    Designated,
    DirectivePut,
    JobPut,
    JobQuarantined,
    JobsDue,
    LimitDrawn,
    LimitDropped,
    LimitPut,
    MemberDropped,
    MemberPut,
    ScheduleDropped,
    SchedulePut,
    SpecMoved,
    SpecPut,
)
from .waitlist import Place, Waitlist

LaneChange = (
    JobPut | JobQuarantined | JobsDue | SpecPut | SpecMoved | DirectivePut | MemberPut
    | MemberDropped | Designated | LimitPut | LimitDrawn | LimitDropped | SchedulePut
    | ScheduleDropped
)  # fmt: skip
PendingPlace = tuple[str, int, int, str]  # kind, priority, row, job


class JobIndex:
    """All that decisions about jobs depend on, but for the leases. Only `apply` writes to it."""

    __slots__ = (
        "authors",
        "awaited",
        "deadlines",
        "delayed",
        "designation",
        "directives",
        "dispatches",
        "held",
        "jobs",
        "limits",
        "members",
        "pending",
        "registered",
        "ripe_ms",
        "scheduled",
        "schedules",
        "specs",
        "submitted",
        "unfinished",
        "waiting",
    )

    def __init__(self) -> None:
        self.jobs: MutableMapping[str, JobRecord] = {}
        self.specs: MutableMapping[str, Spec] = {}
        self.directives: MutableMapping[str, Directive] = {}
        self.members: MutableMapping[str, Member] = {}
        self.designation: Designation | None = None
        self.authors: dict[str, Author] = {}
        self.limits: MutableMapping[str, KindLimit] = {}  # by kind or prefix
        self.schedules: dict[str, Schedule] = {}
        # Indexes.
        self.registered = 0  # how many members the owner has registered
        self.pending: SortedList[PendingPlace] = SortedList()
        self.delayed: SortedList[tuple[int, str]] = SortedList()
        self.ripe_ms = 0  # up to then, what was delayed is filed as pending
        self.scheduled: SortedList[Place] = SortedList()
        self.held: MutableMapping[str, int] = {}
        self.deadlines: SortedList[tuple[int, str]] = SortedList()
        self.waiting: SortedList[tuple[int, str]] = SortedList()
        self.awaited: dict[str, set[str]] = {}
        self.submitted: SortedList[Place] = SortedList()  # all specs
        self.unfinished = Waitlist()
        self.dispatches = Waitlist()

    @property
    def record_count(self) -> int:
        return len(self.jobs) + len(self.specs)

    def missing(self, job: JobRecord) -> list[str]:
        """The operations that a job waits for, in the order in which it names them."""
        return [op_id for op_id in job.causal_deps if not self._is_applied(op_id)]

    def ripe(self, wall_ms: int) -> Iterator[JobRecord]:
        """Delayed jobs whose time has come, and that are not filed as pending yet."""
        for _, job_id in self.delayed.irange(None, (wall_ms + 1, ""), (True, False)):
            yield self.jobs[job_id]

    def count_held(self, before: JobRecord | None, after: JobRecord) -> None:
        """A job is claimed, or is no longer."""
        was_held = before is not None and before.state is JobState.CLAIMED
        turn = (after.state is JobState.CLAIMED) - was_held
        if not turn:
            return
        for kind in kinds_above(after.kind):
            self.held[kind] = self.held.get(kind, 0) + turn

    def make(self, change: LaneChange) -> None:
        """Make one change, and keep the indexes in step."""
        match change:
            case JobPut(job):
                self._put(job)
            case LimitDrawn(kind, parts, at_ms):
                self.limits[kind] = replace(self.limits[kind], parts=parts, at_ms=at_ms)
            case JobQuarantined(job_id, quarantine):
                self._put(replace(self.jobs[job_id], quarantine=quarantine))
            case SpecPut(spec):
                self._put_spec(spec)
            case SpecMoved():
                self._put_spec(replace(self.specs[change.spec_id], **asdict(change)))
            case DirectivePut(directive):
                self.directives[directive.kind] = directive
            case MemberPut(member):
                before = self.members.get(member.node)
                self.registered += member.registered - (before is not None and before.registered)
                self.members[member.node] = member
            case MemberDropped(node):
                self.registered -= self.members.pop(node).registered
            case Designated(designation):
                self.designation = designation
            case JobsDue(wall_ms):
                due = [*self.ripe(wall_ms)]
                self.ripe_ms = max(self.ripe_ms, wall_ms)
                for each in due:
                    self._file(each)
            case LimitPut(limit):
                self.limits[limit.kind] = limit
            case LimitDropped(kind):
                del self.limits[kind]
            case SchedulePut(schedule):
                self.schedules[schedule.schedule_id] = schedule
            case ScheduleDropped(schedule_id):
                del self.schedules[schedule_id]

    def seal(self, operation: Operation, digest: str) -> None:
        """The stamp of an operation is used up, if its author gave it one.

        The greatest stamps are remembered, so that it does not matter in which order they came.
        """
        stamp, node = operation.authored, operation.author
        if stamp is None or stamp.node != node:
            return
        known, member = self.authors.get(node), self.members.get(node)
        is_met = known is not None or (member is not None and member.registered)
        if not is_met and len(self.authors) >= limits.AUTHORS_MAX:
            return
        sealed = {*(known.sealed if known else ()), (stamp.wall_ms, stamp.counter, digest)}
        newest = tuple(sorted(sealed)[-limits.STAMPS_PER_AUTHOR_MAX :])
        self.authors[node] = Author(node=node, sealed=newest)

    def sealed(self, stamp: CallerStamp) -> str | None:
        """The digest of the operation that a stamp was used up for, as far as is remembered."""
        known = self.authors.get(stamp.node)
        place = (stamp.wall_ms, stamp.counter)
        return (
            next((each[2] for each in known.sealed if each[:2] == place), None) if known else None
        )

    def file_lease(self, before: Lease | None, after: Lease | None) -> None:
        """A lease of the lane was granted, renewed or dropped."""
        lease = after or before
        assert lease is not None
        deadline_ms = after.deadline_ms if after else None
        if is_spec(lease.resource):
            self.unfinished.lease(lease.resource.removeprefix("spec/"), deadline_ms)
            return
        if is_dispatch(lease.resource):
            self.dispatches.lease(lease.resource.removeprefix("dispatch/"), deadline_ms)
            return
        if before is not None:
            self.deadlines.remove(_due(before))
        if after is not None:
            self.deadlines.add(_due(after))

    def _put_spec(self, spec: Spec) -> None:
        self.submitted.discard((spec.submitted_seq, spec.spec_id))
        self.specs[spec.spec_id] = spec
        self.submitted.add((spec.submitted_seq, spec.spec_id))
        is_done = spec.state is SpecState.MATERIALIZED
        self.unfinished.offer(spec.spec_id, None if is_done else spec.submitted_seq)

    def _is_applied(self, op_id: str) -> bool:
        job = self.jobs.get(completed_job(op_id) or "")
        return job is not None and job.state is JobState.COMPLETED

    def _put(self, job: JobRecord) -> None:
        before = self.jobs.get(job.job_id)
        if before is None:
            self.scheduled.add((job.scheduled_seq, job.job_id))
        self.count_held(before, job)
        self.jobs[job.job_id] = job
        self._file(job)
        if job.state is JobState.COMPLETED:
            for waiting in sorted(self.awaited.pop(completion_of(job.job_id), ())):
                self._file(self.jobs[waiting])
        elif job.state is JobState.CANCELLED:
            self._await_no_more(job)

    def _await_no_more(self, job: JobRecord) -> None:
        for op_id in self.missing(job):
            waiting = self.awaited.get(op_id, set())
            waiting.discard(job.job_id)
            if not waiting:
                self.awaited.pop(op_id, None)

    def _file(self, job: JobRecord) -> None:
        place, since = pending_place(job), (job.scheduled_ms, job.job_id)
        run_at_ms = job.ordered.run_at_ms
        self.pending.discard(place)
        self.waiting.discard(since)
        if run_at_ms:
            self.delayed.discard((run_at_ms, job.job_id))
        if job.spec_id:
            self.dispatches.offer(job.job_id, None)
        if job.state is not JobState.PENDING:
            return
        missing = self.missing(job)
        for op_id in missing:
            self.awaited.setdefault(op_id, set()).add(job.job_id)
        if missing or is_spent(job):
            self.waiting.add(since)
            return
        if run_at_ms > self.ripe_ms:
            self.delayed.add((run_at_ms, job.job_id))
        else:
            self.pending.add(place)
        if job.spec_id and job.dispatched is None:
            self.dispatches.offer(job.job_id, job.scheduled_seq)


def pending_place(job: JobRecord) -> PendingPlace:
    """Where a job stands among those that can be claimed."""
    return job.kind, job.ordered.priority, job.scheduled_seq, job.job_id


@lru_cache(1024)  # every claim asks, some of them more than once, and kinds are few
def kinds_above(kind: str) -> tuple[str, ...]:
    """What can be said about a kind: the kind itself, then its prefixes, the longest first."""
    found = [kind]
    end = kind.rfind(".", 0, -1)
    while end >= 0:
        found.append(kind[: end + 1])
        end = kind.rfind(".", 0, end)
    return tuple(found)


def plain_kind(kind: str) -> str:
    """`ci.*` is another spelling of `ci.`."""
    return kind.removesuffix("*") if kind.endswith(".*") else kind


def _due(lease: Lease) -> tuple[int, str]:
    return lease.deadline_ms, lease.resource.removeprefix("job/")


def check_lane(lane: JobIndex, leases: Mapping[str, Lease]) -> None:
    """Assert I7: every job stands where its record says, and is leased while it is claimed."""
    held = {key: lease for key, lease in leases.items() if is_job(key)}
    claimed = [job for job in lane.jobs.values() if job.state is JobState.CLAIMED]
    assert {job_resource(job.job_id) for job in claimed} == held.keys(), "I7: claims and leases"
    assert list(lane.deadlines) == sorted(map(_due, held.values())), "I7: the deadlines differ"
    again = JobIndex()
    again.ripe_ms = lane.ripe_ms
    for job in lane.jobs.values():
        again.make(JobPut(job))
        if job.state is JobState.CLAIMED:
            fence = held[job_resource(job.job_id)].fence
            assert job.fence == fence, f"I7: {job.job_id} has another fence than its lease"
    assert list(lane.pending) == list(again.pending), "I7: the index of pending jobs differs"
    assert list(lane.waiting) == list(again.waiting), "I7: the index of waiting jobs differs"
    assert list(lane.delayed) == list(again.delayed), "I7: the index of delayed jobs differs"
    assert list(lane.scheduled) == list(again.scheduled), "I7: the index of all jobs differs"
    assert lane.awaited == again.awaited, "I7: the index of awaited operations differs"
    counts = {kind: count for kind, count in lane.held.items() if count}
    assert counts == {kind: count for kind, count in again.held.items() if count}, "I7: the counts"
    _check_specs(lane, leases, again)


def _check_specs(lane: JobIndex, leases: Mapping[str, Lease], again: JobIndex) -> None:
    """Assert I10 and I11."""
    for spec in lane.specs.values():
        again.make(SpecPut(spec))
        jobs = [step_job(spec.spec_id, step.step_key) in lane.jobs for step in spec.steps]
        name = f"I10: {spec.spec_id}"
        assert sum(jobs) == spec.created, f"{name} counts other jobs than there are"
        assert all(jobs) is (spec.state is SpecState.MATERIALIZED), f"{name} is {spec.state}"
        lease = leases.get(spec_resource(spec.spec_id))
        if lease is not None:
            assert not all(jobs), f"{name} is materialized and leased"
            assert lease.fence == spec.fence, f"{name} has another fence than its lease"
    for job in lane.jobs.values():
        spec_known = lane.specs.get(job.spec_id) if job.spec_id else None
        assert bool(job.spec_id) is (spec_known is not None), f"I10: {job.job_id} has no spec"
        lease = leases.get(dispatch_resource(job.job_id))
        if lease is not None:
            is_done = job.dispatched is not None or job.state in TERMINAL
            assert job.spec_id, f"I11: {job.job_id} is of no spec and being dispatched"
            assert not is_done, f"I11: {job.job_id} is done with and being dispatched"
    for key, lease in leases.items():
        if is_spec(key) or is_dispatch(key):
            again.file_lease(None, lease)
    assert list(lane.submitted) == list(again.submitted), "I10: the index of specs differs"
    assert lane.unfinished == again.unfinished, "I10: the index of unfinished specs differs"
    assert lane.dispatches == again.dispatches, "I11: the index of dispatches differs"
