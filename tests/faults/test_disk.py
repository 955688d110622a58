"""A disk without room: the authority says so, acknowledges nothing more, and loses nothing."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import orjson
import pytest

from tests.faults.aftermath import prove, pump
from tests.faults.load import Load
from tests.long import LONG, few
from tests.surfaces.process import Dispatch, report_of, understudy
from understudy.authority import TRAJECTORY, Office
from understudy.contracts import limits

PAGE_BYTES = 4096
HISTORY = 40


@pytest.fixture
def pinned(state_dir: Path) -> Iterator[Path]:
    """A reader that keeps the log of the journal from being folded: it only grows, page by page."""
    reader = apsw.Connection(str(state_dir / "journal.db"))
    reader.execute("BEGIN; SELECT count(*) FROM journal").fetchall()
    yield state_dir / "journal.db-wal"
    reader.close()


def _heard_until_full(
    state_dir: Path, load: Load, known: list[bytes], limit: int, *causes: str
) -> list[bytes]:
    """Go on until nothing fits any more; the failure is named, and no caller is told otherwise."""
    load.more(100)
    with Dispatch(state_dir, file_bytes_max=limit) as running:
        heard = known + pump(running, load.steps[len(known) :], window=4)
        code = running.finish()
        said = running.complaint()
    assert "Traceback" not in said, said
    assert code == 1
    assert "free the disk" in said or "os_error" in causes
    assert any(cause in said for cause in causes), said
    assert len(heard) < len(load.steps)
    return heard


def _history(state_dir: Path, load: Load) -> list[bytes]:
    with Dispatch(state_dir) as running:
        heard = pump(running, load.more(HISTORY), window=1)
        assert running.finish() == 0, running.complaint()
    return heard


@pytest.mark.parametrize("pages", few([0, 1, 2, 3, 5, 8, 30], 2))
def test_a_full_disk_is_reported_wherever_the_journal_meets_it(
    state_dir: Path, pinned: Path, pages: int
) -> None:
    load = Load(pages)
    known = _history(state_dir, load)
    limit = pinned.stat().st_size + pages * PAGE_BYTES
    heard = _heard_until_full(state_dir, load, known, limit, "journal_write_failed")
    prove(state_dir, load, heard)


@pytest.mark.parametrize("limit", few([34_000, 40_000, 60_000, 300_000]))
def test_a_disk_that_is_too_small_for_the_tables_still_names_the_journal(
    state_dir: Path, limit: int
) -> None:
    load = Load(limit)
    heard = _heard_until_full(state_dir, load, [], limit, "journal_write_failed")
    prove(state_dir, load, heard)


@pytest.mark.parametrize("room", few([0, 1, 700]))
def test_a_full_disk_under_the_trajectory_takes_no_row_and_no_answer_away(
    state_dir: Path, room: int
) -> None:
    load = Load(room)
    known = _history(state_dir, load)
    limit = (state_dir / "harness_trajectory.jsonl").stat().st_size + room
    heard = _heard_until_full(state_dir, load, known, limit, "os_error", "journal_write_failed")
    prove(state_dir, load, heard)


@LONG
def test_a_full_disk_under_a_snapshot_takes_no_row_and_no_answer_away(
    state_dir: Path, pinned: Path
) -> None:
    load = Load(1)
    with Dispatch(state_dir) as running:
        known = pump(running, load.more(limits.SNAPSHOT_ROWS - 1), window=limits.BATCH_MAX)
        assert running.finish() == 0, running.complaint()
    load.more(1)
    limit = pinned.stat().st_size + 10 * PAGE_BYTES  # room for a row, not for all issues
    with Dispatch(state_dir, file_bytes_max=limit) as running:
        heard = known + pump(running, load.steps[-1:], window=1)
        running.finish()
        assert "Traceback" not in running.complaint(), running.complaint()
    prove(state_dir, load, heard)


# --- what is committed is said to be -------------------------------------------------------------


@pytest.fixture
def full(state_dir: Path) -> Path:
    """A state directory with one issue, on whose trajectory every write finds the disk full."""
    report_of("issue", "add", "first", "--state-dir", state_dir)
    path = state_dir / TRAJECTORY
    path.rename(state_dir / "kept")
    path.symlink_to("/dev/full")
    return state_dir


def _make_room(state_dir: Path) -> None:
    (state_dir / TRAJECTORY).unlink()
    (state_dir / "kept").rename(state_dir / TRAJECTORY)


def test_a_command_whose_evidence_finds_no_room_says_that_it_is_done(full: Path) -> None:
    done = understudy("issue", "add", "second", "--state-dir", full)
    assert done.returncode == 13, done.stderr
    assert done.stdout == b"added us-2  open  second\n"
    said = done.stderr.decode()
    assert "committed as us-2; evidence is behind until there is room" in said
    assert "No space left on device" in said
    assert "Traceback" not in said


def test_a_program_is_told_so_too(full: Path) -> None:
    done = understudy("issue", "add", "second", "--json", "--state-dir", full)
    assert done.returncode == 13
    answer = orjson.loads(done.stdout)
    assert (answer["result"], answer["issue"]["id"]) == ("accepted", "us-2")
    assert "No space left" in answer["evidenceBehind"]


def test_a_refusal_keeps_its_own_code(full: Path) -> None:
    done = understudy("issue", "claim", "us-9", "--assignee", "a", "--state-dir", full)
    assert done.returncode == 3, done.stderr


def test_nothing_more_is_decided_before_the_evidence_has_caught_up(full: Path) -> None:
    with Office(full) as office:
        assert office.ask("issue.add", {"title": "t"})["result"] == "accepted"
        assert "No space left" in str(office.left_behind)
        with pytest.raises(OSError, match="No space left"):
            office.ask("issue.add", {"title": "t"})
        assert office.authority.head.seq == 2


def test_with_room_the_next_command_fills_the_evidence_in(full: Path) -> None:
    assert understudy("issue", "add", "second", "--state-dir", full).returncode == 13
    _make_room(full)
    assert report_of("issue", "add", "third", "--state-dir", full)["seq"] == 3
    assert report_of("verify", "--state-dir", full)["rows"] == 3


def test_a_stream_of_requests_is_answered_as_far_as_it_is_committed(full: Path) -> None:
    with Dispatch(full) as running:
        assert running.ask("issue.add", title="second")["result"] == "accepted"
        assert running.finish() == 13
        assert "evidence is behind" in running.complaint()
