"""Limits of leases and of what workers leave behind, from both sides."""

import pytest

from tests.fakes.desk import START_MS, Desk, asked, fits
from tests.limits import stands_on
from understudy.authority.law.outcome import (
    SubleasePut,
)
from understudy.authority.law.state import apply
from understudy.contracts import (
    Unreadable,
    join_check,
    limits,
    rfc3339,
)
from understudy.contracts.records.records import Sublease

# --- leases ---------------------------------------------------------------------------------------


def claimed(**payload: object) -> str | None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    return desk.refusal("issue.claim", id="a", assignee="ann", **payload)


@stands_on("TTL_SECONDS_MIN", "TTL_SECONDS_MAX")
def test_a_lease_lasts_neither_shorter_nor_longer() -> None:
    assert claimed(leaseTtlSeconds=limits.TTL_SECONDS_MIN) is None
    assert claimed(leaseTtlSeconds=limits.TTL_SECONDS_MAX) is None
    assert claimed(leaseTtlSeconds=limits.TTL_SECONDS_MIN - 1) == "lease_invalid_ttl"
    assert claimed(leaseTtlSeconds=limits.TTL_SECONDS_MAX + 1) == "lease_invalid_ttl"


@pytest.mark.parametrize(
    ("bound_s", "outward_ms"), [(limits.TTL_SECONDS_MIN, -1), (limits.TTL_SECONDS_MAX, 1)]
)
def test_a_moment_has_the_same_bounds_as_a_duration(bound_s: int, outward_ms: int) -> None:
    on_the_bound = START_MS + bound_s * 1000
    beyond = on_the_bound + outward_ms
    assert claimed(leaseExpiresAt=rfc3339.answer_text(on_the_bound)) is None
    found = claimed(leaseExpiresAt=rfc3339.answer_text(beyond))
    assert found == "lease_invalid_expires_at"


@stands_on("TTL_SECONDS_DEFAULT")
def test_a_claim_that_says_nothing_gets_the_default_and_no_more() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    desk.time.passes(limits.TTL_SECONDS_DEFAULT * 1000)
    desk.grant("issue.update", **ann, title="on the tick")
    desk.time.passes(1)
    assert desk.refusal("issue.update", **ann, title="past it") == "lease_stale"


@stands_on("SUBLEASES_PER_LEASE_MAX")
def test_a_lease_has_so_many_subleases() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    puts = [
        SubleasePut(
            Sublease(
                resource="issue/a",
                sublease_id=f"s{place}",
                parent_lease_id=str(ann["leaseId"]),
                holder="h",
                capability_scope=(),
                granted_ms=START_MS,
                deadline_ms=START_MS,
            )
        )
        for place in range(limits.SUBLEASES_PER_LEASE_MAX - 1)
    ]
    apply(desk.authority.state, tuple(puts))
    lent = ann | {"holder": "h", "capabilityScope": ["issue.update"]}
    assert desk.refusal("sublease.grant", **lent) is None
    assert desk.refusal("sublease.grant", **lent) == "lease_subleases_full"


@stands_on("INSTANCES_PER_LEASE_MAX")
def test_a_lease_has_so_many_instances() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for place in range(limits.INSTANCES_PER_LEASE_MAX):
        assert desk.refusal("instance.open", **ann, instanceId=f"w{place}") is None
    assert desk.refusal("instance.open", **ann, instanceId="w") == "lease_instances_full"


@stands_on("FIBERS_PER_LEASE_MAX")
def test_so_many_fibers_run_under_a_lease() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for place in range(limits.FIBERS_PER_LEASE_MAX):
        assert desk.refusal("fiber.spawn", **ann, taskRef="t", fiberId=f"f{place}") is None
    assert desk.refusal("fiber.spawn", **ann, taskRef="t") == "fiber_scope_full"
    everyone = [f"f{place}" for place in range(limits.FIBERS_PER_LEASE_MAX)]
    assert fits("fiber.join", {"id": "a", "fiberId": "f0", "joinSet": everyone})
    assert not fits("fiber.join", {"id": "a", "fiberId": "f0", "joinSet": [*everyone, "f"]})
    desk.grant("fiber.join", **ann, fiberId="f0")
    assert desk.refusal("fiber.spawn", **ann, taskRef="t") is None, "only those that run count"


