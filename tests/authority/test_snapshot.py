"""A snapshot of any length is kept; and one that cannot be written takes nothing away."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.authority.sidecar.peer import Peer, add, refusal
from tests.authority.sidecar.serving import Serving, prove
from understudy.authority import Office, Unavailable, create_state_dir, open_journal
from understudy.authority.engine.engine import recover
from understudy.authority.journal.journal import Head, Snapshot, Storage
from understudy.authority.journal.journal_url import parsed
from understudy.authority.journal.postgres.journal import PostgresJournal
from understudy.authority.journal.postgres.link import connect
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.law.image import dump
from understudy.contracts import limits
from understudy.surfaces.doctor import examine

PIECE = 1_000
VALUE_MAX = 20_000  # in place of SQLite's 10^9


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_PIECE_BYTES", PIECE)


@pytest.fixture(params=["sqlite", "postgresql"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A state directory in either engine."""
    url = request.getfixturevalue("url") if request.param == "postgresql" else None
    create_state_dir(tmp_path / "folder", "n1", url)
    return tmp_path / "folder"


@pytest.fixture
def journal(folder: Path) -> Iterator[Storage]:
    (folder / "lock").touch()
    with open_journal(folder, read_only=False) as journal:
        yield journal


def shorten(journal: Storage) -> None:
    """Let SQLite take no longer values than it would take of a thousand million bytes."""
    assert isinstance(journal, SqliteJournal)
    journal._db.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_MAX)


def work(office: Office, count: int) -> None:
    for _ in range(count):
        assert office.ask("issue.add", {"title": "t" * 60})["result"] == "accepted"


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 7 * PIECE, 7 * PIECE + 1])
def test_an_image_of_any_length_comes_back_as_it_was(journal: Storage, size: int) -> None:
    saved = Snapshot.of(Head(3, "row1_3", "st1_"), b"\x00i" * (size // 2) + b"x" * (size % 2))
    journal.put_snapshot(saved)
    assert journal.snapshot() == saved
    assert len(saved.pieces) == (-(-size // PIECE) if size > PIECE else 0)


@pytest.mark.parametrize("sizes", [(9_000, 5), (5, 9_000), (9_000, 3_001)], ids=str)
def test_the_newest_snapshot_leaves_nothing_of_the_older_one(
    journal: Storage, sizes: tuple[int, int]
) -> None:
    for seq, size in enumerate(sizes, 1):
        journal.put_snapshot(saved := Snapshot.of(Head(seq, "row1_", "st1_"), bytes(size)))
    assert journal.snapshot() == saved


def test_a_copy_takes_a_snapshot_in_pieces_along(tmp_path: Path, folder: Path) -> None:
    from understudy.authority.journal import move

    with Office(folder) as office:
        work(office, 20)
        office.authority.snapshot()
    move.copy(folder, str(tmp_path / "copy"))
    with open_journal(tmp_path / "copy", read_only=True) as copy:
        saved = copy.snapshot()
        assert saved is not None
        assert saved.sound
        assert len(saved.pieces) > 3


def test_a_state_that_is_longer_than_a_value_may_be_is_saved_and_loaded(tmp_path: Path) -> None:
    create_state_dir(tmp_path / "long", "n1")
    with Office(tmp_path / "long") as office:
        shorten(office.journal)
        work(office, 200)
        assert len(dump(office.authority.state)) > VALUE_MAX
        office.authority.snapshot()
        expected = dump(office.authority.state)
    with open_journal(tmp_path / "long", read_only=True) as journal:
        found = journal.snapshot()
        assert found is not None
        assert (found.sound, found.head.seq) == (True, 200)
        assert dump(recover(journal)[0]) == expected
    prove(tmp_path / "long")


def test_a_database_of_the_version_before_learns_to_keep_pieces(url: str) -> None:
    place = parsed(url)
    PostgresJournal.create(place, "n1")
    with closing(connect(place)) as db:
        db.execute("DROP TABLE snapshot_piece")
        db.execute("UPDATE head SET version = 3")
    saved = Snapshot.of(Head(1, "row1_", "st1_"), b"i" * 5)
    with closing(connect(place)) as db:
        query = "INSERT INTO snapshot VALUES (true, %s, %s, %s, %s, %s)"
        db.execute(query, saved.values)
    with closing(PostgresJournal(place, read_only=True)) as journal:
        assert journal.snapshot() == saved, "and a reader changes nothing"
    with closing(PostgresJournal(place)) as journal:
        assert journal.snapshot() == saved
        journal.put_snapshot(longer := Snapshot.of(Head(2, "row1_", "st1_"), b"i" * 5_000))
        assert journal.snapshot() == longer


# --- one that cannot be written -------------------------------------------------------------------


@pytest.fixture
def no_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a snapshot is longer than a value may be."""
    monkeypatch.setattr(limits, "SNAPSHOT_PIECE_BYTES", 10**9)
    monkeypatch.setattr(limits, "SNAPSHOT_ROWS", 100)


@pytest.mark.usefixtures("no_pieces")
def test_work_goes_on_and_the_snapshot_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create_state_dir(tmp_path / "s", "n1")
    with Office(tmp_path / "s") as office:
        shorten(office.journal)
        work(office, 250)
        tries = [each for each in caplog.messages if "no snapshot could be written" in each]
        assert len(tries) == 2, "after so many rows, and as many later"
        with pytest.raises(Unavailable):
            office.authority.snapshot()
        monkeypatch.setattr(limits, "SNAPSHOT_PIECE_BYTES", PIECE)
        work(office, 60)
        saved = office.journal.snapshot()
        assert saved is not None
        assert (saved.sound, saved.head.seq) == (True, 300)
        assert office.authority.snapshot_failure is None


@pytest.mark.usefixtures("no_pieces")
def test_a_sidecar_serves_on_and_doctor_says_what_is_wrong(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_ROWS_MAX", 100)
    with Serving(state_dir) as serving:
        shorten(serving.office.journal)
        with Peer(state_dir) as peer:
            for mark in range(250):
                assert refusal(peer.ask(add(mark))) is None
            [note] = [each for each in examine(state_dir) if each.check == "sidecar"]
            assert note.status == "note"
            assert "it could write no snapshot" in note.detail
            assert refusal(peer.ask(add(251))) is None
    assert serving.ended_with is None
    prove(state_dir)
