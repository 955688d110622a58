"""Leases on jobs, specs, dispatches and branches: one way to claim, renew and hold them.

What differs is data (`LeaseKind`). A claim that shows a lease asks for more time in the term of
that lease, and never gets a new one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ...contracts import (
    Lease,
    Reason,
    Stamp,
    TermClaim,
    TermHeld,
    dispatch_resource,
    glue_resource,
    job_resource,
    limits,
    spec_resource,
)
from .lease import ShownLease, extend, fenced, grant, holder_text, is_live, is_ttl
from .outcome import Accepted, Change, Refused
from .turn import Turn


class LeaseKind(NamedTuple):
    """How one kind of work is leased."""

    resource: Callable[[str], str]  # the key of its lease, by its id
    id_member: str  # what requests and outcomes call its id
    holder_member: str  # what requests call its holder
    lease_id: str  # of a new term, by the id and the number of the row
    ttl_ms_default: int
    shown_by: tuple[str, ...] = ("fence",)  # members of a claim that shows a lease
    must_end: Reason | None = None  # why an expired lease is in the way; None: it is replaced
    is_named: bool = True  # whether evidence has a member for the id, beside the resource

    def id_of(self, request: TermClaim | TermHeld) -> str:
        return str(getattr(request, self.id_member))

    def holder_of(self, request: TermClaim | TermHeld) -> str:
        return (getattr(request, self.holder_member) or "").strip()

    def lease_of(self, turn: Turn, key: str) -> Lease | None:
        return turn.state.leases.get(self.resource(key))

    def refuse(self, refusal: Refused, key: str) -> Refused:
        """The refusal, with what it is about."""
        return refusal.about(resource=self.resource(key), **self._named(key))

    def accept(self, lease: Lease, changes: tuple[Change, ...], body: dict[str, Any]) -> Accepted:
        """What was done under a lease."""
        named = self._named(lease.resource.partition("/")[2])
        return Accepted(changes, body, fence=lease.fence, resource=lease.resource, **named)

    def _named(self, key: str) -> dict[str, Any]:
        return {self.id_member: key} if self.is_named else {}


JOB = LeaseKind(
    resource=job_resource,
    id_member="job_id",
    holder_member="worker",
    lease_id="claim/{}/{}",
    ttl_ms_default=limits.TTL_SECONDS_DEFAULT * 1000,
    shown_by=("fence", "lease_id"),
    must_end=Reason.JOB_CLAIM_LAPSED,
)
SPEC = LeaseKind(
    resource=spec_resource,
    id_member="spec_id",
    holder_member="runner",
    lease_id="spec/{}/{}",
    ttl_ms_default=limits.SPEC_TTL_MS_DEFAULT,
)
DISPATCH = LeaseKind(
    resource=dispatch_resource,
    id_member="job_id",
    holder_member="dispatcher",
    lease_id="dispatch/{}/{}",
    ttl_ms_default=limits.SPEC_TTL_MS_DEFAULT,
)

GLUE = LeaseKind(
    resource=glue_resource,
    id_member="target",
    holder_member="gluer",
    lease_id="glue/{}/{}",
    ttl_ms_default=limits.SPEC_TTL_MS_DEFAULT,
    is_named=False,
)


def claim_deadline(turn: Turn, kind: LeaseKind, request: TermClaim, name: str) -> int | Refused:
    """The deadline that a claim asks for, where it says who asks, and a lease may last so long."""
    if not kind.holder_of(request):
        return kind.refuse(Refused(Reason.ASSIGNEE_INVALID, name), kind.id_of(request))
    ttl_ms = request.lease_duration_ms
    ttl_ms = kind.ttl_ms_default if ttl_ms is None else ttl_ms
    if not is_ttl(ttl_ms):
        refusal = Refused(Reason.TTL_INVALID, f"{name}: {ttl_ms} milliseconds")
        return kind.refuse(refusal, kind.id_of(request))
    return turn.stamp.wall_ms + ttl_ms


def renew_term(
    turn: Turn, kind: LeaseKind, request: TermClaim, deadline_ms: int, name: str
) -> Lease | Refused | None:
    """More time for the holder that shows its fence; None where a new term may begin."""
    key, holder = kind.id_of(request), kind.holder_of(request)
    lease = kind.lease_of(turn, key)
    if lease is not None:
        obstacle = kind.must_end
        if is_live(lease, turn.stamp):
            obstacle = Reason.LEASE_CONTENDED if holder != lease.owner else None
        if obstacle is not None:
            refusal = Refused(obstacle, holder_text(lease, name), fence=lease.fence)
            return kind.refuse(refusal, key)
    shows_lease = any(getattr(request, each) is not None for each in kind.shown_by)
    if not shows_lease and not is_live(lease, turn.stamp):
        return None
    shown = ShownLease(holder, request.lease_id or (lease.lease_id if lease else ""), request.fence)
    held = fenced(lease, shown, turn.stamp, name)
    return kind.refuse(held, key) if isinstance(held, Refused) else extend(turn, held, deadline_ms)


def begin_term(turn: Turn, kind: LeaseKind, request: TermClaim, deadline_ms: int) -> Lease:
    """A new term for the one who claims."""
    key = kind.id_of(request)
    lease_id = kind.lease_id.format(key, turn.stamp.seq)
    return grant(turn, kind.resource(key), kind.holder_of(request), lease_id, deadline_ms)


def hold_term(turn: Turn, kind: LeaseKind, request: TermHeld, name: str) -> Lease | Refused:
    """The lease, where the request comes from its live holder; the ladder from its third guard on.

    The first two are about the work itself, and climbed before.
    """
    key = kind.id_of(request)
    shown = ShownLease(kind.holder_of(request), request.lease_id, request.fence)
    held = fenced(kind.lease_of(turn, key), shown, turn.stamp, name)
    return kind.refuse(held, key) if isinstance(held, Refused) else held


def term_view(lease: Lease, stamp: Stamp) -> dict[str, Any]:
    return {
        "leaseId": lease.lease_id,
        "owner": lease.owner,
        "fence": lease.fence,
        "grantedMs": lease.granted_ms,
        "deadlineMs": lease.deadline_ms,
        "renewals": lease.renewals,
        "state": "active" if is_live(lease, stamp) else "stale",
    }
