"""The fold: changes make it, images carry it, and its indexes follow its records."""

from random import Random
from typing import Any

import msgspec
import pytest

from tests.authority.pair import Pair
from tests.fakes.desk import START_MS, Desk
from tests.together import together
from understudy.authority.law.image import dump, load
from understudy.authority.law.outcome import (
    Answered,
    Change,
    DependencyAdded,
    FiberDropped,
    FiberPut,
    InstanceDropped,
    InstancePut,
    IssueAdded,
    IssueSet,
    Lapsed,
    LeaseDropped,
    LeasePut,
    SubleaseDropped,
    SubleasePut,
    decode_changes,
    encode_changes,
)
from understudy.authority.law.state import State, apply, check_invariants
from understudy.contracts.records.fiber import FiberState
from understudy.contracts.records.records import Dependency, Fiber, Instance, Issue, Lease, Sublease

MOMENT = "2027-01-15T08:00:00Z"


def an_issue(key: str, **members: Any) -> Issue:
    return Issue(id=key, title="t", created_at=MOMENT, updated_at=MOMENT, **members)


def a_lease(key: str, fence: int = 1, deadline_ms: int = START_MS) -> Lease:
    return Lease(
        resource=f"issue/{key}",
        lease_id="l",
        owner="ann",
        fence=fence,
        ttl_ms=1,
        granted_ms=START_MS,
        deadline_ms=deadline_ms,
    )


def a_sublease(key: str, name: str) -> Sublease:
    return Sublease(
        resource=f"issue/{key}",
        sublease_id=name,
        parent_lease_id="l",
        holder="h",
        capability_scope=(),
        granted_ms=START_MS,
        deadline_ms=START_MS,
    )


def a_fiber(name: str, **members: Any) -> Fiber:
    whole: dict[str, Any] = {
        "resource": "issue/a", "fiber_id": name, "task_ref": "t", "fence": 1, "spawned_seq": 2,
        "spawned_ms": START_MS,
    }  # fmt: skip
    return Fiber(**(whole | members))


def an_instance(key: str, name: str) -> Instance:
    return Instance(
        resource=f"issue/{key}",
        instance_id=name,
        issue_id=key,
        lease_id="l",
        lease_owner="ann",
        lease_ttl_ms=1,
        fence_token=1,
        policy_digest="p",
    )


def state_of(*changes: Change) -> State:
    state = State()
    apply(state, changes)
    return state


# --- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_an_image_gives_back_the_state_and_all_that_it_decides(seed: int) -> None:
    pair = Pair()
    pair.wander(Random(seed), 60)
    state = pair.desk.authority.state
    again = load(dump(state))
    assert dump(again) == dump(state)
    check_invariants(again)
    for index in ("blocks", "deadlines", "overdue", "ranks", "ready", "torn"):
        assert getattr(again, index) == getattr(state, index), index
    assert list(again.forgetting) == list(state.forgetting)


def test_changes_survive_their_bytes() -> None:
    changes: tuple[Change, ...] = (
        IssueAdded(an_issue("a", labels=("x",))),
        IssueSet("a", {"labels": ["y"], "updated_at": MOMENT}),
        LeasePut(a_lease("a")),
        SubleasePut(a_sublease("a", "s")),
        InstancePut(an_instance("a", "w")),
        FiberPut(a_fiber("f", result_ref="log:1")),
        Lapsed(START_MS + 1),
        Answered("r", "issue.add", "he1_", 1),
    )
    assert encode_changes(tuple(decode_changes(encode_changes(changes)))) == encode_changes(changes)
    decoded = decode_changes(encode_changes(changes))
    assert dump(state_of(*decoded)) == dump(state_of(*changes))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"issues":1}', b"\xff"])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        load(data)


