"""The shared journal on a real server: all or none, one writer, and the database says no."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fakes.desk import Desk
from tests.services.shared import Database
from understudy.authority.engine import ffi
from understudy.authority.engine.engine import recover
from understudy.authority.engine.native_engine import NativeAuthority
from understudy.authority.journal.journal import Head, Row, Snapshot, Unavailable, unpacked
from understudy.authority.journal.journal_url import JournalUrl, parsed
from understudy.authority.journal.postgres import PostgresJournal, migration
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.law.image import dump
from understudy.authority.views.replay import replay
from understudy.contracts import Door, Reason, canonical


def a_row(seq: int, epoch: int = 1) -> Row:
    return Row(seq, epoch, seq, 0, "n1", b"{}", b"\x00\xff", b"[]", f"row1_{seq}", "st1_")


def refused(reason: Reason) -> pytest.RaisesExc[Unavailable]:
    return pytest.RaisesExc(Unavailable, check=lambda error: error.reason is reason)


@pytest.fixture
def journal(place: JournalUrl) -> Iterator[PostgresJournal]:
    with closing(PostgresJournal(place)) as found:
        yield found


@pytest.fixture
def other(place: JournalUrl) -> Iterator[PostgresJournal]:
    with closing(PostgresJournal(place)) as found:
        yield found


@pytest.fixture
def raw(server: Database, place: JournalUrl) -> Iterator[psycopg.Connection[Any]]:
    """A person with a shell on the database."""
    with server.connect() as db:
        db.execute(f"SET search_path = {place.schema}")
        yield db


# --- rows -----------------------------------------------------------------------------------------


def test_rows_come_back_as_they_were_written(journal: PostgresJournal, place: JournalUrl) -> None:
    assert (journal.node(), journal.last_seq(), journal.snapshot()) == ("n1", 0, None)
    epoch = journal.acquire_epoch()
    rows = [a_row(seq, epoch) for seq in range(1, 2_103)]
    journal.append(rows[:2], 0, epoch)
    journal.append(rows[2:], 2, epoch)
    with closing(PostgresJournal(place, read_only=True)) as again:
        assert list(again.read()) == rows
        assert list(again.read(2_100)) == rows[2_100:]
        assert (again.row(2), again.row(9_999), again.last_seq()) == (rows[1], None, 2_102)
        assert again.rows(1, 2) == rows[1:3]


def test_the_newest_snapshot_replaces_the_older_one(journal: PostgresJournal) -> None:
    for seq in (1, 2):
        journal.put_snapshot(Snapshot.of(Head(seq, f"row1_{seq}", "st1_"), b"\x00image"))
    found = journal.snapshot()
    assert found is not None
    assert (found.head, found.image, found.sound) == (Head(2, "row1_2", "st1_"), b"\x00image", True)


def test_a_batch_that_fails_half_way_leaves_nothing(journal: PostgresJournal) -> None:
    epoch = journal.acquire_epoch()
    with refused(Reason.JOURNAL_WRITE_FAILED):
        journal.append([a_row(1, epoch), a_row(2, epoch), a_row(2, epoch)], 0, epoch)
    assert list(journal.read()) == []
    journal.append([a_row(1, epoch)], 0, epoch)
    assert journal.last_seq() == 1


@pytest.mark.skipif(not ffi.available(), reason="there is no C here")
def test_packed_rows_and_others_keep_their_order(journal: PostgresJournal) -> None:
    authority, door = NativeAuthority(journal), Door("mcp")
    lines = [_line("issue.add", id=name, title="t") for name in ("a", "b")]
    lines += [_line("issue.claim", id=name, assignee="ada") for name in ("a", "b")]
    lines += [_line("issue.show", id="a"), _line("issue.claim", id="a", assignee="bob")]
    authority.submit_lines([(line, door) for line in lines])
    proposal = authority.propose_lines([(door, lines[2:4])])
    authority.commit(proposal)
    assert authority.hot_count > 0
    assert list(journal.read(proposal.after_seq)) == list(unpacked(proposal.entries))


def _line(action: str, **payload: object) -> bytes:
    return canonical.encode({"action": action, "payload": payload})


def test_a_start_from_the_database_gives_the_same_state(place: JournalUrl) -> None:
    with closing(PostgresJournal(place)) as journal:
        desk = Desk(journal)
        desk.grant("issue.add", id="a", title="t")
        holder = desk.claim("a", "ada")
        desk.grant("issue.lease_renew", **holder)
        desk.prove()
        desk.authority.snapshot()
        desk.grant("issue.close", **holder)
        desk.prove()
        image = dump(desk.authority.state)
    with closing(PostgresJournal(place, read_only=True)) as again:
        assert dump(recover(again)[0]) == image


def test_a_journal_that_is_copied_from_sqlite_and_back_stays_the_same(
    journal: PostgresJournal, tmp_path: Path
) -> None:
    files = []
    for name in ("first.db", "again.db"):
        SqliteJournal.create(tmp_path / name, "n1")
        files.append(SqliteJournal(tmp_path / name))
    desk = Desk(files[0])
    desk.grant("issue.add", id="a", title="t")
    desk.grant("issue.close", **desk.claim("a", "ada"))
    desk.refusal("issue.claim", id="a", assignee="bob")
    for source, target in ((files[0], journal), (journal, files[1])):
        target.append(list(source.read()), 0, target.acquire_epoch())
    assert list(journal.read()) == list(files[0].read()) == list(files[1].read())
    assert replay(journal) == replay(files[0]) == replay(files[1])
    assert replay(journal).mismatch is None
    for file in files:
        file.close()


def test_a_reader_writes_nothing(place: JournalUrl) -> None:
    with closing(PostgresJournal(place, read_only=True)) as reader:
        with refused(Reason.JOURNAL_WRITE_FAILED):
            reader.acquire_epoch()
        assert reader.epoch() == 0


def test_commits_are_on_disk_even_where_the_server_would_not_wait(
    server: Database, place: JournalUrl
) -> None:
    with server.connect() as db:
        db.execute("ALTER ROLE understudy SET synchronous_commit = off")
        try:
            with closing(PostgresJournal(place)) as journal:
                assert journal._db.execute("SHOW synchronous_commit").fetchone() == ("on",)
        finally:
            db.execute("ALTER ROLE understudy RESET synchronous_commit")


# --- one writer -----------------------------------------------------------------------------------


def test_an_older_epoch_appends_nothing(journal: PostgresJournal, other: PostgresJournal) -> None:
    old = journal.acquire_epoch()
    journal.append([a_row(1, old)], 0, old)
    new = other.acquire_epoch()
    assert new == old + 1
    with refused(Reason.JOURNAL_DEPOSED):
        journal.append([a_row(2, old)], 1, old)
    other.append([a_row(2, new)], 1, new)
    with refused(Reason.JOURNAL_DEPOSED):
        journal.append([a_row(2, old)], 1, old)
    assert journal.last_seq() == 2


@pytest.mark.parametrize("expected_seq", [0, 2])
def test_a_wrong_place_appends_nothing(journal: PostgresJournal, expected_seq: int) -> None:
    epoch = journal.acquire_epoch()
    journal.append([a_row(1, epoch)], 0, epoch)
    with refused(Reason.JOURNAL_DEPOSED):
        journal.append([a_row(expected_seq + 1, epoch)], expected_seq, epoch)
    assert journal.last_seq() == 1


def test_a_deposed_authority_answers_nothing_more(place: JournalUrl) -> None:
    with closing(PostgresJournal(place)) as one, closing(PostgresJournal(place)) as two:
        old, new = Desk(one), Desk(two)
        old.grant("issue.add", id="a", title="t")
        new.restart()
        new.grant("issue.add", id="b", title="t")
        for _ in range(2):
            with refused(Reason.JOURNAL_DEPOSED):
                old.ask("issue.add", id="c", title="t")
        with refused(Reason.JOURNAL_DEPOSED):
            old.ask("issue.ready")
        new.prove()


_RAW = "INSERT INTO journal VALUES (%s, %s, 1, 0, 'n1', '', '', '', 'd', 's')"


@pytest.mark.parametrize(
    ("seq", "epoch", "words"),
    [
        (2, 1, "the newest is 2"),
        (2, 3, "the newest is 2"),
        (3, 2, "no row before"),
        (0, 2, "check"),
    ],
)
def test_the_database_itself_refuses_rows_that_are_out_of_turn(
    journal: PostgresJournal, raw: psycopg.Connection[Any], seq: int, epoch: int, words: str
) -> None:
    first = journal.acquire_epoch()
    journal.append([a_row(1, first)], 0, first)
    assert journal.acquire_epoch() == 2
    with pytest.raises(psycopg.Error, match=words):
        raw.execute(_RAW, (seq, epoch))
    with pytest.raises(psycopg.Error), raw.cursor().copy("COPY journal FROM STDIN") as copy:
        copy.write_row((seq, epoch, 1, 0, "n1", b"", b"", b"", "d", "s"))
    assert journal.last_seq() == 1
    raw.execute(_RAW, (2, 2))
    assert journal.last_seq() == 2


@pytest.mark.parametrize(
    "query",
    [
        "UPDATE journal SET digest = 'x'",
        "DELETE FROM journal",
        "TRUNCATE journal",
    ],
)
def test_the_database_itself_keeps_rows_as_they_are(
    journal: PostgresJournal, raw: psycopg.Connection[Any], query: str
) -> None:
    epoch = journal.acquire_epoch()
    journal.append([a_row(1, epoch)], 0, epoch)
    with pytest.raises(psycopg.Error, match="stay as they are"):
        raw.execute(query)
    assert list(journal.read()) == [a_row(1, epoch)]


def test_a_takeover_waits_for_rows_that_are_about_to_be_committed(
    journal: PostgresJournal, other: PostgresJournal, raw: psycopg.Connection[Any]
) -> None:
    """Or their writer could commit behind the back of a reader of the journal's end."""
    journal.acquire_epoch()
    raw.execute("BEGIN")
    raw.execute(_RAW, (1, 1))
    other._db.execute("SET lock_timeout = '50ms'")
    with refused(Reason.JOURNAL_WRITE_FAILED):
        other.acquire_epoch()
    raw.execute("COMMIT")
    other._db.execute("RESET lock_timeout")
    assert other.acquire_epoch() == 2
    assert other.last_seq() == 1


