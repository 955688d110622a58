"""What an agent may ask for. The gateway's door says which agent asks; here it is held to that.

    operators' actions   only what the agent was granted
    names                its own; for a subagent, the holder of a sublease of what it holds
    claims               no more than it may hold at once

A request that names no agent is none of an agent: the door of people and of processes is trusted.
"""

from ...contracts import (
    AddIssue,
    ClaimDispatch,
    ClaimGlue,
    ClaimIssue,
    ClaimJob,
    ClaimNext,
    ClaimSpec,
    OfHolder,
    Reason,
    Request,
    Shape,
    Stamp,
    dispatch_resource,
    glue_resource,
    issue_resource,
    job_resource,
    spec_resource,
)
from .outcome import Refused
from .state import State

_ROLES = ("assignee", "worker", "runner", "dispatcher", "gluer", "by_name")


def admit(state: State, request: Request) -> Refused | None:
    """Whether an agent may ask for this at all, under the name that it gives."""
    agent, action = request.context.agent, request.action
    if agent is None:
        return None
    own = agent.name.strip()
    if action.is_operators and action.action not in agent.grants:
        return Refused(Reason.OPERATOR_REQUIRED, f"{action.action} by {agent.name}")
    if action.mutates and not isinstance(request.payload, AddIssue):  # it is meant for that name
        for role in _ROLES:
            name = (getattr(request.payload, role, None) or "").strip()
            if name not in ("", own) and not _is_lent(state, request.payload, name, own):
                return Refused(Reason.AGENT_NAME_MISMATCH, f"{own} as {name}")
    return None


def room(state: State, request: Request, stamp: Stamp) -> Refused | None:
    """Whether an agent that claims may hold one thing more; what it holds already is none more."""
    agent, payload = request.context.agent, request.payload
    if agent is None or agent.held_max is None:
        return None
    match payload:
        case ClaimNext():
            claimed = ""
        case ClaimIssue():
            claimed = issue_resource(payload.id)
        case ClaimJob():
            claimed = job_resource(payload.job_id)
        case ClaimSpec():
            claimed = spec_resource(payload.spec_id)
        case ClaimDispatch():
            claimed = dispatch_resource(payload.job_id)
        case ClaimGlue():
            claimed = glue_resource(payload.target)
        case _:
            return None
    known = state.held.get(agent.name.strip(), set()) - {claimed}
    held = sorted(each for each in known if stamp.wall_ms <= state.leases[each].deadline_ms)
    if len(held) < agent.held_max:
        return None
    detail = f"{agent.name} holds {', '.join(held[:3])}; at most {agent.held_max} at once"
    return Refused(Reason.AGENT_HOLDS_FULL, detail)


def _is_lent(state: State, payload: Shape, name: str, own: str) -> bool:
    """Whether a subagent speaks, to which the agent itself has lent a part of its lease."""
    if not isinstance(payload, OfHolder) or payload.sublease_id is None:
        return False
    resource = issue_resource(payload.id)
    lease = state.leases.get(resource)
    lent = state.subleases.get(resource, {}).get(payload.sublease_id)
    return lease is not None and lent is not None and (lease.owner, lent.holder) == (own, name)
