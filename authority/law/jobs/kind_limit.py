"""How many jobs of a kind are held at once, how often one is claimed, and for how long.

Every limit about a kind counts: its own, and those of all prefixes. Of time-outs the job's own goes
first, then its kind's, then that of the longest prefix.
"""

from collections.abc import Sequence
from typing import Any

from ....contracts import (
    CLAIM_PARTS,
    ClearLimit,
    JobRecord,
    KindLimit,
    Lease,
    Nothing,
    Reason,
    SetLimit,
    limits,
    rfc3339,
)
from ..outcome import Accepted, LimitDrawn, LimitDropped, LimitPut, Outcome, Refused
from ..turn import Turn
from .job_index import JobIndex, kinds_above, plain_kind

# --- what holds a claim back ----------------------------------------------------------------------


def hold_back(turn: Turn, job: JobRecord) -> Refused | None:
    """Why a job that could be claimed cannot be claimed at this moment."""
    lane, now_ms, run_at_ms = turn.lane, turn.stamp.wall_ms, job.ordered.run_at_ms
    if run_at_ms > now_ms:
        return _refuse(Reason.JOB_NOT_DUE, job, f"from {rfc3339.answer_text(run_at_ms)} on")
    for limit in _limits(lane, job.kind):
        if 0 < limit.concurrency <= lane.held.get(limit.kind, 0):
            detail = f"{limit.kind} has {limit.concurrency} at once"
            return _refuse(Reason.JOB_LIMIT_REACHED, job, detail)
        if (free_ms := _free_ms(limit, now_ms)) > now_ms:
            detail = f"{limit.kind}, from {rfc3339.answer_text(free_ms)} on"
            return _refuse(Reason.JOB_RATE_LIMITED, job, detail)
    return None


def is_open(lane: JobIndex, kind: str, wall_ms: int) -> bool:
    """Whether the limits of a kind let one more be claimed at this moment."""
    return not lane.limits or not any(
        0 < each.concurrency <= lane.held.get(each.kind, 0) or _free_ms(each, wall_ms) > wall_ms
        for each in _limits(lane, kind)
    )


def opens_ms(lane: JobIndex, kind: str, wall_ms: int) -> int:
    """From when on the buckets of a kind hold enough for a claim; 0 where they do, or have none."""
    return max((_free_ms(each, wall_ms) for each in _limits(lane, kind)), default=0)


def draw(turn: Turn, kind: str) -> tuple[LimitDrawn, ...]:
    """What a new term takes out of the buckets of its kind."""
    now_ms = turn.stamp.wall_ms
    return tuple([
        LimitDrawn(each.kind, _parts(each, now_ms) - CLAIM_PARTS, now_ms)
        for each in _limits(turn.lane, kind)
        if each.rate_per_minute
    ])  # fmt: skip


def outlast(turn: Turn, job: JobRecord, lease: Lease) -> Refused | None:
    """Why a term gets no more time: it has had what one may have."""
    timeout_ms = timeout_of(turn.lane, job)
    if not timeout_ms or turn.stamp.wall_ms - lease.granted_ms < timeout_ms:
        return None
    detail = f"held since {rfc3339.answer_text(lease.granted_ms)}, for {timeout_ms} ms at most"
    return _refuse(Reason.JOB_TIMED_OUT, job, detail).about(fence=lease.fence)


def timeout_of(lane: JobIndex, job: JobRecord) -> int:
    """How long one term of a job may last; 0 where no limit says so."""
    own = job.ordered.timeout_ms
    if own or not lane.limits:
        return own
    for each in _limits(lane, job.kind):
        if each.timeout_ms:
            return each.timeout_ms
    return 0


def _refuse(reason: Reason, job: JobRecord, detail: str) -> Refused:
    return Refused(reason, f"job {job.job_id}: {detail}", job_id=job.job_id)


def _limits(lane: JobIndex, kind: str) -> Sequence[KindLimit]:
    """The limits about a kind: its own, then those of prefixes, the longest first."""
    if not lane.limits:
        return ()
    return [lane.limits[each] for each in kinds_above(kind) if each in lane.limits]


