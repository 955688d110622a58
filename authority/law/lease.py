"""Who may act on a leased resource, and how a lease changes hands.

`grant` begins every term and `extend` makes one longer, of issues here and of all else in `term`.
`hold` is the guard ladder of a fenced action; its numbers are quoted by the contract, by C and by
tests. Everything here is pure: the time is the stamp's, and a fence is the stamp's sequence number.
"""

import re
from collections.abc import Iterator
from heapq import merge
from typing import Any, NamedTuple, TypeGuard

from msgspec.structs import replace

from ...contracts import (
    ALL_WORK,
    ESCALATION,
    TRANSITIONS,
    Break,
    ClaimIssue,
    ClaimNext,
    Issue,
    JobRecord,
    Lease,
    LeaseState,
    Move,
    OfHolder,
    Reason,
    Reconcile,
    ReleaseIssue,
    Renew,
    Stamp,
    Sublease,
    TimedHeld,
    TimedMutation,
    YieldJob,
    excused_of,
    is_cancelled,
    is_issue,
    issue_of,
    issue_resource,
    limits,
    rfc3339,
)
from .budget import forbids
from .descent.queue import is_gluing
from .outcome import (
    Accepted,
    Change,
    IssueSet,
    Lapsed,
    LeaseDropped,
    LeasePut,
    Outcome,
    Refused,
)
from .scope import withheld
from .state import Rank, State
from .turn import Turn
from .view import issue_view, lease_projection, orphaned_view, steered_view

# --- the life of a lease ---------------------------------------------------------------------


def phase(state: State, resource: str, wall_ms: int) -> LeaseState:
    """Where a resource's lease stands at a moment; issues remember that they had one."""
    lease = state.leases.get(resource)
    if lease is None:
        before = is_issue(resource) and state.issues[issue_of(resource)].attempts
        return LeaseState.RELEASED if before else LeaseState.UNCLAIMED
    if wall_ms > lease.deadline_ms:
        return LeaseState.EXPIRED
    return LeaseState.CONTENDED if resource in state.torn else lease.state


def step(turn: Turn, resource: str, move: Move) -> LeaseState:
    """Where a move leads. The guards let no other move through; one that got here is our bug."""
    return TRANSITIONS[phase(turn.state, resource, turn.stamp.wall_ms), move]


def is_live(lease: Lease | None, stamp: Stamp) -> TypeGuard[Lease]:
    """Whether there is a lease that holds; on the tick of its deadline it still does."""
    return lease is not None and stamp.wall_ms <= lease.deadline_ms


def grant(turn: Turn, resource: str, owner: str, lease_id: str, deadline_ms: int) -> Lease:
    """A new term with a new fence. The holder before is kept out by the old one."""
    move = Move.CLAIM if turn.state.leases.get(resource) is None else Move.RECLAIM
    return Lease(
        resource=resource,
        lease_id=lease_id,
        owner=owner,
        fence=turn.stamp.seq,
        ttl_ms=deadline_ms - turn.stamp.wall_ms,
        granted_ms=turn.stamp.wall_ms,
        deadline_ms=deadline_ms,
        state=step(turn, resource, move),
    )


def extend(turn: Turn, lease: Lease, deadline_ms: int) -> Lease:
    """The same term with another deadline; its fence stays."""
    return replace(
        lease,
        deadline_ms=deadline_ms,
        ttl_ms=deadline_ms - turn.stamp.wall_ms,
        renewed_ms=turn.stamp.wall_ms,
        renewals=lease.renewals + 1,
        state=step(turn, lease.resource, Move.RENEW),
    )


def holder_text(lease: Lease, name: str) -> str:
    """Who holds what, and until when, for people."""
    return f"{name}: {lease.owner} until {rfc3339.answer_text(lease.deadline_ms)}"


# --- the ladder ---------------------------------------------------------------------------------


