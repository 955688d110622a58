"""The day's issues: dependencies, leases, what workers leave behind, fibers."""

import orjson
import pytest

from tests.contracts.day.day import Day, Document
from understudy.authority.views.issues_file import import_payloads, read_issues
from understudy.contracts import limits
from understudy.contracts.reason import Reason

LEASE = {
    "owner": "zoe",
    "acquired_at": "2027-01-15T07:00:00.5Z",
    "expires_at": "2027-01-15T09:00:00Z",
}
IMPORTED: tuple[Document, ...] = (
    {
        "id": "in-1",
        "title": "t",
        "status": "in_progress",
        "assignee": "zoe",
        "lease": LEASE | {"lease_id": "l", "renewed_at": "2027-01-15T07:30:00Z"},
        "created_at": "2026-01-01T00:00:00.123456789Z",
        "updated_at": "2026-01-01 00:00:00+02:00",
        "theirs": {"x": 1.5},
        "metadata": {"pi": 3.14, "n": None},
    },
    {
        "id": "in-2",
        "title": "",
        "status": "closed",
        "closed_at": "2026-01-01t00:00:00z",
        "labels": ["a", "b"],
    },
    {
        "id": "in-3",
        "title": "t",
        "dependencies": [
            {"depends_on_id": "in-4", "type": "blocks", "created_by": "c", "w": 0.5},
            {"depends_on_id": "gone", "dep_type": "waits-for"},
        ],
    },
    {"id": "in-4", "title": "t", "dependencies": [{"depends_on_id": "in-3", "type": "blocks"}]},
    {
        "id": "in-5",
        "title": "t",
        "status": "in_progress",
        "assignee": "yan",  # and not the owner of the lease
        "lease": LEASE | {"lease_id": "m"},
    },
    {"id": "in-6", "title": "t", "status": "someday", "issue_type": "epic", "priority": -1},
)


def imports(day: Day) -> None:
    lines = [b"# two lines", b"# of comment", *(orjson.dumps(record) for record in IMPORTED), b""]
    records, problems, _ = read_issues(b"\n".join(lines), "2026-01-01T00:00:00Z")
    assert problems == []
    for payload in import_payloads(records):
        day.grant("issue.import", "cli", **payload)
    again = {"records": [{"id": "in-2", "title": "t", "created_at": "x", "updated_at": "x"}]}
    day.refuse(Reason.ISSUE_EXISTS, "issue.import", "cli", **again)
    again["records"][0]["id"] = "in-7"
    day.refuse(Reason.ISSUE_PAYLOAD_INVALID, "issue.import", "cli", **again)
    day.refuse(Reason.TRANSPORT_FORBIDDEN, "issue.import", **again)
    day.grant("issue.lease_projection")
    held = {"id": "in-5", "assignee": "zoe", "leaseId": "m"}
    fence = day.authority.state.leases["issue/in-5"].fence
    day.grant("issue.lease_reconcile", **held, fence=fence)
    day.refuse(Reason.NOT_CONTENDED, "issue.lease_reconcile", **held, fence=fence)


def work(day: Day) -> None:
    for number in range(1, 10):
        day.grant("issue.add", id=f"i{number}", title=f"Grüße {number}", labels=["x", "y", "x"])
    day.grant("issue.add", title="named after its row", description="d\n\x1f", ephemeral=True)
    day.refuse(Reason.ISSUE_EXISTS, "issue.add", id="i1", title="t")
    day.refuse(Reason.ISSUE_PAYLOAD_INVALID, "issue.add", id="i1")
    day.grant(
        "issue.update", id="i9", title="u", priority=0, issueType="epic", owner="o", labels=[]
    )
    day.grant("issue.update", id="i9", title="u")
    day.grant("issue.update", id="i9", status="blocked")
    day.refuse(Reason.ISSUE_STATUS_INVALID, "issue.update", id="i9", status="in_progress")
    day.refuse(Reason.LEASE_NOT_FOUND, "issue.update", id="nowhere", title="t")
    day.grant("issue.discover", id="i9", newId="i10", title="found", issueType="epic")
    day.grant("issue.discover", id="i9", title="found too")
    day.refuse(Reason.ISSUE_EXISTS, "issue.discover", id="i9", newId="i10", title="found")
    day.grant("issue.close", id="i8", reason="done", requestId="close-i8")
    day.grant("issue.close", id="i8", reason="done", requestId="close-i8")
    day.refuse(Reason.REQUEST_ID_CONFLICT, "issue.close", id="i9", requestId="close-i8")
    day.refuse(Reason.ISSUE_CLOSED, "issue.close", id="i8", requestId="close-i8-again")
    day.refuse(Reason.ISSUE_CLOSED, "issue.close", id="i8", requestId="close-i8-again")
    day.grant("issue.update", id="i8", status="open")


