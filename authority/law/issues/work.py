"""Issues: how they come, change and end. A leased issue is changed by its holder alone."""

from dataclasses import replace as replaced
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ....contracts import (
    AddIssue,
    CloseIssue,
    Dependency,
    DiscoverIssue,
    ImportIssues,
    Issue,
    Lease,
    LeaseState,
    Move,
    Reason,
    RecordedIssue,
    RecordedLease,
    UpdateIssue,
    excused_of,
    issue_of,
    issue_resource,
    limits,
    record_problem,
    rfc3339,
)
from ..checks.required import refuse_unattested
from ..descent.cover import follow
from ..fiber import still_open
from ..lease import persons, step, touch
from ..outcome import (
    Accepted,
    Change,
    DependencyAdded,
    IssueAdded,
    IssueSet,
    LeaseDropped,
    LeasePut,
    Outcome,
    Refused,
)
from ..state import State
from ..turn import Turn
from ..view import issue_view, orphaned_view

# Members that an update may carry, beside status and assignee, which have rules of their own.
_PLAIN = (
    "title", "description", "design", "acceptance_criteria", "notes", "priority", "issue_type",
    "owner", "labels", "scope",
)  # fmt: skip
_RECORDED = set(Issue.__struct_fields__) & set(RecordedIssue.__struct_fields__)


def add(turn: Turn, request: AddIssue) -> Outcome:
    """A new open issue; without an id it is named after its row."""
    issue_id = request.id or _fresh_id(turn)
    refusal = _no_room(turn.state, issue_id)
    if refusal is not None:
        return refusal
    issue = _fresh(
        turn,
        request,
        issue_id,
        design=request.design,
        acceptance_criteria=request.acceptance_criteria,
        notes=request.notes,
        assignee=request.assignee.strip(),
        owner=request.owner.strip(),
        ephemeral=request.ephemeral,
        scope=tuple(dict.fromkeys(request.scope)) or UNSET,
    )
    body = {"changed": True, "issue": issue_view(issue, None, turn.stamp.wall_ms)}
    return Accepted((IssueAdded(issue),), body, issue_id)


def update(turn: Turn, request: UpdateIssue) -> Outcome:
    """Change members of an issue. A status other than in_progress ends the lease.

    To close it is to complete it, and asks for the same: no fiber may run, and the required checks
    have passed where the policy demands that. To give it up is not.
    """
    state = turn.state
    reopening = _reopens(state, request)
    lease = None if reopening else touch(turn, request, "issue.update")
    if isinstance(lease, Refused):
        return lease
    issue = state.issues[request.id]
    settles = request.status is not None or request.issue_type not in (None, issue.issue_type)
    refusal = persons(turn, issue) if settles else None
    if refusal is not None:
        return refusal
    members = {
        name: value
        for name in _PLAIN
        if (value := _clean(name, getattr(request, name))) is not None
        and value != _plain(issue, name)
    }
    if request.afresh and lease is not None:
        detail = f"issue {issue.id}: its holder cannot forgive its attempts"
        return Refused(Reason.ISSUE_PAYLOAD_INVALID, detail, issue.id, lease.fence)
    if request.afresh and excused_of(issue) != issue.attempts:
        members["excused"] = issue.attempts
    if request.new_assignee is not None:
        members["assignee"] = request.new_assignee.strip()
    if request.status is not None and request.status != issue.status:
        if request.status not in ("open", "blocked", "closed"):
            detail = f"issue {issue.id}: {request.status}"
            return Refused(Reason.ISSUE_STATUS_INVALID, detail, issue.id)
        refusal = refuse_unattested(state, issue.id) if request.status == "closed" else None
        if refusal is not None:
            return refusal
        if lease is None:
            return _move(turn, issue, None, request.status, members)
        return _end(turn, lease, request.status, members)
    if lease is not None and _mends(state, issue, lease, members):
        lease = replace(lease, state=step(turn, lease.resource, Move.RECONCILE))
        accepted = _set(turn, issue, lease, members)
        return Accepted((*accepted.changes, LeasePut(lease)), accepted.body, issue.id, lease.fence)
    return _set(turn, issue, lease, members)