def hold(turn: Turn, request: OfHolder, action: str) -> Lease | Refused:
    """The lease, where the request comes from its live holder; else the first reason why not."""
    name = f"issue {request.id}"
    issue = turn.state.issues.get(request.id)
    if issue is None:  # 1
        return Refused(Reason.LEASE_NOT_FOUND, name, request.id)
    if issue.status == "closed":  # 2
        return Refused(Reason.ISSUE_CLOSED, name, request.id)
    sublease = None
    lease = turn.state.leases.get(issue_resource(request.id))
    if lease is not None and request.sublease_id is not None:
        sublease = turn.state.subleases.get(lease.resource, {}).get(request.sublease_id)
    shown = ShownLease(request.assignee, request.lease_id, request.fence, request.sublease_id)
    held = fenced(lease, shown, turn.stamp, name, sublease)
    if isinstance(held, Refused):
        return held.about(issue_id=request.id)
    if sublease and action not in sublease.capability_scope:  # 10
        detail = f"{name}: sublease {sublease.sublease_id} for {action}"
        return Refused(Reason.CAPABILITY_MISSING, detail, request.id, held.fence)
    return held


class ShownLease(NamedTuple):
    """What a request shows of the lease that it believes to hold."""

    owner: str | None
    lease_id: str | None
    fence: int | None
    sublease_id: str | None = None


def fenced(
    lease: Lease | None,
    shown: ShownLease,
    stamp: Stamp,
    name: str,
    sublease: Sublease | None = None,
) -> Lease | Refused:
    """The part of the ladder that asks for a lease and its fence, whatever is leased."""
    if lease is None:  # 3
        return Refused(Reason.LEASE_MISSING, name)
    if shown.fence is None:  # 4
        return Refused(Reason.FENCE_MISSING, name, fence=lease.fence)
    if shown.fence > lease.fence:  # 5: never issued for it
        detail = f"{name}: fence {shown.fence}, current {lease.fence}"
        return Refused(Reason.FENCE_UNKNOWN, detail, fence=lease.fence)
    if shown.fence < lease.fence:  # 6: a newer holder has it
        detail = f"{name}: fence {shown.fence}, current {lease.fence} of {lease.owner}"
        return Refused(Reason.FENCE_STALE, detail, fence=lease.fence)
    deadline_ms = min(lease.deadline_ms, sublease.deadline_ms) if sublease else lease.deadline_ms
    if stamp.wall_ms > deadline_ms:  # 7: on the tick itself it still holds
        detail = f"{name}: it held until {rfc3339.answer_text(deadline_ms)}"
        return Refused(Reason.LEASE_STALE, detail, fence=lease.fence)
    if (shown.owner or "").strip() != (sublease.holder if sublease else lease.owner):  # 8
        return Refused(Reason.OWNER_MISMATCH, name, fence=lease.fence)
    if shown.lease_id != lease.lease_id or (shown.sublease_id and not sublease):  # 9
        return Refused(Reason.LEASE_ID_MISMATCH, name, fence=lease.fence)
    return lease


def touch(turn: Turn, request: OfHolder, action: str) -> Lease | Refused | None:
    """As `hold`, for changes that need no lease where there is none and none is presented."""
    outcome = hold(turn, request, action)
    believes = request.lease_id or request.sublease_id or request.fence is not None
    if isinstance(outcome, Refused) and outcome.reason is Reason.LEASE_MISSING and not believes:
        return None
    return outcome


# --- claims -------------------------------------------------------------------------------------


def claim(turn: Turn, request: ClaimIssue) -> Outcome:
    """Grant the issue to the first who asks; give its live holder more time; refuse the rest."""
    assignee = request.assignee.strip()
    if not assignee:
        return Refused(Reason.ASSIGNEE_INVALID, f"issue {request.id}", request.id)
    deadline_ms = deadline_of(request, turn.stamp)
    if isinstance(deadline_ms, Refused):
        return deadline_ms
    issue = turn.state.issues.get(request.id)
    if issue is None:
        return Refused(Reason.LEASE_NOT_FOUND, f"issue {request.id}", request.id)
    if issue.status == "closed":
        return Refused(Reason.ISSUE_CLOSED, f"issue {request.id}", request.id)
    obstacle = persons(turn, issue) or _obstacle(turn, issue, assignee, request.fence)
    obstacle = obstacle or _steered(turn, issue)
    if obstacle is not None:
        return obstacle
    return _lease_out(turn, issue, assignee, request.lease_id, deadline_ms)


