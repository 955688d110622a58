"""What really leaves the authority, held against the schemas that are published for it.

A long day at one authority: every action is granted and refused, garbage comes in between, and each
answer, effect, journal row, trajectory line and exported record is shown to its schema.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes.desk import START_MS, Time
from tests.fakes.policy import envelope, passed, policy
from understudy.authority.engine.engine import Authority
from understudy.authority.journal.journal import Row
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.views.issues_file import export_issues, import_payloads, read_issues
from understudy.authority.views.trajectory import Trajectory
from understudy.contracts import canonical, limits
from understudy.contracts.reason import Reason
from understudy.contracts.registry.check import document_findings, validator
from understudy.contracts.requests.host_actions import contract_digest, host_actions
from understudy.contracts.requests.request import Door, parse
from understudy.contracts.requests.shapes import SHAPES, Transport

Document = dict[str, Any]
NODE = "n1"
ALL = "capabilities.change_morphisms.all"


class Day:
    """An authority on a disk, and everything that came out of it."""

    def __init__(self, folder: Path) -> None:
        SqliteJournal.create(folder / "journal.db", NODE)
        self.journal = SqliteJournal(folder / "journal.db")
        self.time = Time()
        self.authority = Authority(self.journal, self.time.clock())
        self.trajectory = Trajectory(folder / "trajectory.jsonl", 0)
        self.answers: list[Document] = []

    def close(self) -> None:
        self.trajectory.close()
        self.journal.close()

    def send(self, *lines: bytes, door: Transport = "mcp", frozen: bool = False) -> list[Document]:
        """One batch of raw lines through one door."""
        batch = [parse(line, Door(door, frozen_clock=frozen)) for line in lines]
        data, rows = self.authority.submit(batch)
        self.trajectory.follow(self.journal, rows)
        answers: list[Document] = [orjson.loads(each) for each in data]
        self.answers += answers
        return answers

    def ask(
        self,
        action: str,
        payload: Document | None = None,
        /,
        *,
        door: Transport = "mcp",
        **top: object,
    ) -> Document:
        line = canonical.encode({"action": action, "payload": payload or {}, **top})
        return self.send(line, door=door, frozen="now" in top)[0]

    def grant(self, action: str, door: Transport = "mcp", /, **payload: object) -> Document:
        answer = self.ask(action, payload, door=door)
        assert answer["result"] == "accepted", answer["diagnostic"]
        return answer

    def refuse(
        self, reason: Reason, action: str, door: Transport = "mcp", /, **payload: object
    ) -> None:
        self.refused(reason, self.ask(action, payload, door=door))

    def refused(self, reason: Reason, answer: Document) -> None:
        assert answer["failureClasses"] == [reason.wire], answer

    def claim(self, issue_id: str, assignee: str = "ann", **payload: object) -> Document:
        """Claim, and give back what the holder must show from now on."""
        answer = self.grant("issue.claim", id=issue_id, assignee=assignee, **payload)
        lease = answer["issue"]["lease"]
        return {
            "id": issue_id,
            "assignee": assignee,
            "leaseId": lease["leaseId"],
            "fence": lease["fence"],
        }

    def rows(self) -> list[Row]:
        return list(self.journal.read())


# --- the day ------------------------------------------------------------------------------------


def live(day: Day, patch: pytest.MonkeyPatch) -> None:
    """Everything that can be asked, at least once with success and once without."""
    _import(day)
    _work(day)
    _dependencies(day)
    _leases(day)
    _handed_over(day)
    _harness(day)
    _lent(day, patch)
    _fibers(day, patch)
    _checks(day)
    _specs(day)  # before nodes are registered
    _jobs(day)
    _reads(day)
    _doors(day)
    _garbage(day)
    _policies(day)
    _full(day, patch)


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


def _import(day: Day) -> None:
    lines = [b"# two lines", b"# of comment", *(orjson.dumps(record) for record in IMPORTED), b""]
    records, problems = read_issues(b"\n".join(lines), "2026-01-01T00:00:00Z")
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


def _work(day: Day) -> None:
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


def _dependencies(day: Day) -> None:
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


def _leases(day: Day) -> None:
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


def _handed_over(day: Day) -> None:
    day.grant("issue.add", id="hand", title="t")
    held = day.claim("hand")
    day.refuse(
        Reason.HANDOVER_SUMMARY_MISSING, "issue.handover", **held, checkpoint={"summary": ""}
    )
    whole = {"summary": "s", "done": ["a"], "next": ["b"], "artifacts": ["c"], "notes": "n"}
    day.grant("issue.handover", **held, checkpoint=whole)
    day.grant("issue.handover", **held, checkpoint={"summary": "s"})


def _harness(day: Day) -> None:
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


def _lent(day: Day, patch: pytest.MonkeyPatch) -> None:
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


def _fibers(day: Day, patch: pytest.MonkeyPatch) -> None:
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


def _specs(day: Day) -> None:
    steps = [
        {"stepKey": "root", "kind": "k", "inputs": {"n": 1}},
        {"stepKey": "b:2", "kind": "k", "dependsOn": ["root"]},
    ]
    spec = {"specId": "s", "title": "T", "steps": steps}
    for _ in range(2):
        day.grant("spec.submit", **spec)
    day.grant("spec.submit", specId="t", steps=steps)
    day.refuse(Reason.SPEC_EXISTS, "spec.submit", specId="s", steps=steps)
    day.refuse(Reason.SPEC_STEP_DUPLICATE, "spec.submit", specId="u", steps=[steps[0]] * 2)
    day.refuse(Reason.SPEC_STEP_DEPENDENCY, "spec.submit", specId="u", steps=steps[1:])
    circle = [{"stepKey": a, "kind": "k", "dependsOn": [b]} for a, b in ("ab", "ba")]
    day.refuse(Reason.SPEC_STEP_CYCLE, "spec.submit", specId="u", steps=circle)
    held = _ran(day, reason="tired")
    day.refuse(Reason.SPEC_STEP_UNKNOWN, "spec.materialize", **held, stepKeys=["x"])
    day.grant("spec.materialize", **held, stepKeys=["root"])
    day.grant("spec.materialize", **held, stepKeys=["root"])
    for query in ("open", "all"):
        day.grant("spec.list", query=query, limit=1)
    day.grant("spec.materialize", **held, stepKeys=["root", "b:2"])
    day.refuse(Reason.SPEC_MATERIALIZED, "spec.release", **held)
    _dispatched(day)
    day.grant("spec.show", specId="s")
    day.refuse(Reason.SPEC_NOT_FOUND, "spec.show", specId="x")


def _ran(day: Day, **release: object) -> Document:
    """Claimed, given back and claimed again: what the runner has to show."""
    for _ in range(2):
        lease = day.grant("spec.claim", specId="s", runner="ann")["spec"]["lease"]
        held = {"specId": "s", "runner": "ann"}
        held |= {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        if release:
            day.grant("spec.release", **held, **release)
            release = {}
    day.refuse(Reason.LEASE_CONTENDED, "spec.claim", specId="s", runner="bob")
    day.grant("spec.claim", specId="s", runner="ann", fence=held["fence"])
    return held


def _dispatched(day: Day) -> None:
    day.grant("dispatch.roster", limit=1)
    day.refuse(Reason.JOB_NOT_DISPATCHABLE, "dispatch.claim", jobId="s:b:2", dispatcher="ann")
    for _ in range(2):
        claim = day.grant("dispatch.claim", jobId="s:root", dispatcher="ann")
        lease = claim["job"]["dispatchLease"]
        held = {"jobId": "s:root", "dispatcher": "ann"}
        held |= {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        if _ == 0:
            day.grant("dispatch.release", **held)
    day.grant("job.show", jobId="s:root")
    for _ in range(2):
        day.grant("dispatch.complete", **held, file="f", digest="d")
    day.refuse(Reason.JOB_DISPATCHED, "dispatch.claim", jobId="s:root", dispatcher="ann")


def _jobs(day: Day) -> None:
    artifact = {"artifactId": "x", "artifactType": "t"}
    stamp = {"wallMs": day.time.wall_ms, "counter": 0, "node": "ann"}
    claim = {"kind": "ClaimWork", "author": "ann", "stamp": stamp}
    for job_id, deps in (("a", []), ("b", []), ("c", ["complete/a"])):
        day.grant("job.schedule", jobId=job_id, kind="k", payload={"n": 1}, causalDeps=deps)
    day.refuse(Reason.JOB_EXISTS, "job.schedule", jobId="a", kind="other")
    lease = day.grant("job.claim", jobId="a", worker="ann", leaseDurationMs=30_000)["job"]["lease"]
    held = {"jobId": "a", "worker": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    expiry = {"jobId": "a", "worker": "bob", "claim": lease["claim"], "fence": lease["fence"]}
    day.refuse(Reason.LEASE_CONTENDED, "job.claim", jobId="a", worker="bob")
    day.refuse(Reason.JOB_CLAIM_LIVE, "job.expire", **expiry)
    day.time.passes(30_001)
    day.refuse(Reason.LEASE_STALE, "job.complete", **held, outputArtifacts=[artifact])
    for query in ("pending", "overdue", "waiting"):
        day.grant("job.roster", query=query, limit=1)
    day.refuse(Reason.JOB_CURSOR_INVALID, "job.roster", cursor="x")
    day.grant("job.expire", **expiry)
    lease = day.grant("job.claim", jobId="a", worker="bob")["job"]["lease"]
    held |= {"worker": "bob", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    day.grant("job.yield", **held, reason="tired")
    day.refuse(Reason.LEASE_MISSING, "job.yield", **held)
    batch = [{**claim, "payload": {"jobId": job_id}} for job_id in ("a", "x")]
    batch[1]["stamp"] = stamp | {"counter": 1}
    admitted = day.grant("job.admit", operations=batch)["operations"]
    assert [each["result"] for each in admitted] == ["accepted", "rejected"]
    day.refuse(Reason.LEASE_NOT_FOUND, "job.admit", operations=batch[1:])
    lease = admitted[0]["job"]["lease"]
    held |= {"worker": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    assert day.grant("job.complete", **held, adopt=True)["freed"] == ["c"]
    day.grant("job.show", jobId="a")
    day.refuse(Reason.JOB_NOT_FOUND, "job.show", jobId="x")
    for action, payload in (
        ("route.set", {"kind": "k", "route": "ann"}),
        ("coordinator.designate", {"node": "ann"}),
        ("node.register", {"node": "ann", "publicKey": "0" * 64, "capabilities": ["job.claim"]}),
    ):
        day.grant(action, "cli", **payload)
        day.grant(action, "cli", **payload)
        day.refuse(Reason.JOB_OWNER_REQUIRED, action, "cli", **payload, author="eve")
    day.refuse(Reason.JOB_NODE_LAST, "node.unregister", "cli", node="ann")
    for action in ("job.list", "node.list", "route.list"):
        day.grant(action)
    day.grant("node.unregister", "cli", node="ann", open=True)
    day.grant("route.set", "cli", kind="k")
    _limits_and_schedules(day)


def _limits_and_schedules(day: Day) -> None:
    for job_id in ("l1", "l2"):
        order = {"priority": -1, "timeoutMs": 60_000}
        day.grant("job.schedule", jobId=job_id, kind="l.x", delayMs=10, **order)
    day.refuse(Reason.JOB_NOT_DUE, "job.claim", jobId="l1", worker="bob")
    day.grant("job.roster", query="delayed")
    day.time.passes(10)
    day.grant("limit.set", "cli", kind="l.", concurrency=1, ratePerMinute=60, timeoutMs=1_000)
    day.grant("job.claim", jobId="l1", worker="bob")
    day.refuse(Reason.JOB_LIMIT_REACHED, "job.claim", jobId="l2", worker="bob")
    day.grant("limit.set", "cli", kind="l.", ratePerMinute=60)
    day.refuse(Reason.JOB_RATE_LIMITED, "job.claim", jobId="l2", worker="bob")
    day.grant("limit.list")
    day.grant("limit.clear", "cli", kind="l.")
    start_ms, step = day.time.wall_ms, {"stepKey": "a", "kind": "l.x"}
    for name, made in (("s1", {"job": {"kind": "l.x"}}), ("s2", {"spec": {"steps": [step]}})):
        named = {"scheduleId": name, "everyMs": 1_000, "startMs": start_ms}
        day.grant("schedule.set", "cli", **named, **made)
        day.grant("schedule.fire", "cli", scheduleId=name, dueMs=start_ms)
        day.refuse(Reason.SCHEDULE_FIRED, "schedule.fire", "cli", scheduleId=name, dueMs=start_ms)
    day.grant("schedule.list")
    day.grant("schedule.clear", "cli", scheduleId="s2")


def _reads(day: Day) -> None:
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


def _doors(day: Day) -> None:
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


def _garbage(day: Day) -> None:
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
    if family in ("job", "route", "coordinator", "node", "limit", "dispatch"):
        return Reason.JOB_PAYLOAD_INVALID
    if family == "fiber":
        return Reason.FIBER_PAYLOAD_INVALID
    if family in ("harness", "observe"):
        return Reason.HARNESS_PAYLOAD_INVALID
    leases = family in ("sublease", "instance") or verb.startswith(("lease", "claim"))
    return Reason.LEASE_PAYLOAD_INVALID if leases else Reason.ISSUE_PAYLOAD_INVALID


def _checks(day: Day) -> None:
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


def _policies(day: Day) -> None:
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


def _full(day: Day, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "DEPENDENCIES_PER_ISSUE_MAX", 1)
    day.refuse(Reason.DEPENDENCIES_FULL, "dep.add", id="i6", dependsOnId="i1", type="related")
    patch.setattr(limits, "LIST_MAX", 2)
    assert day.grant("issue.list")["truncated"] is True
    patch.setattr(limits, "ISSUES_MAX", 3)
    day.refuse(Reason.ISSUES_FULL, "issue.add", title="t")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    day = Day(tmp_path_factory.mktemp("day"))
    with pytest.MonkeyPatch.context() as patch:
        live(day, patch)
    yield day
    day.close()


# --- and what came out of it --------------------------------------------------------------------


def test_the_day_was_full(day: Day) -> None:
    seen = {(answer["action"], answer["result"]) for answer in day.answers}
    assert {(action, result) for action in SHAPES for result in ("accepted", "rejected")} <= seen
    classes = {name for answer in day.answers for name in answer["failureClasses"]}
    asked_for = {reason.wire for reason in Reason if reason < Reason.IMPORT_LINE_INVALID}
    assert asked_for - classes == set()
    assert len(day.answers) > 300
    assert len(day.rows()) > 100


def test_every_answer_is_a_response(day: Day) -> None:
    for answer in day.answers:
        assert document_findings("response", answer, answer["action"]) == []


def test_every_effect_is_a_host_effect(day: Day) -> None:
    effects = [answer["effect"] for answer in day.answers if "effect" in answer]
    assert len(effects) > 200
    for effect in effects:
        assert document_findings("host-effect", effect, effect["action"]) == []


def row_document(row: Row) -> Document:
    """A row of the journal as JSON: what the columns hold, under the names of the schema."""
    return {
        "seq": row.seq,
        "epoch": row.epoch,
        "stamp": {"wallMs": row.wall_ms, "counter": row.counter, "node": row.node},
        "request": orjson.loads(row.request),
        "response": orjson.loads(row.response),
        "changes": orjson.loads(row.changes),
        "digest": row.digest,
        "stateDigest": row.state_digest,
    }


def test_every_row_is_a_journal_row(day: Day) -> None:
    for row in day.rows():
        document = row_document(row)
        assert document_findings("journal-row", document, f"row {row.seq}") == []
        assert document_findings("response", document["response"], f"row {row.seq}") == []
        assert all("change" in change for change in document["changes"])


def test_every_journaled_request_is_a_request(day: Day) -> None:
    for row in day.rows():
        request = orjson.loads(row.request)
        del request["door"], request["policy"]
        assert document_findings("request", request, f"row {row.seq}") == []


def test_a_refusal_is_remembered_and_changes_nothing_else(day: Day) -> None:
    kept = [
        document["changes"]
        for document in map(row_document, day.rows())
        if document["response"]["result"] == "rejected"
    ]
    assert {len(changes) for changes in kept} == {0, 1}
    changes = {change["change"] for changes in kept for change in changes}
    assert changes == {"answered", "job.quarantined"}, "and a result that came too late is kept"


def test_every_line_of_the_trajectory_is_a_trajectory_row(day: Day) -> None:
    lines = day.trajectory.path.read_bytes().splitlines()
    assert len(lines) == len(day.rows())
    for number, line in enumerate(lines, start=1):
        assert document_findings("trajectory-row", orjson.loads(line), f"line {number}") == []


def test_every_exported_line_is_an_issue_record(day: Day) -> None:
    lines = export_issues(day.authority.state).splitlines()
    records = [orjson.loads(line) for line in lines if not line.startswith(b"#")]
    assert len(records) == len(day.authority.state.issues) > 20
    assert any("lease" in record for record in records)
    for record in records:
        assert document_findings("issue-record", record, record["id"]) == []


# --- the schemas are not generous ---------------------------------------------------------------


def widened(value: object, path: str = "$") -> Iterator[tuple[str, Any]]:
    """A value with one unknown member in one of its objects, for each of them."""
    if isinstance(value, dict):
        yield path, {**value, "surprise": 1}
        kept = {"metadata", "payload", "inputs"}  # without a look at it
        for name in value.keys() - kept:
            for where, new in widened(value[name], f"{path}.{name}"):
                yield where, {**value, name: new}
    elif isinstance(value, list) and value:
        for where, new in widened(value[0], f"{path}[0]"):
            yield where, [new, *value[1:]]


def test_no_object_of_an_answer_takes_an_unknown_member(day: Day) -> None:
    judge, seen = validator("response"), set[tuple[str, str]]()
    for answer in day.answers:
        for path, document in widened(answer):
            if (answer["action"], path) in seen:
                continue
            seen.add((answer["action"], path))
            assert not judge.is_valid(document), path
    assert len(seen) > 100


@pytest.mark.parametrize("member", ["issue", "issues", "leaseProjection", "items", "sublease"])
def test_a_refusal_has_no_body(day: Day, member: str) -> None:
    body = next(answer[member] for answer in day.answers if member in answer)
    refusal = next(answer for answer in day.answers if answer["result"] == "rejected")
    assert document_findings("response", {**refusal, member: body})


def test_only_what_never_became_a_request_has_no_evidence(day: Day) -> None:
    for answer in day.answers:
        if answer["result"] == "accepted":
            bare = {key: answer[key] for key in answer.keys() - {"effect", "stamp"}}
            assert document_findings("response", bare)


def test_a_refused_row_that_changes_something_is_no_journal_row(day: Day) -> None:
    rows = [row_document(row) for row in day.rows()]
    granted = next(row for row in rows if row["changes"])
    for row in rows:
        if row["response"]["result"] == "rejected":
            assert document_findings("journal-row", {**row, "changes": granted["changes"]})


# --- debts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "context",
    [{"policyDigest": "none"}, {"instructionRef": ""}, {"instructionRef": " "}],
)
def test_evidence_is_well_formed_whatever_the_context(tmp_path: Path, context: Document) -> None:
    with closing(Day(tmp_path)) as day:
        answer = day.ask("issue.add", {"title": "t"}, context=context)
        assert document_findings("response", answer) == []


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000 ", "\u2028"])
def test_a_holder_has_a_name(tmp_path: Path, blank: str) -> None:
    with closing(Day(tmp_path)) as day:
        day.grant("issue.add", id="a", title="t")
        answer = day.ask("issue.claim", {"id": "a", "assignee": blank})
        assert answer["failureClasses"] == [Reason.ASSIGNEE_INVALID.wire]


@pytest.mark.parametrize(
    ("action", "payload"),
    [("policy.set", {"evidenceReads": True}), ("issue.import", {"records": []})],
)
def test_a_request_gains_nothing_by_weakening_its_door(
    tmp_path: Path, action: str, payload: Document
) -> None:
    with closing(Day(tmp_path)) as day:
        day.refuse(Reason.TRANSPORT_FORBIDDEN, action, **payload)
        answer = day.ask(action, payload, context={"transport": "cli"})
        assert answer["result"] == "rejected"