def test_the_order_of_subleases_in_an_answer_survives_an_image() -> None:
    """Once reads are rows, a start from a snapshot would write what replay cannot find."""
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for name in ("z", "y"):
        desk.grant("sublease.grant", **ann, newSubleaseId=name, holder="h", capabilityScope=[])
        desk.grant("instance.open", **ann, instanceId=name)
    before = desk.grant("issue.show", id="a")["issue"]
    desk.authority.snapshot()
    desk.restart()
    assert desk.grant("issue.show", id="a")["issue"] == before


# --- indexes --------------------------------------------------------------------------------------


def test_a_grant_with_a_new_fence_ends_what_hung_on_the_old_one() -> None:
    state = state_of(
        IssueAdded(an_issue("a")),
        LeasePut(a_lease("a")),
        SubleasePut(a_sublease("a", "s")),
        InstancePut(an_instance("a", "w")),
        LeasePut(a_lease("a", deadline_ms=START_MS + 1)),
    )
    assert (len(state.subleases), len(state.instances)) == (1, 1)
    apply(state, [LeasePut(a_lease("a", fence=2))])
    assert (state.subleases, state.instances) == ({}, {})


def test_the_end_of_a_term_orphans_what_runs_and_forgets_the_rest() -> None:
    ended = a_fiber("b", state=FiberState.JOINED, ended_seq=3)
    state = state_of(
        IssueAdded(an_issue("a")),
        LeasePut(a_lease("a")),
        *(FiberPut(each) for each in (a_fiber("a"), ended)),
        LeasePut(a_lease("a", deadline_ms=START_MS + 1)),
    )
    assert [each.fiber_id for each in state.running("issue/a")] == ["a"]
    apply(state, [LeasePut(a_lease("a", fence=2))])
    check_invariants(state)
    assert state.running("issue/a") == []
    assert state.fibers == {"issue/a": {"a": a_fiber("a", state=FiberState.ORPHANED)}}
    apply(state, [LeaseDropped("issue/a")])
    assert state.fibers == {}, "an orphan is remembered for one term"


def test_an_image_from_before_there_were_fibers_has_none() -> None:
    members = msgspec.json.decode(dump(state_of(IssueAdded(an_issue("a")))))
    del members["fibers"]
    assert load(msgspec.json.encode(members)).fibers == {}


def test_what_is_dropped_is_gone() -> None:
    state = state_of(
        IssueAdded(an_issue("a")),
        LeasePut(a_lease("a")),
        SubleasePut(a_sublease("a", "s")),
        InstancePut(an_instance("a", "w")),
        SubleaseDropped("issue/a", "s"),
        InstanceDropped("issue/a", "w"),
        FiberPut(a_fiber("f")),
        FiberDropped("issue/a", "f"),
    )
    check_invariants(state)
    assert state.fibers["issue/a"] == {}
    assert (state.subleases["issue/a"], state.instances["issue/a"]) == ({}, {})
    apply(state, [LeaseDropped("issue/a")])
    assert (state.leases, state.torn, list(state.deadlines)) == ({}, set(), [])


def test_a_lapsed_lease_changes_its_file_and_leaves_it_when_it_ends() -> None:
    state = state_of(
        IssueAdded(an_issue("a", status="in_progress", assignee="ann")), LeasePut(a_lease("a"))
    )
    apply(state, [Lapsed(START_MS)])
    assert len(state.deadlines) == 1, "on the tick it still holds"
    assert state.stale_count(START_MS) == 0
    assert state.stale_count(START_MS + 1) == 1
    apply(state, [Lapsed(START_MS + 1)])
    assert (len(state.deadlines), len(state.overdue)) == (0, 1)
    assert list(state.stale_ids(START_MS)) == ["a"]
    apply(state, [IssueSet("a", {"priority": 0, "updated_at": MOMENT})])
    assert state.overdue[0].priority == 0
    check_invariants(state)
    apply(state, [LeasePut(a_lease("a", fence=2, deadline_ms=START_MS + 9))])
    assert (len(state.deadlines), len(state.overdue)) == (1, 0)
    check_invariants(state)


