"""Packed rows into SQLite by C: the same rows, its errors as they are, and no trust in bytes."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from understudy.authority.engine.native_engine import NativeAuthority
from understudy.authority.journal import sqlite
from understudy.authority.journal.journal import Packed, Row, Unavailable
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.contracts import Door, Reason, canonical

SOURCE = Path(__file__).resolve().parents[2] / "native" / "append.c"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    SqliteJournal.create(tmp_path / "journal.db", "n1")
    journal = SqliteJournal(tmp_path / "journal.db")
    yield journal
    journal.close()


@pytest.fixture
def packed(journal: SqliteJournal) -> Packed:
    """Three claims that are not committed yet, of issues that are there."""
    authority = NativeAuthority(journal)
    door = Door("mcp")
    names = ["a-1", "a-2", "a-3"]
    authority.submit_lines([(_line("issue.add", id=name, title="t"), door) for name in names])
    claims = [_line("issue.claim", id=name, assignee="ada", requestId=name) for name in names]
    (entry,) = authority.propose_lines([(door, claims)]).entries
    assert isinstance(entry, Packed)
    return entry


def test_rows_are_those_that_python_would_have_written(
    journal: SqliteJournal, packed: Packed
) -> None:
    journal.append([packed], 3, packed.epoch)
    assert journal._takes_packed, "it was C that wrote them"
    assert list(journal.read(3)) == list(packed.rows())


def test_packed_rows_and_others_keep_their_order(journal: SqliteJournal, packed: Packed) -> None:
    first, second, third = packed.rows()
    tail = packed._replace(first_seq=5, table=packed.table[200:])
    fourth = third._replace(seq=7)
    journal.append([first, tail, fourth], 3, packed.epoch)
    assert list(journal.read(3)) == [first, second, third, fourth]


def test_where_sqlite_takes_no_extension_python_writes_the_same_rows(
    journal: SqliteJournal, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_load_extension", lambda *_: False)
    journal.append([packed], 3, packed.epoch)
    assert list(journal.read(3)) == list(packed.rows())


@pytest.mark.parametrize("cut", [1, 199, 201])
def test_a_table_of_another_size_is_refused(
    journal: SqliteJournal, packed: Packed, cut: int
) -> None:
    with pytest.raises(Unavailable):
        journal.append([packed._replace(table=packed.table[:-cut])], 3, packed.epoch)
    assert journal.last_seq() == 3


def test_a_slice_that_ends_behind_the_text_is_refused_and_no_row_stays(
    journal: SqliteJournal, packed: Packed
) -> None:
    with pytest.raises(Unavailable):
        journal.append([packed._replace(text=packed.text[:-1])], 3, packed.epoch)
    assert journal.last_seq() == 3


def test_an_error_of_sqlite_is_named_and_no_row_stays(
    journal: SqliteJournal, packed: Packed
) -> None:
    twice = packed._replace(table=packed.table + packed.table[:200])
    with pytest.raises(Unavailable, match="onstraint") as found:
        journal.append([twice], 3, packed.epoch)
    assert found.value.reason is Reason.JOURNAL_WRITE_FAILED
    assert journal.last_seq() == 3
    journal.append([packed], 3, packed.epoch)


def test_a_database_cannot_call_it_by_itself(journal: SqliteJournal, packed: Packed) -> None:
    """A view in a journal of another writer must not reach C."""
    journal.append([packed], 3, packed.epoch)
    journal._db.execute("CREATE VIEW trap AS SELECT us_append('', x'', x'', 0, '')")
    with pytest.raises(apsw.SQLError, match="unsafe use"):
        journal._db.execute("SELECT * FROM trap")


def test_places_are_those_of_the_published_header(tmp_path: Path) -> None:
    header = Path("/usr/include/sqlite3ext.h")
    compiler = shutil.which("cc")
    if compiler is None or not header.exists():
        pytest.skip("SQLite's header or a compiler is not here")
    listed = re.search(r"enum place \{(.*?)\};", SOURCE.read_text("utf-8"), re.DOTALL)
    assert listed is not None
    places = dict(re.findall(r"(\w+) = (\d+)", listed[1]))
    assert len(places) > 10
    lines = [
        f"_Static_assert(offsetof(struct sqlite3_api_routines, {name.lower()})"
        f" == {number} * sizeof(void *), {name.lower()!r});".replace("'", '"')
        for name, number in places.items()
    ]
    program = tmp_path / "places.c"
    program.write_text("\n".join(["#include <stddef.h>", "#include <sqlite3ext.h>", *lines]))
    subprocess.run([compiler, "-std=c11", "-fsyntax-only", program], check=True)


def test_a_row_has_the_columns_of_the_statement() -> None:
    assert sqlite._COLUMNS.split(", ") == list(Row._fields)


def _line(action: str, **payload: object) -> bytes:
    return canonical.encode({"action": action, "payload": payload})
