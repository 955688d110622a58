"""The day's reads, doors, garbage, checks and policies, and an authority that is full."""

from collections.abc import Sequence

import pytest

from tests.contracts.day.day import Day
from tests.fakes.desk import START_MS
from tests.fakes.policy import envelope, passed, policy
from understudy.contracts import limits
from understudy.contracts.reason import Reason
from understudy.contracts.requests.host_actions import contract_digest, host_actions

ALL = "capabilities.change_morphisms.all"


def reads(day: Day) -> None:
    for issue_id in sorted(day.authority.state.issues):
        day.grant("issue.show", id=issue_id)
    day.refuse(Reason.ISSUE_NOT_FOUND, "issue.show", id="nowhere")
    day.grant("issue.list")
    day.grant("issue.list", status="open", label="x", issueType="task", assignee="")
    for action in ("issue.ready", "issue.blocked", "issue.check", "issue.backend_status"):
        day.grant(action)
        day.refuse(Reason.ISSUE_PAYLOAD_INVALID, action, deep=True)
    day.refuse(Reason.ISSUE_PAYLOAD_INVALID, "issue.list", status=1)
    day.refuse(Reason.LEASE_PAYLOAD_INVALID, "issue.lease_projection", deep=True)
    for action in host_actions():
        day.grant("world.route_binding", operationAction=action)
    day.refuse(Reason.ACTION_UNKNOWN, "world.route_binding", operationAction="x")


def steered(day: Day) -> None:
    """What operators say about work of the day, and take back again."""
    day.grant("issue.add", id="steer", title="Steered", labels=["red"])
    day.claim("steer")
    day.grant("issue.prioritize", id="steer", priority=0)
    day.refuse(Reason.ISSUE_NOT_FOUND, "issue.prioritize", id="nowhere", priority=0)
    day.grant("pause.set", scope="label/red", now=True, reason="stop", byName="eve")
    day.refuse(Reason.SCOPE_INVALID, "pause.set", scope="red")
    day.refuse(Reason.WORK_PAUSED, "issue.claim", id="steer", assignee="ann")
    day.grant("issue.show", id="steer")
    day.grant("pause.list")
    day.refuse(Reason.ISSUE_PAYLOAD_INVALID, "pause.list", deep=True)
    day.grant("pause.clear", scope="label/red")
    day.refuse(Reason.PAUSE_MISSING, "pause.clear", scope="label/red")
    day.grant("approval.ask", id="steer", reason="dangerous")
    day.refuse(Reason.LEASE_NOT_FOUND, "approval.ask", id="nowhere")
    day.refuse(Reason.APPROVAL_MISSING, "issue.claim", id="steer", assignee="ann")
    day.grant("approval.give", id="steer", decision="rejected", reason="no")
    day.refuse(Reason.APPROVAL_NOT_ASKED, "approval.give", id="steer", decision="approved")
    day.grant("issue.retry", id="steer")
    day.refuse(Reason.ISSUE_NOT_FOUND, "issue.retry", id="nowhere")
    day.grant("issue.cancel", id="steer", reason="wrong")
    day.refuse(Reason.ISSUE_CANCELLED, "issue.cancel", id="steer")
    day.grant("policy.set", "cli", approve=["kind/red"])
    day.grant("issue.backend_status")
    day.grant("job.schedule", jobId="steer", kind="red")
    day.refuse(Reason.APPROVAL_MISSING, "job.claim", jobId="steer", worker="n1")
    day.grant("approval.give", jobId="steer", decision="rejected", reason="no")
    day.grant("job.retry", jobId="steer")
    day.refuse(Reason.WORK_NOT_BLOCKED, "job.retry", jobId="c")
    day.grant("pause.set", scope="job/steer")
    day.grant("job.show", jobId="steer")
    day.grant("job.cancel", jobId="steer", reason="wrong", byName="eve")
    day.refuse(Reason.JOB_CANCELLED, "job.cancel", jobId="steer")
    day.grant("pause.clear", scope="job/steer")
    day.grant("policy.set", "cli", approve=[])


