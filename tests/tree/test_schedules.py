"""A tree that makes what schedules say, and keeps to the limits: `understudy up --schedules`."""

import os
import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.long import LONG
from tests.patience import eventually
from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up, job, kill, prove, rows, schedule
from tests.tree.storm import Storm

SECONDS = float(os.environ.get("UNDERSTUDY_TREE_SECONDS", "8"))
SEED = int(os.environ.get("UNDERSTUDY_TREE_SEED", "0")) or secrets.randbits(32)

pytestmark = pytest.mark.timeout(120)


def jobs(state_dir: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report_of("job", "list", "--state-dir", state_dir)["jobs"]
    return found


def test_whoever_dies_each_moment_makes_one_job_and_it_is_done(state_dir: Path) -> None:
    report_of(
        "schedule", "add", "every 1s", "--id", "s", "--kind", "k", "--missed", "all",
        "--state-dir", state_dir,
    )  # fmt: skip
    with Up(state_dir, "--schedules", "--job", "k=true") as up:
        up.ready()
        eventually(lambda: any(each["state"] == "completed" for each in jobs(state_dir)))
        assert "schedules, fired" in understudy("tree", "--state-dir", state_dir).stdout.decode()
        kill(up.pid_of("scheduler"))
        count = len(jobs(state_dir))
        eventually(lambda: len(jobs(state_dir)) > count)
        kill(up.picture()["authority"]["pid"])
        count += 1
        eventually(lambda: len(jobs(state_dir)) > count)
        system = up.picture()["system"]
        up.kill()
        eventually(lambda: not up.left(system))
    with Up(state_dir, "--schedules", "--job", "k=true") as up:
        up.ready()
        eventually(lambda: len([x for x in jobs(state_dir) if x["state"] == "completed"]) > count)
        assert understudy("down", "--state-dir", state_dir).returncode == 0
    (schedule_,) = report_of("schedule", "list", "--state-dir", state_dir)["schedules"]
    moments = [int(each["jobId"].removeprefix("s@")) for each in jobs(state_dir)]
    first = schedule_["startMs"] + 1_000
    assert moments == [first + turn * 1_000 for turn in range(len(moments))]
    assert schedule_["fired"] == len(moments)
    prove(state_dir)


@LONG
@pytest.mark.timeout(SECONDS + 420)
def test_whatever_a_storm_kills_each_moment_makes_one_job(state_dir: Path) -> None:
    report_of(
        "schedule", "add", "every 1s", "--id", "s", "--kind", "k", "--missed", "all",
        "--state-dir", state_dir,
    )  # fmt: skip
    dice = random.Random(SEED)
    words = ["--schedules", "--job", "k=true", "--job-workers", "2", "--limit", "k=2"]
    storm = Storm(state_dir, words, dice)
    try:
        storm.blow(SECONDS)
        storm.calm()
    finally:
        print(f"seed {SEED}: {dict(storm.hits)}, {len(storm.systems)} trees")
        if storm.up.process.poll() is None:
            storm.up.kill()
    assert storm.left() == []
    fired = [
        int(each["effect"]["jobId"].removeprefix("s@"))
        for each in rows(state_dir)
        if each["action"] == "schedule.fire" and each["resultClass"] == "accepted"
    ]
    assert fired == list(range(fired[0], fired[-1] + 1, 1_000)), "each once, and in order"
    prove(state_dir)


def test_urgent_jobs_go_first_late_ones_later_and_a_slow_one_is_stopped(
    state_dir: Path, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    schedule(
        state_dir,
        [
            {"jobId": "last", "kind": "k", "priority": 5},
            {"jobId": "later", "kind": "k", "priority": 0, "delayMs": 4_000},
            {"jobId": "first", "kind": "k", "priority": 0},
            {"jobId": "slow", "kind": "s", "timeoutMs": 1_000},
        ],
    )
    note = f'echo "$UNDERSTUDY_JOB" >> {done}'
    sleep = f"[ -e {tmp_path}/tried ] || {{ touch {tmp_path}/tried; exec sleep 60; }}"
    words = ["--job", f"k={note}", "--job", f"s={sleep}", "--workers", "4"]
    words += ["--limit", "k=1", "--until-done"]
    with Up(state_dir, *words) as up:
        assert up.wait() == 0, up.complaint()
    assert done.read_text().split() == ["first", "last", "later"]
    assert job(state_dir, "slow")["attempts"] == 2
    assert job(state_dir, "slow")["state"] == "completed"
    (limit,) = report_of("limit", "list", "--state-dir", state_dir)["limits"]
    assert (limit["kind"], limit["concurrency"]) == ("k", 1)
    prove(state_dir)


@pytest.mark.parametrize("text", ["k", "k=", "=2", "k=many", "k=-1"])
def test_a_limit_that_is_none_is_refused_before_anything_starts(state_dir: Path, text: str) -> None:
    said = understudy("up", "--job", "k=true", "--limit", text, "--state-dir", state_dir)
    assert (said.returncode, b"KIND=NUMBER" in said.stderr) == (2, True)


def test_a_limit_of_zero_is_refused_with_its_class(state_dir: Path) -> None:
    said = understudy("up", "--job", "k=true", "--limit", "k=0", "--state-dir", state_dir)
    assert (said.returncode, b"job_limit_invalid" in said.stderr) == (2, True)
