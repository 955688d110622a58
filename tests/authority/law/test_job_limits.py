"""Limits of jobs and specs, from both sides."""

from typing import Any

import pytest

from tests.fakes.desk import START_MS, Desk, fits
from tests.limits import stands_on
from understudy.contracts import Schedule, due, limits

# --- jobs ---------------------------------------------------------------------------------------


def scheduled(desk: Desk, job_id: str = "a", **payload: object) -> None:
    desk.grant("job.schedule", jobId=job_id, kind="k", **payload)


@stands_on("JOBS_MAX", "DIRECTIVES_MAX", "MEMBERS_MAX")
def test_there_are_so_many_jobs_routes_and_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (limits.JOBS_MAX, limits.DIRECTIVES_MAX, limits.MEMBERS_MAX) == (2**22, 2**12, 2**16)
    for name in ("JOBS_MAX", "DIRECTIVES_MAX", "MEMBERS_MAX"):
        monkeypatch.setattr(limits, name, 1)
    desk = Desk()
    scheduled(desk)
    assert desk.refusal("job.schedule", jobId="b", kind="k") == "job_store_full"
    for action, name, full in (
        ("route.set", "kind", "job_directives_full"),
        ("node.register", "node", "job_members_full"),
    ):
        assert desk.refusal(action, "cli", **{name: "x"}) is None
        assert desk.refusal(action, "cli", **{name: "x"}) is None, "what is there may change"
        assert desk.refusal(action, "cli", **{name: "y"}) == full


@stands_on("JOB_PAYLOAD_MEMBERS_MAX", "CAUSAL_DEPS_MAX", "ARTIFACTS_MAX")
@stands_on("OPERATIONS_PER_BATCH_MAX", "ROSTER_PAGE_MAX", "ROSTER_PAGE_DEFAULT")
@stands_on("KIND_PREFIXES_MAX")
def test_payloads_of_jobs_have_their_bounds() -> None:
    named = {"jobId": "a", "kind": "k"}
    artifact = {"artifactId": "x", "artifactType": "t"}
    stamp = {"wallMs": 0, "counter": 0, "node": "n"}
    operation = {"kind": "ClaimWork", "author": "n", "stamp": stamp, "payload": {}}
    for extra in (0, 1):
        members = {f"m{place}": 1 for place in range(limits.JOB_PAYLOAD_MEMBERS_MAX + extra)}
        assert fits("job.schedule", named | {"payload": members}) is not bool(extra)
        deps = ["complete/x"] * (limits.CAUSAL_DEPS_MAX + extra)
        assert fits("job.schedule", named | {"causalDeps": deps}) is not bool(extra)
        produced = {"jobId": "a", "outputArtifacts": [artifact] * (limits.ARTIFACTS_MAX + extra)}
        assert fits("job.complete", produced) is not bool(extra)
        batch = {"operations": [operation] * (limits.OPERATIONS_PER_BATCH_MAX + extra)}
        assert fits("job.admit", batch) is not bool(extra)
        kinds = {"node": "n", "kindPrefixes": ["k"] * (limits.KIND_PREFIXES_MAX + extra)}
        assert fits("node.register", kinds) is not bool(extra)
        page = {"limit": limits.ROSTER_PAGE_MAX + extra}
        assert fits("job.roster", page) is not bool(extra)
    desk = Desk()
    for place in range(limits.ROSTER_PAGE_DEFAULT + 1):
        scheduled(desk, f"j{place}")
    assert desk.grant("job.roster")["count"] == limits.ROSTER_PAGE_DEFAULT


@stands_on("AUTHORS_MAX", "STAMPS_PER_AUTHOR_MAX")
def test_so_many_stamps_of_so_many_nodes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (limits.AUTHORS_MAX, limits.STAMPS_PER_AUTHOR_MAX) == (2**16, 64)
    monkeypatch.setattr(limits, "AUTHORS_MAX", 1)
    monkeypatch.setattr(limits, "STAMPS_PER_AUTHOR_MAX", 2)
    desk = Desk()

    def admitted(node: str, at: int, job_id: str) -> str | None:
        stamp = {"wallMs": at, "counter": 0, "node": node}
        payload = {"jobId": job_id, "kind": "k"}
        signed = {"kind": "ScheduleJob", "author": node, "stamp": stamp, "payload": payload}
        return desk.refusal("job.admit", operations=[signed])

    for at in (1, 2, 3):
        assert admitted("ann", at, f"a{at}") is None
    assert admitted("ann", 2, "again") == "operation_stamp_conflict"
    assert admitted("ann", 1, "forgotten") is None
    assert [admitted("bob", 1, each) for each in ("b1", "b2")] == [None, None], "no room for bob"
    desk.grant("node.register", "cli", node="eve", capabilities=["job.schedule"])
    assert [admitted("eve", 1, each) for each in ("e1", "e2")] == [None, "operation_stamp_conflict"]


