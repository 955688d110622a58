"""Timers over Thespian's wake-ups, which cannot be cancelled and come last-first."""

import pytest

from tests.actors.otp.carriers.process.stage import Stage
from tests.patience import eventually

pytestmark = pytest.mark.timeout(60)


def test_timers_come_in_the_order_of_their_time_and_then_of_their_setting(shared: Stage) -> None:
    cell = shared.puppet()
    delays = [(60, "c"), (30, "a1"), (30, "a2"), (90, "d"), (30, "a3"), (45, "b")]
    shared.tell(cell, "after", delays)
    eventually(lambda: len(shared.heard(cell)) == len(delays))
    assert shared.heard(cell) == ["a1", "a2", "a3", "b", "c", "d"]


def test_timers_that_are_due_together_after_a_long_turn_keep_their_order(shared: Stage) -> None:
    cell = shared.puppet()
    shared.tell(cell, "after", [(10 * number, number) for number in range(20, 0, -1)])
    shared.tell(cell, "sleep", 0.4)
    eventually(lambda: len(shared.heard(cell)) == 20)
    assert shared.heard(cell) == list(range(1, 21))


def test_a_cancelled_timer_never_comes(shared: Stage) -> None:
    cell = shared.puppet()
    timers = shared.tell(cell, "after", [(50, "cancelled"), (60, "kept"), (1, "gone before")])
    assert isinstance(timers, list)
    shared.tell(cell, "cancel", timers[0])
    eventually(lambda: "kept" in shared.heard(cell))
    shared.tell(cell, "cancel", timers[2])
    assert shared.heard(cell) == ["gone before", "kept"]


def test_a_thousand_timers_of_one_delay_come_as_they_were_set(shared: Stage) -> None:
    cell = shared.puppet()
    shared.tell(cell, "after", [(10, number) for number in range(1_000)])
    eventually(lambda: len(shared.heard(cell)) == 1_000)
    assert shared.heard(cell) == list(range(1_000))
