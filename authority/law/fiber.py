"""Structured concurrency under a lease: fibers, which end before whatever spawned them.

    lease --+-- fiber a --+-- fiber b       a is joined once b has ended;
            |             \\-- fiber c      cancelling a cancels b and c with it;
            \\-- fiber d                    the work is closed once a and d have ended

A fiber belongs to one term of one lease. `apply` orphans what still runs when the term ends, so
that the next holder is told so instead of waiting for it.
"""

import re
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

from msgspec.structs import replace

from ...contracts import (
    FIBER_TRANSITIONS,
    PROFILE_ID,
    CancelFiber,
    Fiber,
    FiberMove,
    FiberState,
    JoinFiber,
    Lease,
    Reason,
    SpawnFiber,
    canonical,
    issue_of,
    limits,
)
from .lease import hold
from .outcome import Accepted, Change, FiberDropped, FiberPut, Outcome, Refused
from .state import State
from .turn import Turn
from .view import fiber_view

# --- the three actions ----------------------------------------------------------------------------


def spawn(turn: Turn, request: SpawnFiber) -> Outcome:
    """Start a part of the work in the scope of the lease, or of a fiber that runs."""
    name = f"issue {request.id}"
    if not request.task_ref.strip():
        return Refused(Reason.FIBER_FIELD_MISSING, f"{name}: taskRef", request.id)
    lease = hold(turn, request, "fiber.spawn")
    if isinstance(lease, Refused):
        return lease
    fibers = turn.state.fibers.get(lease.resource, {})
    fiber_id = request.fiber_id or _fresh_id(turn, fibers)
    detail = f"{name}: {fiber_id}"
    known = fibers.get(fiber_id)
    if known is not None and known.state is not FiberState.ORPHANED:
        return Refused(Reason.FIBER_EXISTS, detail, request.id, lease.fence)
    parent = _parent(turn.state, lease, request)
    if isinstance(parent, Refused):
        return parent
    depth = parent.depth + 1 if parent else 1
    if depth > limits.FIBER_DEPTH_MAX:
        return Refused(Reason.FIBER_TOO_DEEP, detail, request.id, lease.fence)
    if len(turn.state.running(lease.resource)) >= limits.FIBERS_PER_LEASE_MAX:
        return Refused(Reason.FIBERS_FULL, detail, request.id, lease.fence)
    fiber = Fiber(
        resource=lease.resource,
        fiber_id=fiber_id,
        parent_fiber_id=parent.fiber_id if parent else "",
        task_ref=request.task_ref.strip(),
        scope_ref=request.scope_ref.strip(),
        fence=lease.fence,
        depth=depth,
        spawned_seq=turn.stamp.seq,
        spawned_ms=turn.stamp.wall_ms,
        state=_step(known.state if known else FiberState.UNSPAWNED, FiberMove.SPAWN),
    )
    return _accept("fiber.spawn", fiber, [fiber], (FiberPut(fiber),), {})


def join(turn: Turn, request: JoinFiber) -> Outcome:
    """A fiber has ended, with the fibers below it that are named; nothing else may run below it."""
    state = turn.state
    lease = hold(turn, request, "fiber.join")
    if isinstance(lease, Refused):
        return lease
    target = _find(state, lease, request.id, request.fiber_id)
    if isinstance(target, Refused):
        return target
    scope = [target, *_below(state.running(lease.resource), target)]
    within, named = {fiber.fiber_id for fiber in scope}, {*request.join_set, target.fiber_id}
    for fiber_id in request.join_set:
        fiber = _find(state, lease, request.id, fiber_id)
        if isinstance(fiber, Refused):
            return fiber
        if fiber_id not in within:
            detail = f"issue {request.id}: {fiber_id} below {target.fiber_id}"
            return Refused(Reason.FIBER_OUT_OF_SCOPE, detail, request.id, lease.fence)
    open_ones = [fiber for fiber in scope if fiber.fiber_id not in named]
    if open_ones:
        return still_open(request.id, open_ones, lease)
    result = {"result_class": request.result_class, "result_ref": request.result_ref.strip()}
    ended = [_end(turn, fiber, FiberMove.JOIN, result) for fiber in reversed(scope)]
    body = {"joinSet": [fiber.fiber_id for fiber in ended]}
    return _accept("fiber.join", ended[-1], ended, _end_changes(state, lease, ended), body)


def cancel(turn: Turn, request: CancelFiber) -> Outcome:
    """End a fiber and all below it in one decision; or all that runs under the lease."""
    name = f"issue {request.id}"
    if (request.fiber_id is None) is not request.whole_scope:
        return Refused(Reason.FIBER_FIELD_MISSING, f"{name}: fiberId or wholeScope", request.id)
    lease = hold(turn, request, "fiber.cancel")
    if isinstance(lease, Refused):
        return lease
    reached = turn.state.running(lease.resource)
    target = None
    if request.fiber_id is not None:
        target = _find(turn.state, lease, request.id, request.fiber_id)
        if isinstance(target, Refused):
            return target
        reached = [target, *_below(reached, target)]
    reason = {"reason": request.reason.strip()}
    ended = [_end(turn, fiber, FiberMove.CANCEL, reason) for fiber in reached]
    cancelled = {"cancelled": [fiber.fiber_id for fiber in ended]}
    changes = _end_changes(turn.state, lease, ended)
    if target is not None:
        return _accept("fiber.cancel", ended[0], ended, changes, cancelled)
    body = {"changed": bool(ended), **cancelled}
    return Accepted(changes, body, request.id, lease.fence, _witnesses("fiber.cancel", ended))


