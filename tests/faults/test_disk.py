"""A disk without room: the authority says so, acknowledges nothing more, and loses nothing."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.faults.aftermath import prove, pump
from tests.faults.load import Load
from tests.long import LONG, few
from tests.surfaces.process import Dispatch
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