def close(turn: Turn, request: CloseIssue) -> Outcome:
    """The work is done, and nothing of it runs any more; its lease ends with it."""
    lease = touch(turn, request, "issue.close")
    if isinstance(lease, Refused):
        return lease
    refusal = persons(turn, turn.state.issues[request.id]) or refuse_unattested(
        turn.state, request.id
    )
    if refusal is not None:
        return refusal
    if lease is None:
        return _move(turn, turn.state.issues[request.id], None, "closed", {})
    return _end(turn, lease, "closed", {})


def discover(turn: Turn, request: DiscoverIssue) -> Outcome:
    """A new issue that was found while working on another; it remembers where it came from."""
    lease = touch(turn, request, "issue.discover")
    if isinstance(lease, Refused):
        return lease
    issue_id = request.new_id or _fresh_id(turn)
    refusal = _no_room(turn.state, issue_id)
    if refusal is not None:
        return refusal
    issue = _fresh(turn, request, issue_id)
    origin = Dependency(issue_id, request.id, "discovered-from")
    body = {
        "changed": True,
        "discoveredFrom": request.id,
        "issue": issue_view(issue, None, turn.stamp.wall_ms),
    }
    fence = lease.fence if lease else None
    return Accepted((IssueAdded(issue), DependencyAdded(origin)), body, request.id, fence)


def import_issues(turn: Turn, request: ImportIssues) -> Outcome:
    """Take over records of `issues.jsonl`. A live or lapsed lease comes along, with a fence.

    A fence is a row's number, so a row takes one leased record, or many that are not leased.
    """
    leased = sum(record.lease is not None for record in request.records)
    if leased and len(request.records) > 1:
        detail = "a leased record shares its row with others"
        return Refused(Reason.ISSUE_PAYLOAD_INVALID, detail)
    changes: list[Change] = []
    seen: set[str] = set()
    for record in request.records:
        refusal = _no_room(turn.state, record.id, len(seen))
        if refusal is not None or record.id in seen:
            return refusal or Refused(Reason.ISSUE_EXISTS, f"issue {record.id}", record.id)
        seen.add(record.id)
        taken = _import(turn, record)
        if isinstance(taken, Refused):
            return taken
        changes += taken
    fence = turn.stamp.seq if leased else None
    return Accepted(tuple(changes), {"changed": bool(changes), "imported": len(seen)}, fence=fence)


def _reopens(state: State, request: UpdateIssue) -> bool:
    """Open a closed issue again: explicit, and never by one who thinks they hold it."""
    issue = state.issues.get(request.id)
    if issue is None or issue.status != "closed" or request.status != "open":
        return False
    return not request.lease_id and not request.sublease_id and request.fence is None


def _mends(state: State, issue: Issue, lease: Lease, members: dict[str, Any]) -> bool:
    """Whether an update is a reconciliation by hand: it names the owner again."""
    named_again = issue.status == "in_progress" and members.get("assignee") == lease.owner
    return named_again and lease.resource in state.torn


def _end(turn: Turn, lease: Lease, status: str, members: dict[str, Any]) -> Outcome:
    """The holder is through with it: done, where nothing of it runs any more, or given up."""
    issue = turn.state.issues[issue_of(lease.resource)]
    running = turn.state.running(lease.resource)
    if status == "closed" and running:
        return still_open(issue.id, running, lease)
    step(turn, lease.resource, Move.COMPLETE if status == "closed" else Move.RELEASE)
    accepted = _move(turn, issue, lease, status, members)
    accepted.body.update(orphaned_view(turn.state, lease.resource))
    return accepted


def _move(
    turn: Turn, issue: Issue, lease: Lease | None, status: str, members: dict[str, Any]
) -> Accepted:
    members["status"] = status
    if status == "closed":
        members["closed_at"] = rfc3339.record_text(turn.stamp.wall_ms)
    elif issue.closed_at:
        members["closed_at"] = ""
    if status == "open":
        members.setdefault("assignee", "")
    accepted = _set(turn, issue, None, members)
    changes = (*accepted.changes, *follow(turn.state, issue.id, status))
    if lease is None:
        return replaced(accepted, changes=changes)
    return Accepted((LeaseDropped(lease.resource), *changes), accepted.body, issue.id, lease.fence)


