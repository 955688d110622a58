"""Damaged files: a torn trajectory is mended, anything else is named, nothing passes in silence."""

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import orjson
import pytest

from tests.faults.load import Load
from tests.long import few
from tests.surfaces.process import Dispatch, commanded, encoded, journal_rows, report_of
from understudy.authority.engine.engine import Authority
from understudy.authority.journal.journal import Unavailable
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.journal.state_dir import create_state_dir
from understudy.authority.service.local import Office
from understudy.authority.views.replay import replay
from understudy.authority.views.trajectory import Trajectory, verify
from understudy.contracts import limits
from understudy.contracts.reason import Reason

ROWS = 40
TRAJECTORY = "harness_trajectory.jsonl"
SEEDS = range(4)
FLIPS = 150
NAMED = (
    Reason.JOURNAL_CORRUPT,
    Reason.EVIDENCE_ROUTE_MISSING,
    Reason.EVIDENCE_ROUTE_AMBIGUOUS,
    Reason.EVIDENCE_ROUTE_UNBOUND,
)


@pytest.fixture(scope="module")
def sound_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with some history; tests work on copies."""
    folder = tmp_path_factory.mktemp("sound") / "state"
    create_state_dir(folder, "local")
    with Dispatch(folder) as running:
        running.write(encoded(step.request for step in Load(7).more(ROWS)))
        assert running.finish() == 0, running.complaint()
    return folder


@pytest.fixture
def state_dir(sound_dir: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound_dir, tmp_path / "state"))


@pytest.fixture
def journal(state_dir: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(state_dir / "journal.db", read_only=True)
    yield journal
    journal.close()


# --- the trajectory -----------------------------------------------------------------------------


def test_a_trajectory_that_is_cut_anywhere_in_its_last_line_is_mended(
    state_dir: Path, journal: SqliteJournal
) -> None:
    path = state_dir / TRAJECTORY
    whole = path.read_bytes()
    for size in range(whole.rindex(b"\n", 0, -1) + 1, len(whole)):
        path.write_bytes(whole[:size])
        with closing(Trajectory(path, ROWS)) as trajectory:
            trajectory.follow(journal, [])
        assert path.read_bytes() == whole, f"cut at {size}"


@pytest.mark.parametrize("keep", [0, 1, 17])
def test_a_trajectory_that_lost_its_end_is_filled_in_from_the_journal(
    state_dir: Path, keep: int
) -> None:
    path = state_dir / TRAJECTORY
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:keep]) + lines[keep][:-9])
    _look(state_dir)
    assert path.read_bytes() == whole


def test_a_flipped_bit_in_the_last_line_is_mended_or_reported(
    sound_dir: Path, journal: SqliteJournal, tmp_path: Path
) -> None:
    whole = (sound_dir / TRAJECTORY).read_bytes()
    chance = random.Random(1)
    for place in chance.sample(range(whole.rindex(b"\n", 0, -1) + 1, len(whole)), FLIPS):
        folder = Path(shutil.copytree(sound_dir, tmp_path / str(place)))
        path = folder / TRAJECTORY
        path.write_bytes(_flipped(whole, place, chance))
        reason = _refusal(partial(_look, folder))
        _, problem = verify(path, journal)
        assert problem is not None or path.read_bytes() == whole, f"flipped at {place}"
        assert reason in (None, Reason.TRAJECTORY_MISMATCH)


def test_a_flipped_bit_anywhere_in_the_file_is_named_by_its_row(
    state_dir: Path, journal: SqliteJournal
) -> None:
    path = state_dir / TRAJECTORY
    whole = path.read_bytes()
    chance = random.Random(2)
    for place in chance.sample(range(len(whole)), 500):
        path.write_bytes(_flipped(whole, place, chance))
        row = whole.count(b"\n", 0, place) + 1
        seen, problem = verify(path, journal)
        assert seen == row - 1
        assert problem is not None
        assert problem.startswith(f"row {row}: ")


def test_a_torn_trajectory_is_mended_by_the_next_command_that_writes(state_dir: Path) -> None:
    path = state_dir / TRAJECTORY
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    torn = commanded("verify", "--state-dir", state_dir)
    assert (torn.returncode, f"row {ROWS}" in torn.stderr.decode()) == (9, True)
    assert report_of("issue", "add", "more", "--state-dir", state_dir)["seq"] == ROWS + 1
    assert path.read_bytes().startswith(whole)
    assert report_of("verify", "--state-dir", state_dir)["rows"] == ROWS + 1


@pytest.mark.parametrize("line", [b"nonsense\n", b"{}\n", b'{"effect":{"seq":"x"}}\n', b"[]\n"])
def test_a_trajectory_that_ends_in_nonsense_is_reported_and_rebuilt(
    state_dir: Path, line: bytes
) -> None:
    path = state_dir / TRAJECTORY
    whole = path.read_bytes()
    path.write_bytes(whole + line)
    refused = commanded("issue", "add", "more", "--state-dir", state_dir)
    _assert_named(refused, "trajectory_mismatch")
    assert b"understudy rebuild" in refused.stderr
    assert commanded("verify", "--state-dir", state_dir).returncode == 9
    assert report_of("rebuild", "--state-dir", state_dir)["rows"] == ROWS
    assert path.read_bytes() == whole
    assert report_of("issue", "add", "more", "--state-dir", state_dir)["seq"] == ROWS + 1


def test_a_trajectory_with_a_line_that_the_journal_has_not_is_reported(state_dir: Path) -> None:
    path = state_dir / TRAJECTORY
    last = orjson.loads(path.read_bytes().splitlines()[-1])
    last["effect"]["seq"] = ROWS + 1
    path.write_bytes(path.read_bytes() + orjson.dumps(last) + b"\n")
    added = commanded("issue", "add", "more", "--state-dir", state_dir)
    _assert_named(added, "trajectory_mismatch", f"row {ROWS + 1}")
    _assert_named(commanded("verify", "--state-dir", state_dir), f"line {ROWS + 1}")


def test_an_office_that_could_not_open_holds_nothing_back(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 20)
    path = state_dir / TRAJECTORY
    whole = path.read_bytes()
    path.write_bytes(whole + b"nonsense\n")
    with pytest.raises(Unavailable, match="trajectory"):
        Office(state_dir)
    path.write_bytes(whole)
    with Office(state_dir) as office:
        assert office.authority.head.seq == ROWS


# --- the journal --------------------------------------------------------------------------------


def _text(value: str | bytes) -> str | bytes:
    """One character of the middle becomes another, and stays readable."""
    middle = len(value) // 2
    if isinstance(value, bytes):
        return value[:middle] + (b"0" if value[middle] != 48 else b"1") + value[middle + 1 :]
    return value[:middle] + ("0" if value[middle] != "0" else "1") + value[middle + 1 :]


EDITS: dict[str, Callable[[Any], Any]] = {
    "epoch": lambda epoch: epoch + 1,
    "wall_ms": lambda wall_ms: wall_ms + 1,
    "counter": lambda counter: counter + 1,
    "node": lambda node: node + "x",
    "request": _text,
    "response": _text,
    "changes": _text,
    "digest": _text,
    "state_digest": _text,
}


@pytest.mark.parametrize("seq", [1, 20])
@pytest.mark.parametrize("column", EDITS)
def test_a_row_that_was_edited_is_named_by_replay(state_dir: Path, column: str, seq: int) -> None:
    with _opened(state_dir) as db:
        value = db.execute(f"SELECT {column} FROM journal WHERE seq = ?", (seq,)).get
        db.execute(f"UPDATE journal SET {column} = ? WHERE seq = ?", (EDITS[column](value), seq))
    _assert_named(commanded("replay", "--state-dir", state_dir), f"row {seq}:")


@pytest.mark.parametrize("column", ["request", "response", "changes"])
@pytest.mark.parametrize("value", [b"\xff{", b"null"])
def test_a_row_of_nonsense_is_named_and_never_a_traceback(
    state_dir: Path, column: str, value: bytes
) -> None:
    with _opened(state_dir) as db:
        db.execute(f"UPDATE journal SET {column} = ? WHERE seq = 20", (value,))
    _assert_named(commanded("replay", "--state-dir", state_dir), "row 20:")
    for command in ("verify", "rebuild"):
        done = commanded(command, "--state-dir", state_dir)
        assert b"Traceback" not in done.stderr, done.stderr.decode()


@pytest.mark.parametrize("seq", [1, 20])
def test_a_row_that_is_gone_is_named(state_dir: Path, seq: int) -> None:
    with _opened(state_dir) as db:
        db.execute("DELETE FROM journal WHERE seq = ?", (seq,))
    _assert_named(commanded("replay", "--state-dir", state_dir), f"row {seq}:")
    opened = commanded("issue", "list", "--state-dir", state_dir)
    _assert_named(opened, "journal_corrupt", f"row {seq} is missing")


def test_a_last_row_that_is_gone_is_found_by_its_evidence(state_dir: Path) -> None:
    with _opened(state_dir) as db:
        db.execute("DELETE FROM journal WHERE seq = ?", (ROWS,))
    done = commanded("verify", "--state-dir", state_dir)
    _assert_named(done, f"line {ROWS} stands behind the journal's last row")


def test_two_rows_in_each_other_s_place_are_named(state_dir: Path) -> None:
    with _opened(state_dir) as db:
        for before, after in ((20, -1), (21, 20), (-1, 21)):
            db.execute("UPDATE journal SET seq = ? WHERE seq = ?", (after, before))
    _assert_named(commanded("replay", "--state-dir", state_dir), "row 20:")


def test_a_damaged_snapshot_costs_time_and_is_named_by_replay(state_dir: Path) -> None:
    with Office(state_dir) as office:
        office.authority.snapshot()
    before = report_of("issue", "list", "--state-dir", state_dir)["issues"]
    with _opened(state_dir) as db:
        image = db.execute("SELECT image FROM snapshot").get
        db.execute("UPDATE snapshot SET image = ?", (_text(image),))
    assert report_of("issue", "list", "--state-dir", state_dir)["issues"] == before
    _assert_named(commanded("replay", "--state-dir", state_dir), "the snapshot")


@pytest.mark.parametrize("seed", few(SEEDS))
def test_a_flipped_bit_in_the_database_file_is_found_or_touched_no_row(
    state_dir: Path, seed: int
) -> None:
    path = state_dir / "journal.db"
    whole = path.read_bytes()
    rows = journal_rows(state_dir)
    chance = random.Random(seed)
    for place in chance.sample(range(len(whole)), FLIPS):
        path.write_bytes(_flipped(whole, place, chance))
        for name in ("journal.db-wal", "journal.db-shm"):
            (state_dir / name).unlink(missing_ok=True)
        reason = _refusal(partial(_examine, state_dir, rows))
        assert reason in (None, *NAMED), f"flipped at {place}"


def _examine(state_dir: Path, rows: list[tuple[Any, ...]]) -> None:
    """Use the journal in every way; what is wrong with it is raised, or named by replay."""
    journal = SqliteJournal(state_dir / "journal.db", read_only=True)
    try:
        found = replay(journal).mismatch
        assert found is not None or journal_rows(state_dir) == rows
        verify(state_dir / TRAJECTORY, journal)
        Authority(journal)
    finally:
        journal.close()


@pytest.mark.parametrize("data", [b"", b"x", b"SQLite format 3\x00", bytes(8192)])
def test_a_file_that_is_no_journal_is_refused(state_dir: Path, data: bytes) -> None:
    (state_dir / "journal.db").write_bytes(data)
    for command in (["replay"], ["issue", "list"], ["issue", "add", "x"], ["verify"]):
        _assert_named(commanded(*command, "--state-dir", state_dir), "journal_corrupt")


def test_a_journal_of_a_later_format_is_refused(state_dir: Path) -> None:
    with _opened(state_dir) as db:
        db.pragma("user_version", 99)
    done = commanded("issue", "list", "--state-dir", state_dir)
    _assert_named(done, "journal_corrupt", "99")


def test_tables_that_are_no_database_are_made_anew_by_rebuild(state_dir: Path) -> None:
    (state_dir / "tables.db").write_bytes(b"nonsense" * 1000)
    assert report_of("rebuild", "--state-dir", state_dir)["rows"] == ROWS
    assert report_of("issue", "add", "more", "--state-dir", state_dir)["seq"] == ROWS + 1


def test_tables_that_are_no_database_take_no_answer_away(state_dir: Path) -> None:
    (state_dir / "tables.db").write_bytes(b"nonsense" * 1000)
    done = commanded("issue", "add", "more", "--json", "--state-dir", state_dir)
    assert orjson.loads(done.stdout)["seq"] == ROWS + 1
    assert b"Traceback" not in done.stderr


def _flipped(data: bytes, place: int, chance: random.Random) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]


def _look(state_dir: Path) -> None:
    """Open the state directory for writing, and only read."""
    with Office(state_dir) as office:
        office.ask("issue.list", {})


def _refusal(act: Callable[[], object]) -> Reason | None:
    """Why the authority would not; None where it did."""
    try:
        act()
    except Unavailable as error:
        return error.reason
    return None


@contextmanager
def _opened(state_dir: Path) -> Iterator[apsw.Connection]:
    """The journal's file in hands that know nothing of its rules."""
    db = apsw.Connection(str(state_dir / "journal.db"))
    yield db
    db.close()


def _assert_named(done: subprocess.CompletedProcess[bytes], *parts: str) -> None:
    said = done.stderr.decode()
    assert "Traceback" not in said, said
    assert done.returncode == 9, said
    for part in parts:
        assert part in said