@stands_on("JOB_ATTEMPTS_MAX")
def test_a_job_is_claimed_so_often() -> None:
    desk = Desk()
    scheduled(desk)
    for _ in range(limits.JOB_ATTEMPTS_MAX):
        lease = desk.grant("job.claim", jobId="a", worker="ann")["job"]["lease"]
        held = {"worker": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        desk.grant("job.yield", jobId="a", **held)
    assert desk.refusal("job.claim", jobId="a", worker="ann") == "job_attempts_spent"


@stands_on("HAND_BACKS_MAX")
def test_so_many_hand_backs_are_excused() -> None:
    desk = Desk()
    scheduled(desk)
    desk.grant("issue.add", id="i", title="I")
    for count in range(1, limits.HAND_BACKS_MAX + 2):
        lease = desk.grant("job.claim", jobId="a", worker="ann")["job"]["lease"]
        held = {"worker": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        job = desk.grant("job.yield", jobId="a", handedBack=True, **held)["job"]
        lease = desk.grant("issue.claim", id="i", assignee="ann")["issue"]["lease"]
        held = {"assignee": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        issue = desk.grant("issue.lease_release", id="i", handedBack=True, **held)["issue"]
        excused = min(count, limits.HAND_BACKS_MAX)
        assert (job["excused"], issue["excused"]) == (excused, excused)
    assert (job["attempts"], issue["attempts"]) == (count, count)


@stands_on("JOB_DELAY_MS_MAX", "JOB_TIMEOUT_MS_MIN", "JOB_TIMEOUT_MS_MAX")
def test_a_job_waits_and_lasts_so_long() -> None:
    desk = Desk()
    for name, bound, beyond, refusal in (
        ("delayMs", limits.JOB_DELAY_MS_MAX, 1, "job_run_at_invalid"),
        ("timeoutMs", limits.JOB_TIMEOUT_MS_MIN, -1, "job_limit_invalid"),
        ("timeoutMs", limits.JOB_TIMEOUT_MS_MAX, 1, "job_limit_invalid"),
    ):
        named = {"jobId": f"{name}{bound}", "kind": "k"}
        assert desk.refusal("job.schedule", **named, **{name: bound + beyond}) == refusal
        assert desk.refusal("job.schedule", **named, **{name: bound}) is None


@stands_on("JOB_SCAN_MAX")
def test_a_page_of_jobs_looks_at_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.JOB_SCAN_MAX == 2**12
    monkeypatch.setattr(limits, "JOB_SCAN_MAX", 2)
    desk = Desk()
    for name in "abc":
        scheduled(desk, name)
    desk.grant("job.claim", jobId="c", worker="ann")
    first = desk.grant("job.list", state="claimed")
    assert (first["count"], first["cursor"]) == (0, "2/b")
    second = desk.grant("job.list", state="claimed", cursor=first["cursor"])
    assert [each["jobId"] for each in second["jobs"]] == ["c"]
    assert "cursor" not in second


@stands_on("KIND_LIMITS_MAX", "KIND_CONCURRENCY_MAX", "KIND_RATE_MAX")
def test_a_kind_is_limited_to_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    for name, bound in (
        ("concurrency", limits.KIND_CONCURRENCY_MAX),
        ("ratePerMinute", limits.KIND_RATE_MAX),
    ):
        for extra in (0, 1):
            refusal = desk.refusal("limit.set", "cli", kind="k", **{name: bound + extra})
            assert refusal == ("job_limit_invalid" if extra else None)
    assert limits.KIND_LIMITS_MAX == 2**10
    monkeypatch.setattr(limits, "KIND_LIMITS_MAX", 1)
    assert desk.refusal("limit.set", "cli", kind="l", concurrency=1) == "job_limits_full"


@stands_on("SCHEDULES_MAX", "SCHEDULE_EVERY_MS_MIN", "SCHEDULE_GRACE_MS")
def test_so_many_schedules_fire_so_often_and_so_late(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, job = Desk(), {"kind": "k"}
    least, grace = limits.SCHEDULE_EVERY_MS_MIN, limits.SCHEDULE_GRACE_MS
    named = {"scheduleId": "s", "job": job, "missed": "skip", "startMs": START_MS}
    short = desk.refusal("schedule.set", "cli", **named, everyMs=least - 1)
    assert short == "schedule_times_invalid"
    desk.grant("schedule.set", "cli", **named, everyMs=least)
    desk.time.passes(grace + 1)
    fired = {"scheduleId": "s", "dueMs": START_MS}
    assert desk.refusal("schedule.fire", "cli", **fired) == "schedule_missed"
    desk.time.passes(least - 1)
    desk.grant("schedule.fire", "cli", scheduleId="s", dueMs=START_MS + least)
    assert limits.SCHEDULES_MAX == 2**10
    monkeypatch.setattr(limits, "SCHEDULES_MAX", 1)
    another = {"scheduleId": "t", "job": job, "everyMs": least}
    assert desk.refusal("schedule.set", "cli", **another) == "schedule_store_full"


@stands_on("SCHEDULE_MISSED_MAX")
def test_so_many_firings_are_made_up_for() -> None:
    schedule = Schedule(
        schedule_id="s", every_ms=1_000, start_ms=0, template="{}", makes="job", last_due_ms=0,
        set_ms=0,
    )  # fmt: skip
    most = limits.SCHEDULE_MISSED_MAX
    assert len(due.due_between(schedule, 0, most * 1_000)) == most
    found = due.due_between(schedule, 0, START_MS)
    assert (len(found), found[-1]) == (most, START_MS), "the newest, and none took long"


@stands_on("JOB_WAIT_MS_MAX", "COORDINATOR_QUIET_MS_MAX")
def test_waiting_and_silence_have_an_end() -> None:
    desk = Desk()
    scheduled(desk, causalDeps=["complete/b"])
    desk.grant("coordinator.designate", "cli", node="ann")
    desk.time.passes(limits.COORDINATOR_QUIET_MS_MAX)
    assert not desk.grant("job.roster")["coordinator"]["quiet"]
    desk.time.passes(1)
    assert desk.grant("job.roster")["coordinator"]["quiet"]
    desk.time.passes(limits.JOB_WAIT_MS_MAX - limits.COORDINATOR_QUIET_MS_MAX - 1)
    assert desk.refusal("job.claim", jobId="a", worker="ann") == "job_waiting_dependency"
    desk.time.passes(1)
    assert desk.refusal("job.claim", jobId="a", worker="ann") == "job_dependency_blocked"


# --- specs --------------------------------------------------------------------------------------


def stepped(count: int) -> list[dict[str, str]]:
    return [{"stepKey": f"s{place}", "kind": "k"} for place in range(count)]


def run_by(desk: Desk, spec_id: str = "a", **payload: object) -> dict[str, Any]:
    """Claim a spec, and give back what its runner has to show."""
    lease = desk.grant("spec.claim", specId=spec_id, runner="ann", **payload)["spec"]["lease"]
    shown = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
    return {"specId": spec_id, "runner": "ann", **shown}


@stands_on("SPECS_MAX")
def test_there_are_so_many_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.SPECS_MAX == 2**20
    monkeypatch.setattr(limits, "SPECS_MAX", 1)
    desk = Desk()
    assert desk.refusal("spec.submit", specId="a", steps=stepped(1)) is None
    assert desk.refusal("spec.submit", specId="a", steps=stepped(1)) is None, "it is there"
    assert desk.refusal("spec.submit", specId="b", steps=stepped(1)) == "spec_store_full"


@stands_on("SPEC_STEPS_MAX", "SPEC_BATCH_MAX")
def test_a_spec_has_so_many_steps_and_a_row_makes_so_many_jobs() -> None:
    desk = Desk()
    for extra in (0, 1):
        spec = {"specId": "a", "steps": stepped(limits.SPEC_STEPS_MAX + extra)}
        assert fits("spec.submit", spec) is not bool(extra)
        keys = [f"s{place}" for place in range(limits.SPEC_BATCH_MAX + extra)]
        assert fits("spec.materialize", {"specId": "a", "stepKeys": keys}) is not bool(extra)
    assert not fits("spec.submit", {"specId": "a", "steps": []})
    assert not fits("spec.materialize", {"specId": "a", "stepKeys": []})
    desk.grant("spec.submit", specId="a", steps=stepped(limits.SPEC_STEPS_MAX))
    held = run_by(desk)
    for _ in range(limits.SPEC_STEPS_MAX // limits.SPEC_BATCH_MAX):
        spec = desk.grant("spec.show", specId="a")["spec"]
        assert len(spec["missing"]) == limits.SPEC_BATCH_MAX
        desk.grant("spec.materialize", **held, stepKeys=spec["missing"])
    assert desk.grant("spec.show", specId="a")["spec"]["state"] == "materialized"


def test_jobs_of_a_spec_count_as_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOBS_MAX", 2)
    desk = Desk()
    desk.grant("spec.submit", specId="a", steps=stepped(3))
    held = run_by(desk)
    keys = ["s0", "s1", "s2"]
    assert desk.refusal("spec.materialize", **held, stepKeys=keys) == "job_store_full"
    assert desk.grant("spec.materialize", **held, stepKeys=keys[:2])["created"] == ["a:s0", "a:s1"]
    assert desk.refusal("spec.materialize", **held, stepKeys=keys) == "job_store_full"


@stands_on("SPEC_TTL_MS_DEFAULT")
def test_a_runner_that_says_nothing_has_a_minute() -> None:
    desk = Desk()
    desk.grant("spec.submit", specId="a", steps=stepped(1))
    held = run_by(desk)
    desk.time.passes(limits.SPEC_TTL_MS_DEFAULT)
    assert desk.refusal("spec.release", **held) is None
    held = run_by(desk)
    desk.time.passes(limits.SPEC_TTL_MS_DEFAULT + 1)
    assert desk.refusal("spec.release", **held) == "lease_stale"
    for duration_ms, class_ in ((29_999, "lease_invalid_ttl"), (86_400_001, "lease_invalid_ttl")):
        asked = {"specId": "a", "runner": "bob", "leaseDurationMs": duration_ms}
        assert desk.refusal("spec.claim", **asked) == class_
    run_by(desk, leaseDurationMs=86_400_000)


@stands_on("LAPSED_SCAN_MAX")
def test_a_page_looks_at_so_many_lapsed_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LAPSED_SCAN_MAX", 2)
    desk = Desk()
    for name in "abcd":
        desk.grant("spec.submit", specId=name, steps=stepped(1))
    for name in "cba":
        run_by(desk, name)
        desk.time.passes(1)
    desk.time.passes(limits.SPEC_TTL_MS_DEFAULT + 1)
    found = [each["specId"] for each in desk.grant("spec.list")["specs"]]
    assert found == ["b", "c", "d"], "those that lapsed first, and what was never held"
    run_by(desk, "c")
    assert [each["specId"] for each in desk.grant("spec.list")["specs"]] == ["a", "b", "d"]


@stands_on("JOB_ID_LENGTH_MAX", "OPERATION_ID_LENGTH_MAX")
def test_the_longest_names_go_through_every_action() -> None:
    desk = Desk()
    spec_id, key = "s" * limits.ID_LENGTH_MAX, "k" * limits.ID_LENGTH_MAX
    job_id = f"{spec_id}:{key}"
    assert len(job_id) == limits.JOB_ID_LENGTH_MAX
    steps = [{"stepKey": key, "kind": "k"}, {"stepKey": "z", "kind": "k", "dependsOn": [key]}]
    desk.grant("spec.submit", specId=spec_id, steps=steps)
    desk.grant("spec.materialize", **run_by(desk, spec_id), stepKeys=[key, "z"])
    lease = desk.grant("dispatch.claim", jobId=job_id, dispatcher="d")["job"]["dispatchLease"]
    shown = {"dispatcher": "d", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    desk.grant("dispatch.release", jobId=job_id, **shown)
    lease = desk.grant("job.claim", jobId=job_id, worker="w")["job"]["lease"]
    desk.grant("job.schedule", jobId="o", kind="k", causalDeps=[f"complete/{job_id}"])
    shown = {"worker": "w", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    assert sorted(desk.grant("job.complete", jobId=job_id, **shown)["freed"]) == [
        "o", f"{spec_id}:z",
    ]  # fmt: skip
    for extra in (0, 1):
        longer = {"jobId": job_id + "x" * extra}
        assert fits("job.show", longer) is not bool(extra)
        cursor = {"cursor": "c" * (limits.OPERATION_ID_LENGTH_MAX + extra)}
        assert fits("dispatch.roster", cursor) is not bool(extra)
    assert not fits("job.schedule", {"jobId": "a:b", "kind": "k"}), "these are for specs"