def _set(turn: Turn, issue: Issue, lease: Lease | None, members: dict[str, Any]) -> Accepted:
    fence = lease.fence if lease else None
    if not members:
        body = {"changed": False, "issue": issue_view(issue, lease, turn.stamp.wall_ms)}
        return Accepted((), body, issue.id, fence)
    members["updated_at"] = rfc3339.record_text(turn.stamp.wall_ms)
    issue = replace(issue, **members)
    body = {"changed": True, "issue": issue_view(issue, lease, turn.stamp.wall_ms)}
    return Accepted((IssueSet(issue.id, members),), body, issue.id, fence)


def _plain(issue: Issue, name: str) -> Any:
    return () if name == "scope" and issue.scope is UNSET else getattr(issue, name)


def _clean(name: str, value: Any) -> Any:
    """A member as `add` would have taken it."""
    if name in ("labels", "scope") and value is not None:
        return tuple(dict.fromkeys(value))
    return value.strip() if name == "owner" and value is not None else value


def _fresh(
    turn: Turn,
    request: AddIssue | DiscoverIssue,
    issue_id: str,
    **members: Any,
) -> Issue:
    now = rfc3339.record_text(turn.stamp.wall_ms)
    return Issue(
        id=issue_id,
        title=request.title,
        description=request.description,
        priority=request.priority,
        issue_type=request.issue_type,
        labels=tuple(dict.fromkeys(request.labels)),
        created_at=now,
        updated_at=now,
        **members,
    )


def _fresh_id(turn: Turn) -> str:
    issue_id = f"us-{turn.stamp.seq}"
    while issue_id in turn.state.issues:
        issue_id += "x"
    return issue_id


def _no_room(state: State, issue_id: str, pending: int = 0) -> Refused | None:
    if issue_id in state.issues:
        return Refused(Reason.ISSUE_EXISTS, f"issue {issue_id}", issue_id)
    if len(state.issues) + pending >= limits.ISSUES_MAX:
        return Refused(Reason.ISSUES_FULL, f"issue {issue_id}", issue_id)
    return None


# --- records of issues.jsonl --------------------------------------------------------------------


def _import(turn: Turn, record: RecordedIssue) -> list[Change] | Refused:
    problem = record_problem(record)
    if problem is not None:
        detail = f"issue {record.id}: {problem}"
        return Refused(Reason.ISSUE_PAYLOAD_INVALID, detail, record.id)
    for text in (record.created_at, record.updated_at, record.closed_at):
        if text and rfc3339.parse_ms(text) is None:
            detail = f"issue {record.id}: {text} is no RFC 3339 moment"
            return Refused(Reason.ISSUE_PAYLOAD_INVALID, detail, record.id)
    members = {name: getattr(record, name) for name in _RECORDED}
    members["scope"] = record.scope or UNSET
    issue = Issue(**members, attempts=1 if record.lease else 0)
    changes: list[Change] = [IssueAdded(issue)]
    for each in record.dependencies:
        link = Dependency(record.id, each.depends_on_id, each.type, each.created_by, each.extra)
        changes.append(DependencyAdded(link))
    if record.lease is not None and record.status != "closed":
        lease = _import_lease(turn, record.id, record.lease)
        if isinstance(lease, Refused):
            return lease
        changes.append(LeasePut(lease))
    return changes


def _import_lease(turn: Turn, issue_id: str, lease: RecordedLease) -> Lease | Refused:
    granted_ms, deadline_ms = (rfc3339.parse_ms(t) for t in (lease.acquired_at, lease.expires_at))
    renewed_ms = rfc3339.parse_ms(lease.renewed_at) if lease.renewed_at else None
    if granted_ms is None or deadline_ms is None or (lease.renewed_at and renewed_ms is None):
        detail = f"issue {issue_id}: a time of its lease is no RFC 3339 moment"
        return Refused(Reason.ISSUE_PAYLOAD_INVALID, detail, issue_id)
    return Lease(
        resource=issue_resource(issue_id),
        lease_id=lease.lease_id,
        owner=lease.owner,
        fence=turn.stamp.seq,
        ttl_ms=max(0, deadline_ms - granted_ms),
        granted_ms=granted_ms,
        deadline_ms=deadline_ms,
        renewed_ms=renewed_ms,
        renewals=int(renewed_ms is not None),
        state=LeaseState.ACTIVE if renewed_ms is None else LeaseState.RENEWED,
    )