def dependencies(day: Day) -> None:
    day.grant("dep.add", id="i6", dependsOnId="i7", createdBy="c")
    day.grant("dep.add", id="i6", dependsOnId="i8", type="related")
    day.refuse(Reason.DEPENDENCY_EXISTS, "dep.add", id="i6", dependsOnId="i7")
    day.refuse(Reason.DEPENDENCY_SELF, "dep.add", id="i6", dependsOnId="i6")
    day.refuse(Reason.DEPENDENCY_TARGET_MISSING, "dep.add", id="i6", dependsOnId="nowhere")
    day.refuse(Reason.DEPENDENCY_CYCLE, "dep.add", id="i7", dependsOnId="i6", type="waits-for")
    day.refuse(Reason.DEPENDENCY_PAYLOAD_INVALID, "dep.add", id="i7", dependsOnId="i6", type="x")
    day.grant("dep.replace", id="i6", dependsOnId="i8", type="related", newDependsOnId="i9")
    day.refuse(
        Reason.DEPENDENCY_MISSING, "dep.replace", id="i6", dependsOnId="i9", newDependsOnId="i1"
    )
    day.grant("dep.remove", id="i6", dependsOnId="i9", type="related")
    day.refuse(Reason.DEPENDENCY_MISSING, "dep.remove", id="i6", dependsOnId="i9")
    day.grant("dep.diagnostics")
    day.refuse(Reason.DEPENDENCY_PAYLOAD_INVALID, "dep.diagnostics", deep=True)


def leases(day: Day) -> None:
    held = day.claim("i1", leaseTtlSeconds=60, requestId="claim-i1")
    day.claim("i1", leaseExpiresAt="2027-01-15T08:02:00Z")
    day.refuse(Reason.LEASE_CONTENDED, "issue.claim", id="i1", assignee="bob")
    day.refuse(Reason.ASSIGNEE_INVALID, "issue.claim", id="i1", assignee=" ")
    day.refuse(Reason.TTL_INVALID, "issue.claim", id="i2", assignee="ann", leaseTtlSeconds=29)
    day.refuse(Reason.EXPIRY_INVALID, "issue.claim", id="i2", assignee="ann", leaseExpiresAt="soon")
    both = {"leaseTtlSeconds": 60, "leaseExpiresAt": "2027-01-15T08:02:00Z"}
    day.refuse(Reason.EXPIRY_AMBIGUOUS, "issue.claim", id="i2", assignee="ann", **both)
    day.refuse(Reason.LEASE_NOT_FOUND, "issue.claim", id="nowhere", assignee="ann")
    day.refuse(Reason.ISSUE_BLOCKED, "issue.claim", id="i6", assignee="ann")
    day.refuse(Reason.LEASE_PAYLOAD_INVALID, "issue.claim", id="../x", assignee="ann")
    day.refuse(Reason.FENCE_MISSING, "issue.update", id="i1", title="t")
    day.refuse(Reason.FENCE_UNKNOWN, "issue.update", **held | {"fence": 2**53 - 1}, title="t")
    day.refuse(Reason.FENCE_STALE, "issue.update", **held | {"fence": 0}, title="t")
    day.refuse(Reason.OWNER_MISMATCH, "issue.update", **held | {"assignee": "bob"}, title="t")
    day.refuse(Reason.LEASE_ID_MISMATCH, "issue.update", **held | {"leaseId": "x"}, title="t")
    day.refuse(Reason.LEASE_MISSING, "issue.update", id="i2", fence=1, title="t")
    day.grant("issue.update", **held, title="t")
    day.grant("issue.update", **held, newAssignee="somebody else")
    day.grant("issue.lease_projection")
    day.grant("issue.lease_renew", **held, leaseTtlSeconds=60)
    day.refuse(Reason.TRANSPORT_MCP_REQUIRED, "issue.lease_renew", "cli", **held)
    day.refuse(Reason.TRANSPORT_MCP_REQUIRED, "issue.lease_release", "local-repl", **held)
    day.time.passes(60_001)
    day.refuse(Reason.LEASE_STALE, "issue.lease_renew", **held)
    day.grant("issue.ready")
    day.grant("issue.check")
    day.refuse(Reason.ASSIGNEE_INVALID, "issue.claim_next")
    day.grant("issue.claim_next", assignee="bob", labels=["x"], issueType="task", leaseId="own")
    day.grant("issue.claim_next", assignee="bob", labels=["no such label"])
    held = day.claim("i3")
    day.grant("issue.lease_release", **held)
    day.refuse(Reason.LEASE_MISSING, "issue.lease_release", **held)
    day.refuse(Reason.BREAK_REASON_MISSING, "issue.lease_break", id="i3")
    day.refuse(Reason.LEASE_MISSING, "issue.lease_break", id="i3", reason="why not")
    day.claim("i3", "bob")
    day.grant("issue.lease_break", id="i3", reason="it hangs")
    day.grant("issue.close", **day.claim("i3"))
    day.refuse(Reason.ISSUE_CLOSED, "issue.claim", id="i3", assignee="ann")


