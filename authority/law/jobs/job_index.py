"""The job lane as the authority remembers it: jobs, specs, routes, nodes, and where to find them.

    pending      what can be claimed, by kind and then in the order of scheduling
    deadlines    what is claimed, by the deadline of its lease
    waiting      what cannot be claimed, oldest first: dependencies missing, or attempts spent
    awaited      which jobs wait for which operation
    unfinished   specs that lack a job, the oldest first: what runners can claim
    dispatches   jobs of specs that can be claimed and have no file, the oldest first

The indexes follow from the records; a job is free in the moment in which the last operation that
it waited for is applied, without a change of its own.
"""

from collections.abc import Mapping, MutableMapping

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
    Lease,
    Member,
    Operation,
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
    MemberPut,
    SpecMoved,
    SpecPut,
)
from .waitlist import Place, Waitlist

LaneChange = JobPut | JobQuarantined | SpecPut | SpecMoved | DirectivePut | MemberPut | Designated


class JobIndex:
    """All that decisions about jobs depend on, but for the leases. Only `apply` writes to it."""

    __slots__ = (
        "authors",
        "awaited",
        "deadlines",
        "designation",
        "directives",
        "dispatches",
        "jobs",
        "members",
        "pending",
        "registered",
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
        # Indexes.
        self.registered = 0  # how many members the owner has registered
        self.pending: SortedList[tuple[str, int, str]] = SortedList()
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

    def make(self, change: LaneChange) -> None:
        """Make one change, and keep the indexes in step."""
        match change:
            case JobPut(job):
                self._put(job)
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
            case Designated(designation):
                self.designation = designation

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
        self.jobs[job.job_id] = job
        self._file(job)
        if job.state is JobState.COMPLETED:
            for waiting in sorted(self.awaited.pop(completion_of(job.job_id), ())):
                self._file(self.jobs[waiting])

    def _file(self, job: JobRecord) -> None:
        place, since = (job.kind, job.scheduled_seq, job.job_id), (job.scheduled_ms, job.job_id)
        self.pending.discard(place)
        self.waiting.discard(since)
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
        self.pending.add(place)
        if job.spec_id and job.dispatched is None:
            self.dispatches.offer(job.job_id, job.scheduled_seq)


def _due(lease: Lease) -> tuple[int, str]:
    return lease.deadline_ms, lease.resource.removeprefix("job/")


def check_lane(lane: JobIndex, leases: Mapping[str, Lease]) -> None:
    """Assert I7: every job stands where its record says, and is leased while it is claimed."""
    held = {key: lease for key, lease in leases.items() if is_job(key)}
    claimed = [job for job in lane.jobs.values() if job.state is JobState.CLAIMED]
    assert {job_resource(job.job_id) for job in claimed} == held.keys(), "I7: claims and leases"
    assert list(lane.deadlines) == sorted(map(_due, held.values())), "I7: the deadlines differ"
    again = JobIndex()
    for job in lane.jobs.values():
        again.make(JobPut(job))
        if job.state is JobState.CLAIMED:
            fence = held[job_resource(job.job_id)].fence
            assert job.fence == fence, f"I7: {job.job_id} has another fence than its lease"
    assert list(lane.pending) == list(again.pending), "I7: the index of pending jobs differs"
    assert list(lane.waiting) == list(again.waiting), "I7: the index of waiting jobs differs"
    assert lane.awaited == again.awaited, "I7: the index of awaited operations differs"
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