def doors(day: Day) -> None:
    marks: Sequence[str | int] = ("", "é" * 256, 0, -(2**53) + 1, 2**53 - 1)
    for mark in marks:
        assert day.ask("issue.backend_status", id=mark)["id"] == mark
        assert day.ask("issue.nothing", id=mark)["id"] == mark
    for door in ("local-repl", "cli", "mcp", "coordinator"):
        day.ask("issue.add", {"title": "t"}, door=door, context={"transport": "local-repl"})
    escalated = {"transport": "coordinator"}
    day.refused(Reason.TRANSPORT_ESCALATION, day.ask("issue.ready", context=escalated))
    context = {
        "escalatedFrom": "cli",
        "policyDigest": contract_digest(),
        "instructionRef": "instruction://1",
        "capabilityClaims": [ALL],
        "stamp": {"wallMs": START_MS, "counter": 7, "node": "caller"},
    }
    held = day.claim("i5")
    assert day.ask("issue.lease_renew", held, context=context)["effect"]["escalatedFrom"] == "cli"
    ahead = {"stamp": {"wallMs": limits.WALL_MS_MAX, "counter": 0, "node": "fast"}}
    day.refused(Reason.CLOCK_DRIFT, day.ask("issue.ready", context=ahead))
    for now in (0, day.time.wall_ms + 1):
        assert day.ask("issue.add", {"title": "t"}, now=now)["result"] == "accepted"


GARBAGE: dict[bytes, Reason] = {
    b"": Reason.REQUEST_INVALID,
    b"\xff\xfe": Reason.REQUEST_INVALID,
    b"{": Reason.REQUEST_INVALID,
    b"[" * 5_000: Reason.REQUEST_INVALID,
    b"null": Reason.REQUEST_INVALID,
    b"[]": Reason.REQUEST_INVALID,
    b'"issue.ready"': Reason.REQUEST_INVALID,
    b"NaN": Reason.REQUEST_INVALID,
    b"{}": Reason.REQUEST_INVALID,
    b'{"action":7}': Reason.REQUEST_INVALID,
    b'{"action":""}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","action":"issue.ready"}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","id":true}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","id":1.5}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","id":9007199254740992}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","surprise":1,"id":3}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","context":7,"id":"m"}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","context":{"transport":"pigeon"}}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","now":"noon"}': Reason.REQUEST_INVALID,
    b'{"action":"issue.ready","now":5}': Reason.CLOCK_NOT_FROZEN,
    b'{"action":"issue.steal"}': Reason.ACTION_UNKNOWN,
    b'{"action":"issue.steal\\n\\u0007\\u2028\\"<b>"}': Reason.ACTION_UNKNOWN,
    b'{"action":"' + b"x" * 10_000 + b'"}': Reason.ACTION_UNKNOWN,
    b'{"action":"fiber.spawn","payload":{}}': Reason.FIBER_PAYLOAD_INVALID,
    b'{"action":"issue.show","payload":[]}': Reason.ISSUE_PAYLOAD_INVALID,
    b'{"action":"issue.claim","payload":{"id":"\\u0001"}}': Reason.LEASE_PAYLOAD_INVALID,
    b'{"action":"dep.add"}': Reason.DEPENDENCY_PAYLOAD_INVALID,
    b'{"action":"issue.show","payload":{"id":"' + b"x" * 2**20 + b'"}}': Reason.REQUEST_TOO_LARGE,
}


def garbage(day: Day) -> None:
    before = day.authority.head
    for answer, reason in zip(day.send(*GARBAGE), GARBAGE.values(), strict=True):
        day.refused(reason, answer)
        assert "effect" not in answer
    for action in host_actions():  # each with a member that no action has
        day.refuse(_invalid(action), action, surprise=1)
    assert day.authority.head == before


def _invalid(action: str) -> Reason:
    family, _, verb = action.partition(".")
    if family == "instruction":
        return Reason.INSTRUCTION_SHAPE
    if family in ("required", "coherence"):
        return Reason.CHECK_PAYLOAD_INVALID
    if family == "dep":
        return Reason.DEPENDENCY_PAYLOAD_INVALID
    if family == "spec":
        return Reason.SPEC_PAYLOAD_INVALID
    if family == "schedule":
        return Reason.SCHEDULE_PAYLOAD_INVALID
    if family in ("descent", "glue"):
        return Reason.DESCENT_PAYLOAD_INVALID
    if family in ("spend", "budget"):
        return Reason.SPEND_PAYLOAD_INVALID
    if family in ("job", "route", "coordinator", "node", "limit", "dispatch"):
        return Reason.JOB_PAYLOAD_INVALID
    if family == "fiber":
        return Reason.FIBER_PAYLOAD_INVALID
    if family in ("harness", "observe"):
        return Reason.HARNESS_PAYLOAD_INVALID
    leases = family in ("sublease", "instance") or verb.startswith(("lease", "claim"))
    return Reason.LEASE_PAYLOAD_INVALID if leases else Reason.ISSUE_PAYLOAD_INVALID


