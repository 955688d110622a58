"""What the owner of a mesh says: which node gets which kind, who coordinates, who may do what.

The owner is the authority's own node. As long as it has registered no node, every node may work;
then only registered nodes may, each with the capabilities that it was given, and those with a key
only by signed operations.
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ....contracts import (
    DesignateCoordinator,
    Designation,
    Directive,
    ListNodes,
    Member,
    Nothing,
    Operation,
    Reason,
    RegisterNode,
    SetRoute,
    UnregisterNode,
    limits,
    position,
)
from ..outcome import (
    Accepted,
    Change,
    Designated,
    DirectivePut,
    MemberDropped,
    MemberPut,
    OperationAdmitted,
    Outcome,
    Refused,
)
from ..turn import Turn
from .job_index import JobIndex, kinds_above, plain_kind

_KEY = re.compile(r"[0-9a-f]{64}")


# --- who may ------------------------------------------------------------------------------------


def may(turn: Turn, node: str, capability: str, job_id: str | None) -> Refused | None:
    """Why a node may not do this; None where it may."""
    if node == turn.owner and turn.origin.authored is None:
        return None  # at its own door
    member = turn.lane.members.get(node)
    if member is None:
        if not turn.lane.registered:
            return None
        return Refused(Reason.JOB_NODE_UNKNOWN, node, job_id=job_id)
    if member.quarantined:
        return Refused(Reason.JOB_NODE_QUARANTINED, node, job_id=job_id)
    if member.public_key and not turn.origin.signature:
        return Refused(Reason.OPERATION_SIGNATURE_MISSING, node, job_id=job_id)
    if capability not in member.capabilities and node != turn.owner:
        return Refused(Reason.JOB_CAPABILITY_MISSING, f"{node}: {capability}", job_id=job_id)
    return None


def permits(turn: Turn, node: str, kind: str, job_id: str) -> Refused | None:
    """Why a node may not do this with jobs of that kind; None where it may.

    What a node was registered for narrows what it may do, and never widens it.
    """
    if node == turn.owner or handles(turn.lane, kind, node):
        return None
    return Refused(Reason.JOB_KIND_NOT_PERMITTED, f"job {job_id}: {node}: {kind}", job_id=job_id)


def handles(lane: JobIndex, kind: str, node: str) -> bool:
    """Whether a kind is among those that a node was registered for, or it was for all."""
    member = lane.members.get(node)
    if member is None or not member.kind_prefixes:
        return True
    return any(
        kind == each or (each.endswith(".") and kind.startswith(each))
        for each in member.kind_prefixes
    )


def admits(lane: JobIndex, kind: str, node: str) -> bool:
    """Whether the route of a kind lets a node claim."""
    return route_of(lane, kind) in ("", node)


def route_of(lane: JobIndex, kind: str) -> str:
    """The node that gets a kind: by its exact route, else by the one with the longest prefix."""
    return next((each.route for each in _matching(lane, kind) if each.route), "")


def is_derivation(lane: JobIndex, kind: str) -> bool:
    return any(each.derivation for each in _matching(lane, kind))


def is_audited(lane: JobIndex, kind: str) -> bool:
    return any(each.audited for each in _matching(lane, kind))


def coordinator(turn: Turn) -> str:
    """The one coordinator: the node designated last; before, the owner."""
    return turn.lane.designation.node if turn.lane.designation else turn.owner


def _matching(lane: JobIndex, kind: str) -> Iterator[Directive]:
    """The directives about a kind: the exact one, then prefixes, the longest first."""
    if lane.directives:
        yield from (lane.directives[each] for each in kinds_above(kind) if each in lane.directives)


# --- what the owner says ------------------------------------------------------------------------


def set_route(turn: Turn, request: SetRoute) -> Outcome:
    """Route or mark a kind. The last write by the clock is in force, whichever comes last."""
    lane = turn.lane
    kind = plain_kind(request.kind)
    if not _is_owner(turn, request.author):
        return Refused(Reason.JOB_OWNER_REQUIRED, f"{request.author}: route.set {kind}")
    before = lane.directives.get(kind)
    if before is not None and position(before.stamp) >= position(turn.written):
        return Accepted(body={"changed": False, "directive": directive_view(before)})
    if before is None and len(lane.directives) >= limits.DIRECTIVES_MAX:
        return Refused(Reason.JOB_DIRECTIVES_FULL, kind)
    directive = Directive(
        kind=kind,
        route=request.route or "",
        derivation=request.derivation,
        audited=request.audited,
        stamp=turn.written,
    )
    view = directive_view(directive)
    admitted = operation(turn, "RouteKind", _op_id(turn, "route"), turn.owner, view)
    body = {"changed": True, "opId": admitted.operation.op_id, "directive": view}
    return Accepted((DirectivePut(directive), admitted), body)


def designate(turn: Turn, request: DesignateCoordinator) -> Outcome:
    """Name the coordinator, in force from the stamp of the operation on."""
    node, before = request.node, turn.lane.designation
    if not _is_owner(turn, request.author):
        return Refused(Reason.JOB_OWNER_REQUIRED, f"{request.author}: coordinator.designate {node}")
    if before is not None and position(before.stamp) >= position(turn.written):
        return Accepted(body={"changed": False, "coordinator": coordinator_view(turn)})
    since_ms = turn.written.wall_ms
    designation = Designation(
        node=node, stamp=turn.written, since_ms=since_ms, heard_ms=turn.stamp.wall_ms
    )
    op_id = _op_id(turn, "coordinator")
    admitted = operation(turn, "DesignateCoordinator", op_id, turn.owner, {"node": node})
    view = {"node": node, "sinceMs": since_ms, "quiet": False}
    body = {"changed": True, "opId": op_id, "coordinator": view}
    return Accepted((Designated(designation), admitted), body)


def register(turn: Turn, request: RegisterNode) -> Outcome:
    """Let a node take part, change what it may do, or put it into quarantine."""
    node, key = request.node, (request.public_key or "").lower()
    if not _is_owner(turn, request.author):
        return Refused(Reason.JOB_OWNER_REQUIRED, f"{request.author}: node.register {node}")
    if key and not _KEY.fullmatch(key):
        return Refused(Reason.JOB_KEY_INVALID, node)
    member = Member(
        node=node,
        registered=True,
        public_key=key,
        capabilities=tuple(sorted(set(request.capabilities))),
        kind_prefixes=tuple(sorted(set(map(plain_kind, request.kind_prefixes)))),
        quarantined=request.quarantined,
    )
    before = turn.lane.members.get(node)
    if before == member:
        return Accepted(body={"changed": False, "member": member_view(member)})
    if before is None and len(turn.lane.members) >= limits.MEMBERS_MAX:
        return Refused(Reason.JOB_MEMBERS_FULL, node)
    view = member_view(member)
    admitted = operation(turn, "RegisterNode", _op_id(turn, "node"), turn.owner, view)
    body = {"changed": True, "opId": admitted.operation.op_id, "member": view}
    return Accepted((MemberPut(member), admitted), body)


def unregister(turn: Turn, request: UnregisterNode) -> Outcome:
    """A node takes part no longer. What it holds lapses, since it gets no more time."""
    node, lane = request.node, turn.lane
    if not _is_owner(turn, request.author):
        return Refused(Reason.JOB_OWNER_REQUIRED, f"{request.author}: node.unregister {node}")
    member = lane.members.get(node)
    if member is None or not member.registered:
        return Refused(Reason.JOB_NODE_UNKNOWN, node)
    if lane.registered == 1 and not request.open:
        return Refused(Reason.JOB_NODE_LAST, node)
    admitted = operation(turn, "UnregisterNode", _op_id(turn, "node"), turn.owner, {"node": node})
    body = {"changed": True, "opId": admitted.operation.op_id, "member": member_view(member)}
    return Accepted((MemberDropped(node), admitted), body)


def list_nodes(turn: Turn, request: ListNodes) -> Outcome:
    """A page of the nodes that are registered or in quarantine, by name."""
    names = sorted(each for each in turn.lane.members if each > (request.cursor or ""))
    found = [member_view(turn.lane.members[each]) for each in names[: request.limit]]
    body = {"nodes": found, "count": len(found), "coordinator": coordinator_view(turn)}
    is_more = len(names) > request.limit
    return Accepted(body=body | ({"cursor": found[-1]["node"]} if is_more else {}))


def list_routes(turn: Turn, request: Nothing) -> Outcome:  # noqa: ARG001 - called as its table is
    """Every kind that is routed or marked; one that was cleared is no longer."""
    views = [directive_view(each) for _, each in sorted(turn.lane.directives.items())]
    said = [each for each in views if each["route"] or each["derivation"] or each["audited"]]
    return Accepted(body={"routes": said, "count": len(said)})


def _is_owner(turn: Turn, author: str | None) -> bool:
    return author in (None, turn.owner)


def _op_id(turn: Turn, head: str) -> str:
    return f"{head}/{turn.stamp.seq}/{turn.origin.index}"


# --- operations ---------------------------------------------------------------------------------


def operation(
    turn: Turn,
    kind: str,
    op_id: str,
    author: str,
    body: dict[str, Any],
    *,
    causal_deps: tuple[str, ...] = (),
) -> OperationAdmitted:
    """An operation, as the log keeps it."""
    return OperationAdmitted(
        Operation(
            op_id=op_id,
            kind=kind,
            author=author,
            stamp=turn.plain_stamp,
            index=turn.origin.index,
            causal_deps=causal_deps,
            body=body,
            authored=turn.origin.authored,
            signature=turn.origin.signature,
        ),
        turn.origin.digest,
    )


def hear(turn: Turn, author: str) -> tuple[Change, ...]:
    """A designated coordinator that does something is not quiet."""
    designation = turn.lane.designation
    if designation is None or designation.node != author:
        return ()
    return (Designated(replace(designation, heard_ms=turn.stamp.wall_ms)),)


# --- views --------------------------------------------------------------------------------------


def directive_view(directive: Directive) -> dict[str, Any]:
    return {
        "kind": directive.kind,
        "route": directive.route or None,
        "derivation": directive.derivation,
        "audited": directive.audited,
    }


def member_view(member: Member) -> dict[str, Any]:
    return {
        "node": member.node,
        "publicKey": member.public_key or None,
        "capabilities": list(member.capabilities),
        "kindPrefixes": list(member.kind_prefixes),
        "quarantined": member.quarantined,
    }


def coordinator_view(turn: Turn) -> dict[str, Any]:
    """The coordinator, and whether it has been quiet for so long that the owner should know."""
    designation = turn.lane.designation
    if designation is None:
        return {"node": turn.owner, "sinceMs": 0, "quiet": False}
    quiet_ms = turn.stamp.wall_ms - designation.heard_ms
    return {
        "node": designation.node,
        "sinceMs": designation.since_ms,
        "quiet": quiet_ms > limits.COORDINATOR_QUIET_MS_MAX,
    }
