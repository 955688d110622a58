"""Bits that flip below a sidecar, while it runs or between two starts: named, and never skipped.

What the journal's database lost is found by replay, as `test_damage` shows; here is what a running
process makes of it, and the log, of which SQLite drops everything behind a damaged frame.
"""

import os
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.served import Caller, Callers, Served
from tests.long import IS_LONG, SCALED, few
from tests.patience import eventually
from tests.surfaces.process import commanded, journal_rows
from understudy.authority import TRAJECTORY, Office, Unavailable
from understudy.contracts import Reason, startup_check

JOURNAL, LOG = "journal.db", "journal.db-wal"
SAMPLES = 60 if IS_LONG else 15
SEEDS = range(4)


@pytest.fixture
def callers(state_dir: Path) -> Callers:
    """Those who have heard forty answers."""
    callers = Callers(1, 4)
    with Served(state_dir) as running:
        callers.call(state_dir, 10)
        assert running.terminate() == 0, running.complaint()
    return callers


@pytest.fixture
def killed(state_dir: Path) -> Path:
    """A state directory with all rows in the log, and all evidence written."""
    with Served(state_dir) as running:
        Callers(1, 4).call(state_dir, 10)
        eventually(lambda: _lines(state_dir) == 40)
        running.kill()
    for name in ("journal.db-shm", "authority.sock"):
        (state_dir / name).unlink()
    return state_dir


def _lines(state_dir: Path) -> int:
    path = state_dir / TRAJECTORY
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _flip(path: Path, place: int, chance: random.Random) -> None:
    """In place, as a disk does it."""
    with path.open("r+b", buffering=0) as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << chance.randrange(8)]))


# --- between two starts ---------------------------------------------------------------------------


@SCALED
@pytest.mark.parametrize("way", ["flipped", "cut"])
def test_a_log_that_lost_rows_is_refused(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("understudy.authority.service.local.startup_check", cache(startup_check))
    rows = journal_rows(Path(shutil.copytree(killed, tmp_path / "whole")))
    assert len(rows) == 40
    chance = random.Random(way)
    for place in chance.sample(range(_written(killed)), SAMPLES):
        folder = Path(shutil.copytree(killed, tmp_path / "damaged"))
        if way == "cut":
            os.truncate(folder / LOG, place)
        else:
            _flip(folder / LOG, place, chance)
        if _refusal(folder) is not Reason.TRAJECTORY_MISMATCH:
            assert journal_rows(folder) == rows, f"{way} at {place}"
        shutil.rmtree(folder)


def _refusal(state_dir: Path) -> Reason | None:
    try:
        Office(state_dir).close()
    except Unavailable as error:
        return error.reason
    return None


def _written(state_dir: Path) -> int:
    """How much of the log was used; it has its size ahead of use."""
    return len((state_dir / LOG).read_bytes().rstrip(b"\0"))


def test_a_sidecar_does_not_start_on_a_log_that_lost_rows(killed: Path) -> None:
    os.truncate(killed / LOG, _written(killed) - 100)
    with Served(killed) as running:
        assert running.wait() == 9
        assert "line of row" in running.complaint()
        assert "(trajectory_mismatch)" in running.complaint()


def test_a_sidecar_does_not_start_on_a_journal_that_is_damaged(
    state_dir: Path, callers: Callers
) -> None:
    with (state_dir / JOURNAL).open("r+b") as file:
        file.truncate(3 * 4096)
    with Served(state_dir) as running:
        assert running.wait() == 9
        assert "(journal_corrupt)" in running.complaint()


# --- while it runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", few(SEEDS, 2))
def test_damage_below_a_running_sidecar_is_named_by_it_or_by_replay(
    state_dir: Path, callers: Callers, seed: int
) -> None:
    rows, chance = journal_rows(state_dir), random.Random(seed)
    added = 0
    with Served(state_dir) as running, Caller(state_dir) as caller:
        for place in chance.sample(range((state_dir / JOURNAL).stat().st_size), 1 + 20 * seed):
            _flip(state_dir / JOURNAL, place, chance)
        for number in range(40):
            caller.send({"action": "issue.add", "payload": {"id": f"new{number}", "title": "t"}})
            added += bool(caller.line())
        code = running.terminate()
        assert code in (0, 9), running.complaint()
        assert (code == 9) == ("(journal_corrupt)" in running.complaint())
        assert (code == 9) == (added < 40), running.complaint()
        assert "Traceback" not in running.complaint()
    replayed = commanded("replay", "--state-dir", state_dir)
    assert b"Traceback" not in replayed.stderr
    if replayed.returncode != 9:
        assert replayed.returncode == 0
        assert journal_rows(state_dir)[:40] == rows
        assert len(journal_rows(state_dir)) == 40 + added


def test_a_sidecar_that_meets_a_page_of_nonsense_names_it_and_ends(
    state_dir: Path, callers: Callers
) -> None:
    with Served(state_dir) as running, Caller(state_dir) as caller:
        with (state_dir / JOURNAL).open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(4096)
            file.write(bytes(size - 4096))
        caller.send(*callers.sent[0])
        assert caller.line() == b"", "no caller is told what cannot be read"
        assert running.wait() == 9
        assert "(journal_corrupt)" in running.complaint()
        assert "Traceback" not in running.complaint()


@pytest.mark.parametrize("seed", few(SEEDS, 2))
def test_damage_to_the_log_below_a_running_sidecar_is_named_at_the_next_start_or_by_replay(
    state_dir: Path, seed: int
) -> None:
    """A stop folds the log as it is; a kill leaves it to the next start."""
    callers, chance = Callers(1, 4), random.Random(seed)
    with Served(state_dir) as running:
        callers.call(state_dir, 10)
        eventually(lambda: _lines(state_dir) == 40)
        _flip(state_dir / LOG, chance.randrange(_written(state_dir)), chance)
        if seed % 2:
            running.kill()
        else:
            assert running.terminate() in (0, 9), running.complaint()
        assert "Traceback" not in running.complaint()
    with Served(state_dir) as running:
        code = running.terminate()
        assert code in (0, 9), running.complaint()
        assert (
            code == 0
            or "(trajectory_mismatch)" in running.complaint()
            or "_corrupt)" in running.complaint()
        )
    if code == 0 and commanded("replay", "--state-dir", state_dir).returncode != 9:
        heard = {orjson.loads(line)["seq"]: orjson.loads(line) for line in callers.heard}
        for seq, _, _, response in journal_rows(state_dir):
            assert _marked(response, heard[seq]["id"]) == heard[seq]


def _marked(response: bytes, mark: int) -> dict[str, Any]:
    answer: dict[str, Any] = orjson.loads(response)
    return {"id": mark} | answer