def handed_over(day: Day) -> None:
    day.grant("issue.add", id="hand", title="t")
    held = day.claim("hand")
    day.refuse(
        Reason.HANDOVER_SUMMARY_MISSING, "issue.handover", **held, checkpoint={"summary": ""}
    )
    whole = {"summary": "s", "done": ["a"], "next": ["b"], "artifacts": ["c"], "notes": "n"}
    day.grant("issue.handover", **held, checkpoint=whole)
    day.grant("issue.handover", **held, checkpoint={"summary": "s"})


def harness(day: Day) -> None:
    ada = {"worker": "ada"}
    for action in ("session.read", "session.bootstrap", "feature.read", "feature.next"):
        day.refuse(Reason.SESSION_MISSING, f"harness.{action}", **ada)
    day.refuse(Reason.SESSION_MISSING, "harness.feature.write", **ada, featureId="f")
    day.refuse(Reason.SESSION_MISMATCH, "harness.session.write", **ada, sessionId="x")
    whole = {
        "issueId": "hand", "summary": "s", "nextStep": "n", "instructionRefs": ["i"],
        "witnessRefs": ["w"], "lineageRefs": ["l"], "issuesPath": "p", "issuesSnapshotRef": "r",
    }  # fmt: skip
    day.grant("harness.session.write", **ada, **whole, state="stopped")
    day.grant("harness.session.read", **ada)
    day.grant("harness.session.bootstrap", **ada)
    day.grant("harness.feature.next", **ada)
    day.refuse(Reason.LEDGER_EMPTY, "harness.feature.check", **ada)
    done = {"status": "completed", "verificationRefs": ["v"], "summary": "s", "issueId": "hand"}
    day.grant("harness.feature.write", **ada, featureId="f", **done, instructionRefs=["i"])
    day.grant("harness.feature.check", **ada, requireClosure=True)
    day.grant("harness.feature.write", **ada, featureId="g")
    day.grant("harness.feature.next", **ada)
    day.grant("harness.feature.read", **ada)
    step = {"action": "lint", "resultClass": "timeout"}
    day.refuse(Reason.STEP_TIME_INVALID, "harness.trajectory.append", **ada, **step, startedAt="x")
    refs = {"instructionRefs": ["i"], "witnessRefs": ["w"], "lineageRefs": ["l"], "summary": "s"}
    began = {"startedAt": "2026-01-01T00:00:00Z", "issueId": "hand"}
    day.grant("harness.trajectory.append", **ada, **step, **refs, **began)
    for mode in ("latest", "failed", "retry-needed"):
        day.grant("harness.trajectory.query", mode=mode)
    day.refuse(Reason.HARNESS_PAYLOAD_INVALID, "harness.trajectory.query", mode="x")
    apart = [{"ref": "a", "changedPaths": ["x"]}, {"ref": "b", "changedPaths": ["y"]}]
    day.grant("harness.join.check", input={"sections": apart})
    day.refuse(
        Reason.JOIN_OVERLAP,
        "harness.join.check",
        input={"sections": [apart[0], apart[0] | {"ref": "c"}]},
    )
    day.refuse(Reason.INSTRUCTION_UNSEEN, "observe.instruction", instructionRef="nothing")
    day.grant("observe.instruction", instructionRef="i")
    for action in ("observe.latest", "observe.needs_attention", "observe.projection"):
        day.grant(action)
        day.refuse(Reason.HARNESS_PAYLOAD_INVALID, action, x=1)


