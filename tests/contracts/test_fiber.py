"""The life of a fiber: the table is sound, and the authority makes no move that is not in it."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.authority.pair import Pair
from understudy.contracts.records.fiber import FIBER_TRANSITIONS, FiberMove, FiberState

S, M = FiberState, FiberMove
ENDED = {S.JOINED, S.CANCELLED, S.ORPHANED}
ASKED = {"fiber.spawn": M.SPAWN, "fiber.join": M.JOIN, "fiber.cancel": M.CANCEL}
SOME = (
    *("work_side_by_side",) * 4, *("claim",) * 4, "act_as_the_holder", "act_as_the_holder",
    "break_lease", "change_without_a_lease", "time_passes_to_a_deadline", "the_process_restarts",
)  # fmt: skip


# --- the table itself -----------------------------------------------------------------------------


def test_every_state_can_be_reached_and_left() -> None:
    assert set(FIBER_TRANSITIONS.values()) == set(FiberState)
    assert {source for source, _ in FIBER_TRANSITIONS} == set(FiberState)
    assert {move for _, move in FIBER_TRANSITIONS} == set(FiberMove)


def test_only_a_spawn_makes_a_fiber_run() -> None:
    for (_, move), target in FIBER_TRANSITIONS.items():
        assert (target is S.RUNNING) is (move is M.SPAWN)


def test_what_has_ended_ends_no_more() -> None:
    for source in ENDED:
        moves = {move for state, move in FIBER_TRANSITIONS if state is source}
        assert moves <= {M.FORGET, M.SPAWN}
    assert (S.JOINED, M.SPAWN) not in FIBER_TRANSITIONS
    assert (S.CANCELLED, M.SPAWN) not in FIBER_TRANSITIONS


# --- the authority --------------------------------------------------------------------------------

Key = tuple[str, str]  # an issue and a fiber


class Watched(Pair):
    """Notes every move that the records show, and under which action."""

    def __init__(self) -> None:
        self.made: Counter[tuple[FiberState, FiberMove]] = Counter()
        self.odd: list[tuple[FiberState, str, FiberState]] = []
        self.last: dict[Key, tuple[FiberState, int]] = {}
        super().__init__()

    def both(self, action: str, payload: dict[str, Any], *, named: bool) -> None:
        before, self.last = self.last, {}
        super().both(action, payload, named=named)
        self.last = self._all()
        for key in before.keys() | self.last.keys():
            source, source_fence = before.get(key, (S.UNSPAWNED, 0))
            target, target_fence = self.last.get(key, (S.UNSPAWNED, source_fence))
            if (source, source_fence) != (target, target_fence):
                self._moved(action, source, target)

    def _all(self) -> dict[Key, tuple[FiberState, int]]:
        return {
            (resource, name): (fiber.state, fiber.fence)
            for resource, fibers in self.desk.authority.state.fibers.items()
            for name, fiber in fibers.items()
        }

    def _moved(self, action: str, source: FiberState, target: FiberState) -> None:
        move = ASKED.get(action)
        if move is None:
            move = M.ORPHAN if source is S.RUNNING else M.FORGET
        if FIBER_TRANSITIONS.get((source, move)) is target:
            self.made[source, move] += 1
        else:
            self.odd.append((source, action, target))


@pytest.fixture(scope="module")
def watched() -> list[Watched]:
    walks = [Watched() for _ in range(40)]
    for seed, walk in enumerate(walks):
        walk.wander(Random(seed), 30, SOME)
    return walks


def test_random_walks_make_no_move_that_the_table_lacks(watched: list[Watched]) -> None:
    assert {each for walk in watched for each in walk.odd} == set()


def test_random_walks_make_every_move(watched: list[Watched]) -> None:
    assert {key for walk in watched for key in walk.made} == set(FIBER_TRANSITIONS)