def persons(turn: Turn, issue: Issue) -> Refused | None:
    """An escalation waits for a person, who comes through the door of the command line."""
    if issue.issue_type != ESCALATION or turn.door in ("cli", "local-repl"):
        return None
    return Refused(Reason.PERSON_REQUIRED, f"issue {issue.id}", issue.id)


def claim_next(turn: Turn, request: ClaimNext) -> Outcome:
    """Grant the first claimable issue: by priority, then age, then id; lapsed ones included."""
    assignee = request.assignee.strip()
    if not assignee:
        return Refused(Reason.ASSIGNEE_INVALID, "claim_next")
    deadline_ms = deadline_of(request, turn.stamp)
    if isinstance(deadline_ms, Refused):
        return deadline_ms
    waiting: list[str] = []
    for place in _waiting(turn) if ALL_WORK not in turn.state.pauses else ():
        issue = turn.state.issues[place.issue_id]
        if not _wanted(issue, request):
            continue
        obstacle = _obstacle(turn, issue, assignee, None) or _steered(turn, issue)
        if obstacle is None:
            accepted = _lease_out(turn, issue, assignee, request.lease_id, deadline_ms)
            return _file_lapsed(turn, accepted)
        if obstacle.reason is Reason.APPROVAL_MISSING:
            waiting.append(issue.id)
    body = {"changed": False, "leaseProjection": lease_projection(turn.state, turn.stamp.wall_ms)}
    return _file_lapsed(turn, Accepted(body=body | steered_view(turn.state, "issue", waiting)))


def _waiting(turn: Turn) -> Iterator[Rank]:
    """Open work and lapsed work, in the order in which it is handed out."""
    fresh = turn.state.deadlines.irange(None, (turn.stamp.wall_ms, ""), (True, False))
    lapsed = sorted(turn.state.ranks[issue_of(resource)] for _, resource in fresh)
    return merge(turn.state.ready, turn.state.overdue, lapsed)


def _wanted(issue: Issue, request: ClaimNext) -> bool:
    if issue.issue_type == ESCALATION:  # lapsed: the person who had it is asked again
        return False
    if request.issue_type is not None and issue.issue_type != request.issue_type:
        return False
    if request.assigned_to is not None and issue.assignee != request.assigned_to:
        return False
    return all(label in issue.labels for label in request.labels)


def _file_lapsed(turn: Turn, accepted: Accepted) -> Accepted:
    """File what has lapsed meanwhile, so that the next call does not look at it again."""
    if not turn.state.deadlines.bisect_left((turn.stamp.wall_ms, "")):
        return accepted
    changes = (Lapsed(turn.stamp.wall_ms), *accepted.changes)
    return Accepted(changes, accepted.body, accepted.issue_id, accepted.fence)


def _obstacle(turn: Turn, issue: Issue, assignee: str, fence: int | None) -> Refused | None:
    """Why this claimant cannot have this issue now."""
    name = f"issue {issue.id}"
    lease = turn.state.leases.get(issue_resource(issue.id))
    if is_live(lease, turn.stamp):
        if lease.owner != assignee:
            detail = holder_text(lease, name)
            return Refused(Reason.LEASE_CONTENDED, detail, issue.id, lease.fence)
        if fence is not None and fence > lease.fence:
            return Refused(Reason.FENCE_UNKNOWN, name, issue.id, lease.fence)
        if fence is not None and fence < lease.fence:
            return Refused(Reason.FENCE_STALE, name, issue.id, lease.fence)
        return None
    if lease is None and issue.assignee not in ("", assignee):
        detail = f"{name}: it is assigned to {issue.assignee}"
        return Refused(Reason.LEASE_CONTENDED, detail, issue.id)
    if over := forbids(turn.state, issue, assignee, turn.stamp.wall_ms):
        return over
    blockers = turn.state.blockers(issue.id)
    if blockers or issue.status == "blocked":
        detail = f"{name}: waits for {', '.join(blockers[:3]) or 'somebody to unblock it'}"
        return Refused(Reason.ISSUE_BLOCKED, detail, issue.id)
    return None


