"""Schedulers and authorities that are killed around a firing, and limits under load.

However many schedulers there are, and whoever dies at whatever point, a moment makes one job. And
no limit is ever exceeded, whoever asks how fast.
"""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.clockwork import Clocks
from tests.faults.served import Served
from tests.long import LONG
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import ROOT, Program, Words, report_of
from understudy.authority import create_state_dir, open_journal
from understudy.authority.journal.state_files import URL_FILE
from understudy.authority.service.client import Client, ClientCall
from understudy.authority.views.replay import replay

START_MS = 1_800_000_000_000
EVERY_MS = 1_000
# What a sidecar comes to when it commits a firing; SQLite writes before it commits.
POINTS = ("append.begun", "append.committed", "trajectory.written", "trajectory.synced")
HOSTS = 8

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A state directory with its journal in either place."""
    folder = tmp_path / "state"
    url = None if request.param == "sqlite" else request.getfixturevalue("url")
    create_state_dir(folder, "local", *([url] if url else []))
    return folder


def more_hosts(home: Path, count: int) -> list[Path]:
    """State directories of so many hosts in all, which share the journal of the first."""
    homes = [home, *(home.with_name(f"host{number}") for number in range(2, count + 1))]
    for each in homes[1:]:
        create_state_dir(each, "local", (home / URL_FILE).read_text().strip())
    return homes


class Sky:
    """A schedule, sidecars under one clock that the test moves, and schedulers."""

    def __init__(self, home: Path, everybody: ExitStack) -> None:
        self.home, self._everybody = home, everybody
        self.clocks = Clocks(home.with_name("clocks"), START_MS)
        self._program = (sys.executable, "-m", "tests.faults.clockwork", self.clocks.path)
        setting = {"scheduleId": "s", "everyMs": EVERY_MS, "startMs": START_MS + EVERY_MS}
        with Served(home, program=self._program), Client(home, "cli") as client:
            answer = client.ask("schedule.set", setting | {"job": {"kind": "k"}, "missed": "all"})
            assert answer["result"] == "accepted", answer["diagnostic"]

    def serve(self, home: Path, point: str | None = None) -> Served:
        """The sidecar of a host; it may die at a point."""
        dies = {"UNDERSTUDY_FAILPOINT": point} if point else {}
        return self._everybody.enter_context(Served(home, program=self._program, env=dies))

    def schedule(self, home: Path, point: str = "") -> Program:
        words: Words = (sys.executable, "-m", "tests.faults.firing", "scheduler", home, point)
        return self._everybody.enter_context(Program(words, cwd=ROOT))

    def passes(self, moments: int) -> None:
        self.clocks.passes(moments * EVERY_MS)

    def made(self) -> list[str]:
        fired = answers_of(self.home, "schedule.fire")
        return [each["job"]["jobId"] for each in fired if each["result"] == "accepted"]

    def prove(self, count: int) -> None:
        """Each moment made one job, in order, and there are no others."""
        moments = [f"s@{START_MS + turn * EVERY_MS}" for turn in range(1, count + 1)]
        assert self.made() == moments
        listed = report_of("job", "list", "--state-dir", self.home)["jobs"]
        assert [each["jobId"] for each in listed] == moments
        with open_journal(self.home, read_only=True) as journal:
            assert replay(journal).mismatch is None


def answers_of(home: Path, action: str = "") -> list[dict[str, Any]]:
    """What was answered to an action, or to all, in order."""
    with open_journal(home, read_only=True) as journal:
        answers = [orjson.loads(row.response) for row in journal.read()]
    return [each for each in answers if action in ("", each["action"])]


@pytest.mark.parametrize(
    ("home", "point"),
    [("sqlite", each) for each in (*POINTS, "append.written", "tables.written")]
    + [("postgresql", each) for each in POINTS],
    indirect=["home"],
)
def test_a_moment_makes_one_job_wherever_everything_is_killed(home: Path, point: str) -> None:
    with ExitStack() as everybody:
        sky = Sky(home, everybody)
        served = sky.serve(home, point)
        crowd = [sky.schedule(home) for _ in range(2)]
        sky.passes(3)
        eventually(lambda: served.process.poll() is not None)
        for each in crowd:
            each.kill()
        sky.passes(2)
        sky.serve(home)
        crowd = [sky.schedule(home) for _ in range(2)]
        eventually(lambda: len(sky.made()) == 5)
        crowd[0].kill()
        sky.passes(1)
        eventually(lambda: len(sky.made()) == 6)
    sky.prove(6)


@pytest.mark.parametrize(
    ("home", "point", "made"),
    [("sqlite", "looked", 0), ("sqlite", "decided", 3)],
    indirect=["home"],
)
def test_a_moment_makes_one_job_wherever_its_scheduler_is_killed(
    home: Path, point: str, made: int
) -> None:
    with ExitStack() as everybody:
        sky = Sky(home, everybody)
        sky.serve(home)
        sky.passes(3)
        assert sky.schedule(home, point).wait() == -signal.SIGKILL
        assert len(sky.made()) == made
        sky.passes(1)
        sky.schedule(home)
        eventually(lambda: len(sky.made()) == 4)
    sky.prove(4)


@pytest.mark.parametrize("home", ["postgresql"], indirect=True)
def test_two_hosts_that_fire_at_once_make_one_job(home: Path) -> None:
    """Moments pass until both have proposed one; then the active host is killed, and more pass."""
    with ExitStack() as everybody:
        sky, count = Sky(home, everybody), 0
        first, second = more_hosts(home, 2)
        active = sky.serve(first)
        sky.serve(second)
        for each in (first, second):
            sky.schedule(each)

        def both_proposed() -> bool:
            nonlocal count
            count += 1
            sky.passes(1)
            eventually(lambda: len(sky.made()) == count)
            late = [each["failureClasses"] for each in answers_of(first, "schedule.fire")]
            return ["schedule_fired"] in late

        eventually(both_proposed)
        active.kill()
        sky.passes(2)
        eventually(lambda: len(sky.made()) == count + 2)
    sky.prove(count + 2)


@pytest.mark.parametrize(
    ("home", "hosts"),
    [("sqlite", 1), ("postgresql", 3), pytest.param("postgresql", HOSTS, marks=LONG)],
    indirect=["home"],
)
def test_no_limit_is_exceeded_by_many_who_ask_at_once(home: Path, hosts: int) -> None:
    """On PostgreSQL workers ask on all hosts, of which all but one relay, until that one is killed.

    It comes back, so that its own workers can go on.
    """
    count, at_once, rate, burst = 20 * hosts + 40, 2, 1_200, 5
    homes = more_hosts(home, hosts)
    with ExitStack() as everybody:
        serving = [everybody.enter_context(Served(each)) for each in homes]
        client = everybody.enter_context(Client(home, "cli", retry_seconds=PATIENCE_SECONDS))
        client.ask("limit.set", {"kind": "k.", "concurrency": at_once})
        client.ask("limit.set", {"kind": "k.x", "ratePerMinute": rate, "burst": burst})
        jobs = [
            {"jobId": f"j{each}", "kind": f"k.{'xy'[each % 2]}", "priority": each % 3}
            for each in range(count)
        ]
        client.ask_many([ClientCall("job.schedule", each) for each in jobs])
        words: Words = (sys.executable, "-m", "tests.faults.firing", "worker")
        crowd = [
            everybody.enter_context(Program((*words, homes[each % hosts]), cwd=ROOT))
            for each in range(max(8, 2 * hosts))
        ]
        if hosts > 1:
            eventually(lambda: len(answers_of(home, "job.complete")) > count // 4)
            serving[0].kill()
            everybody.enter_context(Served(home))
        assert [each.wait() for each in crowd] == [0] * len(crowd)
    answers = answers_of(home)
    assert sum(each["action"] == "job.complete" for each in answers) == count
    assert_within(answers, at_once, rate, burst)


def assert_within(answers: list[dict[str, Any]], at_once: int, rate: int, burst: int) -> None:
    """Never more at once than that, and in no span more claims than a full bucket would give."""
    held: set[str] = set()
    claims: list[int] = []
    for answer in answers:
        job_id = answer.get("job", {}).get("jobId")
        if answer["action"] == "job.claim" and answer["result"] == "accepted":
            held.add(job_id)
            if answer["job"]["kind"] == "k.x":
                claims.append(answer["stamp"]["wallMs"])
        elif answer["action"] == "job.complete":
            held.discard(job_id)
        assert len(held) <= at_once
    for first, since_ms in enumerate(claims):
        for number, now_ms in enumerate(claims[first:], 1):
            assert (number - burst) * 60_000 <= (now_ms - since_ms) * rate, (first, number)