def test_an_issue_that_arrives_closed_frees_those_who_waited_for_it() -> None:
    state = state_of(
        IssueAdded(an_issue("a")),
        DependencyAdded(Dependency("a", "later", "blocks")),
    )
    assert list(state.ready) == []
    apply(state, [IssueAdded(an_issue("later", status="closed"))])
    assert [place.issue_id for place in state.ready] == ["a"]
    check_invariants(state)


def test_a_dependency_of_an_issue_that_comes_later_is_kept() -> None:
    state = state_of(DependencyAdded(Dependency("a", "b", "blocks")), IssueAdded(an_issue("a")))
    assert list(state.ready) == []
    check_invariants(state)


def _break_closed(state: State) -> None:
    state.issues["a"] = msgspec.structs.replace(state.issues["a"], status="closed")


def _break_name(state: State) -> None:
    state.leases["issue/a"] = a_lease("b")


def _break_orphan(state: State) -> None:
    state.subleases["issue/b"] = {"s": a_sublease("b", "s")}


def _fiber(state: State, /, **members: Any) -> None:
    fiber = a_fiber("f", **members)
    state.fibers.setdefault(fiber.resource, {})["f"] = fiber


def _break_fiber_term(state: State) -> None:
    _fiber(state, fence=7)


def _break_fiber_lease(state: State) -> None:
    _fiber(state, resource="issue/b")


def _break_orphan_term(state: State) -> None:
    _fiber(state, state=FiberState.ORPHANED)


def _break_fiber_end(state: State) -> None:
    _fiber(state, state=FiberState.JOINED)


def _break_fiber_start(state: State) -> None:
    _fiber(state, ended_seq=4)


def _break_fiber_scope(state: State) -> None:
    above = a_fiber("above", state=FiberState.CANCELLED, ended_seq=4)
    state.fibers["issue/a"] = {"above": above}
    _fiber(state, parent_fiber_id="above", depth=2)


def _break_fiber_depth(state: State) -> None:
    state.fibers["issue/a"] = {"above": a_fiber("above")}
    _fiber(state, parent_fiber_id="above")


def _break_fiber_work(state: State) -> None:
    state.issues["b"] = msgspec.structs.replace(state.issues["b"], status="closed")
    state.ready.clear()
    _fiber(state, resource="issue/b", state=FiberState.ORPHANED)


def _break_ready(state: State) -> None:
    state.ready.clear()


def _break_file(state: State) -> None:
    state.deadlines.clear()


def _break_deadline(state: State) -> None:
    state.leases["issue/a"] = a_lease("a", deadline_ms=5)


@together(
    ("damage", "words"),
    [
        (_break_closed, "I1"),
        (_break_name, "I2"),
        (_break_orphan, "I3"),
        (_break_ready, "I4"),
        (_break_file, "I5: a lease is filed"),
        (_break_deadline, "I5: issue/a has another"),
        (_break_fiber_term, "I6: issue/a f is running in the wrong term"),
        (_break_fiber_lease, "I6: issue/b f is running in the wrong term"),
        (_break_orphan_term, "I6: issue/a f is orphaned in the wrong term"),
        (_break_fiber_end, "I6: issue/a f ended"),
        (_break_fiber_start, "I6: issue/a f ended"),
        (_break_fiber_scope, "I6: issue/a f runs in an ended scope"),
        (_break_fiber_depth, "I6: issue/a f lies at another depth"),
        (_break_fiber_work, "I6: issue/b is closed"),
    ],
)
def test_each_invariant_is_noticed_when_it_breaks(damage: Any, words: str) -> None:
    state = state_of(
        IssueAdded(an_issue("a", status="in_progress", assignee="ann")),
        IssueAdded(an_issue("b")),
        LeasePut(a_lease("a")),
    )
    check_invariants(state)
    damage(state)
    with pytest.raises(AssertionError, match=words):
        check_invariants(state)