# --- the schema -----------------------------------------------------------------------------------


def test_an_existing_journal_is_left_alone(place: JournalUrl) -> None:
    with closing(PostgresJournal(place)) as journal:
        desk = Desk(journal)
        desk.grant("issue.add", id="a", title="t")
    assert PostgresJournal.create(place, "other") is False
    with closing(PostgresJournal(place)) as journal:
        assert (journal.node(), journal.last_seq()) == ("n1", 1)


def test_two_journals_in_one_database_know_nothing_of_each_other(
    server: Database, journal: PostgresJournal
) -> None:
    url = server.url()
    PostgresJournal.create(parsed(url), "n2")
    try:
        with closing(PostgresJournal(parsed(url))) as second:
            second.append([a_row(1, second.acquire_epoch())], 0, 1)
            assert (second.node(), second.last_seq()) == ("n2", 1)
        assert (journal.last_seq(), journal.epoch()) == (0, 0)
    finally:
        server.drop(url)


def test_a_url_that_cannot_be_read_is_refused_without_its_password() -> None:
    with pytest.raises(Unavailable) as told:
        PostgresJournal(parsed("postgresql://ada:secret@db/work?no=such"))
    assert told.value.reason is Reason.JOURNAL_URL_INVALID
    assert "secret" not in str(told.value)


def test_a_database_without_a_journal_is_named(place: JournalUrl) -> None:
    with refused(Reason.STATE_DIR_MISSING):
        PostgresJournal(place._replace(schema="nothing_here"))


def test_an_older_schema_is_brought_forward_and_a_newer_one_left_alone(
    place: JournalUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*migration.STEPS, "ALTER TABLE head ADD COLUMN more integer DEFAULT 5")
    with monkeypatch.context() as later:
        later.setattr(migration, "STEPS", more)
        later.setattr("understudy.authority.journal.postgres.journal.STEPS", more)
        with closing(PostgresJournal(place)) as journal:
            assert journal._one("SELECT version, more FROM head") == (len(more), 5)
            journal.append([a_row(1, journal.acquire_epoch())], 0, 1)
        assert PostgresJournal.create(place, "n1") is False
    for read_only in (False, True):
        with refused(Reason.JOURNAL_TOO_NEW):
            PostgresJournal(place, read_only=read_only)
    with refused(Reason.JOURNAL_TOO_NEW):
        PostgresJournal.create(place, "n1")
