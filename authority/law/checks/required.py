"""Required checks: what a change requires, the witness that it passed, and the decision over that.

    changed paths --project--> required checks --(run)--> witness --decide--> decision --> close
                                                    recorded       verified       in this term

A witness is rebuilt from its own inputs and compared whole, so that no member of it is taken on
trust; and only one that this authority has recorded is decided over, so that no caller brings one.
"""

import hashlib
from typing import Any

import msgspec

from ....contracts import (
    NORMALIZER_ID,
    CheckPolicy,
    CheckResult,
    DecideWitness,
    Decision,
    GateRef,
    OfHolder,
    ProjectRequired,
    Reason,
    RecordWitness,
    RequiredDelta,
    VerifyDecision,
    VerifyWitness,
    Witness,
    canonical,
    path_problem,
    project,
    typed_core,
    verdict,
)
from ..lease import touch
from ..outcome import Accepted, Change, DecisionPut, Outcome, Refused, WitnessPut
from ..state import State
from ..turn import Turn
from .instruction import commands, execution, hearsay, in_order, outcomes, results_problem

WITNESS_KIND = "ci.required.v1"
DECISION_KIND = "ci.required.decision.v1"


class _Inputs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of a witness that all others follow from."""

    changed_paths: tuple[str, ...]
    results: tuple[CheckResult, ...]
    delta_source: str
    from_ref: str
    to_ref: str
    issue_id: str | None
    fence: int | None


# --- reads ----------------------------------------------------------------------------------------


def projection(turn: Turn, request: ProjectRequired) -> Outcome:
    """The required checks of changed paths, and the commands to run for them."""
    policy = _policy(turn.state, request.changed_paths)
    if isinstance(policy, Refused):
        return policy
    projected = project(policy, request.changed_paths)
    checks = commands(policy, projected["requiredChecks"])
    return Accepted(body={"projection": projected, "checks": checks})


def delta(_: Turn, request: RequiredDelta) -> Outcome:
    """A change as a document of its own: each path once, in order, with a digest."""
    refused = _bad_path(request.changed_paths)
    if refused is not None:
        return refused
    return Accepted(body={"delta": _delta(request)})


def gate_ref(turn: Turn, request: GateRef) -> Outcome:
    """A reference to what a check left behind, bound to its content."""
    if turn.state.checks is None:
        return Refused(Reason.REQUIRED_POLICY_MISSING, request.check_id)
    if not turn.state.checks.named([request.check_id]):
        return Refused(Reason.REQUIRED_GATE_REF, f"there is no check {request.check_id}")
    problem = path_problem(request.artifact_rel_path)
    if problem is not None:
        return Refused(Reason.REQUIRED_GATE_REF, f"artifactRelPath: {problem}")
    reference = _gate_ref(request.check_id, request.artifact_rel_path, request.artifact)
    return Accepted(body={"gateRef": reference | {"source": request.source}})


def witness_verify(turn: Turn, request: VerifyWitness) -> Outcome:
    """Recompute everything that a witness says, under the policy in force."""
    digest = _verify(turn.state, request.witness)
    if isinstance(digest, Refused):
        return digest
    body = {
        "witnessDigest": digest,
        "verdictClass": request.witness["verdictClass"],
        "recorded": digest in turn.state.witnesses,
    }
    return Accepted(body=body)


def decision_verify(turn: Turn, request: VerifyDecision) -> Outcome:
    """Whether a decision is the one that follows from a witness of this authority."""
    known = _find_recorded(turn.state, request.witness)
    if isinstance(known, Refused):
        return known
    expected = _decision(request.witness, known)
    difference = _difference(request.decision, expected)
    if difference is not None:
        detail = f"decision over {known.digest}: {difference}"
        return Refused(Reason.REQUIRED_DECISION_MISMATCH, detail, known.issue_id or None)
    body = {"decisionDigest": expected["decisionDigest"], "decisionClass": expected["decision"]}
    return Accepted(body=body, issue_id=known.issue_id or None)


# --- mutations ------------------------------------------------------------------------------------


def witness(turn: Turn, request: RecordWitness) -> Outcome:
    """Record what the required checks gave; for an issue, by its holder and in this term."""
    refusal = hearsay(turn, "required.witness")
    if refusal is not None:
        return refusal
    policy = _policy(turn.state, request.changed_paths)
    if isinstance(policy, Refused):
        return policy
    lease = None
    if request.id is not None:
        lease = touch(turn, _holder(request, request.id), "required.witness")
        if isinstance(lease, Refused):
            return lease
    wanted = project(policy, request.changed_paths)["requiredChecks"]
    problem = results_problem(wanted, request.results)
    if problem is not None:
        return Refused(Reason.REQUIRED_RESULTS, problem, request.id)
    fence = lease.fence if lease else None
    inputs = _Inputs(
        changed_paths=request.changed_paths,
        results=request.results,
        delta_source=request.delta_source,
        from_ref=request.from_ref,
        to_ref=request.to_ref,
        issue_id=request.id,
        fence=fence,
    )
    document = _witness(policy, inputs)
    digest = _digest(document)
    put = Witness(
        key=digest,
        digest=digest,
        verdict=document["verdictClass"],
        seq=turn.stamp.seq,
        issue_id=request.id or "",
        term=turn.state.term(request.id) if request.id else (0, 0),
    )
    ref = f"ciwitness://required/{digest}"
    body = {"changed": True, "witness": document, "witnessRef": ref}
    return Accepted((WitnessPut(put),), body, request.id, fence, (ref,))


def witness_decide(turn: Turn, request: DecideWitness) -> Outcome:
    """Accept or reject by a recorded witness; an issue can be closed in the same term then."""
    known = _find_recorded(turn.state, request.witness)
    if isinstance(known, Refused):
        return known
    decision = _decision(request.witness, known)
    changes: tuple[Change, ...] = ()
    if known.issue_id:
        closed = turn.state.issues[known.issue_id].status == "closed"
        if closed or turn.state.term(known.issue_id) != known.term:
            detail = f"issue {known.issue_id}: witness of row {known.seq}"
            return Refused(Reason.REQUIRED_TERM_ENDED, detail, known.issue_id)
        newest = _newest(turn.state, known.issue_id)
        if newest.key != known.key:  # an older success would hide a newer failure
            detail = f"issue {known.issue_id}: row {newest.seq} has another than row {known.seq}"
            return Refused(Reason.REQUIRED_SUPERSEDED, detail, known.issue_id)
        put = Decision(
            issue_id=known.issue_id,
            term=known.term,
            decision=decision["decision"],
            digest=decision["decisionDigest"],
        )
        changes = (DecisionPut(put),)
    ref = f"ciwitness://decision/{decision['decisionDigest']}"
    body = {"changed": bool(changes), "decision": decision, "decisionRef": ref}
    return Accepted(changes, body, known.issue_id or None, known.term[0] or None, (ref,))


def refuse_unattested(state: State, issue_id: str) -> Refused | None:
    """Why the check policy does not let this issue be closed now."""
    if state.checks is None or state.checks.close_requires == "none":
        return None
    decided = state.decisions.get(issue_id)
    if decided is None or decided.term != state.term(issue_id):
        detail = f"issue {issue_id}: nothing is decided in this term"
        return Refused(Reason.CLOSE_UNATTESTED, detail, issue_id)
    if decided.decision != "accept":
        detail = f"issue {issue_id}: the last decision is to {decided.decision}"
        return Refused(Reason.CLOSE_UNATTESTED, detail, issue_id)
    return None


# --- documents ------------------------------------------------------------------------------------


def _policy(state: State, changed_paths: tuple[str, ...]) -> CheckPolicy | Refused:
    if state.checks is None:
        return Refused(Reason.REQUIRED_POLICY_MISSING, f"{len(changed_paths)} changed paths")
    return _bad_path(changed_paths) or state.checks


def _bad_path(changed_paths: tuple[str, ...]) -> Refused | None:
    for path in changed_paths:
        problem = path_problem(path)
        if problem is not None:
            return Refused(Reason.REQUIRED_PATH, f"{path[:80]!r}: {problem}")
    return None


def _holder(request: RecordWitness, issue_id: str) -> OfHolder:
    return OfHolder(
        id=issue_id,
        assignee=request.assignee,
        lease_id=request.lease_id,
        fence=request.fence,
        sublease_id=request.sublease_id,
    )


def _delta(change: RequiredDelta | _Inputs) -> dict[str, Any]:
    members = {
        "deltaSource": change.delta_source,
        "fromRef": change.from_ref,
        "toRef": change.to_ref,
        "changedPaths": sorted(set(change.changed_paths)),
    }
    return members | {"deltaDigest": canonical.digest("delta1", canonical.encode(members))}


def _gate_ref(check_id: str, path: str, artifact: dict[str, Any]) -> dict[str, Any]:
    sha256 = hashlib.sha256(canonical.encode(artifact)).hexdigest()
    return {
        "checkId": check_id,
        "artifactRelPath": path,
        "sha256": sha256,
        "source": "native",
    }


def _witness(policy: CheckPolicy, inputs: _Inputs) -> dict[str, Any]:
    """The one witness that follows from these inputs under this policy."""
    projected = project(policy, inputs.changed_paths)
    change = _delta(inputs)
    results = in_order(projected["requiredChecks"], inputs.results)
    judged = verdict(results)
    binding = {"issueId": inputs.issue_id, "fence": inputs.fence}
    core = {
        "projectionDigest": projected["projectionDigest"],
        "deltaDigest": change["deltaDigest"],
        "results": outcomes(results),
        **binding,
        **judged,
    }
    folder = f"gates/{projected['projectionDigest']}"
    return {
        "ciSchema": 1,
        "witnessKind": WITNESS_KIND,
        **projected,
        **change,
        **binding,
        "gateWitnessRefs": [
            _gate_ref(each["checkId"], f"{folder}/{each['checkId']}.json", each) for each in results
        ],
        **judged,
        **execution(results),
        "normalizerId": NORMALIZER_ID,
        "policyDigest": policy.policy_digest,
        **typed_core(core, NORMALIZER_ID, policy.policy_digest),
    }


def _decision(witness: dict[str, Any], known: Witness) -> dict[str, Any]:
    members = {
        "ciSchema": 1,
        "decisionKind": DECISION_KIND,
        "decision": "accept" if known.verdict == "accepted" else "reject",
        "witnessSha256": known.digest.removeprefix("wit1_"),
        "deltaSha256": witness["deltaDigest"].removeprefix("delta1_"),
        **{
            name: witness[name]
            for name in (
                "projectionDigest", "requiredChecks", "failureClasses", "issueId", "fence",
                "normalizerId", "policyDigest", "typedCoreProjectionDigest",
            )
        },
    }  # fmt: skip
    return members | {"decisionDigest": canonical.digest("dec1", canonical.encode(members))}


def _digest(witness: dict[str, Any]) -> str:
    return canonical.digest("wit1", canonical.encode(witness))


# --- proof ----------------------------------------------------------------------------------------


def _verify(state: State, witness: dict[str, Any]) -> str | Refused:
    """The digest of a witness that says what follows from its own inputs, and nothing else."""
    mismatch = Reason.REQUIRED_WITNESS_MISMATCH
    try:
        inputs = msgspec.convert(witness, _Inputs)
    except msgspec.ValidationError as error:
        return Refused(mismatch, str(error))
    policy = _policy(state, inputs.changed_paths)
    if isinstance(policy, Refused):
        return policy
    if witness.get("policyDigest") != policy.policy_digest:
        return Refused(Reason.REQUIRED_POLICY_DRIFT, str(witness.get("policyDigest"))[:80])
    wanted = project(policy, inputs.changed_paths)["requiredChecks"]
    problem = results_problem(wanted, inputs.results)
    if problem is not None:
        return Refused(mismatch, problem)
    expected = _witness(policy, inputs)
    difference = _difference(witness, expected)
    return _digest(expected) if difference is None else Refused(mismatch, difference)


def _find_recorded(state: State, witness: dict[str, Any]) -> Witness | Refused:
    """As `_verify`, for one that this authority has recorded."""
    digest = _verify(state, witness)
    if isinstance(digest, Refused):
        return digest
    known = state.witnesses.get(digest)
    return known or Refused(Reason.REQUIRED_WITNESS_UNRECORDED, digest)


def _newest(state: State, issue_id: str) -> Witness:
    """The last witness of an issue that has one; they are kept in the order of their rows."""
    return next(each for each in reversed(state.witnesses.values()) if each.issue_id == issue_id)


def _difference(given: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """The first member that differs; by bytes, for true is no 1."""
    for name in sorted(given.keys() | expected.keys()):
        if name not in given or name not in expected:
            return name[:80]
        if canonical.encode(given[name]) != canonical.encode(expected[name]):
            return name[:80]
    return None
