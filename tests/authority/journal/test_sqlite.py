"""The embedded journal: all of a batch or none, one writer, and damage that is named."""

from pathlib import Path

import apsw
import pytest

from tests.fakes.desk import Desk
from understudy.authority.engine.engine import recover
from understudy.authority.journal.journal import Head, Row, Snapshot, Unavailable
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.law.image import dump
from understudy.contracts.reason import Reason


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    SqliteJournal.create(path, "n1")
    return path


def a_row(seq: int, epoch: int = 1) -> Row:
    return Row(seq, epoch, seq, 0, "n1", b"{}", b"{}", b"[]", f"row1_{seq}", "st1_")


def refused(reason: Reason) -> pytest.RaisesExc[Unavailable]:
    return pytest.RaisesExc(Unavailable, check=lambda error: error.reason is reason)


def edit(path: Path, query: str) -> None:
    with apsw.Connection(str(path)) as db:
        db.execute(query)


# --- rows -----------------------------------------------------------------------------------------


def test_rows_come_back_as_they_were_written(path: Path) -> None:
    journal = SqliteJournal(path)
    assert (journal.node(), journal.last_seq(), journal.snapshot()) == ("n1", 0, None)
    epoch = journal.acquire_epoch()
    rows = [a_row(1, epoch), a_row(2, epoch), a_row(3, epoch)]
    journal.append(rows[:2], 0, epoch)
    journal.append(rows[2:], 2, epoch)
    again = SqliteJournal(path, read_only=True)
    assert list(again.read()) == rows
    assert list(again.read(2)) == rows[2:]
    assert (again.row(2), again.row(4), again.last_seq()) == (rows[1], None, 3)


def test_the_newest_snapshot_replaces_the_older_one(path: Path) -> None:
    journal = SqliteJournal(path)
    for seq in (1, 2):
        journal.put_snapshot(Snapshot.of(Head(seq, f"row1_{seq}", "st1_"), b"image"))
    found = journal.snapshot()
    assert found is not None
    assert (found.head, found.image, found.sound) == (Head(2, "row1_2", "st1_"), b"image", True)
    edit(path, "UPDATE snapshot SET image = x'00'")
    found = journal.snapshot()
    assert found is not None
    assert not found.sound


def test_a_batch_that_fails_half_way_leaves_nothing(path: Path) -> None:
    journal = SqliteJournal(path)
    epoch = journal.acquire_epoch()
    with refused(Reason.JOURNAL_WRITE_FAILED):
        journal.append([a_row(1, epoch), a_row(2, epoch), a_row(2, epoch)], 0, epoch)
    assert list(journal.read()) == []
    journal.append([a_row(1, epoch)], 0, epoch)
    assert journal.last_seq() == 1


@pytest.mark.parametrize(("place", "rows"), [("append.written", 0), ("append.committed", 1)])
def test_an_exception_from_elsewhere_leaves_all_or_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, place: str, rows: int
) -> None:
    def interrupt(name: str) -> None:
        if name == place:
            raise KeyboardInterrupt

    journal = SqliteJournal(path)
    epoch = journal.acquire_epoch()
    monkeypatch.setattr("understudy.authority.journal.sqlite.failpoint", interrupt)
    with pytest.raises(KeyboardInterrupt):
        journal.append([a_row(1, epoch)], 0, epoch)
    assert journal.last_seq() == rows


def test_commits_are_synced_in_full_and_survive_without_a_checkpoint(path: Path) -> None:
    journal = SqliteJournal(path)
    assert journal._db.pragma("synchronous") == 2
    assert journal._db.pragma("journal_mode") == "wal"


# --- one writer -----------------------------------------------------------------------------------


def test_an_older_epoch_appends_nothing(path: Path) -> None:
    first, second = SqliteJournal(path), SqliteJournal(path)
    old = first.acquire_epoch()
    first.append([a_row(1, old)], 0, old)
    new = second.acquire_epoch()
    assert new == old + 1
    with refused(Reason.JOURNAL_DEPOSED):
        first.append([a_row(2, old)], 1, old)
    second.append([a_row(2, new)], 1, new)
    assert first.last_seq() == 2


@pytest.mark.parametrize("expected_seq", [0, 2])
def test_a_wrong_place_appends_nothing(path: Path, expected_seq: int) -> None:
    journal = SqliteJournal(path)
    epoch = journal.acquire_epoch()
    journal.append([a_row(1, epoch)], 0, epoch)
    with refused(Reason.JOURNAL_DEPOSED):
        journal.append([a_row(expected_seq + 1, epoch)], expected_seq, epoch)
    assert journal.last_seq() == 1


def test_a_deposed_authority_answers_nothing_more(path: Path) -> None:
    old, new = Desk(SqliteJournal(path)), Desk(SqliteJournal(path))
    old.grant("issue.add", id="a", title="t")
    new.restart()
    new.grant("issue.add", id="b", title="t")
    for _ in range(2):
        with refused(Reason.JOURNAL_DEPOSED):
            old.ask("issue.add", id="c", title="t")
    with refused(Reason.JOURNAL_DEPOSED):
        old.ask("issue.ready")
    new.prove()


