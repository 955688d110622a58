"""A killed authority: whatever it acknowledged is there, and nothing is there by half."""

import os
import random
import signal
from math import ceil
from pathlib import Path

import pytest

from tests.faults.aftermath import prove, pump
from tests.faults.load import Load
from tests.long import few, pairs
from tests.surfaces.process import Dispatch
from understudy.authority.journal.failpoint import NAMES
from understudy.contracts import limits

# At which passage to die, and how many requests are in a batch; a batch passes each place once.
PASSAGES = ((1, 1), (2, 7), (9, 3))
RARE = ("snapshot.begun", "tables.written")  # not in every batch; they have tests of their own
SEEDS = range(5)
ROUNDS = int(os.environ.get("UNDERSTUDY_CRASH_ROUNDS", "5"))


@pytest.mark.parametrize(
    ("name", "batch"), pairs([name for name in NAMES if name not in RARE], PASSAGES)
)
def test_a_kill_on_the_way_of_a_commit_loses_nothing_that_was_heard(
    state_dir: Path, name: str, batch: tuple[int, int]
) -> None:
    passage, window = batch
    _die_at(state_dir, f"{name}:{passage}", 10 * window, window)


@pytest.mark.parametrize("passage", few([1, 2]))
def test_a_kill_while_a_snapshot_is_taken_costs_the_snapshot_and_nothing_else(
    state_dir: Path, passage: int
) -> None:
    rows = passage * limits.SNAPSHOT_ROWS + 300
    _die_at(state_dir, f"snapshot.begun:{passage}", rows, window=300)


@pytest.mark.parametrize("steps", [1, 40])
def test_a_kill_while_the_tables_follow_costs_the_tables_and_nothing_else(
    state_dir: Path, steps: int
) -> None:
    _die_at(state_dir, "tables.written:1", steps, window=10)


def test_every_failpoint_is_reached_by_one_of_these_tests() -> None:
    assert set(RARE) == {"snapshot.begun", "tables.written"} <= set(NAMES)


@pytest.mark.timeout(120 + 12 * ROUNDS)
@pytest.mark.parametrize("seed", few(SEEDS, 2))
def test_kills_at_random_moments_of_a_real_load_lose_nothing(state_dir: Path, seed: int) -> None:
    chance = random.Random(seed)
    load = Load(seed, splitting=True)
    heard: list[bytes] = []
    for _ in range(ceil(ROUNDS / len(SEEDS))):
        for _ in range(chance.choice([1, 1, 2])):
            heard += _die_under_load(state_dir, load, len(heard), chance)
        heard = prove(state_dir, load, heard)


def _die_at(state_dir: Path, failpoint: str, steps: int, window: int) -> None:
    load = Load(steps, splitting=True)
    with Dispatch(state_dir, failpoint=failpoint) as running:
        heard = pump(running, load.more(steps), window)
        assert running.finish() == -signal.SIGKILL, f"{failpoint} was not reached"
        assert not running.complaint()
    prove(state_dir, load, heard)


def _die_under_load(state_dir: Path, load: Load, known: int, chance: random.Random) -> list[bytes]:
    """Go on behind the steps that are known; the answers that were heard before the kill."""
    window = chance.choice([1, 1, 8, 64])
    load.more(chance.randrange(window, 6 * window + 60))
    steps = load.steps[known:]
    with Dispatch(state_dir) as running:
        heard = pump(running, steps[:-window], window)
        running.send(*(step.request for step in steps[-window:]))
        for _ in range(chance.randrange(2500)):
            os.sched_yield()  # until some moment of the last commit, or just before or after it
        running.kill()
        return heard + running.rest()
