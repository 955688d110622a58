"""What hangs on a lease: parts that are lent to subagents, and instances that work under it.

Both die with the term of the lease: `apply` drops them when a lease ends or gets a new fence.
"""

from ...contracts import (
    CloseInstance,
    GrantSublease,
    Instance,
    OpenInstance,
    Reason,
    RevokeSublease,
    Sublease,
    limits,
)
from .lease import deadline_of, hold
from .outcome import (
    Accepted,
    InstanceDropped,
    InstancePut,
    Outcome,
    Refused,
    SubleaseDropped,
    SubleasePut,
)
from .turn import Turn
from .view import instance_view, sublease_view

# What a holder can lend to a subagent: the work itself, never the lease.
LENDABLE = frozenset(
    {"issue.update", "issue.close", "issue.discover", "dep.add", "dep.remove", "dep.replace"}
)


def grant(turn: Turn, request: GrantSublease) -> Outcome:
    """Lend some actions to a subagent, for a time, under the holder's fence."""
    deadline_ms = deadline_of(request, turn.stamp)
    if isinstance(deadline_ms, Refused):
        return deadline_ms
    name = f"issue {request.id}"
    if not request.holder.strip():
        return Refused(Reason.ASSIGNEE_INVALID, name, request.id)
    for action in request.capability_scope:
        if action not in LENDABLE:
            return Refused(Reason.CAPABILITY_UNKNOWN, f"{name}: {action}", request.id)
    lease = hold(turn, request, "sublease.grant")
    if isinstance(lease, Refused):
        return lease
    others = turn.state.subleases.get(lease.resource, {})
    sublease_id = request.new_sublease_id or f"sub-{turn.stamp.seq}"
    if sublease_id in others:
        return Refused(Reason.SUBLEASE_EXISTS, f"{name}: {sublease_id}", request.id, lease.fence)
    if len(others) >= limits.SUBLEASES_PER_LEASE_MAX:
        return Refused(Reason.SUBLEASES_FULL, name, request.id, lease.fence)
    sublease = Sublease(
        resource=lease.resource,
        sublease_id=sublease_id,
        parent_lease_id=lease.lease_id,
        holder=request.holder.strip(),
        capability_scope=tuple(sorted(set(request.capability_scope))),
        granted_ms=turn.stamp.wall_ms,
        deadline_ms=deadline_ms,
    )
    body = {"changed": True, "sublease": sublease_view(sublease)}
    return Accepted((SubleasePut(sublease),), body, request.id, lease.fence)


def revoke(turn: Turn, request: RevokeSublease) -> Outcome:
    lease = hold(turn, request, "sublease.revoke")
    if isinstance(lease, Refused):
        return lease
    sublease = turn.state.subleases.get(lease.resource, {}).get(request.revoked_sublease_id)
    if sublease is None:
        detail = f"issue {request.id}: {request.revoked_sublease_id}"
        return Refused(Reason.SUBLEASE_MISSING, detail, request.id, lease.fence)
    body = {"changed": True, "sublease": sublease_view(sublease)}
    change = SubleaseDropped(lease.resource, sublease.sublease_id)
    return Accepted((change,), body, request.id, lease.fence)


def open_instance(turn: Turn, request: OpenInstance) -> Outcome:
    """Bind an execution context (a worktree, a runtime) to the lease that it works under."""
    lease = hold(turn, request, "instance.open")
    if isinstance(lease, Refused):
        return lease
    others = turn.state.instances.get(lease.resource, {})
    detail = f"issue {request.id}: {request.instance_id}"
    if request.instance_id in others:
        return Refused(Reason.INSTANCE_EXISTS, detail, request.id, lease.fence)
    if len(others) >= limits.INSTANCES_PER_LEASE_MAX:
        return Refused(Reason.INSTANCES_FULL, detail, request.id, lease.fence)
    instance = Instance(
        resource=lease.resource,
        instance_id=request.instance_id,
        issue_id=request.id,
        worktree_ref=request.worktree_ref,
        runtime_ref=request.runtime_ref,
        lease_id=lease.lease_id,
        lease_owner=lease.owner,
        lease_ttl_ms=lease.ttl_ms,
        fence_token=lease.fence,
        policy_digest=turn.policy_digest,
    )
    body = {"changed": True, "instance": instance_view(instance)}
    return Accepted((InstancePut(instance),), body, request.id, lease.fence)


def close_instance(turn: Turn, request: CloseInstance) -> Outcome:
    lease = hold(turn, request, "instance.close")
    if isinstance(lease, Refused):
        return lease
    instance = turn.state.instances.get(lease.resource, {}).get(request.instance_id)
    if instance is None:
        detail = f"issue {request.id}: {request.instance_id}"
        return Refused(Reason.INSTANCE_MISSING, detail, request.id, lease.fence)
    body = {"changed": True, "instance": instance_view(instance)}
    change = InstanceDropped(lease.resource, instance.instance_id)
    return Accepted((change,), body, request.id, lease.fence)
