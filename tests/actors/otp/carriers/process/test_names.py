"""Registered names between processes."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.actors.otp.carriers.process.stage import Stage
from tests.patience import eventually
from understudy.actors.otp import Located

pytestmark = pytest.mark.timeout(60)


def test_a_name_leads_to_its_cell(shared: Stage) -> None:
    cell, other = shared.puppet(), shared.puppet()
    assert shared.tell(cell, "register", "lead") is True
    assert shared.tell("lead", "pid") == cell.place.pid
    assert shared.troupe.whereis("lead") == cell
    shared.tell(other, "send", "lead", "by name")
    eventually(lambda: "by name" in shared.heard(cell))
    shared.tell(other, "whereis", "lead")
    eventually(lambda: Located("lead", cell) in shared.heard(other))
    shared.tell(other, "whereis", "no such")
    eventually(lambda: Located("no such", None) in shared.heard(other))


def test_a_name_is_refused_while_its_cell_lives_and_free_when_it_is_dead(shared: Stage) -> None:
    cell, other = shared.puppet(), shared.puppet()
    assert shared.tell(cell, "register", "taken") is True
    assert shared.tell(other, "register", "taken") is False
    assert shared.tell(cell, "register", "taken") is False
    os.kill(cell.place.pid, signal.SIGKILL)
    shared.troupe.join(cell)
    assert shared.troupe.whereis("taken") is None
    assert shared.tell(other, "register", "taken") is True
    assert shared.troupe.whereis("taken") == other


def test_of_many_who_race_for_a_name_one_has_it(shared: Stage) -> None:
    racers = [shared.puppet() for _ in range(6)]
    with ThreadPoolExecutor(len(racers)) as pool:
        for turn in range(15):
            name = f"race {turn}"
            wins = list(pool.map(lambda ref, name=name: shared.tell(ref, "register", name), racers))
            assert sorted(map(str, wins)) == ["False"] * (len(racers) - 1) + ["True"]
            assert shared.troupe.whereis(name) == racers[wins.index(True)]


def test_a_dead_holder_is_followed_by_one_and_not_by_two(shared: Stage) -> None:
    racers = [shared.puppet() for _ in range(4)]
    with ThreadPoolExecutor(len(racers)) as pool:
        for turn in range(5):
            name = f"estate {turn}"
            holder = shared.puppet()
            assert shared.tell(holder, "register", name) is True
            os.kill(holder.place.pid, signal.SIGKILL)
            shared.troupe.join(holder)
            wins = list(pool.map(lambda ref, name=name: shared.tell(ref, "register", name), racers))
            assert wins.count(True) == 1
