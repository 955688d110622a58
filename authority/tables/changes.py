"""What each change of the journal does to the tables, in SQL that both engines take.

A statement says `?` where a value goes. Each depends on the tables alone, so that whoever applies
the same changes in the same order has the same tables.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from ...contracts import (
    BLOCKING_TYPES,
    Job,
    Lease,
    issue_resource,
)
from ..outcome import (
    Answered,
    Change,
    ChecksSet,
    DecisionPut,
    DependencyAdded,
    DependencyDropped,
    Designated,
    DirectivePut,
    FeaturePut,
    FiberDropped,
    FiberPut,
    HandoverPut,
    InstanceDropped,
    InstancePut,
    IssueAdded,
    IssueSet,
    JobPut,
    JobQuarantined,
    Lapsed,
    LeaseDropped,
    LeasePut,
    MemberPut,
    OperationAdmitted,
    PolicySet,
    SessionDropped,
    SessionPut,
    SubleaseDropped,
    SubleasePut,
    WitnessPut,
)
from .schema import (
    DEPENDENCY,
    FIBER,
    INSTANCE,
    ISSUE,
    JOB,
    LEASE,
    SCHEMA,
    SUBLEASE,
    Table,
)

Cell = str | int | None
Statement = tuple[str, Sequence[Cell]]

_UPSERTS = {table.name: table.upsert for table in SCHEMA}
_SUPERSEDED = "EXISTS (SELECT 1 FROM lease WHERE resource = ? AND fence <> ?)"


def statements(change: Change) -> Iterator[Statement]:
    """What a change does, in order."""
    match change:
        case IssueAdded(issue):
            yield _put(ISSUE, [getattr(issue, name) for name, _ in ISSUE.columns])
        case IssueSet(issue_id, members):
            names = ", ".join(f"{name} = ?" for name in members)
            values = _cells([*members.values(), issue_id])
            yield f"UPDATE issue SET {names} WHERE id = ?", values  # noqa: S608 - our own names
            if members.get("status") == "closed":
                yield "DELETE FROM fiber WHERE resource = ?", (issue_resource(issue_id),)
        case LeasePut(lease):
            yield from _granted(lease)
        case LeaseDropped(resource):
            yield "DELETE FROM lease WHERE resource = ?", (resource,)
            yield from _ended(resource)
        case SubleasePut(one):
            yield _put(SUBLEASE, [
                one.resource, one.sublease_id, one.parent_lease_id, one.holder,
                one.capability_scope, one.granted_ms, one.deadline_ms,
            ])  # fmt: skip
        case SubleaseDropped(resource, sublease_id):
            query = "DELETE FROM sublease WHERE resource = ? AND sublease_id = ?"
            yield query, (resource, sublease_id)
        case InstancePut(one):
            yield _put(INSTANCE, [
                one.resource, one.instance_id, one.issue_id, one.worktree_ref,
                one.runtime_ref, one.lease_id, one.lease_owner, one.lease_ttl_ms,
                one.fence_token, one.policy_digest,
            ])  # fmt: skip
        case InstanceDropped(resource, instance_id):
            query = "DELETE FROM instance WHERE resource = ? AND instance_id = ?"
            yield query, (resource, instance_id)
        case FiberPut(one):
            yield _put(FIBER, [
                one.resource, one.fiber_id, one.parent_fiber_id, one.task_ref, one.scope_ref,
                one.fence, one.depth, one.spawned_seq, one.spawned_ms, one.state,
                one.ended_seq, one.ended_ms, one.result_class, one.result_ref, one.reason,
            ])  # fmt: skip
        case FiberDropped(resource, fiber_id):
            query = "DELETE FROM fiber WHERE resource = ? AND fiber_id = ?"
            yield query, (resource, fiber_id)
        case DependencyAdded(one):
            blocking = one.type in BLOCKING_TYPES
            cells = [one.issue_id, one.depends_on_id, one.type, one.created_by, blocking]
            yield _put(DEPENDENCY, cells)
        case DependencyDropped(one):
            query = "DELETE FROM dependency WHERE (issue_id, depends_on_id, type) = (?, ?, ?)"
            yield query, (one.issue_id, one.depends_on_id, one.type)
        case JobPut(job):
            yield _put(JOB, _job(job))
        case PolicySet() | ChecksSet() | WitnessPut() | DecisionPut() | Answered() | Lapsed():
            pass  # the tables show work and leases
        case HandoverPut() | SessionPut() | SessionDropped() | FeaturePut():
            pass
        case JobQuarantined() | DirectivePut() | MemberPut() | Designated() | OperationAdmitted():
            pass
        case _:
            assert_never(change)


def _granted(lease: Lease) -> Iterator[Statement]:
    """A lease, and the end of whatever hung on the one before; an extension ends nothing."""
    if not lease.renewals:
        yield from _ended(lease.resource, _SUPERSEDED, (lease.resource, lease.fence))
    yield _put(LEASE, [
        lease.resource, lease.lease_id, lease.owner, lease.fence, lease.ttl_ms, lease.granted_ms,
        lease.deadline_ms, lease.renewed_ms, lease.renewals, lease.state,
    ])  # fmt: skip


def _ended(resource: str, where: str = "", values: Sequence[Cell] = ()) -> Iterator[Statement]:
    """The term is over: what hung on it is gone, and what still ran is orphaned."""
    kind = resource.partition("/")[0]
    also = f" AND {where}" if where else ""
    if kind != "issue":
        return  # nothing hangs on it
    for table in ("sublease", "instance"):
        yield f"DELETE FROM {table} WHERE resource = ?{also}", (resource, *values)  # noqa: S608
    query = f"DELETE FROM fiber WHERE resource = ? AND state <> 'running'{also}"  # noqa: S608
    yield query, (resource, *values)
    query = f"UPDATE fiber SET state = 'orphaned' WHERE resource = ?{also}"  # noqa: S608
    yield query, (resource, *values)


def _job(job: Job) -> list[object]:
    return [
        job.job_id, None, None, job.kind, job.state, job.payload, job.author, job.attempts,
        job.fence, job.scheduled_ms, job.completed_ms, job.completed_by or None,
        job.reason or None, None, None, None,
    ]  # fmt: skip


def _put(table: Table, values: Iterable[object]) -> Statement:
    return _UPSERTS[table.name], _cells(values)


def _cells(values: Iterable[object]) -> list[Cell]:
    return [_cell(value) for value in values]


def _cell(value: object) -> Cell:
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)  # a name of ours is more than its text
    if isinstance(value, int):
        return int(value)  # what is true is 1
    assert isinstance(value, tuple | list), value
    return "\n".join(value)
