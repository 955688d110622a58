"""A lease that the next claim simply takes over once it has lapsed.

So runners hold specs, and dispatchers the jobs that they hand on. A claim that shows a fence asks
for more time in the term of that fence, and never gets a new one.
"""

from typing import Any, NamedTuple

from msgspec.structs import replace

from ...contracts import TRANSITIONS, Lease, LeaseState, Move, Reason, Stamp, limits, rfc3339
from .lease import Shown, fenced
from .outcome import Refused
from .turn import Turn


class Asked(NamedTuple):
    """What a claim asks for, and what it shows of the lease that it believes to hold."""

    owner: str
    ttl_ms: int
    lease_id: str | None
    fence: int | None


def asked(
    owner: str, duration_ms: int | None, lease_id: str | None, fence: int | None, name: str
) -> Asked | Refused:
    """The claim, where it says who asks, and for a time that a lease may last."""
    owner = owner.strip()
    if not owner:
        return Refused(Reason.ASSIGNEE_INVALID, name)
    ttl_ms = limits.SPEC_TTL_MS_DEFAULT if duration_ms is None else duration_ms
    if not limits.TTL_SECONDS_MIN * 1000 <= ttl_ms <= limits.TTL_SECONDS_MAX * 1000:
        return Refused(Reason.TTL_INVALID, f"{name}: {ttl_ms} milliseconds")
    return Asked(owner, ttl_ms, lease_id, fence)


def is_live(lease: Lease | None, stamp: Stamp) -> bool:
    return lease is not None and stamp.wall_ms <= lease.deadline_ms


def renewed(turn: Turn, lease: Lease | None, claim: Asked, name: str) -> Lease | Refused | None:
    """More time for the holder that shows its fence; None where a new term may begin."""
    if lease is not None and is_live(lease, turn.stamp) and claim.owner != lease.owner:
        detail = f"{name}: {lease.owner} until {rfc3339.answer_text(lease.deadline_ms)}"
        return Refused(Reason.LEASE_CONTENDED, detail, fence=lease.fence)
    if claim.fence is None and not is_live(lease, turn.stamp):
        return None
    shown = Shown(claim.owner, claim.lease_id or (lease.lease_id if lease else ""), claim.fence)
    held = fenced(lease, shown, turn.stamp, name)
    if isinstance(held, Refused):
        return held
    return replace(
        held,
        deadline_ms=turn.stamp.wall_ms + claim.ttl_ms,
        ttl_ms=claim.ttl_ms,
        renewed_ms=turn.stamp.wall_ms,
        renewals=held.renewals + 1,
        state=TRANSITIONS[held.state, Move.RENEW],
    )


def granted(turn: Turn, resource: str, before: Lease | None, claim: Asked) -> Lease:
    """A new term with a new fence. Whoever had it before is kept out by the old one."""
    phase = (LeaseState.UNCLAIMED, Move.CLAIM) if before is None else _LAPSED
    return Lease(
        resource=resource,
        lease_id=f"{resource}/{turn.stamp.seq}",
        owner=claim.owner,
        fence=turn.stamp.seq,
        ttl_ms=claim.ttl_ms,
        granted_ms=turn.stamp.wall_ms,
        deadline_ms=turn.stamp.wall_ms + claim.ttl_ms,
        state=TRANSITIONS[phase],
    )


_LAPSED = (LeaseState.EXPIRED, Move.RECLAIM)


def tenure_view(lease: Lease, stamp: Stamp) -> dict[str, Any]:
    return {
        "leaseId": lease.lease_id,
        "owner": lease.owner,
        "fence": lease.fence,
        "grantedMs": lease.granted_ms,
        "deadlineMs": lease.deadline_ms,
        "renewals": lease.renewals,
        "state": "active" if is_live(lease, stamp) else "stale",
    }
