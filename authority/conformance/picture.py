"""What the SQL tables have to show, worked out from the state instead of from the changes."""

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from ...contracts import (
    BLOCKING_TYPES,
    Amount,
    Budget,
    Cover,
    GlueTarget,
    JobRecord,
    JobState,
    Lease,
    Obstruction,
    Section,
    Spec,
    Tally,
    WorkSpend,
    excused_of,
    is_dispatch,
    is_spec,
)
from ..journal.journal import SqlTables
from ..journal.tables import SCHEMA
from ..law.state import State

Rows = list[tuple[Any, ...]]


def painted(state: State) -> dict[str, Rows]:
    """All tables but the watermark, each in an order of its own."""
    leases = state.leases.values()
    records: dict[str, Iterable[dict[str, Any]]] = {
        "issue": map(_members, state.issues.values()),
        "dependency": (
            _members(each) | {"blocking": each.type in BLOCKING_TYPES}
            for links in state.dependencies.values()
            for each in links
        ),
        "lease": map(_members, leases),
        "sublease": _nested(state.subleases),
        "instance": _nested(state.instances),
        "fiber": _nested(state.fibers),
        "chain_spec": map(_spec, state.lane.specs.values()),
        "job": map(_job, state.lane.jobs.values()),
        "kind_limit": map(_members, state.lane.limits.values()),
        "schedule": map(_members, state.lane.schedules.values()),
        "spend": map(_spend, state.spends.values()),
        "tally": map(_tally, state.tallies.values()),
        "budget": (_budget(one) for each in state.budgets.values() for one in each.values()),
        "spec_lease": (_term("spec_id", one) for one in leases if is_spec(one.resource)),
        "pause": map(_members, state.pauses.values()),
        "cover": map(_cover, state.descent.covers.values()),
        "section": map(_section, state.descent.sections.values()),
        "glue_target": map(_target, state.descent.targets.values()),
        "obstruction": map(_obstruction, state.descent.obstructions.values()),
        "dispatch_lease": (_term("job_id", one) for one in leases if is_dispatch(one.resource)),
    }
    columns = {table.name: [name for name, _ in table.columns] for table in SCHEMA}
    return {
        name: sorted((tuple(_cell(each[column]) for column in columns[name]) for each in found),
                     key=repr)
        for name, found in records.items()
    }  # fmt: skip


def hung(tables: SqlTables) -> dict[str, Rows]:
    """The same, as the tables have it."""
    names = [table.name for table in SCHEMA if table.name != "watermark"]
    return {name: sorted(tables.rows(name), key=repr) for name in names}


def faults(tables: SqlTables, state: State, seq: int) -> list[str]:
    """Where the tables differ from what they have to show."""
    found = [] if tables.watermark() == seq else [f"they show row {tables.watermark()} of {seq}"]
    seen = hung(tables)
    for name, rows in painted(state).items():
        if seen[name] != rows:
            found.append(f"`{name}` has {seen[name]} instead of {rows}")
    return found


def _spend(spend: WorkSpend) -> dict[str, Any]:
    return _members(spend) | _members(spend.total) | _prefixed("attempt_", spend.attempt)


def _tally(tally: Tally) -> dict[str, Any]:
    return _members(tally) | _members(tally.total) | _prefixed("day_", tally.today)


def _budget(budget: Budget) -> dict[str, Any]:
    return _members(budget) | {f"{name}_max": cap for name, cap in _members(budget.most).items()}


def _cover(cover: Cover) -> dict[str, Any]:
    return _members(cover) | {"order_by": cover.order, "status": cover.state}


def _section(section: Section) -> dict[str, Any]:
    return _members(section) | {"commit_id": section.commit, "status": section.state}


def _target(target: GlueTarget) -> dict[str, Any]:
    names, pending = ("old", "new", "sections", "fence"), target.pending
    move = (pending.old, pending.new, pending.section_ids, pending.fence) if pending else [None] * 4
    named = zip((f"pending_{name}" for name in names), move, strict=True)
    return _members(target) | dict(named)


def _obstruction(obstruction: Obstruction) -> dict[str, Any]:
    return _members(obstruction) | {"check_id": obstruction.check}


def _prefixed(prefix: str, amount: Amount) -> dict[str, Any]:
    return {f"{prefix}{name}": value for name, value in _members(amount).items()}


def _nested(nested: dict[str, dict[str, Any]]) -> Iterable[dict[str, Any]]:
    return (_members(one) for each in nested.values() for one in each.values())


def _members(record: Any) -> dict[str, Any]:
    members = {name: getattr(record, name) for name in record.__struct_fields__}
    return members | ({"excused": excused_of(record)} if "excused" in members else {})


def _spec(spec: Spec) -> dict[str, Any]:
    counts = {"status": spec.state, "steps": len(spec.steps), "materialized": spec.created}
    return _members(spec) | counts


def _job(job: JobRecord) -> dict[str, Any]:
    order = job.ordered
    members = _members(job) | {"status": job.state, "priority": order.priority}
    members |= {"run_at_ms": order.run_at_ms or None, "timeout_ms": order.timeout_ms or None}
    for name in ("spec_id", "step_key", "completed_by", "reason"):
        members[name] = members[name] or None
    sent = job.dispatched
    if sent is None:
        return members | {"dispatched_ms": None, "dispatched_by": None, "file": None}
    if job.state is JobState.PENDING:
        members["status"] = "dispatched"
    return members | {"dispatched_ms": sent.at_ms, "dispatched_by": sent.by, "file": sent.file}


def _term(key: str, lease: Lease) -> dict[str, Any]:
    named = {"owner_id": lease.owner, "expires_ms": lease.deadline_ms}
    return _members(lease) | named | {key: lease.resource.partition("/")[2]}


def _cell(value: object) -> str | int | None:
    if isinstance(value, tuple | list):  # a list where it was read from a row
        return "\n".join(value)
    if isinstance(value, str):
        return str(value)
    assert value in (None, UNSET) or isinstance(value, int)
    return int(value) if isinstance(value, int) else None