def _steered(turn: Turn, issue: Issue) -> Refused | None:
    """Why no new term begins, by what people said; C hands back all work that they spoke of."""
    if is_live(turn.state.leases.get(issue_resource(issue.id)), turn.stamp):
        return None  # no new term
    if is_cancelled(issue):
        return Refused(Reason.ISSUE_CANCELLED, f"issue {issue.id}", issue.id)
    if is_gluing(turn.state, issue):
        return Refused(Reason.ISSUE_GLUING, f"issue {issue.id}", issue.id)
    return withheld(turn.state, issue)


def _lease_out(
    turn: Turn, issue: Issue, assignee: str, lease_id: str | None, deadline_ms: int
) -> Accepted:
    """A new term, with an attempt more; or, for the live holder, the same term made longer."""
    resource = issue_resource(issue.id)
    lease = turn.state.leases.get(resource)
    if is_live(lease, turn.stamp):
        return _put(turn, issue, extend(turn, lease, deadline_ms))
    lease_id = (lease_id or "").strip() or _derived_id(issue.id, assignee, turn.stamp.seq)
    lease = grant(turn, resource, assignee, lease_id, deadline_ms)
    members = {"assignee": assignee, "attempts": issue.attempts + 1, "status": "in_progress"}
    accepted = _put(turn, issue, lease, members)
    accepted.body.update(orphaned_view(turn.state, resource))
    return accepted


def _derived_id(issue_id: str, owner: str, fence: int) -> str:
    return f"lease1_{_token(issue_id)}_{_token(owner)}_{fence}"