def test_a_locked_database_is_a_refusal(path: Path) -> None:
    journal = SqliteJournal(path)
    epoch = journal.acquire_epoch()
    journal._db.set_busy_timeout(0)
    with apsw.Connection(str(path)) as other:
        other.execute("INSERT INTO meta VALUES ('x', 'y')")
        with refused(Reason.JOURNAL_WRITE_FAILED):
            journal.append([a_row(1, epoch)], 0, epoch)
        with refused(Reason.JOURNAL_WRITE_FAILED):
            journal.acquire_epoch()
        with refused(Reason.JOURNAL_WRITE_FAILED):
            journal.put_snapshot(Snapshot.of(Head(), b""))


# --- what is no journal ---------------------------------------------------------------------------


def test_creating_twice_keeps_what_is_there(path: Path) -> None:
    desk = Desk(SqliteJournal(path))
    desk.grant("issue.add", id="a", title="t")
    SqliteJournal.create(path, "other")
    again = SqliteJournal(path)
    assert again.node() == "n1"
    assert dump(recover(again)[0]) == dump(desk.authority.state)


def test_a_missing_file_is_denied(tmp_path: Path) -> None:
    with refused(Reason.STATE_DIR_DENIED):
        SqliteJournal(tmp_path / "nothing.db")


@pytest.mark.parametrize(
    "data", [b"", b"no database at all", b"SQLite format 3\0" + b"\0" * 100], ids=len
)
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(data)
    with refused(Reason.JOURNAL_CORRUPT):
        SqliteJournal(path)


@pytest.mark.parametrize("pragma", ["application_id = 7", "user_version = 99"])
def test_a_database_of_another_program_is_refused(path: Path, pragma: str) -> None:
    edit(path, f"PRAGMA {pragma}")
    with refused(Reason.JOURNAL_CORRUPT):
        SqliteJournal(path)


def test_creating_over_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"no database at all" * 100)
    with refused(Reason.JOURNAL_CORRUPT):
        SqliteJournal.create(path, "n1")


def test_creating_where_nothing_can_be_written_is_denied(tmp_path: Path) -> None:
    with refused(Reason.STATE_DIR_DENIED):
        SqliteJournal.create(tmp_path / "no" / "such" / "folder.db", "n1")


def test_a_damaged_page_is_named_when_it_is_read(path: Path) -> None:
    journal = SqliteJournal(path)
    epoch = journal.acquire_epoch()
    rows = [
        Row(seq, epoch, seq, 0, "n1", b"x" * 900, b"{}", b"[]", f"row1_{seq}", "st1_")
        for seq in range(1, 60)
    ]
    journal.append(rows, 0, epoch)
    journal.close()
    with apsw.Connection(str(path)) as db:
        db.pragma("wal_checkpoint", "truncate")
        root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'journal'").get
        size = db.pragma("page_size")
    data = bytearray(path.read_bytes())
    start = (root - 1) * size
    data[start : start + 64] = b"\xff" * 64
    path.write_bytes(bytes(data))
    damaged = SqliteJournal(path)
    with refused(Reason.JOURNAL_CORRUPT):
        list(damaged.read())
    with refused(Reason.JOURNAL_CORRUPT):
        damaged.row(5)


@pytest.mark.parametrize(
    ("table", "column"), [("journal", "wall_ms"), ("journal", "request"), ("snapshot", "image")]
)
def test_a_column_that_changed_its_type_is_named(path: Path, table: str, column: str) -> None:
    """SQLite checks types when it writes; a bit that flips later is for the reader to find."""
    journal = SqliteJournal(path)
    epoch = journal.acquire_epoch()
    journal.append([a_row(1, epoch)], 0, epoch)
    journal.put_snapshot(Snapshot.of(Head(1, "row1_1", "st1_"), b"image"))
    journal.close()
    with apsw.Connection(str(path)) as db:
        db.execute(f"CREATE TABLE loose AS SELECT * FROM {table}; DROP TABLE {table}")
        db.execute(f"ALTER TABLE loose RENAME TO {table}; UPDATE {table} SET {column} = 'text'")
    damaged = SqliteJournal(path)
    with refused(Reason.JOURNAL_CORRUPT):
        list(damaged.read()) if table == "journal" else damaged.snapshot()


def test_what_a_disk_reports_keeps_its_class(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: type[apsw.Error]) -> None:
        def connect(*_: object, **__: object) -> None:
            raise error("from the disk")

        monkeypatch.setattr(apsw, "Connection", connect)

    fail(apsw.FullError)
    with refused(Reason.JOURNAL_WRITE_FAILED):
        SqliteJournal(path)
    fail(apsw.IOError)
    with refused(Reason.JOURNAL_WRITE_FAILED):
        SqliteJournal(path)
    fail(apsw.PermissionsError)
    with refused(Reason.STATE_DIR_DENIED):
        SqliteJournal(path)