@stands_on("FIBERS_ENDED_MAX")
def test_so_many_ended_fibers_are_remembered() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for place in range(limits.FIBERS_ENDED_MAX + 1):
        desk.grant("fiber.spawn", **ann, taskRef="t", fiberId=f"f{place}")
        if place == limits.FIBERS_ENDED_MAX:
            assert desk.refusal("fiber.join", **ann, fiberId="f0") == "fiber_ended"
        desk.grant("fiber.join", **ann, fiberId=f"f{place}")
    assert desk.refusal("fiber.join", **ann, fiberId="f0") == "fiber_not_found"
    assert desk.refusal("fiber.join", **ann, fiberId="f1") == "fiber_ended"


@stands_on("FIBER_DEPTH_MAX")
def test_fibers_lie_so_deep() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    above: dict[str, str] = {}
    for place in range(limits.FIBER_DEPTH_MAX):
        spawned = desk.grant("fiber.spawn", **ann, taskRef="t", fiberId=f"f{place}", **above)
        above = {"parentFiberId": spawned["fiberId"]}
    assert desk.refusal("fiber.spawn", **ann, taskRef="t", **above) == "fiber_too_deep"


# --- what workers leave behind --------------------------------------------------------------------


@stands_on("SUMMARY_LENGTH_MAX", "CHECKPOINT_NOTES_MAX", "CHECKPOINT_ITEMS_MAX")
def test_a_checkpoint_has_a_greatest_size() -> None:
    def taken(**members: object) -> bool:
        return fits("issue.handover", {"id": "a", "checkpoint": {"summary": "s", **members}})

    assert taken(summary="s" * limits.SUMMARY_LENGTH_MAX)
    assert not taken(summary="s" * (limits.SUMMARY_LENGTH_MAX + 1))
    assert taken(notes="s" * limits.CHECKPOINT_NOTES_MAX)
    assert not taken(notes="s" * (limits.CHECKPOINT_NOTES_MAX + 1))
    for name in ("done", "next", "artifacts"):
        assert taken(**{name: ["x"] * limits.CHECKPOINT_ITEMS_MAX})
        assert not taken(**{name: ["x"] * (limits.CHECKPOINT_ITEMS_MAX + 1)})


@stands_on("HANDOVERS_PER_ISSUE_MAX")
def test_so_many_handovers_of_an_issue_are_kept() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for place in range(limits.HANDOVERS_PER_ISSUE_MAX + 1):
        desk.grant("issue.handover", **ann, checkpoint={"summary": f"number {place}"})
        kept = desk.authority.state.handovers["a"]
        assert len(kept) == min(place + 1, limits.HANDOVERS_PER_ISSUE_MAX)
    assert kept[0].checkpoint.summary == "number 1", "the oldest is gone"


@stands_on("REFS_MAX")
def test_so_many_references_of_a_kind() -> None:
    def taken(count: int) -> bool:
        return fits("harness.session.write", {"worker": "a", "witnessRefs": ["r"] * count})

    assert taken(limits.REFS_MAX)
    assert not taken(limits.REFS_MAX + 1)


@stands_on("SESSIONS_MAX")
def test_so_many_sessions_are_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS_MAX", 3)
    desk = Desk()
    for place in range(limits.SESSIONS_MAX):
        desk.grant("harness.session.write", worker=f"w{place}")
    assert desk.refusal("harness.session.write", worker="more") == "harness_sessions_full"
    desk.grant("harness.session.write", worker="w1", state="stopped")
    desk.grant("harness.session.write", worker="more")
    assert sorted(desk.authority.state.sessions) == ["more", "w0", "w2"]