def _token(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", text).lower().strip("_") or "anon"


# --- the holder's own moves ---------------------------------------------------------------------


def renew(turn: Turn, request: Renew) -> Outcome:
    """Move the deadline; keep the term and its fence."""
    if not (request.assignee or "").strip():
        return Refused(Reason.ASSIGNEE_INVALID, f"issue {request.id}", request.id)
    if request.lease_id is not None and not request.lease_id.strip():
        return Refused(Reason.LEASE_ID_MISMATCH, f"issue {request.id}", request.id)
    deadline_ms = deadline_of(request, turn.stamp)
    if isinstance(deadline_ms, Refused):
        return deadline_ms
    lease = hold(turn, request, "issue.lease_renew")
    if isinstance(lease, Refused):
        return lease
    return _put(turn, turn.state.issues[request.id], extend(turn, lease, deadline_ms))


def release(turn: Turn, request: ReleaseIssue) -> Outcome:
    """Give the work back, open and unassigned."""
    lease = hold(turn, request, "issue.lease_release")
    if isinstance(lease, Refused):
        return lease
    step(turn, lease.resource, Move.RELEASE)
    issue = turn.state.issues[request.id]
    return _drop(turn, issue, lease, lease.fence, excuse(issue, request))


def excuse(record: Issue | JobRecord, request: ReleaseIssue | YieldJob) -> dict[str, Any]:
    """What an orderly hand-back changes: its attempt is excused, up to a bound."""
    excused = excused_of(record)
    if not request.handed_back or excused >= limits.HAND_BACKS_MAX:
        return {}
    return {"excused": excused + 1}


def reconcile(turn: Turn, request: Reconcile) -> Outcome:
    """Make a record that disagrees with its lease follow the lease again."""
    lease = hold(turn, request, "issue.lease_reconcile")
    if isinstance(lease, Refused):
        return lease
    if lease.resource not in turn.state.torn:
        return Refused(Reason.NOT_CONTENDED, f"issue {request.id}", request.id, lease.fence)
    lease = replace(lease, state=step(turn, lease.resource, Move.RECONCILE))
    return _put(turn, turn.state.issues[request.id], lease)


def break_lease(turn: Turn, request: Break) -> Outcome:
    """An operator takes the lease away; the evidence has a greater fence than the broken lease."""
    name = f"issue {request.id}"
    if not request.reason.strip():
        return Refused(Reason.BREAK_REASON_MISSING, name, request.id)
    issue = turn.state.issues.get(request.id)
    if issue is None:
        return Refused(Reason.LEASE_NOT_FOUND, name, request.id)
    if issue.status == "closed":
        return Refused(Reason.ISSUE_CLOSED, name, request.id)
    lease = turn.state.leases.get(issue_resource(request.id))
    if lease is None:
        return Refused(Reason.LEASE_MISSING, name, request.id)
    step(turn, lease.resource, Move.BREAK)
    return _drop(turn, issue, lease, turn.stamp.seq)


def cut_short(turn: Turn, issue: Issue, lease: Lease, status: str) -> Accepted:
    """The authority ends a term whose work is not done; its holder shows the fence for nothing."""
    step(turn, lease.resource, Move.BREAK)
    return _drop(turn, issue, lease, lease.fence, {"status": status})


def _put(turn: Turn, issue: Issue, lease: Lease, members: dict[str, Any] | None = None) -> Accepted:
    """The lease as it is now. A record that disagrees with it is made to follow it."""
    if members is None and lease.resource in turn.state.torn:
        members = {"assignee": lease.owner, "status": "in_progress"}
    changes: list[Change] = []
    if members:
        members["updated_at"] = rfc3339.record_text(turn.stamp.wall_ms)
        issue = replace(issue, **members)
        changes.append(IssueSet(issue.id, members))
    changes.append(LeasePut(lease))
    body = {
        "changed": True,
        "issue": issue_view(issue, lease, turn.stamp.wall_ms),
        "leaseProjection": lease_projection(turn.state, turn.stamp.wall_ms, settled=lease.resource),
    }
    return Accepted(tuple(changes), body, issue.id, lease.fence)


def _drop(
    turn: Turn, issue: Issue, lease: Lease, fence: int, members: dict[str, Any] | None = None
) -> Accepted:
    now = rfc3339.record_text(turn.stamp.wall_ms)
    members = {"assignee": "", "updated_at": now} | (members or {})
    if issue.status == "in_progress":
        members.setdefault("status", "open")
    issue = replace(issue, **members)
    body = {
        "changed": True,
        "issue": issue_view(issue, None, turn.stamp.wall_ms),
        "leaseProjection": lease_projection(turn.state, turn.stamp.wall_ms, settled=lease.resource),
    } | orphaned_view(turn.state, lease.resource)
    changes = (LeaseDropped(lease.resource), IssueSet(issue.id, members))
    return Accepted(changes, body, issue.id, fence)


# --- how long -----------------------------------------------------------------------------------


def deadline_of(request: TimedMutation | TimedHeld, stamp: Stamp) -> int | Refused:
    """The deadline that a request asks for, in one of two ways."""
    ttl_seconds, text = request.lease_ttl_seconds, (request.lease_expires_at or "").strip()
    if text and ttl_seconds is not None:
        return Refused(Reason.EXPIRY_AMBIGUOUS, f"{ttl_seconds} seconds and {text}")
    if not text:
        ttl_seconds = limits.TTL_SECONDS_DEFAULT if ttl_seconds is None else ttl_seconds
        if not is_ttl(ttl_seconds * 1000):
            return Refused(Reason.TTL_INVALID, f"{ttl_seconds} seconds")
        return stamp.wall_ms + ttl_seconds * 1000
    deadline_ms = rfc3339.parse_ms(text)
    if deadline_ms is None:
        return Refused(Reason.EXPIRY_INVALID, text)
    if not is_ttl(deadline_ms - stamp.wall_ms):
        return Refused(Reason.EXPIRY_INVALID, text)
    return deadline_ms


def is_ttl(ttl_ms: int) -> bool:
    """Whether a lease may last so long, whatever is leased and however its time was asked for."""
    return limits.TTL_SECONDS_MIN * 1000 <= ttl_ms <= limits.TTL_SECONDS_MAX * 1000