def checks(day: Day) -> None:
    day.refuse(Reason.REQUIRED_POLICY_MISSING, "required.projection", changedPaths=["a.py"])
    day.grant("policy.set", "cli", checks=policy(closeRequires="witness"))
    digest = policy(closeRequires="witness")["policyDigest"]
    asked = {"instructionId": "i-1", "envelope": envelope(policyDigest=digest)}
    day.grant("instruction.check", **asked)
    unknown = {"instructionId": "i-2", "envelope": envelope()}
    day.refuse(Reason.INSTRUCTION_POLICY_UNKNOWN, "instruction.check", **unknown)
    failed = [{"checkId": "lint", "status": "failed", "exitCode": 3, "durationMs": 5}]
    day.grant("instruction.run", "cli", **asked, results=failed)
    day.refuse(Reason.CHECK_RESULTS_FORBIDDEN, "instruction.run", **asked, results=failed)
    paths = {"changedPaths": ["src/a.py"]}
    day.grant("required.projection", **paths)
    day.grant("required.delta", **paths, deltaSource="given", fromRef="main", toRef="worktree")
    gate = {"checkId": "lint", "artifactRelPath": "out/lint.json", "artifact": {"lines": 0}}
    day.grant("required.gate_ref", **gate)
    day.grant("issue.add", id="gated", title="t")
    ann = day.claim("gated")
    results = passed("lint", "tests")
    witness = day.grant("required.witness", "cli", **paths, **ann, results=results)["witness"]
    day.grant("required.witness_verify", witness=witness)
    day.refuse(Reason.CLOSE_UNATTESTED, "issue.close", **ann)
    decision = day.grant("required.witness_decide", witness=witness)["decision"]
    day.grant("required.decision_verify", decision=decision, witness=witness)
    day.grant("issue.close", **ann)
    day.refuse(Reason.REQUIRED_TERM_ENDED, "required.witness_decide", witness=witness)
    day.grant("issue.backend_status")
    day.grant("coherence.check")
    day.grant("policy.set", "cli", checks=policy())


def policies(day: Day) -> None:
    day.refuse(Reason.TRANSPORT_FORBIDDEN, "policy.set", mutation="open")
    day.grant("policy.set", "cli")
    day.grant("policy.set", "cli", evidenceReads=True)
    for action in ("issue.ready", "issue.list", "issue.lease_projection", "dep.diagnostics"):
        assert day.grant(action)["effect"]["prev"] is not None
    day.refuse(Reason.ISSUE_NOT_FOUND, "issue.show", id="nowhere")
    day.grant("issue.show", id="in-1")
    day.grant("world.route_binding", operationAction="issue.claim")
    day.grant("policy.set", "cli", mutation="instruction-linked")
    day.refuse(Reason.EVIDENCE_MISSING, "issue.add", title="t")
    context = {"policyDigest": contract_digest(), "instructionRef": "instruction://2"}
    denied = day.ask("issue.add", {"title": "t"}, context=context)
    day.refused(Reason.CAPABILITY_CLAIM_MISSING, denied)
    other = context | {"policyDigest": "pol1_" + "0" * 64}
    day.refused(Reason.POLICY_DIGEST_UNKNOWN, day.ask("issue.add", {"title": "t"}, context=other))
    linked = context | {"capabilityClaims": [ALL]}
    assert day.ask("issue.add", {"title": "t"}, context=linked)["result"] == "accepted"
    answer = day.ask("policy.set", {"mutation": "open"}, door="cli", context=linked)
    assert answer["policy"] == {"mutation": "open", "evidenceReads": True}


def full(day: Day, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "DEPENDENCIES_PER_ISSUE_MAX", 1)
    day.refuse(Reason.DEPENDENCIES_FULL, "dep.add", id="i6", dependsOnId="i1", type="related")
    patch.setattr(limits, "LIST_MAX", 2)
    assert day.grant("issue.list")["truncated"] is True
    patch.setattr(limits, "ISSUES_MAX", 3)
    day.refuse(Reason.ISSUES_FULL, "issue.add", title="t")
