"""`policy.set`: an operator chooses how strict this authority is."""

from typing import Any

from ...contracts import Flaw, Policy, SetPolicy, check_policy
from .outcome import Accepted, Change, ChecksSet, Outcome, PolicySet, Refused
from .turn import Turn


def set_policy(turn: Turn, request: SetPolicy) -> Outcome:
    """What is left out stays as it is."""
    before, reads = turn.state.policy, request.evidence_reads
    policy = Policy(
        mutation=request.mutation or before.mutation,
        evidence_reads=before.evidence_reads if reads is None else reads,
    )
    changes: tuple[Change, ...] = (PolicySet(policy),) if policy != before else ()
    body: dict[str, Any] = {
        "policy": {"mutation": policy.mutation, "evidenceReads": policy.evidence_reads},
    }
    if request.checks is not None:
        checks = check_policy(request.checks)
        if isinstance(checks, Flaw):
            return Refused(checks.reason, f"checks: {checks.detail}")
        changes += (ChecksSet(checks),) if checks != turn.state.checks else ()
        body["checkPolicy"] = request.checks
    return Accepted(changes, body | {"changed": bool(changes)})
