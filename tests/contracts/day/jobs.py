"""The day's specs and jobs, from their making to their end."""

from tests.contracts.day.day import Day, Document
from understudy.contracts.reason import Reason


def specs(day: Day) -> None:
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


def jobs(day: Day) -> None:
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


def spending(day: Day) -> None:
    day.grant("issue.add", id="dear", title="t", labels=["dear"])
    for scope, per in (
        ("*", "work"),
        ("*", "day"),
        ("label/dear", "label"),
        ("issue/dear", "attempt"),
    ):
        day.grant("budget.set", scope=scope, per=per, tokensMax=100, usdMicrosMax=100)
    lease = day.grant("issue.claim", id="dear", assignee="ann")["issue"]["lease"]
    held = {"id": "dear", "assignee": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    day.refuse(Reason.SPEND_AMOUNT_INVALID, "spend.report", **held, tokens=-1)
    day.grant("spend.report", **held, tokens=80, milliseconds=5)
    for asked in ({}, {"id": "dear"}):
        day.grant("spend.show", **asked)
    assert day.grant("spend.report", **held, tokens=20)["stopped"]
    day.grant("issue.show", id="dear")
    day.refuse(Reason.BUDGET_EXCEEDED, "issue.claim", id="dear", assignee="bob")
    day.grant("budget.list")
    day.grant("budget.clear", scope="*")
    day.refuse(Reason.BUDGET_NOT_FOUND, "budget.clear", scope="*")
    day.refuse(Reason.BUDGET_INVALID, "budget.set", scope="*", per="day", tokensMax=0)
