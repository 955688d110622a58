"""The life of a lease: the table is sound, and the authority makes no move that is not in it."""

from collections import Counter
from itertools import chain
from random import Random
from typing import Any

import pytest

from tests.authority.pair import LEASE_MOVES, Pair
from tests.fakes.desk import Desk
from tests.long import IS_LONG, SCALED
from understudy.authority.law.state import State
from understudy.contracts.records.records import issue_resource
from understudy.contracts.records.transitions import TRANSITIONS, LeaseState, Move

S, M = LeaseState, Move
LIVE = {S.ACTIVE, S.RENEWED, S.CONTENDED}
TABLED = {key for key, target in TRANSITIONS.items() if key[0] is not target}
FINDERS = (116, 11, 43, 3, 9, 45, 91, 194)  # walks that between them make every move
SEEN = {M.LAPSE, M.CONTEND}  # brought by time, or by a record that says otherwise


# --- the table itself -----------------------------------------------------------------------------


def test_every_state_can_be_reached_from_unclaimed() -> None:
    reached, fresh = {S.UNCLAIMED}, {S.UNCLAIMED}
    while fresh:
        fresh = {target for (source, _), target in TRANSITIONS.items() if source in fresh}
        fresh -= reached
        reached |= fresh
    assert reached == set(LeaseState)


def test_every_state_can_be_left_and_every_move_leaves_one() -> None:
    assert {source for source, _ in TRANSITIONS} == set(LeaseState)
    assert {move for _, move in TRANSITIONS} == set(Move)


@pytest.mark.parametrize("state", LeaseState)
def test_from_every_state_work_can_be_claimed_again(state: LeaseState) -> None:
    reached = {state}
    for _ in LeaseState:
        reached |= {target for (source, _), target in TRANSITIONS.items() if source in reached}
    assert S.ACTIVE in reached


def test_only_a_claim_or_a_reclaim_makes_a_lease_where_none_lives() -> None:
    for (source, move), target in TRANSITIONS.items():
        if source not in LIVE and target in LIVE:
            assert move in (M.CLAIM, M.RECLAIM)


def test_an_expired_lease_is_only_reclaimed_or_broken() -> None:
    assert {move for source, move in TRANSITIONS if source is S.EXPIRED} == {M.RECLAIM, M.BREAK}


def test_every_live_lease_can_lapse_be_released_completed_broken_and_renewed() -> None:
    for state in LIVE:
        moves = {move for source, move in TRANSITIONS if source is state}
        assert {M.LAPSE, M.RELEASE, M.COMPLETE, M.BREAK, M.RENEW} <= moves


# --- the authority --------------------------------------------------------------------------------


def seen(state: State, issue_id: str, wall_ms: int) -> LeaseState:
    """Where a lease stands, told from the records alone."""
    issue, lease = state.issues[issue_id], state.leases.get(issue_resource(issue_id))
    if lease is None:
        return S.RELEASED if issue.attempts else S.UNCLAIMED
    if wall_ms > lease.deadline_ms:
        return S.EXPIRED
    if (issue.status, issue.assignee) != ("in_progress", lease.owner):
        return S.CONTENDED
    return lease.state


class Watched(Pair):
    """Notes every move that the records show, and under which action."""

    def __init__(self) -> None:
        self.moves: Counter[tuple[LeaseState, Move, LeaseState]] = Counter()
        self.odd: list[tuple[LeaseState, str, LeaseState]] = []
        self.last: dict[str, LeaseState] = {}
        super().__init__()

    def both(self, action: str, payload: dict[str, Any], *, named: bool) -> None:
        self._time_alone_lapses()
        before = dict(self.last)
        super().both(action, payload, named=named)
        after = self.last = self._all()
        for issue, target in after.items():
            source = before.get(issue, S.UNCLAIMED)
            if source is not target:
                self._moved(action, payload, source, target)

    def _time_alone_lapses(self) -> None:
        now = self._all()
        for issue, target in now.items():
            source = self.last[issue]
            if source is not target:
                assert TRANSITIONS[source, M.LAPSE] is target
                self.moves[source, M.LAPSE, target] += 1
        self.last = now

    def _all(self) -> dict[str, LeaseState]:
        state, wall_ms = self.desk.authority.state, self.desk.time.wall_ms
        return {issue: seen(state, issue, wall_ms) for issue in state.issues}

    def _moved(
        self, action: str, payload: dict[str, Any], source: LeaseState, target: LeaseState
    ) -> None:
        move = _move(action, payload, source, target)
        if move is not None and TRANSITIONS.get((source, move)) is target:
            self.moves[source, move, target] += 1
        else:
            self.odd.append((source, action, target))


def _move(
    action: str, payload: dict[str, Any], source: LeaseState, target: LeaseState
) -> Move | None:
    match action:
        case "issue.claim" | "issue.claim_next":
            if source in LIVE:
                return M.RENEW
            return M.RECLAIM if source is S.EXPIRED else M.CLAIM
        case "issue.lease_renew":
            return M.RENEW
        case "issue.lease_release":
            return M.RELEASE
        case "issue.lease_reconcile":
            return M.RECONCILE
        case "issue.lease_break":
            return M.BREAK
        case "issue.close":
            return M.COMPLETE
        case "issue.update" if target is S.CONTENDED:
            return M.CONTEND
        case "issue.update" if source is S.CONTENDED and target is S.ACTIVE:
            return M.RECONCILE
        case "issue.update" if target is S.RELEASED:
            return M.COMPLETE if payload.get("status") == "closed" else M.RELEASE
        case _:
            return None


@pytest.fixture(scope="module")
def watched() -> list[Watched]:
    """Until every move has been made, at least so many."""
    walks: list[Watched] = []
    for seed in chain(FINDERS, range(200)):
        walks.append(Watched())
        walks[-1].wander(Random(seed), 80, LEASE_MOVES)
        if not IS_LONG and len(walks) >= 40 and made_by(walks) == TABLED:
            break
    return walks


def made_by(walks: list[Watched]) -> set[tuple[LeaseState, Move]]:
    return {(source, move) for walk in walks for source, move, _ in walk.moves}


@SCALED
def test_random_walks_make_no_move_that_the_table_lacks(watched: list[Watched]) -> None:
    odd = {each for walk in watched for each in walk.odd}
    assert odd == set()


def test_contention_ends_only_by_a_move_of_the_table() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    desk.grant("issue.lease_renew", **ann)
    desk.grant("issue.update", **ann, newAssignee="bob")
    assert seen(desk.authority.state, "a", desk.time.wall_ms) is S.CONTENDED
    desk.grant("issue.update", **ann, newAssignee="ann")
    ends = {TRANSITIONS[S.CONTENDED, M.RECONCILE], S.CONTENDED}
    assert seen(desk.authority.state, "a", desk.time.wall_ms) in ends


def test_random_walks_make_every_move_that_changes_a_state(watched: list[Watched]) -> None:
    assert made_by(watched) == TABLED
