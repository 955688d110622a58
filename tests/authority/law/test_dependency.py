"""Dependencies: what may wait for what, and what is refused in which order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.desk import Desk, records
from understudy.authority.law.issues.dependency import cycle_through, tangle
from understudy.authority.law.issues.projection import diagnostics
from understudy.authority.law.outcome import Accepted, DependencyAdded, IssueAdded
from understudy.authority.law.state import State, apply, check_invariants
from understudy.authority.law.turn import Turn
from understudy.contracts.records.records import (
    BLOCKING_TYPES,
    DEPENDENCY_TYPES,
    Dependency,
    Issue,
    Stamp,
)
from understudy.contracts.requests.shapes import Nothing

KINDS = ("blocks", "waits-for", "related")
MOMENT = "2027-01-15T08:00:00Z"


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    for key in ("a", "b", "c"):
        desk.grant("issue.add", id=key, title=key)
    return desk


def ready(desk: Desk) -> list[str]:
    return [issue["id"] for issue in desk.grant("issue.ready")["issues"]]


@pytest.mark.parametrize("kind", sorted(DEPENDENCY_TYPES))
def test_only_blocking_dependencies_keep_an_issue_waiting(desk: Desk, kind: str) -> None:
    answer = desk.grant("dep.add", id="a", dependsOnId="b", type=kind, createdBy="ann")
    link = {"issueId": "a", "dependsOnId": "b", "type": kind, "createdBy": "ann"}
    assert answer["dependency"] == link
    waits = kind in BLOCKING_TYPES
    assert ready(desk) == (["b", "c"] if waits else ["a", "b", "c"])
    claim = desk.refusal("issue.claim", id="a", assignee="ann")
    assert claim == ("lease_issue_blocked" if waits else None)
    desk.prove()


def test_closing_the_last_blocker_makes_an_issue_ready(desk: Desk) -> None:
    desk.grant("dep.add", id="a", dependsOnId="b")
    desk.grant("dep.add", id="a", dependsOnId="c", type="waits-for")
    blocked = desk.grant("issue.blocked")["issues"]
    assert [(issue["id"], issue["blockedBy"]) for issue in blocked] == [("a", ["b", "c"])]
    desk.grant("issue.close", id="b")
    assert "a" not in ready(desk)
    desk.grant("issue.close", id="c")
    assert ready(desk) == ["a"]
    desk.grant("issue.update", id="b", status="open")
    assert ready(desk) == ["b"]


def test_a_removed_dependency_blocks_no_more_and_another_on_the_same_issue_does(desk: Desk) -> None:
    desk.grant("dep.add", id="a", dependsOnId="b", type="blocks")
    desk.grant("dep.add", id="a", dependsOnId="b", type="waits-for")
    desk.grant("dep.remove", id="a", dependsOnId="b", type="blocks")
    assert "a" not in ready(desk)
    desk.grant("dep.remove", id="a", dependsOnId="b", type="waits-for")
    assert ready(desk) == ["a", "b", "c"]
    assert records(desk.authority.state)["dependencies"] == []
    desk.prove()


def test_two_that_wait_for_one_are_freed_by_it_and_one_by_one(desk: Desk) -> None:
    desk.grant("dep.add", id="a", dependsOnId="c")
    desk.grant("dep.add", id="b", dependsOnId="c")
    desk.grant("dep.remove", id="a", dependsOnId="c")
    assert ready(desk) == ["a", "c"]
    desk.grant("issue.close", id="c")
    assert ready(desk) == ["a", "b"]
    desk.prove()


def test_replacing_is_removing_and_adding_at_once(desk: Desk) -> None:
    desk.grant("dep.add", id="a", dependsOnId="b", createdBy="ann")
    answer = desk.grant("dep.replace", id="a", dependsOnId="b", newDependsOnId="c")
    expected = {"issueId": "a", "dependsOnId": "c", "type": "blocks", "createdBy": "ann"}
    assert answer["dependency"] == expected
    desk.grant("dep.replace", id="a", dependsOnId="c", newDependsOnId="c", newType="related")
    assert ready(desk) == ["a", "b", "c"]
    desk.prove()


REFUSALS = [
    ("dep.add", {"id": "x", "dependsOnId": "b"}, "lease_not_found"),
    ("dep.add", {"id": "a", "dependsOnId": "a"}, "dep_self_loop"),
    ("dep.add", {"id": "a", "dependsOnId": "x"}, "dep_target_not_found"),
    ("dep.add", {"id": "a", "dependsOnId": "b"}, "dep_exists"),
    ("dep.add", {"id": "a", "dependsOnId": "b", "type": "related"}, None),
    ("dep.add", {"id": "b", "dependsOnId": "a"}, "dep_cycle"),
    ("dep.add", {"id": "b", "dependsOnId": "a", "type": "related"}, None),
    ("dep.add", {"id": "b", "dependsOnId": "a", "fence": 1}, "lease_missing"),
    ("dep.remove", {"id": "x", "dependsOnId": "b"}, "lease_not_found"),
    ("dep.remove", {"id": "a", "dependsOnId": "c"}, "dep_not_found"),
    ("dep.remove", {"id": "a", "dependsOnId": "b", "type": "related"}, "dep_not_found"),
    ("dep.replace", {"id": "x", "dependsOnId": "b", "newDependsOnId": "c"}, "lease_not_found"),
    ("dep.replace", {"id": "a", "dependsOnId": "c", "newDependsOnId": "b"}, "dep_not_found"),
    ("dep.replace", {"id": "a", "dependsOnId": "b", "newDependsOnId": "a"}, "dep_self_loop"),
    ("dep.replace", {"id": "a", "dependsOnId": "b", "newDependsOnId": "x"}, "dep_target_not_found"),
    ("dep.replace", {"id": "a", "dependsOnId": "b", "newDependsOnId": "b"}, None),
]


@pytest.mark.parametrize(("action", "payload", "failure"), REFUSALS)
def test_a_dependency_is_refused_for_the_first_reason(
    desk: Desk, action: str, payload: dict[str, object], failure: str | None
) -> None:
    desk.grant("dep.add", id="a", dependsOnId="b")
    before = records(desk.authority.state)
    assert desk.refusal(action, **payload) == failure
    if failure:
        assert records(desk.authority.state) == before


def test_a_closed_issue_gets_no_dependencies(desk: Desk) -> None:
    desk.grant("issue.close", id="a")
    assert desk.refusal("dep.add", id="a", dependsOnId="b") == "lease_issue_closed"


def test_a_leased_issue_is_linked_by_its_holder_alone(desk: Desk) -> None:
    ann = desk.claim("a", "ann")
    for action, payload in (
        ("dep.add", {"dependsOnId": "b"}),
        ("dep.replace", {"dependsOnId": "b", "newDependsOnId": "c"}),
        ("dep.remove", {"dependsOnId": "c"}),
    ):
        assert desk.refusal(action, id="a", **payload) == "lease_fence_missing"
        answer = desk.grant(action, **ann, **payload)
        assert answer["effect"]["fence"] == ann["fence"]


def test_a_replacement_that_closes_a_cycle_leaves_the_old_one_in_place(desk: Desk) -> None:
    desk.grant("dep.add", id="a", dependsOnId="b")
    desk.grant("dep.add", id="b", dependsOnId="c")
    desk.grant("dep.add", id="c", dependsOnId="a", type="related")
    answer = desk.ask(
        "dep.replace", id="c", dependsOnId="a", type="related", newDependsOnId="a", newType="blocks"
    )
    assert answer["failureClasses"] == ["dep_cycle"]
    assert "c -> a -> b -> c" in answer["diagnostic"]
    assert desk.grant("dep.diagnostics")["sound"]


edges = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(edges)
def test_no_order_of_additions_closes_a_cycle(links: list[tuple[int, int]]) -> None:
    desk = Desk()
    for key in range(6):
        desk.grant("issue.add", id=f"i{key}", title="t")
    for source, target in links:
        desk.ask("dep.add", id=f"i{source}", dependsOnId=f"i{target}")
    found = desk.grant("dep.diagnostics")
    assert found["sound"]
    check_invariants(desk.authority.state)
    # One issue can always start, and then the next.
    for _ in range(6):
        desk.grant("issue.close", id=ready(desk)[0])
    assert ready(desk) == []


def test_imported_cycles_and_loose_ends_are_named() -> None:
    state = State()
    links = [("a", "b"), ("b", "a"), ("c", "gone")]
    for key in ("a", "b", "c"):
        issue = Issue(id=key, title="t", created_at=MOMENT, updated_at=MOMENT)
        apply(state, [IssueAdded(issue)])
    apply(state, [DependencyAdded(Dependency(*link, "blocks")) for link in links])
    assert cycle_through(state, "a", "b") == ["b", "a"]
    assert cycle_through(state, "c", "gone") is None
    assert state.blockers("c") == ["gone"]


def test_diagnostics_show_each_cycle_once_and_each_missing_target() -> None:
    desk = Desk()
    record = {"title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    desk.grant(
        "issue.import",
        "cli",
        records=[
            record | {"id": "a", "dependencies": [{"depends_on_id": "b"}]},
            record | {"id": "b", "dependencies": [{"depends_on_id": "a"}]},
            record | {"id": "c", "dependencies": [{"depends_on_id": "x", "type": "related"}]},
        ],
    )
    found = desk.grant("dep.diagnostics")
    assert found["cycles"] == [["b", "a"]]
    assert found["missing"] == [{"issueId": "c", "dependsOnId": "x", "type": "related"}]
    assert found["sound"] is False
    desk.prove()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7), st.sampled_from(KINDS))))
def test_whatever_is_on_a_cycle_is_in_the_tangle(links: list[tuple[int, int, str]]) -> None:
    state = State()
    names = [f"i{place}" for place in range(6)]  # i6 and i7 are loose ends
    issues = [Issue(id=each, title="t", created_at=MOMENT, updated_at=MOMENT) for each in names]
    apply(state, [IssueAdded(each) for each in issues])
    for source, target, kind in dict.fromkeys(links):
        apply(state, [DependencyAdded(Dependency(f"i{source}", f"i{target}", kind))])
    on_cycles = {
        source
        for source in names
        for link in state.dependencies.get(source, ())
        if link.type in BLOCKING_TYPES and cycle_through(state, source, link.depends_on_id)
    }
    assert on_cycles <= tangle(state)
    assert bool(on_cycles) == bool(tangle(state)), "no cycle, no tangle"


@pytest.mark.timeout(20)
def test_a_long_chain_is_walked_once() -> None:
    state = State()
    names = [f"i{place}" for place in range(20_000)]
    issues = [Issue(id=each, title="t", created_at=MOMENT, updated_at=MOMENT) for each in names]
    apply(state, [IssueAdded(each) for each in issues])
    apply(state, [DependencyAdded(Dependency(*pair, "blocks")) for pair in pairwise(names)])
    assert tangle(state) == set()
    outcome = diagnostics(Turn(state, Stamp(1, 0, 0, "n1")), Nothing())
    assert isinstance(outcome, Accepted)
    assert outcome.body["sound"] is True
