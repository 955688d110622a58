"""A runner or a dispatcher that sleeps through its lease, or dies, at the worst of moments."""

import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.clockwork import Clocks, steady
from tests.faults.served import Served
from tests.faults.stalled import TTL_MS, shift_of, work
from tests.surfaces.process import ROOT, Program, report_of
from understudy.authority import Office, open_journal
from understudy.authority.client import Client

START_MS = 1_800_000_000_000
STEPS = [{"stepKey": "root", "kind": "k", "inputs": {"n": 1}}]


class World:
    """A sidecar with a spec of one step, and a clock that moves when the test says so."""

    def __init__(self, state_dir: Path, tmp_path: Path) -> None:
        self.state_dir, self.folder = state_dir, tmp_path / "jobs"
        self.clocks = Clocks(tmp_path / "clocks", START_MS)
        self.file = self.folder / "s+root.json"

    def served(self) -> Served:
        program = (sys.executable, "-m", "tests.faults.clockwork", self.clocks.path)
        return Served(self.state_dir, program=program)

    def zombie(self, moment: str) -> Program:
        words: list[str | Path] = [sys.executable, "-m", "tests.faults.stalled", self.state_dir]
        return Program([*words, self.folder, self.clocks.path, moment], cwd=ROOT)

    def work(self, role: str) -> None:
        """What somebody does who is awake."""
        clock = steady(self.clocks.path)
        with shift_of(role, "heir", self.state_dir, self.folder, clock) as shift:
            work(shift)

    def job(self) -> dict[str, Any]:
        with Client(self.state_dir, "cli") as client:
            job: dict[str, Any] = client.ask("job.show", {"jobId": "s:root"})["job"]
            return job

    def accepted(self, action: str) -> list[dict[str, Any]]:
        with open_journal(self.state_dir, read_only=True) as journal:
            answers = [orjson.loads(row.response) for row in journal.read()]
        named = [each for each in answers if each["action"] == action]
        return [each for each in named if each["result"] == "accepted" and each["changed"]]


@pytest.fixture
def world(state_dir: Path, tmp_path: Path) -> World:
    found = World(state_dir, tmp_path)
    with Office(state_dir) as office:
        assert office.ask("spec.submit", {"specId": "s", "steps": STEPS})["result"] == "accepted"
    return found


@pytest.mark.parametrize("moment", ["flushed", "checked", "unaware"])
def test_a_dispatcher_that_slept_through_its_lease_changes_nothing(
    world: World, moment: str
) -> None:
    with world.served() as running:
        world.work("runner")
        with world.zombie(moment) as zombie:
            _stopped(zombie)
            assert not world.file.exists(), "it was about to write"
            world.clocks.passes(TTL_MS + 1)
            world.work("dispatcher")
            job, data, place = world.job(), world.file.read_bytes(), world.file.stat()
            zombie.wake()
            assert zombie.wait() == 0, zombie.complaint()
        assert world.file.read_bytes() == data
        if moment == "flushed":
            assert world.file.stat() == place, "not even touched"
        assert world.job() == job
        assert job["dispatched"]["by"] == "heir"
        assert job["dispatched"]["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert [each.name for each in world.folder.iterdir()] == [world.file.name]
        assert running.terminate() == 0
    assert len(world.accepted("dispatch.complete")) == 1
    assert report_of("replay", "--state-dir", world.state_dir)["result"] == "accepted"


def test_a_dispatcher_that_died_behind_its_file_is_finished_by_the_next(world: World) -> None:
    with world.served() as running:
        world.work("runner")
        with world.zombie("renamed") as zombie:
            assert zombie.wait() == -signal.SIGKILL
        place = world.file.stat()
        assert "dispatched" not in world.job()
        world.clocks.passes(TTL_MS + 1)
        world.work("dispatcher")
        assert world.file.stat() == place, "the file was good as it was"
        assert world.job()["dispatched"]["by"] == "heir"
        assert running.terminate() == 0
    assert len(world.accepted("dispatch.claim")) == 2
    assert len(world.accepted("dispatch.complete")) == 1


def test_a_runner_that_slept_through_its_lease_makes_nothing(world: World) -> None:
    with world.served() as running:
        with world.zombie("claimed") as zombie:
            _stopped(zombie)
            world.clocks.passes(TTL_MS + 1)
            world.work("runner")
            job = world.job()
            zombie.wake()
            assert zombie.wait() == 0, zombie.complaint()
        assert world.job() == job
        assert job["author"] == "heir"
        assert running.terminate() == 0
    assert [each["created"] for each in world.accepted("spec.materialize")] == [["s:root"]]


def _stopped(zombie: Program) -> None:
    """Wait until it stands still."""
    found = os.waitid(os.P_PID, zombie.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    assert found.si_status == signal.SIGSTOP, zombie.complaint()