def lent(day: Day, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "SUBLEASES_PER_LEASE_MAX", 2)
    patch.setattr(limits, "INSTANCES_PER_LEASE_MAX", 2)
    held = day.claim("i4")
    scope = {"holder": "sub", "capabilityScope": ["issue.update", "issue.update", "dep.add"]}
    day.grant("sublease.grant", **held, **scope, newSubleaseId="s1", leaseTtlSeconds=30)
    day.refuse(Reason.SUBLEASE_EXISTS, "sublease.grant", **held, **scope, newSubleaseId="s1")
    day.grant("sublease.grant", **held, holder="nobody", capabilityScope=[])
    day.refuse(Reason.SUBLEASES_FULL, "sublease.grant", **held, **scope)
    day.refuse(
        Reason.CAPABILITY_UNKNOWN, "sublease.grant", **held, holder="s", capabilityScope=["x"]
    )
    lent = held | {"assignee": "sub", "subleaseId": "s1"}
    day.grant("issue.update", **lent, title="by a subagent")
    day.refuse(Reason.CAPABILITY_MISSING, "issue.close", **lent)
    day.grant("instance.open", **held, instanceId="w1", worktreeRef="/w", runtimeRef="pid:7")
    day.grant("instance.open", **held, instanceId="w2")
    day.refuse(Reason.INSTANCE_EXISTS, "instance.open", **held, instanceId="w1")
    day.refuse(Reason.INSTANCES_FULL, "instance.open", **held, instanceId="w3")
    day.grant("issue.show", id="i4")
    day.grant("issue.lease_projection")
    day.grant("sublease.revoke", **held, revokedSubleaseId="s1")
    day.refuse(Reason.SUBLEASE_MISSING, "sublease.revoke", **held, revokedSubleaseId="s1")
    day.grant("instance.close", **held, instanceId="w1")
    day.refuse(Reason.INSTANCE_MISSING, "instance.close", **held, instanceId="w1")


def fibers(day: Day, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "FIBERS_PER_LEASE_MAX", 4)
    patch.setattr(limits, "FIBERS_ENDED_MAX", 2)
    patch.setattr(limits, "FIBER_DEPTH_MAX", 2)
    day.grant("issue.add", id="fib", title="t")
    held = day.claim("fib")
    day.refuse(Reason.FIBER_FIELD_MISSING, "fiber.spawn", **held, taskRef=" ")
    day.grant("fiber.spawn", **held, taskRef="lint", scopeRef="batch-1", fiberId="a")
    day.refuse(Reason.FIBER_EXISTS, "fiber.spawn", **held, taskRef="lint", fiberId="a")
    day.grant("fiber.spawn", **held, taskRef="file", fiberId="b", parentFiberId="a")
    day.refuse(Reason.FIBER_TOO_DEEP, "fiber.spawn", **held, taskRef="line", parentFiberId="b")
    day.refuse(Reason.FIBER_PARENT_MISSING, "fiber.spawn", **held, taskRef="t", parentFiberId="x")
    unnamed = day.grant("fiber.spawn", **held, taskRef="t")["fiberId"]
    day.grant("fiber.spawn", **held, taskRef="t", fiberId="c")
    day.refuse(Reason.FIBERS_FULL, "fiber.spawn", **held, taskRef="t")
    day.refuse(Reason.FIBER_SCOPE_OPEN, "fiber.join", **held, fiberId="a")
    day.refuse(Reason.FIBER_SCOPE_OPEN, "issue.close", **held)
    day.refuse(Reason.FIBER_OUT_OF_SCOPE, "fiber.join", **held, fiberId="a", joinSet=["c"])
    day.grant("issue.lease_projection")
    result = {"resultClass": "rejected", "resultRef": "log:7"}
    day.grant("fiber.join", **held, fiberId="a", joinSet=["b"], **result)
    day.refuse(Reason.FIBER_ENDED, "fiber.join", **held, fiberId="a")
    day.refuse(Reason.FIBER_SCOPE_ENDED, "fiber.spawn", **held, taskRef="t", parentFiberId="a")
    day.refuse(Reason.FIBER_FIELD_MISSING, "fiber.cancel", **held)
    day.grant("fiber.cancel", **held, fiberId=unnamed, reason="slow")
    day.refuse(Reason.FIBER_MISSING, "fiber.cancel", **held, fiberId="a")
    day.grant("issue.show", id="fib")
    day.grant("fiber.cancel", **held, wholeScope=True)
    day.grant("fiber.cancel", **held, wholeScope=True)
    day.grant("fiber.spawn", **held, taskRef="t", fiberId="left")
    assert day.grant("issue.lease_release", **held)["orphanedFibers"] == ["left"]
    again = day.claim("fib", "bob")
    day.refuse(Reason.FIBER_ORPHANED, "fiber.join", **again, fiberId="left")
    day.grant("issue.show", id="fib")
