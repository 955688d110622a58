"""`policy.set`: an operator chooses how strict this authority is."""

from typing import Any

from ...contracts import Flaw, Policy, Reason, SetPolicy, check_policy
from .outcome import Accepted, Change, ChecksSet, Outcome, PolicySet, Refused
from .scope import plain_scope
from .turn import Turn


def set_policy(turn: Turn, request: SetPolicy) -> Outcome:
    """What is left out stays as it is."""
    before, reads = turn.state.policy, request.evidence_reads
    approve = before.approve
    if request.approve is not None:
        found = [(each, plain_scope(each)) for each in request.approve]
        wrong = next((each for each, scope in found if scope is None), None)
        if wrong is not None:
            return Refused(Reason.SCOPE_INVALID, wrong)
        approve = tuple(sorted({scope for _, scope in found if scope is not None}))
    policy = Policy(
        mutation=request.mutation or before.mutation,
        evidence_reads=before.evidence_reads if reads is None else reads,
        approve=approve,
    )
    changes: tuple[Change, ...] = (PolicySet(policy),) if policy != before else ()
    body: dict[str, Any] = {
        "policy": {"mutation": policy.mutation, "evidenceReads": policy.evidence_reads},
    }
    if policy.approve:
        body["policy"]["approve"] = list(policy.approve)
    if request.checks is not None:
        checks = check_policy(request.checks)
        if isinstance(checks, Flaw):
            return Refused(checks.reason, f"checks: {checks.detail}")
        changes += (ChecksSet(checks),) if checks != turn.state.checks else ()
        body["checkPolicy"] = request.checks
    return Accepted(changes, body | {"changed": bool(changes)})
