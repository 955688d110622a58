"""Whatever a tree is doing, it can be ended in the middle of it, and nothing is left."""

import random

import pytest

from tests.actors.oracle.scenario import scenario
from tests.actors.oracle.theatre import Director, Stage
from tests.together import together
from understudy.actors.otp import KILL, SHUTDOWN, Start
from understudy.actors.otp.carriers.inline.system import Inline


def some_turns(system: Inline, number: int) -> None:
    for _ in range(number):
        cell = system._next()
        if cell is None:
            return
        cell.queued = False
        cell.step()


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_a_shutdown_at_any_moment_leaves_nothing(first: int) -> None:
    for seed in range(first, first + 50):
        chance = random.Random(seed)
        system = Inline(seed)
        stage = Stage(system)
        root = system._root_cell.spawn(Start(Director, (stage, scenario(seed).tree)))
        for _ in range(chance.randint(0, 4)):
            some_turns(system, chance.randint(0, 30))
            victims = [ref for ref in stage.refs.values() if ref != root]
            if victims:
                system.signal(chance.choice(victims), KILL)
        some_turns(system, chance.randint(0, 10))
        system.signal(root, SHUTDOWN)
        system.advance(60_000)
        reason = system.ended(root)
        assert reason is not None, f"seed {seed}: it is still there"
        assert reason.kind == "shutdown", f"seed {seed}: {reason}"
        assert len(system.cells) == 1, f"seed {seed}: a cell is left"


@together("seed", range(60))
def test_who_is_stopped_was_started_and_in_the_reverse_order(seed: int) -> None:
    system = Inline(seed)
    stage = Stage(system)
    tree = scenario(seed).tree
    root = system._root_cell.spawn(Start(Director, (stage, tree)))
    some_turns(system, seed)
    begun = [line.split()[1] for line in stage.lines if line.endswith(" ok")]
    before = len(stage.lines)
    system.signal(root, SHUTDOWN)
    system.advance(60_000)
    after = stage.lines[before:]
    stopped = [line.split()[1] for line in after if line.startswith("stop ")]
    begun += [line.split()[1] for line in after if line.endswith(" ok")]
    places = [begun.index(name) for name in stopped]
    assert places == sorted(places, reverse=True)
