"""The one decision function: what is, what is asked and when give the answer and the changes.

Pure and total: no clock, no I/O, no randomness, and no exception for anything a caller can send.
Order: the door, the caller's clock, the agent's name and grants, the evidence, the memory of
request ids, what an agent may hold, then the rule.
"""

from dataclasses import replace

from ...contracts import Reason, Request, Stamp, shapes
from . import agents
from .outcome import Answered, Outcome, Refused, Repeated
from .rules import LOOKS_BACK, RULES
from .state import State
from .turn import Turn
from .workers.history import Past


def decide(state: State, request: Request, stamp: Stamp, past: Past = ()) -> Outcome:
    """What becomes of a request at this place of the journal.

    The past is for the rules that look back; the others are not shown it.
    """
    early = (
        _admit(state, request, stamp)
        or _recall(state, request)
        or agents.room(state, request, stamp)
    )
    if early is not None:
        return early
    turn = Turn(
        state,
        stamp,
        past=past,
        door=request.door,
        transport=request.transport,
        contract_digest=request.policy,
        policy_digest=request.policy_digest,
    )
    outcome = RULES[request.action.action](turn, request.payload)
    if request.request_id is None or isinstance(outcome, Repeated):
        return outcome
    answered = Answered(request.request_id, request.action.action, request.args_digest, stamp.seq)
    return replace(outcome, changes=(*outcome.changes, answered))


def looks_back(request: Request) -> bool:
    """Whether the rule of a request reads the past."""
    return request.action.action in LOOKS_BACK


def _admit(state: State, request: Request, stamp: Stamp) -> Refused | None:
    """Whether the rule may be asked at all."""
    action, context = request.action, request.context
    transport = request.transport
    if shapes.STRENGTH[transport] > shapes.STRENGTH[request.door]:
        return Refused(Reason.TRANSPORT_ESCALATION, f"{transport} through {request.door}")
    if not {transport, request.door} <= action.transports:
        # Through a stronger door a caller gets no more by calling it a weaker one.
        mcp_only = action.transports <= {"mcp", "coordinator"}
        reason = Reason.TRANSPORT_MCP_REQUIRED if mcp_only else Reason.TRANSPORT_FORBIDDEN
        return Refused(reason, f"{action.action} through {transport}")
    if context.stamp is not None and context.stamp.wall_ms > stamp.wall_ms:
        # The clock merges every stamp within the drift bound, and no other.
        ahead_ms = context.stamp.wall_ms - stamp.wall_ms
        return Refused(Reason.CLOCK_DRIFT, f"{context.stamp.node} is {ahead_ms} ms ahead")
    refusal = agents.admit(state, request)
    if refusal is not None:
        return refusal
    if action.mutates and state.policy.mutation == "instruction-linked":
        return _evidence(request)
    return None


def _evidence(request: Request) -> Refused | None:
    """What an instruction-linked mutation must bring along."""
    context, action = request.context, request.action
    if not context.policy_digest or not request.instruction_ref:
        return Refused(Reason.EVIDENCE_MISSING, action.action)
    if context.policy_digest != request.policy:
        return Refused(Reason.POLICY_DIGEST_UNKNOWN, context.policy_digest)
    accepted = {action.capability, "capabilities.change_morphisms.all"}
    if not accepted & set(context.capability_claims):
        return Refused(Reason.CAPABILITY_CLAIM_MISSING, str(action.capability))
    return None


def _recall(state: State, request: Request) -> Repeated | Refused | None:
    """A request id is answered once; later it gets that answer, or a refusal."""
    if request.request_id is None:
        return None
    answer = state.answers.get(request.request_id)
    if answer is None:
        return None
    if (answer.action, answer.args_digest) == (request.action.action, request.args_digest):
        return Repeated(answer.seq)
    detail = f"{request.request_id} stands for {answer.action} in row {answer.seq}"
    return Refused(Reason.REQUEST_ID_CONFLICT, detail)
