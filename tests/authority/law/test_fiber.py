"""Fibers: scopes end when what is in them has ended, and nothing is lost between terms."""

from typing import Any

import pytest

from tests.fakes.desk import Desk

Payload = dict[str, Any]


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    return desk


@pytest.fixture
def ann(desk: Desk) -> Payload:
    return desk.claim("a", "ann", leaseTtlSeconds=30)


def spawn(desk: Desk, held: Payload, tree: dict[str, str | None]) -> None:
    """Fibers by name, each with the name of its parent."""
    for name, parent in tree.items():
        below = {} if parent is None else {"parentFiberId": parent}
        desk.grant("fiber.spawn", **held, taskRef=f"do {name}", fiberId=name, **below)


def states(desk: Desk) -> dict[str, str]:
    shown = desk.grant("issue.show", id="a")["issue"]["fibers"]
    return {each["fiberId"]: each["state"] for each in shown}


TREE: dict[str, str | None] = {"top": None, "b": "top", "a": "top", "low": "b", "beside": None}


# --- scopes -------------------------------------------------------------------------------------


def test_a_cancellation_reaches_every_descendant_and_nothing_else(desk: Desk, ann: Payload) -> None:
    spawn(desk, ann, TREE)
    answer = desk.grant("fiber.cancel", **ann, fiberId="top", reason=" enough ")
    assert answer["cancelled"] == ["top", "b", "a", "low"], "in the order of their spawns"
    assert states(desk) == dict.fromkeys(TREE, "cancelled") | {"beside": "running"}
    shown = desk.grant("issue.show", id="a")["issue"]["fibers"]
    assert {each.get("reason") for each in shown} == {"enough", None}


def test_evidence_names_every_fiber_that_a_decision_ended(desk: Desk, ann: Payload) -> None:
    spawn(desk, ann, TREE)
    cancelled = desk.grant("fiber.cancel", **ann, fiberId="b")
    joined = desk.grant("fiber.join", **ann, fiberId="top", joinSet=["a"])
    rest = desk.grant("fiber.cancel", **ann, wholeScope=True)
    for answer, names in ((cancelled, ["b", "low"]), (joined, ["a", "top"]), (rest, ["beside"])):
        refs = [ref for ref in answer["effect"]["witnessRefs"] if ref.startswith("fiber://")]
        assert [ref.split("/")[4] for ref in refs] == names
        assert len(set(refs)) == len(refs)
        assert answer["effect"]["fence"] == ann["fence"]
    assert cancelled["fiberWitnessRef"] in cancelled["effect"]["witnessRefs"]


def test_a_witness_names_one_fiber_of_one_term(desk: Desk, ann: Payload) -> None:
    first = desk.grant("fiber.spawn", **ann, taskRef="t", fiberId="f")
    other = desk.grant("fiber.spawn", **ann, taskRef="t", fiberId="g")
    desk.grant("issue.lease_release", **ann)
    again = desk.claim("a", "ann")
    second = desk.grant("fiber.spawn", **again, taskRef="t", fiberId="f")
    refs = {each["fiberWitnessRef"] for each in (first, other, second)}
    assert len(refs) == 3


def test_a_refused_join_ends_nothing(desk: Desk, ann: Payload) -> None:
    spawn(desk, ann, TREE)
    before = states(desk)
    answer = desk.ask("fiber.join", **ann, fiberId="top", joinSet=["a", "b"])
    assert answer["failureClasses"] == ["fiber_scope_open"]
    assert "low" in answer["diagnostic"]
    assert states(desk) == before


def test_the_diagnostic_names_three_that_run_and_counts_the_rest(desk: Desk, ann: Payload) -> None:
    spawn(desk, ann, TREE)
    diagnostic = desk.ask("issue.close", **ann)["diagnostic"]
    assert diagnostic.startswith("issue a: top, b, a and 2 more: ")


def test_nothing_can_be_closed_around_a_running_fiber(desk: Desk, ann: Payload) -> None:
    spawn(desk, ann, {"f": None})
    lent = {"newSubleaseId": "s", "holder": "sub", "capabilityScope": ["issue.close"]}
    desk.grant("sublease.grant", **ann, **lent)
    sub = ann | {"assignee": "sub", "subleaseId": "s"}
    for action, more in (("issue.close", {}), ("issue.update", {"status": "closed"})):
        assert desk.refusal(action, **ann, **more) == "fiber_scope_open"
    assert desk.refusal("issue.close", **sub) == "fiber_scope_open"
    desk.grant("fiber.cancel", **ann, fiberId="f")
    desk.grant("issue.close", **sub)
    assert desk.authority.state.fibers == {}


# --- terms --------------------------------------------------------------------------------------

ENDS: list[tuple[str, Payload]] = [
    ("issue.lease_release", {}),
    ("issue.update", {"status": "open"}),
    ("issue.update", {"status": "blocked"}),
]


@pytest.mark.parametrize(("action", "more"), ENDS)
def test_giving_up_is_possible_whatever_runs(
    desk: Desk, ann: Payload, action: str, more: Payload
) -> None:
    spawn(desk, ann, TREE)
    desk.grant("fiber.join", **ann, fiberId="low")
    answer = desk.grant(action, **ann, **more)
    assert answer["orphanedFibers"] == ["top", "b", "a", "beside"]
    assert states(desk) == dict.fromkeys(("top", "b", "a", "beside"), "orphaned")


def test_a_reclaim_tells_what_was_running_and_the_id_can_be_used_again(
    desk: Desk, ann: Payload
) -> None:
    spawn(desk, ann, {"f": None, "g": "f"})
    desk.time.passes(30_001)
    answer = desk.grant("issue.claim", id="a", assignee="bob")
    assert answer["orphanedFibers"] == ["f", "g"]
    lease = answer["issue"]["lease"]
    bob = {"id": "a", "assignee": "bob", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    for action in ("fiber.join", "fiber.cancel"):
        assert desk.refusal(action, **bob, fiberId="f") == "fiber_orphaned"
        assert desk.refusal(action, **ann, fiberId="f") == "lease_fence_stale"
    assert desk.refusal("fiber.spawn", **bob, taskRef="t", parentFiberId="f") == "fiber_orphaned"
    spawn(desk, bob, {"f": None})
    assert states(desk) == {"f": "running", "g": "orphaned"}
    desk.grant("fiber.join", **bob, fiberId="f")
    assert "orphanedFibers" not in desk.grant("issue.lease_release", **bob)
    assert states(desk) == {}
    desk.prove()


def test_fibers_survive_renewals_claims_of_the_holder_and_restarts(
    desk: Desk, ann: Payload
) -> None:
    spawn(desk, ann, TREE)
    before = desk.grant("issue.show", id="a")["issue"]["fibers"]
    desk.grant("issue.lease_renew", **ann)
    desk.claim("a", "ann")
    desk.authority.snapshot()
    desk.restart()
    assert desk.grant("issue.show", id="a")["issue"]["fibers"] == before
    desk.prove()


def test_the_memory_of_ended_fibers_is_bounded_and_in_order(
    desk: Desk, ann: Payload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.contracts.limits.FIBERS_ENDED_MAX", 3)
    spawn(desk, ann, TREE)
    desk.grant("fiber.join", **ann, fiberId="beside")
    desk.grant("fiber.cancel", **ann, fiberId="top")
    assert states(desk) == dict.fromkeys(("b", "a", "low"), "cancelled"), "the oldest go first"
    desk.prove()