@stands_on("FEATURES_PER_WORKER_MAX")
def test_so_many_features_stand_in_a_ledger() -> None:
    desk = Desk()
    desk.grant("harness.session.write", worker="w")
    for place in range(limits.FEATURES_PER_WORKER_MAX):
        desk.grant("harness.feature.write", worker="w", featureId=f"f{place}")
    full = desk.refusal("harness.feature.write", worker="w", featureId="more")
    assert full == "harness_features_full"
    feature = {"featureId": "f", "status": "pending", "updatedAt": "t"}
    ledger = {"ledgerKind": "premath.harness.feature_ledger.v1", "updatedAt": "t"}
    shown = ledger | {"features": [feature] * limits.FEATURES_PER_WORKER_MAX}
    assert fits("harness.feature.check", {"ledger": shown})
    shown["features"] = [*shown["features"], feature]
    assert not fits("harness.feature.check", {"ledger": shown})


@stands_on("PAST_ROWS_MAX", "QUERY_ITEMS_MAX")
def test_a_query_looks_so_far_back_and_shows_so_much() -> None:
    desk = Desk()
    step = asked("harness.trajectory.append", {"worker": "w", "action": "a", "resultClass": "ok"})
    desk.authority.submit([step] * (limits.PAST_ROWS_MAX + 1))
    seen = desk.grant("harness.trajectory.query", limit=limits.QUERY_ITEMS_MAX)["trajectory"]
    assert (seen["totalCount"], seen["count"]) == (limits.PAST_ROWS_MAX, limits.QUERY_ITEMS_MAX)
    assert (seen["firstSeq"], seen["lastSeq"]) == (2, limits.PAST_ROWS_MAX + 1)
    assert not fits("harness.trajectory.query", {"limit": limits.QUERY_ITEMS_MAX + 1})


@stands_on("ATTENTION_ITEMS_MAX", "ATTENTION_ATTEMPTS")
def test_so_much_asks_for_attention() -> None:
    desk = Desk()
    for place in range(limits.ATTENTION_ITEMS_MAX):
        desk.grant("issue.add", id=f"i{place}", title="t")
        desk.grant("issue.update", id=f"i{place}", status="blocked")
    seen = desk.grant("observe.needs_attention")["attention"]
    assert (seen["count"], seen["truncated"]) == (limits.ATTENTION_ITEMS_MAX, False)
    desk.grant("issue.add", id="a", title="t")
    for turn in range(limits.ATTENTION_ATTEMPTS):
        kinds = {
            item["kind"] for item in desk.grant("observe.needs_attention")["attention"]["items"]
        }
        assert "attempts" not in kinds, turn
        desk.grant("issue.lease_release", **desk.claim("a", "ann"))
    seen = desk.grant("observe.needs_attention")["attention"]
    assert seen["truncated"]
    assert (seen["count"], seen["items"][0]["kind"]) == (limits.ATTENTION_ITEMS_MAX, "attempts")


@stands_on("JOIN_SECTIONS_MAX", "JOIN_PATHS_MAX")
def test_so_many_sections_and_paths_are_joined() -> None:
    def judged(sections: int, paths: int) -> bool:
        one = [
            {"ref": f"r{n}", "changedPaths": [f"{n}/{p}" for p in range(paths)]}
            for n in range(sections)
        ]
        return not isinstance(join_check({"sections": one}), Unreadable)

    assert judged(limits.JOIN_SECTIONS_MAX, 1)
    assert not judged(limits.JOIN_SECTIONS_MAX + 1, 1)
    assert judged(1, limits.JOIN_PATHS_MAX)
    assert not judged(1, limits.JOIN_PATHS_MAX + 1)
    names = [f"i{place}" for place in range(limits.JOIN_SECTIONS_MAX + 1)]
    assert fits("harness.join.check", {"issueIds": names[1:]})
    assert not fits("harness.join.check", {"issueIds": names})
