"""The tables in a file of their own, `tables.db`, beside a journal in SQLite."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from ..failpoint import failpoint
from ..journal import Journal, changes_of
from .changes import statements
from .schema import VERSION, ddl

_ROWS = 1_000  # in one transaction; whoever lingers in the journal keeps its log from being folded


class Tables:
    """One database file that follows one journal. Several processes may let it follow at once."""

    def __init__(self, path: Path) -> None:
        self._db = apsw.Connection(str(path))
        try:
            self._db.set_busy_timeout(5_000)
            self._db.pragma("journal_mode", "wal")
            self._db.pragma("synchronous", "NORMAL")  # rows may be lost, and follow again
            if self._db.pragma("user_version") != VERSION:
                self._make_anew()
        except BaseException:
            self._db.close()
            raise

    def watermark(self) -> int:
        """The last row that the tables show."""
        return int(self._db.execute("SELECT seq FROM watermark").get)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - a name of ours

    def follow(self, journal: Journal, rows_max: int | None = None) -> int:
        """Take in the rows that are missing, or so many of them; how many there were."""
        count = 0
        while rows_max is None or count < rows_max:
            wanted = _ROWS if rows_max is None else min(_ROWS, rows_max - count)
            taken = self._take_in(journal, wanted)
            count += taken
            if taken < wanted:
                break
        return count

    def clear(self) -> None:
        """Forget everything; the next `follow` begins with the first row."""
        with self._writing():
            self._drop_all()
            self._db.execute(ddl("sqlite"))

    def close(self) -> None:
        self._db.close()

    def _take_in(self, journal: Journal, rows_max: int) -> int:
        with self._writing():  # before the look at the watermark: another may follow as well
            rows = journal.rows(self.watermark(), rows_max)
            for row in rows:
                for change in changes_of(row):
                    for query, values in statements(change):
                        self._db.execute(query, values)
            if rows:
                self._db.execute("UPDATE watermark SET seq = ?", (rows[-1].seq,))
            failpoint("tables.written")
        return len(rows)

    def _make_anew(self) -> None:
        """Tables of another version are a projection like any other: they are not converted."""
        with self._writing():
            if self._db.pragma("user_version") != VERSION:  # nobody was faster
                self._drop_all()
                self._db.execute(ddl("sqlite"))
                self._db.pragma("user_version", VERSION)

    def _drop_all(self) -> None:
        found = self._db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (name,) in found:
            self._db.execute(f'DROP TABLE "{name}"')

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
