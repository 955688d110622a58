"""The SQL tables in the database: what they show is the state, and one authority writes them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from tests.authority.chain import Chain
from tests.fakes.desk import Desk
from tests.services.shared import Database
from understudy.authority.conformance.picture import faults
from understudy.authority.journal.journal import Unavailable
from understudy.authority.journal.journal_url import JournalUrl
from understudy.authority.journal.postgres import PostgresJournal, migration
from understudy.authority.journal.postgres import tables as tables_module
from understudy.authority.journal.postgres.tables import PostgresTables
from understudy.authority.journal.tables.schema import SCHEMA
from understudy.contracts import Reason

HERE = Path()  # they are in no folder


def refused(reason: Reason) -> pytest.RaisesExc[Unavailable]:
    return pytest.RaisesExc(Unavailable, check=lambda error: error.reason is reason)


@pytest.fixture
def journal(place: JournalUrl) -> Iterator[PostgresJournal]:
    with closing(PostgresJournal(place)) as found:
        yield found


@pytest.fixture
def tables(journal: PostgresJournal) -> Iterator[PostgresTables]:
    with closing(journal.tables(HERE)) as found:
        yield found


@pytest.fixture
def raw(server: Database, place: JournalUrl) -> Iterator[psycopg.Connection[Any]]:
    """A person with a shell on the database."""
    with server.connect() as db:
        db.execute(f"SET search_path = {place.schema}")
        yield db


def worked(journal: PostgresJournal, steps: int = 60, seed: int = 3) -> Desk:
    """A journal with work and specs in it, and an authority that leads it."""
    desk = Desk(journal)
    for name in "ab":
        desk.grant("issue.add", id=name, title=f"Ünï'\\ %s {name}", description="two\nlines")
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    desk.grant("sublease.grant", **ann, holder="h", capabilityScope=["issue.close"])
    desk.grant("fiber.spawn", **ann, taskRef="t", fiberId="f")
    desk.grant("dep.add", **ann, dependsOnId="b", type="related")
    Chain(desk, Random(seed)).wander(steps)
    return desk


def test_the_tables_are_the_state(journal: PostgresJournal, tables: PostgresTables) -> None:
    desk = worked(journal)
    assert tables.follow(journal, 3) == 3
    tables.follow(journal)
    assert faults(tables, desk.authority.state, desk.authority.head.seq) == []
    desk.time.passes(30_001)
    desk.claim("a", "bob")
    Chain(desk, Random(4)).wander(30)
    tables.follow(journal)
    assert faults(tables, desk.authority.state, desk.authority.head.seq) == []
    assert tables.follow(journal) == 0
    tables.clear()
    assert (tables.watermark(), tables.rows("job")) == (0, [])
    tables.follow(journal)
    assert faults(tables, desk.authority.state, desk.authority.head.seq) == []


def test_many_rows_are_shown_in_parts(
    journal: PostgresJournal, tables: PostgresTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_module, "_TEXT_MAX", 100)
    desk = worked(journal)
    assert tables.follow(journal) == desk.authority.head.seq
    assert faults(tables, desk.authority.state, desk.authority.head.seq) == []


def test_a_deposed_authority_writes_no_tables(
    place: JournalUrl, journal: PostgresJournal, tables: PostgresTables
) -> None:
    desk = worked(journal, steps=0)
    tables.follow(journal, 2)
    with closing(PostgresJournal(place)) as other, closing(other.tables(HERE)) as theirs:
        other.acquire_epoch()
        for change in (lambda: tables.follow(journal), tables.clear):
            with refused(Reason.JOURNAL_DEPOSED):
                change()
        assert theirs.watermark() == 2, "and nothing of it is left"
        assert len(theirs.rows("issue")) == 2
        theirs.follow(other)
        assert faults(theirs, desk.authority.state, desk.authority.head.seq) == []


def test_a_journal_that_never_led_writes_no_tables(
    place: JournalUrl, journal: PostgresJournal
) -> None:
    worked(journal, steps=0)
    with (
        closing(PostgresJournal(place, read_only=True)) as reader,
        closing(reader.tables(HERE)) as tables,
        refused(Reason.JOURNAL_DEPOSED),
    ):
        tables.follow(reader)


def test_of_two_that_follow_at_once_one_is_refused(
    journal: PostgresJournal, tables: PostgresTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes between the look at the watermark and the text."""
    desk = worked(journal)
    first = [True]

    def meanwhile(_: str) -> None:
        if first.pop() if first else False:
            with closing(journal.tables(HERE)) as other:
                other.follow(journal, 5)

    monkeypatch.setattr(tables_module, "failpoint", meanwhile)
    assert tables.follow(journal) == desk.authority.head.seq - 5
    assert faults(tables, desk.authority.state, desk.authority.head.seq) == []


def test_killed_in_the_middle_they_catch_up(
    journal: PostgresJournal, tables: PostgresTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(_: str) -> None:
        raise Crash

    desk = worked(journal)
    with monkeypatch.context() as patch:
        patch.setattr(tables_module, "failpoint", crash)
        with pytest.raises(Crash):
            tables.follow(journal)
    assert tables.watermark() == 0
    tables.follow(journal)
    assert faults(tables, desk.authority.state, desk.authority.head.seq) == []


def test_a_step_has_one_job_and_the_table_says_so(
    journal: PostgresJournal, tables: PostgresTables, raw: psycopg.Connection[Any]
) -> None:
    worked(journal)
    tables.follow(journal)
    made = "INSERT INTO job (job_id, spec_id, step_key) SELECT 'x', spec_id, step_key FROM job"
    with pytest.raises(psycopg.errors.UniqueViolation, match="spec_id, step_key"):
        raw.execute(f"{made} WHERE spec_id IS NOT NULL LIMIT 1")


@pytest.mark.parametrize("version", [2, 6])  # before there were any, and before they changed last
def test_a_database_without_tables_gets_them_from_the_first_that_writes(
    place: JournalUrl, raw: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    for table in SCHEMA:
        raw.execute(f"DROP TABLE {table.name}")
    raw.execute("UPDATE head SET version = %s", (version,))
    with (
        closing(PostgresJournal(place, read_only=True)) as reader,
        closing(reader.tables(HERE)) as tables,
    ):
        assert tables.watermark() == 0, "a reader leaves the database as it is"
    with closing(PostgresJournal(place)) as journal, closing(journal.tables(HERE)) as tables:
        desk = worked(journal, steps=0)
        tables.follow(journal)
        assert faults(tables, desk.authority.state, desk.authority.head.seq) == []
        again = (*migration.STEPS, migration.STEPS[2])
        monkeypatch.setattr(migration, "STEPS", again)
        monkeypatch.setattr("understudy.authority.journal.postgres.journal.STEPS", again)
        with closing(PostgresJournal(place)) as later:
            assert tables.watermark() == 0, "tables that change are made anew"
            assert later.last_seq() == desk.authority.head.seq


def test_a_lost_connection_is_said_and_made_anew(
    journal: PostgresJournal, tables: PostgresTables, raw: psycopg.Connection[Any]
) -> None:
    desk = worked(journal, steps=0)
    tables.follow(journal, 1)
    raw.execute("SELECT pg_terminate_backend(%s)", (tables._link().info.backend_pid,))
    with refused(Reason.JOURNAL_UNREACHABLE):
        tables.follow(journal)
    tables.follow(journal)
    assert faults(tables, desk.authority.state, desk.authority.head.seq) == []
