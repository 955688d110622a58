"""Schedulers in small worlds around the real authority: answers lost, machines dead, clocks off.

Whatever happens, no moment makes two jobs, and when all is calm again, what the schedule says is
made.
"""

from random import Random
from typing import Any

import pytest

from tests.fakes.desk import START_MS, Desk
from tests.fakes.seeds import Mutant, find, for_mutants, in_chunks, run_all
from understudy.actors.leasing.moment import Moment
from understudy.actors.specs import scheduler as scheduler_module
from understudy.actors.specs.scheduler import LOOK_MS, Scheduler
from understudy.authority.law.jobs import schedule
from understudy.contracts import limits

MINUTE_MS = 60_000


class Sky:
    """Some schedulers at one authority, each with a steady clock that began at another time."""

    def __init__(self, count: int = 1, rng: Random | None = None) -> None:
        self.desk, self.rng = Desk(), rng or Random(0)
        self.schedulers = [Scheduler() for _ in range(count)]
        self.offsets = [self.rng.randrange(10**6) for _ in range(count)]

    def add(self, **members: Any) -> None:
        made = {"scheduleId": "s", "job": {"kind": "k"}, "startMs": START_MS}
        self.desk.grant("schedule.set", "cli", **made | members)

    def turn(self, number: int = 0, *, is_lost: bool = False) -> int:
        """One turn of a scheduler; how many calls it made."""
        scheduler = self.schedulers[number]
        calls = scheduler.asks(self.moment(number))
        answers = [self.desk.ask(each.action, "coordinator", **each.payload) for each in calls]
        if calls and is_lost:
            scheduler.unheard(self.moment(number))
        elif calls:
            scheduler.heard(answers, self.moment(number))
        return len(calls)

    def calm(self) -> None:
        """Everybody has looked, and fired what there was."""
        self.desk.time.passes(LOOK_MS)
        for number in range(len(self.schedulers)):
            for _ in range(6):
                self.schedulers[number].wake(self.moment(number))
                self.turn(number)

    def moment(self, number: int) -> Moment:
        return Moment(self.desk.time.steady_ms + self.offsets[number], lambda: 500)

    def made(self) -> list[int]:
        """The moments that jobs were made for, in the order of their making."""
        lane = self.desk.authority.state.lane
        return [int(job_id.partition("@")[2]) - START_MS for _, job_id in lane.scheduled]


def test_a_scheduler_fires_when_it_is_due_and_sleeps_until_the_next() -> None:
    sky = Sky()
    sky.add(everyMs=1_500, startMs=START_MS + 500)
    assert sky.turn() == 1
    assert sky.schedulers[0].next_ms - sky.moment(0).ms == 500
    assert sky.turn() == 0
    sky.desk.time.passes(500)
    assert [sky.turn() for _ in range(4)] == [1, 1, 1, 0]
    assert sky.made() == [500]
    assert sky.schedulers[0].next_ms - sky.moment(0).ms == 1_500
    assert sky.schedulers[0].summary(sky.moment(0).ms)["fired"] == 1


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("all", [0, 1, 2, 3, 4, 5]),
        ("one", [0, 5]),
        ("skip", [0, 4, 5]),  # what is over for a minute at most is not missed
    ],
)
def test_what_was_missed_is_made_up_for_as_the_schedule_says(
    missed: str, expected: list[int]
) -> None:
    sky = Sky()
    sky.add(everyMs=MINUTE_MS, missed=missed)
    sky.calm()
    sky.desk.time.passes(5 * MINUTE_MS - 2 * LOOK_MS)
    sky.calm()
    assert sky.made() == [each * MINUTE_MS for each in expected]


def test_a_clock_that_jumps_makes_up_for_the_newest_hundred() -> None:
    sky = Sky()
    sky.add(everyMs=MINUTE_MS, missed="all")
    sky.desk.time.passes(365 * 24 * 60 * MINUTE_MS)
    sky.calm()
    assert len(sky.made()) == limits.SCHEDULE_MISSED_MAX
    assert sky.made()[-1] == 365 * 24 * 60 * MINUTE_MS


def test_a_firing_that_is_refused_is_reported_and_the_next_one_is_not() -> None:
    sky = Sky()
    sky.add(everyMs=MINUTE_MS)
    sky.desk.grant("route.set", "cli", kind="k", derivation=True)
    sky.desk.grant("coordinator.designate", "cli", node="ann")
    sky.calm()
    (report,) = sky.schedulers[0].reports
    assert (report.what, report.subject) == ("schedule not fired", "schedule/s")
    assert "job_coordinator_required" in report.detail
    sky.desk.grant("route.set", "cli", kind="k")
    sky.desk.time.passes(MINUTE_MS)
    sky.calm()
    assert sky.made() == [MINUTE_MS]


def test_a_calendar_that_this_host_does_not_know_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sky = Sky()
    sky.add(everyMs=MINUTE_MS)
    sky.add(scheduleId="t", cron="* * * * *", timezone="Europe/Berlin")
    monkeypatch.setattr("understudy.contracts.due.ZoneInfo", lambda name: {}[name])
    sky.calm()
    (report,) = sky.schedulers[0].reports
    assert (report.what, report.subject) == ("schedule not read", "schedule/t")
    assert sky.made() == [0], "the others go on"


def world(seed: int) -> None:
    """Three schedulers, of which any may die or hear nothing, and clocks that jump over moments."""
    rng = Random(seed)
    sky = Sky(count=3, rng=rng)
    every_ms, missed = rng.choice([1_000, 7_000, 61_000]), rng.choice(["all", "all", "one", "skip"])
    sky.add(everyMs=every_ms, missed=missed)
    for _ in range(80):
        number = rng.randrange(3)
        sky.desk.time.passes(rng.choice([0, 1, 250, every_ms // 2, every_ms]))
        if rng.random() < 0.1:
            sky.schedulers[number] = Scheduler()  # it died
        if rng.random() < 0.05:
            sky.desk.restart()
        if rng.random() < 0.05:
            sky.desk.time.wall_ms += rng.choice([-10_000, 5_000, 20_000])  # somebody sets the clock
        sky.turn(number, is_lost=rng.random() < 0.3)
    sky.calm()
    found = [each // every_ms for each in sky.made()]
    assert found == sorted({*found}), "each once, and in order"
    assert sky.made() == [turn * every_ms for turn in found], "and no other moments"
    if missed == "all":
        assert found == [*range(len(found))], "none is lost"
    fired = sky.desk.authority.state.lane.schedules["s"]
    assert (sky.made()[-1], len(found)) == (fired.last_due_ms - START_MS, fired.fired)
    sky.desk.prove()


@in_chunks(60, 20)
def test_no_moment_makes_two_jobs_and_none_is_lost(seeds: range) -> None:
    run_all(world, seeds)


MUTANTS: list[Mutant] = [
    (schedule, "fire", "due_ms <= schedule.last_due_ms", "False"),
    (schedule, "fire", "last_due_ms=due_ms", "last_due_ms=schedule.last_due_ms"),
    (schedule, "fire", "*made.changes", ""),
    (scheduler_module, "Scheduler._due", "schedule.last_due_ms", "now_ms"),
    (scheduler_module, "Scheduler._due", "else found", "else found[-1:]"),
]


@for_mutants(MUTANTS)
def test_a_broken_rule_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    find(monkeypatch, mutant, world, 20)