def _parts(limit: KindLimit, now_ms: int) -> int:
    """What the bucket holds now."""
    since_ms = max(0, now_ms - limit.at_ms)
    return min(limit.burst * CLAIM_PARTS, limit.parts + since_ms * limit.rate_per_minute)


def _free_ms(limit: KindLimit, now_ms: int) -> int:
    """From when on the bucket holds enough for a claim; a moment that is over where it does."""
    if not limit.rate_per_minute:
        return 0
    lacking = CLAIM_PARTS - _parts(limit, now_ms)
    return now_ms + -(-lacking // limit.rate_per_minute) if lacking > 0 else 0


# --- what the owner says --------------------------------------------------------------------------


def set_limit(turn: Turn, request: SetLimit) -> Outcome:
    """Limit a kind. A bucket keeps what it holds, as far as it fits; a new one is full."""
    kind, before = plain_kind(request.kind), turn.lane.limits.get(plain_kind(request.kind))
    if flaw := _flaw(request):
        return Refused(Reason.JOB_LIMIT_INVALID, f"{kind}: {flaw}")
    if before is None and len(turn.lane.limits) >= limits.KIND_LIMITS_MAX:
        return Refused(Reason.JOB_LIMITS_FULL, kind)
    rate = request.rate_per_minute or 0
    burst = (request.burst or 1) if rate else 0
    now_ms, full = turn.stamp.wall_ms, burst * CLAIM_PARTS
    parts = min(full, _parts(before, now_ms)) if before and before.rate_per_minute else full
    limit = KindLimit(
        kind=kind,
        concurrency=request.concurrency or 0,
        rate_per_minute=rate,
        burst=burst,
        timeout_ms=request.timeout_ms or 0,
        parts=parts,
        at_ms=now_ms if rate else 0,
    )
    body = {"changed": True, "limit": limit_view(turn.lane, limit)}
    return Accepted((LimitPut(limit),), body)


def _flaw(request: SetLimit) -> str | None:
    """Which number is none that limits anything."""
    given = {
        "concurrency": (request.concurrency, 1, limits.KIND_CONCURRENCY_MAX),
        "ratePerMinute": (request.rate_per_minute, 1, limits.KIND_RATE_MAX),
        "burst": (request.burst, 1, limits.KIND_RATE_MAX),
        "timeoutMs": (request.timeout_ms, limits.JOB_TIMEOUT_MS_MIN, limits.JOB_TIMEOUT_MS_MAX),
    }
    for name, (number, low, high) in given.items():
        if number is not None and not low <= number <= high:
            return f"{name} {number} is not within {low} and {high}"
    if request.burst is not None and request.rate_per_minute is None:
        return "burst without ratePerMinute"
    return None if any(number for number, _, _ in given.values()) else "no limit is given"


def clear_limit(turn: Turn, request: ClearLimit) -> Outcome:
    """Take the limits of a kind away."""
    kind = plain_kind(request.kind)
    limit = turn.lane.limits.get(kind)
    if limit is None:
        return Refused(Reason.JOB_LIMIT_MISSING, kind)
    body = {"changed": True, "limit": limit_view(turn.lane, limit)}
    return Accepted((LimitDropped(kind),), body)


def list_limits(turn: Turn, request: Nothing) -> Outcome:  # noqa: ARG001 - called as its table is
    """All limits, by kind."""
    lane = turn.lane
    found = [limit_view(lane, lane.limits[kind]) for kind in sorted(lane.limits)]
    return Accepted(body={"limits": found, "count": len(found)})


def limit_view(lane: JobIndex, limit: KindLimit) -> dict[str, Any]:
    return {
        "kind": limit.kind,
        "concurrency": limit.concurrency or None,
        "ratePerMinute": limit.rate_per_minute or None,
        "burst": limit.burst or None,
        "timeoutMs": limit.timeout_ms or None,
        "held": lane.held.get(limit.kind, 0),
    }
