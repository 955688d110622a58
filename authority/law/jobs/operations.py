"""Operations of several nodes, admitted together: in the order of their stamps, in one row.

    1  Of two different operations with one stamp neither comes first: both are refused.
    2  An operation that was delivered twice counts once.
    3  The rest is decided by the smaller stamp first, each after what the ones before have changed.

A stamp that an operation was admitted under is used up. The same operation again changes nothing,
another one is refused, as long as the stamp is among the newest of its node; an older stamp that
comes late is admitted, since nodes are heard in any order.

A stamp that a claim was granted under, and that comes again on another claim of the job, is a fault
of its node: the new operation is refused, the claim ends, and the node is quarantined.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from ....contracts import (
    AdmitOperations,
    ClaimJob,
    CompleteJob,
    DesignateCoordinator,
    ExpireJob,
    JobState,
    Reason,
    RegisterNode,
    ScheduleJob,
    SetRoute,
    SignedOperation,
    Stamp,
    YieldJob,
    canonical,
    is_signed_by,
    position,
)
from ..outcome import (
    Accepted,
    Change,
    Designated,
    DirectivePut,
    JobPut,
    JobQuarantined,
    LeaseDropped,
    LeasePut,
    LimitDrawn,
    MemberPut,
    Outcome,
    Refused,
)
from ..state import State
from ..turn import Origin, Turn
from . import job, routes

_Rule = Callable[[Turn, Any], Outcome]
_RULES: dict[str, tuple[type[Any], str, _Rule]] = {
    "ScheduleJob": (ScheduleJob, "author", job.schedule),
    "ClaimWork": (ClaimJob, "worker", job.claim),
    "CompleteJob": (CompleteJob, "worker", job.complete),
    "YieldWork": (YieldJob, "worker", job.give_back),
    "ExpireWork": (ExpireJob, "worker", job.expire),
    "RouteKind": (SetRoute, "author", routes.set_route),
    "DesignateCoordinator": (DesignateCoordinator, "author", routes.designate),
    "RegisterNode": (RegisterNode, "author", routes.register),
}


def admit(turn: Turn, request: AdmitOperations) -> Outcome:
    """What becomes of each. Where nothing becomes of any of them, the batch is refused."""
    state, stamp = turn.state, turn.stamp
    digests = [_digest(each) for each in request.operations]
    batch = dict(zip(digests, request.operations, strict=True))
    order = sorted(batch, key=lambda digest: (position(batch[digest].stamp), digest))
    torn = _find_torn(state, batch, stamp)
    overlay, changes = _overlay(state), list[Change]()
    outcomes: dict[str, Accepted | Refused] = {}
    for index, digest in enumerate(order):
        signed = batch[digest]
        if digest in torn:
            detail = f"{signed.kind} of {signed.author}"
            outcome: Outcome = Refused(Reason.OPERATION_STAMP_CONFLICT, detail)
        else:
            outcome = _decide(overlay, signed, stamp, index, digest)
        assert isinstance(outcome, Accepted | Refused)
        outcomes[digest] = outcome
        _apply(overlay, outcome.changes)
        changes += outcome.changes
    is_idle = all(isinstance(each, Refused) for each in outcomes.values()) and not changes
    if len(order) == 1 or (order and is_idle):
        only = outcomes[order[0]]
        if isinstance(only, Refused):
            return only
    said = [_say(batch[digest], outcomes[digest]) for digest in digests]
    return Accepted(tuple(changes), {"changed": bool(changes), "operations": said})


def _digest(signed: SignedOperation) -> str:
    """Of all of it, so that nothing forged is taken for what it copies."""
    return canonical.digest("op1", canonical.encode(msgspec.to_builtins(signed)))


def _find_torn(state: State, batch: Mapping[str, SignedOperation], stamp: Stamp) -> set[str]:
    """Operations that share a stamp with another one. What is forged tears nothing."""
    groups: dict[tuple[int, int, str], list[str]] = {}
    for digest, signed in batch.items():
        groups.setdefault(position(signed.stamp), []).append(digest)
    torn: set[str] = set()
    for group in groups.values():
        if len(group) > 1:
            sound = {each for each in group if _identify(state, batch[each], stamp) is None}
            torn |= sound if len(sound) > 1 else set()
    return torn


def _decide(
    state: State, signed: SignedOperation, stamp: Stamp, index: int, digest: str
) -> Outcome:
    """One operation: who says so, when, and then the rule of its kind."""
    refusal = _identify(state, signed, stamp)
    if refusal is not None:
        return refusal
    shape, member, rule = _RULES[signed.kind]
    payload = signed.payload
    if payload.get(member, signed.author) != signed.author or "requestId" in payload:
        detail = f"{signed.kind} of {signed.author}: {member}"
        return Refused(Reason.OPERATION_PAYLOAD_INVALID, detail)
    try:
        asked = msgspec.convert({**payload, member: signed.author}, shape)
    except msgspec.ValidationError as error:
        detail = f"{signed.kind} of {signed.author}: {error}"
        return Refused(Reason.OPERATION_PAYLOAD_INVALID, detail)
    turn = Turn(state, stamp, Origin(signed.stamp, digest, signed.signature or "", index))
    used = state.lane.sealed(signed.stamp)
    known = state.lane.jobs.get(asked.job_id) if isinstance(asked, ClaimJob) else None
    if known is None or known.claim_stamp != signed.stamp:
        pass
    elif known.state is JobState.CLAIMED or used in (None, digest):
        return job.reclaim(turn, known)
    if used is None:
        return rule(turn, asked)
    if used != digest:
        detail = f"{signed.kind} of {signed.author}: its stamp was used before"
        return Refused(Reason.OPERATION_STAMP_CONFLICT, detail)
    return job.repeat(turn, getattr(asked, "job_id", ""))


def _identify(state: State, signed: SignedOperation, stamp: Stamp) -> Refused | None:
    """Whether the author said it, under a stamp of its own that the clock has reached."""
    detail = f"{signed.kind} of {signed.author}"
    if signed.stamp.node != signed.author or signed.author != signed.author.strip():
        return Refused(Reason.OPERATION_PAYLOAD_INVALID, f"{detail}: stamp.node")
    member = state.lane.members.get(signed.author)
    key = member.public_key if member else ""
    if signed.author == stamp.node and not key:
        return Refused(Reason.JOB_NODE_UNKNOWN, f"{detail}: the owner signs")
    if key and not signed.signature:
        return Refused(Reason.OPERATION_SIGNATURE_MISSING, detail)
    if signed.signature and not (key and is_signed_by(signed, key)):
        return Refused(Reason.OPERATION_SIGNATURE_INVALID, detail)
    if signed.stamp.wall_ms > stamp.wall_ms:
        ahead_ms = signed.stamp.wall_ms - stamp.wall_ms
        return Refused(Reason.CLOCK_DRIFT, f"{detail} is {ahead_ms} ms ahead")
    return None


def _say(signed: SignedOperation, outcome: Accepted | Refused) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": signed.kind, "author": signed.author}
    if isinstance(outcome, Refused):
        failure = {"failureClasses": [outcome.reason.wire], "diagnostic": outcome.diagnostic}
        return said | {"result": "rejected"} | failure
    body = {name: value for name, value in outcome.body.items() if name in ("opId", "job")}
    failures = outcome.body.get("failureClasses", [])
    result = "rejected" if failures else "accepted"
    return said | {"result": result, "failureClasses": failures} | body


# --- the state between two operations -----------------------------------------------------------

_Value = TypeVar("_Value")


class _Layer(Generic[_Value]):
    """A mapping over another one, which stays as it is."""

    def __init__(self, below: Mapping[str, _Value]) -> None:
        self._below = below
        self._above: dict[str, _Value] = {}
        self._fresh = 0

    def get(self, key: str, default: _Value | None = None) -> _Value | None:
        return self._above[key] if key in self._above else self._below.get(key, default)

    def __getitem__(self, key: str) -> _Value:
        return self._above[key] if key in self._above else self._below[key]

    def __setitem__(self, key: str, value: _Value) -> None:
        self._fresh += key not in self
        self._above[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self._above or key in self._below

    def __len__(self) -> int:
        return len(self._below) + self._fresh


def _overlay(state: State) -> State:
    """A state that rules can read and `_apply` can write to, while the real one stays."""
    over, lane = copy.copy(state), copy.copy(state.lane)
    over.lane = lane
    over.leases = cast("Any", _Layer(state.leases))
    lane.jobs = cast("Any", _Layer(state.lane.jobs))
    lane.directives = cast("Any", _Layer(state.lane.directives))
    lane.members = cast("Any", _Layer(state.lane.members))
    lane.awaited = cast("Any", _Layer(state.lane.awaited))
    lane.limits = cast("Any", _Layer(state.lane.limits))
    lane.held = cast("Any", _Layer(state.lane.held))
    return over


def _apply(over: State, changes: tuple[Change, ...]) -> None:
    """As `apply`, for the records that the rules of the lane read, and no index but two."""
    lane = over.lane
    for change in changes:
        match change:
            case JobPut(put):
                lane.count_held(lane.jobs.get(put.job_id), put)
                lane.jobs[put.job_id] = put
                for op_id in lane.missing(put):
                    lane.awaited[op_id] = lane.awaited.get(op_id, set()) | {put.job_id}
            case JobQuarantined(job_id, quarantine):
                held = lane.jobs[job_id]
                lane.jobs[job_id] = msgspec.structs.replace(held, quarantine=quarantine)
            case LeasePut(lease):
                over.leases[lease.resource] = lease
            case LeaseDropped(resource):
                over.leases[resource] = cast("Any", None)
            case LimitDrawn(kind, parts, at_ms):
                limit = lane.limits[kind]
                lane.limits[kind] = msgspec.structs.replace(limit, parts=parts, at_ms=at_ms)
            case DirectivePut(put_directive):
                lane.directives[put_directive.kind] = put_directive
            case MemberPut(member):
                lane.members[member.node] = member
            case Designated(designation):
                lane.designation = designation
            case _:
                pass
