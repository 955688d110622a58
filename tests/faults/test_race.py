"""Many runners and many dispatchers at one authority, some killed and some frozen past their lease.

Whatever happens, every step has one job, every job was dispatched once, and its file is there with
the bytes that the authority knows of. `make race` has 8 of each race for 1,000 steps.
"""

import hashlib
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.clockwork import Clocks
from tests.faults.hands import TTL_MS, Hands
from tests.faults.served import Served
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import report_of
from understudy.authority import create_state_dir, open_journal
from understudy.authority.service.client import Client

STEPS = int(os.environ.get("UNDERSTUDY_RACE_STEPS", "100"))
HANDS = int(os.environ.get("UNDERSTUDY_RACE_HANDS", "3"))
IS_FULL = STEPS >= 1_000
SPECS = 6
BLOWS = 4  # times that one hand is killed, one frozen, and every lease lapses
START_MS = 1_800_000_000_000

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A state directory with its journal in either place."""
    folder = tmp_path / "state"
    if request.param == "sqlite":
        create_state_dir(folder, "local")
        yield folder
        return
    create_state_dir(folder, "local", request.getfixturevalue("url"))
    yield folder


@contextmanager
def authority(home: Path, clocks: Clocks) -> Iterator[Client]:
    """A sidecar whose leases lapse when the test says so."""
    program = (sys.executable, "-m", "tests.faults.clockwork", clocks.path)
    with (
        Served(home, program=program) as running,
        Client(home, "cli", retry_seconds=PATIENCE_SECONDS) as client,
    ):
        yield client
        assert running.terminate() == 0, running.complaint()


def specs(*, linked: bool) -> list[dict[str, Any]]:
    """Some specs with `STEPS` steps in all; linked, each step waits for up to two before it."""
    chance = random.Random(7)
    sizes = [STEPS // SPECS + (place < STEPS % SPECS) for place in range(SPECS)]
    found = []
    for place, size in enumerate(sizes):
        keys = [f"step:{number}:k" for number in range(size)]
        steps: list[dict[str, Any]] = []
        for at, key in enumerate(keys):
            # Among some of the first, so that the whole is wide and not one long chain.
            reach = keys[: min(at, 12)] if linked else []
            needs = sorted(chance.sample(reach, min(2, len(reach))))
            steps.append({"stepKey": key, "kind": "k", "inputs": {"n": at}, "dependsOn": needs})
        chance.shuffle(steps)
        found.append({"specId": f"spec{place}", "title": "race", "steps": steps})
    return found


@pytest.mark.parametrize(
    ("home", "linked"),
    [("sqlite", True), ("postgres", False), *([("sqlite", False), ("postgres", True)] * IS_FULL)],
    indirect=["home"],
)
def test_every_job_is_made_once_and_dispatched_once(
    home: Path, tmp_path: Path, linked: bool
) -> None:
    clocks, folder = Clocks(tmp_path / "clocks", START_MS), tmp_path / "jobs"
    with authority(home, clocks) as client:
        for each in specs(linked=linked):
            assert client.ask("spec.submit", each)["result"] == "accepted"
        with Hands(home, folder, HANDS, HANDS, int(linked)) as hands:
            _disturb(hands, folder, clocks)
            hands.thaw()
            eventually(lambda: _is_done(client, clocks))
            hands.finish()
        jobs = [_job(client, each) for each in _ids()]
    _prove_files(folder, jobs)
    _prove_rows(home, tmp_path)


def _disturb(hands: Hands, folder: Path, clocks: Clocks) -> None:
    """Kill and freeze while they work, and let the leases of those lapse, and of all others too."""
    chance = random.Random(STEPS)
    for blow in range(1, BLOWS + 1):
        eventually(partial(_has, folder, STEPS * blow // (2 * BLOWS)))
        for role in ("runner", "dispatcher"):
            alive = [each for each in hands.pids if each.startswith(role)]
            alive = [each for each in alive if each not in hands.frozen]
            if len(alive) > 1:
                victim = chance.choice(alive)
                hands.freeze(victim) if blow % 2 else hands.hit(victim, signal.SIGKILL)
        clocks.passes(TTL_MS + 1)


def _has(folder: Path, count: int) -> bool:
    return folder.exists() and len(list(folder.glob("*.json"))) >= count


def _ids() -> list[str]:
    return [
        f"{spec['specId']}:{step['stepKey']}"
        for spec in specs(linked=False)
        for step in spec["steps"]
    ]


def _job(client: Client, job_id: str) -> dict[str, Any]:
    answer = client.ask("job.show", {"jobId": job_id})
    assert answer["result"] == "accepted", answer["diagnostic"]
    job: dict[str, Any] = answer["job"]
    return job


def _is_done(client: Client, clocks: Clocks) -> bool:
    """Whether all are dispatched; time goes by, as a hand may have died with a lease."""
    clocks.passes(200)
    shown = [client.ask("spec.show", {"specId": f"spec{place}"})["spec"] for place in range(SPECS)]
    return all("dispatched" in step for each in shown for step in each["steps"])


def _prove_files(folder: Path, jobs: list[dict[str, Any]]) -> None:
    """As many files as jobs, each with the bytes that were said when it was dispatched."""
    files = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    assert len(files) == STEPS
    for job in jobs:
        data = files.pop(job["dispatched"]["file"])
        assert job["dispatched"]["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        content = orjson.loads(data)
        assert (content["jobId"], content["inputs"]) == (job["jobId"], job["payload"]["inputs"])
    assert not files


def _prove_rows(home: Path, tmp_path: Path) -> None:
    """What the journal says, counted by hand; and it decides the same again."""
    made: Counter[str] = Counter()
    done: Counter[str] = Counter()
    lost = 0
    with open_journal(home, read_only=True) as journal:
        for row in journal.read():
            answer = orjson.loads(row.response)
            action, effect = answer["action"], answer["effect"]
            if answer["result"] != "accepted":
                lost += answer["failureClasses"][0] in ("lease_stale", "lease_fence_stale")
            elif action == "spec.materialize":
                made.update(answer["created"])
            elif action == "dispatch.complete" and answer["changed"]:
                done[effect["jobId"]] += 1
    assert made == done == Counter(_ids())
    assert lost or not IS_FULL, "no hand was too late, so this has shown nothing"
    assert report_of("replay", "--state-dir", home)["result"] == "accepted"
    log = tmp_path / "log.jsonl"
    report_of("job", "log", "export", log, "--state-dir", home)
    operations = map(orjson.loads, log.read_bytes().splitlines())
    scheduled = [each["body"]["jobId"] for each in operations if each["kind"] == "ScheduleJob"]
    assert Counter(scheduled) == Counter(_ids())
