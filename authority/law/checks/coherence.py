"""`coherence.check`: the contract, its registries and routes, and the policies in force as one."""

from typing import Any

from ....contracts import Flaw, Nothing, Reason, check_policy, coherence_report, document_of
from ..outcome import Accepted, Outcome, Refused
from ..turn import Turn


def check(turn: Turn, _: Nothing) -> Outcome:
    """Accepted where every obligation is; else refused with the first thing that is wrong."""
    report = coherence_report()
    if report["issues"]:
        issue, count = report["issues"][0], len(report["issues"])
        detail = f"{issue['path']}: {issue['message']} ({issue['failureClass']}, 1 of {count})"
        return Refused(Reason.COHERENCE_REJECTED, detail)
    known = turn.state.checks
    checks = None if known is None else check_policy(document_of(known))
    if isinstance(checks, Flaw):
        return Refused(Reason.COHERENCE_REJECTED, f"check policy: {checks.detail}")
    coherence: dict[str, Any] = {
        "checkKind": report["checkKind"],
        "obligations": report["obligations"],
        "contractDigest": turn.contract_digest,
        "checkPolicyDigest": checks.policy_digest if checks else None,
    }
    return Accepted(body={"coherence": coherence})