# --- scopes ---------------------------------------------------------------------------------------


def still_open(issue_id: str, open_ones: Sequence[Fiber], lease: Lease) -> Refused:
    """The refusal to end a scope in which these fibers run."""
    names = ", ".join(fiber.fiber_id for fiber in open_ones[:3])
    more = f" and {len(open_ones) - 3} more" if len(open_ones) > 3 else ""
    detail = f"issue {issue_id}: {names}{more}"
    return Refused(Reason.FIBER_SCOPE_OPEN, detail, issue_id, lease.fence)


def _below(running: Iterable[Fiber], top: Fiber) -> list[Fiber]:
    """What runs below a fiber. Parents are spawned before their children, so one pass finds all."""
    reached = {top.fiber_id}
    found = []
    for fiber in running:
        if fiber.parent_fiber_id in reached:
            reached.add(fiber.fiber_id)
            found.append(fiber)
    return found


def _parent(state: State, lease: Lease, request: SpawnFiber) -> Fiber | Refused | None:
    if request.parent_fiber_id is None:
        return None
    detail = f"issue {request.id}: {request.parent_fiber_id}"
    parent = state.fibers.get(lease.resource, {}).get(request.parent_fiber_id)
    if parent is None:
        return Refused(Reason.FIBER_PARENT_MISSING, detail, request.id, lease.fence)
    if parent.state is FiberState.ORPHANED:
        return Refused(Reason.FIBER_ORPHANED, detail, request.id, lease.fence)
    if parent.state is not FiberState.RUNNING:
        return Refused(Reason.FIBER_SCOPE_ENDED, detail, request.id, lease.fence)
    return parent


def _find(state: State, lease: Lease, issue_id: str, fiber_id: str) -> Fiber | Refused:
    """A fiber that runs; else why it cannot end."""
    detail = f"issue {issue_id}: {fiber_id}"
    fiber = state.fibers.get(lease.resource, {}).get(fiber_id)
    if fiber is None:
        return Refused(Reason.FIBER_MISSING, detail, issue_id, lease.fence)
    if fiber.state is FiberState.ORPHANED:
        return Refused(Reason.FIBER_ORPHANED, detail, issue_id, lease.fence)
    if fiber.state is not FiberState.RUNNING:
        detail += f" is {fiber.state}"
        return Refused(Reason.FIBER_ENDED, detail, issue_id, lease.fence)
    return fiber


# --- ends -----------------------------------------------------------------------------------------


def _step(source: FiberState, move: FiberMove) -> FiberState:
    """Where a move leads. The guards let no other move through; one that got here is our bug."""
    return FIBER_TRANSITIONS[source, move]


def _end(turn: Turn, fiber: Fiber, move: FiberMove, members: dict[str, str]) -> Fiber:
    return replace(
        fiber,
        state=_step(fiber.state, move),
        ended_seq=turn.stamp.seq,
        ended_ms=turn.stamp.wall_ms,
        **members,
    )


def _end_changes(state: State, lease: Lease, ended: list[Fiber]) -> tuple[Change, ...]:
    """The ends, and whose end was so long ago that it is forgotten to make room for theirs."""
    before = [
        fiber
        for fiber in state.fibers.get(lease.resource, {}).values()
        if fiber.ended_seq is not None
    ]
    excess = len(before) + len(ended) - limits.FIBERS_ENDED_MAX
    oldest = nsmallest(excess, before + ended, key=_age)
    dropped = [FiberDropped(lease.resource, fiber.fiber_id) for fiber in oldest]
    return (*(FiberPut(fiber) for fiber in ended), *dropped)


def _age(fiber: Fiber) -> tuple[int, int]:
    return fiber.ended_seq or 0, fiber.spawned_seq


# --- answers --------------------------------------------------------------------------------------


def _accept(
    action: str,
    fiber: Fiber,
    touched: list[Fiber],
    changes: tuple[Change, ...],
    members: dict[str, Any],
) -> Accepted:
    body = {
        "changed": True,
        "fiberId": fiber.fiber_id,
        "fiberWitnessRef": _witness(action, fiber),
        "fiber": fiber_view(fiber),
    }
    witnesses = _witnesses(action, touched)
    return Accepted(changes, body | members, issue_of(fiber.resource), fiber.fence, witnesses)


def _witnesses(action: str, fibers: list[Fiber]) -> tuple[str, ...]:
    return tuple(_witness(action, fiber) for fiber in fibers)


def _witness(action: str, fiber: Fiber) -> str:
    """A reference that names what became of one fiber of one term, and of no other."""
    parts = (PROFILE_ID, action, fiber.resource, str(fiber.fence), fiber.fiber_id)
    digest = canonical.digest("ts1", "".join(part + "\0" for part in parts).encode())
    token = re.sub(r"[^A-Za-z0-9_-]", "_", fiber.fiber_id)
    return f"fiber://dispatch/{action}/{token}/{digest}"


def _fresh_id(turn: Turn, fibers: dict[str, Fiber]) -> str:
    fiber_id = f"fib-{turn.stamp.seq}"
    while fiber_id in fibers:
        fiber_id += "x"
    return fiber_id
