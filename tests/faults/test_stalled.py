"""A runner or a dispatcher that sleeps through its lease, or dies, at the worst of moments."""

import hashlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.clockwork import Clocks, steady
from tests.faults.served import Served
from tests.faults.stalled import TTL_MS, shift_of, work
from tests.surfaces.process import ROOT, Program, report_of
from understudy.actors.specs.job_file_format import spelled
from understudy.authority import create_state_dir, open_journal
from understudy.authority.service.client import Client

START_MS = 1_800_000_000_000


class World:
    """A sidecar whose clock moves when the test says so, and specs of one step."""

    def __init__(self, folder: Path) -> None:
        self.state_dir, self.folder = folder / "state", folder / "jobs"
        create_state_dir(self.state_dir, "local")
        self.clocks = Clocks(folder / "clocks", START_MS)

    def served(self) -> Served:
        program = (sys.executable, "-m", "tests.faults.clockwork", self.clocks.path)
        return Served(self.state_dir, program=program)

    def zombie(self, moment: str) -> Program:
        words: list[str | Path] = [sys.executable, "-m", "tests.faults.stalled", self.state_dir]
        return Program([*words, self.folder, self.clocks.path, moment], cwd=ROOT)

    def submit(self, spec_id: str) -> str:
        """The job that its only step will have."""
        steps = [{"stepKey": "root", "kind": "k", "inputs": {"n": 1}}]
        with Client(self.state_dir, "cli") as client:
            answer = client.ask("spec.submit", {"specId": spec_id, "steps": steps})
        assert answer["result"] == "accepted", answer["diagnostic"]
        return f"{spec_id}:root"

    def work(self, role: str) -> None:
        """What a caller does that is awake."""
        clock = steady(self.clocks.path)
        with closing(shift_of(role, "heir", self.state_dir, self.folder, clock)) as shift:
            work(shift)

    def job(self, job_id: str) -> dict[str, Any]:
        with Client(self.state_dir, "cli") as client:
            job: dict[str, Any] = client.ask("job.show", {"jobId": job_id})["job"]
            return job

    def file(self, job_id: str) -> Path:
        return self.folder / spelled(job_id)

    def accepted(self, action: str, job_id: str) -> int:
        """How often it was granted for this job."""
        with open_journal(self.state_dir, read_only=True) as journal:
            answers = [orjson.loads(row.response) for row in journal.read()]
        named = [
            each for each in answers if (each["action"], each["result"]) == (action, "accepted")
        ]
        made = [job for each in named for job in each.get("created", [each["effect"].get("jobId")])]
        return made.count(job_id)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("world"))
    with found.served() as running:
        yield found
        assert running.terminate() == 0, running.complaint()
    assert report_of("replay", "--state-dir", found.state_dir)["result"] == "accepted"


@pytest.mark.parametrize("moment", ["flushed", "checked", "unaware"])
def test_a_dispatcher_that_slept_through_its_lease_changes_nothing(
    world: World, moment: str
) -> None:
    job_id = world.submit(moment)
    file = world.file(job_id)
    world.work("runner")
    with world.zombie(moment) as zombie:
        _stopped(zombie)
        assert not file.exists(), "it was about to write"
        world.clocks.passes(TTL_MS + 1)
        world.work("dispatcher")
        job, data, place = world.job(job_id), file.read_bytes(), _written(file)
        zombie.wake()
        assert zombie.wait() == 0, zombie.complaint()
    assert file.read_bytes() == data
    if moment == "flushed":
        assert _written(file) == place, "not even touched"
    assert world.job(job_id) == job
    assert job["dispatched"]["by"] == "heir"
    assert job["dispatched"]["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert not list(world.folder.glob(".*")), "no temporary file is left"
    assert world.accepted("dispatch.claim", job_id) == 2
    assert world.accepted("dispatch.complete", job_id) == 1


def _written(file: Path) -> tuple[int, int, int]:
    """Which file it is and when it was changed; reading it is no change."""
    found = file.stat()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def test_a_dispatcher_that_died_behind_its_file_is_finished_by_the_next(world: World) -> None:
    job_id = world.submit("died")
    world.work("runner")
    with world.zombie("renamed") as zombie:
        assert zombie.wait() == -signal.SIGKILL
    place = _written(world.file(job_id))
    assert "dispatched" not in world.job(job_id)
    world.clocks.passes(TTL_MS + 1)
    world.work("dispatcher")
    assert _written(world.file(job_id)) == place, "the file was good as it was"
    assert world.job(job_id)["dispatched"]["by"] == "heir"
    assert world.accepted("dispatch.claim", job_id) == 2
    assert world.accepted("dispatch.complete", job_id) == 1


def test_a_runner_that_slept_through_its_lease_makes_nothing(world: World) -> None:
    job_id = world.submit("slept")
    with world.zombie("claimed") as zombie:
        _stopped(zombie)
        world.clocks.passes(TTL_MS + 1)
        world.work("runner")
        job = world.job(job_id)
        zombie.wake()
        assert zombie.wait() == 0, zombie.complaint()
    assert world.job(job_id) == job
    assert job["author"] == "heir"
    assert world.accepted("spec.materialize", job_id) == 1
    world.work("dispatcher")


def _stopped(zombie: Program) -> None:
    """Wait until it stands still."""
    found = os.waitid(os.P_PID, zombie.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    assert found.si_status == signal.SIGSTOP, zombie.complaint()
