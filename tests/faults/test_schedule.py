"""Schedulers and authorities that are killed around a firing, and limits under load.

However many schedulers there are, and whoever dies at whatever point, a moment makes one job. And
no limit is ever exceeded, whoever asks how fast.
"""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.clockwork import Clocks
from tests.faults.served import Served
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

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A state directory with its journal in either place."""
    folder = tmp_path / "state"
    url = None if request.param == "sqlite" else request.getfixturevalue("url")
    create_state_dir(folder, "local", *([url] if url else []))
    return folder


def schedulers(home: Path, count: int, everybody: ExitStack) -> list[Program]:
    words: Words = (sys.executable, "-m", "tests.faults.firing", "scheduler", home)
    return [everybody.enter_context(Program(words, cwd=ROOT)) for _ in range(count)]


def accepted(home: Path, action: str) -> Iterator[dict[str, Any]]:
    with open_journal(home, read_only=True) as journal:
        answers = [orjson.loads(row.response) for row in journal.read()]
    return (each for each in answers if each["action"] == action and each["result"] == "accepted")


def made(home: Path) -> list[str]:
    return [each["job"]["jobId"] for each in accepted(home, "schedule.fire")]


@pytest.mark.parametrize(
    ("home", "point"),
    [("sqlite", each) for each in (*POINTS, "append.written", "tables.written")]
    + [("postgresql", each) for each in POINTS],
    indirect=["home"],
)
def test_a_moment_makes_one_job_wherever_everything_is_killed(
    home: Path, point: str, tmp_path: Path
) -> None:
    clocks = Clocks(tmp_path / "clocks", START_MS)
    program = (sys.executable, "-m", "tests.faults.clockwork", clocks.path)
    setting = {"scheduleId": "s", "everyMs": EVERY_MS, "startMs": START_MS + EVERY_MS}
    with Served(home, program=program), Client(home, "cli") as client:
        answer = client.ask("schedule.set", setting | {"job": {"kind": "k"}, "missed": "all"})
        assert answer["result"] == "accepted", answer["diagnostic"]
    with ExitStack() as everybody:
        dies = {"UNDERSTUDY_FAILPOINT": point}
        served = everybody.enter_context(Served(home, program=program, env=dies))
        crowd = schedulers(home, 2, everybody)
        clocks.passes(3 * EVERY_MS)
        eventually(lambda: served.process.poll() is not None)
        for each in crowd:
            each.kill()
        clocks.passes(2 * EVERY_MS)
        everybody.enter_context(Served(home, program=program))
        crowd = schedulers(home, 2, everybody)
        eventually(lambda: len(made(home)) == 5)
        crowd[0].kill()
        clocks.passes(EVERY_MS)
        eventually(lambda: len(made(home)) == 6)
    moments = [f"s@{START_MS + turn * EVERY_MS}" for turn in range(1, 7)]
    assert made(home) == moments
    listed = report_of("job", "list", "--state-dir", home)["jobs"]
    assert [each["jobId"] for each in listed] == moments
    with open_journal(home, read_only=True) as journal:
        assert replay(journal).mismatch is None


@pytest.mark.parametrize("home", ["sqlite", "postgresql"], indirect=True)
def test_no_limit_is_exceeded_by_many_who_ask_at_once(home: Path, tmp_path: Path) -> None:
    """On PostgreSQL the workers ask on three hosts, of which two relay to the active one."""
    count, at_once, rate, burst = 60, 2, 1_200, 5
    homes, url = [home], home / URL_FILE
    if url.exists():
        for name in ("second", "third"):
            create_state_dir(tmp_path / name, "local", url.read_text().strip())
            homes.append(tmp_path / name)
    with ExitStack() as everybody:
        for each in homes:
            everybody.enter_context(Served(each))
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
            everybody.enter_context(Program((*words, homes[each % len(homes)]), cwd=ROOT))
            for each in range(8)
        ]
        assert [each.wait() for each in crowd] == [0] * len(crowd)
    held: set[str] = set()
    claims: deque[int] = deque(maxlen=burst + 1)
    with open_journal(home, read_only=True) as journal:
        answers = [orjson.loads(row.response) for row in journal.read()]
    for answer in answers:
        job_id = answer.get("job", {}).get("jobId")
        if answer["action"] == "job.claim" and answer["result"] == "accepted":
            held.add(job_id)
            if answer["job"]["kind"] == "k.x":
                claims.append(answer["stamp"]["wallMs"])
        elif answer["action"] == "job.complete":
            held.discard(job_id)
        assert len(held) <= at_once
        if len(claims) > burst:
            assert (claims[-1] - claims[0]) * rate >= 60_000, "a burst, and then one at a time"
    done = [each for each in answers if each["action"] == "job.complete"]
    assert len(done) == count
