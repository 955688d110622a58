"""The one decision function: what is, what is asked and when give the answer and the changes.

Pure and total: no clock, no I/O, no randomness, and no exception for anything a caller can send.
Order: the door, the caller's clock, the evidence, the memory of request ids, then the rule.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...contracts import Flaw, Policy, Reason, Request, Stamp, check_policy, shapes
from . import fiber, lease, sublease
from .checks import coherence, instruction, required
from .issues import dependency, handover, projection, work
from .jobs import job, job_dispatch, operations, roster, routes, spec
from .jobs.routes import Turn
from .outcome import (
    Accepted,
    Answered,
    Change,
    ChecksSet,
    Outcome,
    PolicySet,
    Refused,
    Repeated,
)
from .state import State
from .workers import harness
from .workers.history import Past


def decide(state: State, request: Request, stamp: Stamp, past: Past = ()) -> Outcome:
    """What becomes of a request at this place of the journal.

    The past is for those who look back; nobody else is shown it.
    """
    refusal = _admit(state, request, stamp)
    if refusal is not None:
        return refusal
    memory = _recall(state, request)
    if memory is not None:
        return memory
    outcome = _rule(state, request, stamp, past)
    if request.request_id is None or isinstance(outcome, Repeated):
        return outcome
    answered = Answered(request.request_id, request.action.action, request.args_digest, stamp.seq)
    return replace(outcome, changes=(*outcome.changes, answered))


def policy_digest(request: Request) -> str:
    """The policy that the evidence of a request is bound to."""
    return (request.context.policy_digest or "").strip() or request.policy


def instruction_ref(request: Request) -> str | None:
    """The instruction behind a request; a blank one is none."""
    return (request.context.instruction_ref or "").strip() or None


def _admit(state: State, request: Request, stamp: Stamp) -> Refused | None:
    """Whether the rule may be asked at all."""
    action, context = request.action, request.context
    transport = request.transport
    if shapes.STRENGTH[transport] > shapes.STRENGTH[request.door]:
        return Refused(Reason.TRANSPORT_ESCALATION, f"{transport} through {request.door}")
    if not {transport, request.door} <= action.transports:
        # Through a stronger door nobody gets more by calling it a weaker one.
        mcp_only = action.transports <= {"mcp", "coordinator"}
        reason = Reason.TRANSPORT_MCP_REQUIRED if mcp_only else Reason.TRANSPORT_FORBIDDEN
        return Refused(reason, f"{action.action} through {transport}")
    if context.stamp is not None and context.stamp.wall_ms > stamp.wall_ms:
        # The clock merges every stamp within the drift bound, and no other.
        ahead_ms = context.stamp.wall_ms - stamp.wall_ms
        return Refused(Reason.CLOCK_DRIFT, f"{context.stamp.node} is {ahead_ms} ms ahead")
    if action.mutates and state.policy.mutation == "instruction-linked":
        return _evidence(request)
    return None


def _evidence(request: Request) -> Refused | None:
    """What an instruction-linked mutation must bring along."""
    context, action = request.context, request.action
    if not context.policy_digest or not instruction_ref(request):
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


_LANE: dict[type[shapes.Shape], Callable[[Turn, Any], Outcome]] = {
    shapes.ScheduleJob: job.schedule,
    shapes.ClaimJob: job.claim,
    shapes.CompleteJob: job.complete,
    shapes.YieldJob: job.give_back,
    shapes.ExpireJob: job.expire,
    shapes.AdmitOperations: operations.admit,
    shapes.SetRoute: routes.set_route,
    shapes.DesignateCoordinator: routes.designate,
    shapes.RegisterNode: routes.register,
    shapes.ShowJob: roster.show,
    shapes.Roster: roster.roster,
    shapes.SubmitSpec: spec.submit,
    shapes.ClaimSpec: spec.claim,
    shapes.MaterializeSpec: spec.materialize,
    shapes.ReleaseSpec: spec.release,
    shapes.ShowSpec: spec.show,
    shapes.ListSpecs: spec.list_specs,
    shapes.ClaimDispatch: job_dispatch.claim,
    shapes.CompleteDispatch: job_dispatch.complete,
    shapes.ReleaseDispatch: job_dispatch.release,
    shapes.DispatchRoster: job_dispatch.roster,
}


def looks_back(request: Request) -> bool:
    """Whether the rule of a request reads the past."""
    return request.action.action in harness.LOOKING_BACK


def _rule(state: State, request: Request, stamp: Stamp, past: Past) -> Outcome:
    if looks_back(request):
        return harness.LOOKING_BACK[request.action.action](state, request.payload, stamp, past)
    if request.action.action in harness.RULES:
        return harness.RULES[request.action.action](state, request.payload, stamp)
    if (rule := _LANE.get(type(request.payload))) is not None:
        return rule(Turn(state, stamp), request.payload)
    match request.payload:
        case shapes.Claim() as asked:
            return lease.claim(state, asked, stamp)
        case shapes.ClaimNext() as asked:
            return lease.claim_next(state, asked, stamp)
        case shapes.Renew() as asked:
            return lease.renew(state, asked, stamp)
        case shapes.Release() as asked:
            return lease.release(state, asked, stamp)
        case shapes.Reconcile() as asked:
            return lease.reconcile(state, asked, stamp)
        case shapes.Break() as asked:
            return lease.break_lease(state, asked, stamp)
        case shapes.GrantSublease() as asked:
            return sublease.grant(state, asked, stamp)
        case shapes.RevokeSublease() as asked:
            return sublease.revoke(state, asked, stamp)
        case shapes.OpenInstance() as asked:
            return sublease.open_instance(state, asked, stamp, policy_digest(request))
        case shapes.CloseInstance() as asked:
            return sublease.close_instance(state, asked, stamp)
        case shapes.SpawnFiber() as asked:
            return fiber.spawn(state, asked, stamp)
        case shapes.JoinFiber() as asked:
            return fiber.join(state, asked, stamp)
        case shapes.CancelFiber() as asked:
            return fiber.cancel(state, asked, stamp)
        case shapes.AddIssue() as asked:
            return work.add(state, asked, stamp)
        case shapes.UpdateIssue() as asked:
            return work.update(state, asked, stamp)
        case shapes.CloseIssue() as asked:
            return work.close(state, asked, stamp)
        case shapes.DiscoverIssue() as asked:
            return work.discover(state, asked, stamp)
        case shapes.HandOverIssue() as asked:
            return handover.hand_over(state, asked, stamp)
        case shapes.ImportIssues() as asked:
            return work.import_issues(state, asked, stamp)
        case shapes.AddDependency() as asked:
            return dependency.add(state, asked, stamp)
        case shapes.RemoveDependency() as asked:
            return dependency.remove(state, asked, stamp)
        case shapes.ReplaceDependency() as asked:
            return dependency.replace(state, asked, stamp)
        case shapes.CheckInstruction() as asked:
            return instruction.check(state, asked)
        case shapes.RunInstruction() as asked:
            return _hearsay(request) or instruction.run(state, asked, stamp)
        case shapes.ProjectRequired() as asked:
            return required.projection(state, asked)
        case shapes.RequiredDelta() as asked:
            return required.delta(asked)
        case shapes.GateRef() as asked:
            return required.gate_ref(state, asked)
        case shapes.RecordWitness() as asked:
            return _hearsay(request) or required.witness(state, asked, stamp)
        case shapes.VerifyWitness() as asked:
            return required.witness_verify(state, asked)
        case shapes.DecideWitness() as asked:
            return required.witness_decide(state, asked)
        case shapes.VerifyDecision() as asked:
            return required.decision_verify(state, asked)
        case shapes.SetPolicy() as asked:
            return _set_policy(state, asked)
        case shapes.ListIssues() as asked:
            return projection.list_issues(state, asked, stamp)
        case shapes.ShowIssue() as asked:
            return projection.show(state, asked, stamp)
        case shapes.RouteBinding() as asked:
            return projection.route_binding(asked)
        case _ if request.action.action == "coherence.check":
            return coherence.check(state, request.policy)
        case _:
            return _plain_read(state, request.action.action, stamp)


def _hearsay(request: Request) -> Refused | None:
    """Results count only from doors behind which the checks were run, not from whoever asks."""
    if {request.door, request.transport} <= {"cli", "coordinator"}:
        return None
    return Refused(Reason.CHECK_RESULTS_FORBIDDEN, f"{request.action.action}: {request.door}")


def _plain_read(state: State, action: str, stamp: Stamp) -> Outcome:
    """The reads that take no arguments."""
    match action:
        case "issue.ready":
            return projection.ready(state, stamp)
        case "issue.blocked":
            return projection.blocked(state, stamp)
        case "issue.lease_projection":
            return projection.leases(state, stamp)
        case "issue.check":
            return projection.check(state, stamp)
        case "issue.backend_status":
            return projection.backend_status(state)
        case "dep.diagnostics":
            return projection.diagnostics(state)
        case _:
            raise AssertionError(f"{action} has no rule")  # a test asks every read


def _set_policy(state: State, request: shapes.SetPolicy) -> Outcome:
    """An operator chooses how strict this authority is."""
    policy = Policy(
        mutation=request.mutation or state.policy.mutation,
        evidence_reads=(
            state.policy.evidence_reads
            if request.evidence_reads is None
            else request.evidence_reads
        ),
    )
    changes: tuple[Change, ...] = (PolicySet(policy),) if policy != state.policy else ()
    body: dict[str, Any] = {
        "policy": {"mutation": policy.mutation, "evidenceReads": policy.evidence_reads},
    }
    if request.checks is not None:
        checks = check_policy(request.checks)
        if isinstance(checks, Flaw):
            return Refused(checks.reason, f"checks: {checks.detail}")
        changes += (ChecksSet(checks),) if checks != state.checks else ()
        body["checkPolicy"] = request.checks
    return Accepted(changes, body | {"changed": bool(changes)})
