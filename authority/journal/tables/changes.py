"""What each change of the journal does to the tables, in SQL that both engines take.

A statement says `?` where a value goes. Each depends on the tables alone, so that the same
changes in the same order give the same tables.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from ....contracts import (
    BLOCKING_TYPES,
    Amount,
    JobRecord,
    JobState,
    Lease,
    Spec,
    excused_of,
    issue_resource,
    limits,
)
from ...law import outcome
from ...law.outcome import Change
from .schema import (
    BUDGET,
    CHAIN_SPEC,
    COVER,
    DEPENDENCY,
    DISPATCH_LEASE,
    FIBER,
    INSTANCE,
    ISSUE,
    JOB,
    KIND_LIMIT,
    LEASE,
    OBSTRUCTION,
    PAUSE,
    SCHEDULE,
    SCHEMA,
    SECTION,
    SPEC_LEASE,
    SPEND,
    SUBLEASE,
    TALLY,
    TARGET,
    Table,
)

Cell = str | int | None
Statement = tuple[str, Sequence[Cell]]

_UPSERTS = {table.name: table.upsert for table in SCHEMA}
_APART = {"spec": SPEC_LEASE, "dispatch": DISPATCH_LEASE}  # leases that have a table of their own
_SUPERSEDED = "EXISTS (SELECT 1 FROM lease WHERE resource = ? AND fence <> ?)"
# As the state forgets them.
_FORGET_COVERS: Statement = (
    """DELETE FROM cover WHERE made_seq = (SELECT min(made_seq) FROM cover WHERE status <> 'open')
    AND (SELECT count(*) FROM cover) > ?""",
    (limits.COVERS_KEPT_MAX,),
)
_FORGET_OBSTRUCTIONS: Statement = (
    """DELETE FROM obstruction WHERE seq <=
    (SELECT seq FROM obstruction ORDER BY seq DESC LIMIT 1 OFFSET ?)""",
    (limits.OBSTRUCTIONS_MAX,),
)


def statements(change: Change) -> Iterator[Statement]:  # noqa: PLR0915 - flat
    """What a change does, in order."""
    match change:
        case outcome.IssueAdded(issue):
            counted = replace(issue, excused=excused_of(issue))
            yield _put(ISSUE, [getattr(counted, name) for name, _ in ISSUE.columns])
        case outcome.IssueSet(issue_id, members):
            names = ", ".join(f"{name} = ?" for name in members)
            values = _cells([*members.values(), issue_id])
            yield f"UPDATE issue SET {names} WHERE id = ?", values
            if members.get("status") == "closed":
                yield "DELETE FROM fiber WHERE resource = ?", (issue_resource(issue_id),)
        case outcome.LeasePut(lease):
            yield from _granted(lease)
        case outcome.LeaseDropped(resource):
            yield from _dropped(resource)
        case outcome.SubleasePut(one):
            yield _put(SUBLEASE, [
                one.resource, one.sublease_id, one.parent_lease_id, one.holder,
                one.capability_scope, one.granted_ms, one.deadline_ms,
            ])  # fmt: skip
        case outcome.SubleaseDropped(resource, sublease_id):
            query = "DELETE FROM sublease WHERE resource = ? AND sublease_id = ?"
            yield query, (resource, sublease_id)
        case outcome.InstancePut(one):
            yield _put(INSTANCE, [
                one.resource, one.instance_id, one.issue_id, one.worktree_ref,
                one.runtime_ref, one.lease_id, one.lease_owner, one.lease_ttl_ms,
                one.fence_token, one.policy_digest,
            ])  # fmt: skip
        case outcome.InstanceDropped(resource, instance_id):
            query = "DELETE FROM instance WHERE resource = ? AND instance_id = ?"
            yield query, (resource, instance_id)
        case outcome.FiberPut(one):
            yield _put(FIBER, [
                one.resource, one.fiber_id, one.parent_fiber_id, one.task_ref, one.scope_ref,
                one.fence, one.depth, one.spawned_seq, one.spawned_ms, one.state,
                one.ended_seq, one.ended_ms, one.result_class, one.result_ref, one.reason,
            ])  # fmt: skip
        case outcome.FiberDropped(resource, fiber_id):
            query = "DELETE FROM fiber WHERE resource = ? AND fiber_id = ?"
            yield query, (resource, fiber_id)
        case outcome.DependencyAdded(one):
            blocking = one.type in BLOCKING_TYPES
            cells = [one.issue_id, one.depends_on_id, one.type, one.created_by, blocking]
            yield _put(DEPENDENCY, cells)
        case outcome.DependencyDropped(one):
            query = "DELETE FROM dependency WHERE (issue_id, depends_on_id, type) = (?, ?, ?)"
            yield query, (one.issue_id, one.depends_on_id, one.type)
        case outcome.JobPut(job):
            yield _put(JOB, _job(job))
        case outcome.LimitPut(limit):
            yield _put(KIND_LIMIT, [getattr(limit, name) for name, _ in KIND_LIMIT.columns])
        case outcome.LimitDropped(kind):
            yield "DELETE FROM kind_limit WHERE kind = ?", (kind,)
        case outcome.SchedulePut(schedule):
            yield _put(SCHEDULE, [getattr(schedule, name) for name, _ in SCHEDULE.columns])
        case outcome.ScheduleDropped(schedule_id):
            yield "DELETE FROM schedule WHERE schedule_id = ?", (schedule_id,)
        case outcome.PausePut(one):
            yield _put(PAUSE, [one.scope, one.reason, one.by_name, one.since_ms])
        case outcome.PauseDropped(scope):
            yield "DELETE FROM pause WHERE scope = ?", (scope,)
        case outcome.SpendPut(spend):
            costs = (*_amount(spend.total), *_amount(spend.attempt))
            yield _put(SPEND, [spend.resource, spend.fence, *costs, spend.reported_ms])
        case outcome.TallyPut(tally):
            cells = [tally.scope, *_amount(tally.total), tally.day, *_amount(tally.today)]
            yield _put(TALLY, cells)
        case outcome.BudgetPut(budget):
            yield _put(BUDGET, [budget.scope, budget.per, *_amount(budget.most), budget.set_ms])
        case outcome.BudgetDropped(scope, per):
            yield "DELETE FROM budget WHERE (scope, per) = (?, ?)", (scope, per)
        case outcome.CoverPut(one):
            yield _put(COVER, [
                one.cover_id, one.target, one.base, one.order, one.issue_ids, one.taken_out,
                one.state, one.reason, one.made_seq, one.made_ms,
            ])  # fmt: skip
            yield _FORGET_COVERS
        case outcome.SectionPut(one):
            yield _put(SECTION, [
                one.issue_id, one.fence, one.lease_id, one.owner, one.target, one.base, one.commit,
                one.tree, one.path_count, one.paths_digest, one.witness, one.cover_id, one.seq,
                one.recorded_ms, one.state,
            ])  # fmt: skip
        case outcome.TargetPut(one):
            move = one.pending
            pending = (move.old, move.new, move.section_ids, move.fence) if move else (None,) * 4
            yield _put(TARGET, [one.target, one.head, one.glued, *pending])
        case outcome.ObstructionPut(one):
            yield _put(OBSTRUCTION, [
                one.obstruction_id, one.target, one.section_id, one.others, one.kind, one.onto,
                one.paths, one.check, one.witness, one.ended, one.new_id, one.seq, one.at_ms,
            ])  # fmt: skip
            yield _FORGET_OBSTRUCTIONS
        case outcome.SpecPut(spec):
            yield _put(CHAIN_SPEC, _spec(spec))
        case outcome.SpecMoved():
            yield _moved(change)
        case (
            outcome.PolicySet() | outcome.ChecksSet() | outcome.WitnessPut() | outcome.DecisionPut()
            | outcome.Answered() | outcome.Lapsed() | outcome.HandoverPut() | outcome.SessionPut()
            | outcome.SessionDropped() | outcome.FeaturePut() | outcome.JobQuarantined()
            | outcome.DirectivePut() | outcome.MemberPut() | outcome.MemberDropped()
            | outcome.Designated() | outcome.OperationAdmitted() | outcome.JobsDue()
            | outcome.LimitDrawn() | outcome.OverlapPut()
        ):  # fmt: skip
            pass  # the tables show work and leases
        case _:
            assert_never(change)


def _granted(lease: Lease) -> Iterator[Statement]:
    """A lease, and the end of whatever hung on the one before; an extension ends nothing."""
    kind, _, name = lease.resource.partition("/")
    if kind == "issue" and not lease.renewals:
        yield from _ended(lease.resource, f" AND {_SUPERSEDED}", (lease.resource, lease.fence))
    yield _put(LEASE, [
        lease.resource, lease.lease_id, lease.owner, lease.fence, lease.ttl_ms, lease.granted_ms,
        lease.deadline_ms, lease.renewed_ms, lease.renewals, lease.state,
    ])  # fmt: skip
    if table := _APART.get(kind):
        yield _put(table, [
            name, lease.owner, lease.lease_id, lease.fence, lease.ttl_ms, lease.granted_ms,
            lease.deadline_ms, lease.renewals,
        ])  # fmt: skip


def _dropped(resource: str) -> Iterator[Statement]:
    kind, _, name = resource.partition("/")
    yield "DELETE FROM lease WHERE resource = ?", (resource,)
    if kind == "issue":
        yield from _ended(resource)
    if table := _APART.get(kind):
        yield f"DELETE FROM {table.name} WHERE {table.key[0]} = ?", (name,)


def _ended(resource: str, also: str = "", values: Sequence[Cell] = ()) -> Iterator[Statement]:
    """The term is over: what hung on it is gone, and what still ran is orphaned."""
    for table in ("sublease", "instance"):
        yield f"DELETE FROM {table} WHERE resource = ?{also}", (resource, *values)
    query = f"DELETE FROM fiber WHERE resource = ? AND state <> 'running'{also}"
    yield query, (resource, *values)
    query = f"UPDATE fiber SET state = 'orphaned' WHERE resource = ?{also}"
    yield query, (resource, *values)


def _amount(amount: Amount) -> tuple[int, int, int]:
    return amount.tokens, amount.usd_micros, amount.milliseconds


def _spec(spec: Spec) -> list[object]:
    return [
        spec.spec_id, spec.title, spec.state, len(spec.steps), spec.created, spec.digest,
        spec.author, spec.submitted_ms, spec.materialized_ms,
    ]  # fmt: skip


def _moved(change: outcome.SpecMoved) -> Statement:
    query = (
        "UPDATE chain_spec SET status = ?, materialized = ?, materialized_ms = ? WHERE spec_id = ?"
    )
    return query, _cells([change.state, change.created, change.materialized_ms, change.spec_id])


def _job(job: JobRecord) -> list[object]:
    sent, order = job.dispatched, job.ordered
    status = "dispatched" if sent and job.state is JobState.PENDING else job.state
    return [
        job.job_id, job.spec_id or None, job.step_key or None, job.kind, status, job.payload,
        job.author, job.attempts, excused_of(job), job.fence, job.scheduled_ms, job.completed_ms,
        job.completed_by or None, job.reason or None, sent and sent.at_ms, sent and sent.by,
        sent and sent.file, order.priority, order.run_at_ms or None, order.timeout_ms or None,
        job.approval, job.steered_by,
    ]  # fmt: skip


def _put(table: Table, values: Iterable[object]) -> Statement:
    return _UPSERTS[table.name], _cells(values)


def _cells(values: Iterable[object]) -> list[Cell]:
    return [_cell(value) for value in values]


def _cell(value: object) -> Cell:
    if value is None or value is UNSET:
        return None
    if isinstance(value, str):
        return str(value)  # a name of ours is more than its text
    if isinstance(value, int):
        return int(value)  # what is true is 1
    assert isinstance(value, tuple | list), value
    return "\n".join(value)
