"""The tables in a file of their own, `tables.db`, beside a journal in SQLite."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from .. import private
from ..failpoint import failpoint
from ..journal import Journal, Row, changes_of
from .changes import statements
from .schema import VERSION, ddl

_ROWS = 1_000  # in one transaction; a long read keeps the journal's log from being folded


class Tables:
    """See `SqlTables` for the promises. Several processes may let one file follow at once."""

    def __init__(self, path: Path) -> None:
        private.touch(path)
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
        return int(self._db.execute("SELECT seq FROM watermark").get)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._db.execute(f"SELECT * FROM {table}").fetchall()

    def follow(self, journal: Journal, rows_max: int | None = None) -> int:
        count = 0
        while rows_max is None or count < rows_max:
            wanted = _ROWS if rows_max is None else min(_ROWS, rows_max - count)
            seq = self.watermark()
            rows = journal.rows(seq, wanted)
            if not rows:
                break
            count += self._take_in(rows, seq)
        return count

    def clear(self) -> None:
        with self._writing():
            self._drop_all()
            self._db.execute(ddl("sqlite"))

    def close(self) -> None:
        self._db.close()

    def _take_in(self, rows: Sequence[Row], seq: int) -> int:
        with self._writing():
            if self.watermark() != seq:
                return 0  # another process has shown them
            for row in rows:
                for change in changes_of(row):
                    for query, values in statements(change):
                        self._db.execute(query, values)
            self._db.execute("UPDATE watermark SET seq = ?", (rows[-1].seq,))
            failpoint("tables.written")
        return len(rows)

    def _make_anew(self) -> None:
        """Tables of another version are a projection like any other: they are not converted."""
        with self._writing():
            if self._db.pragma("user_version") != VERSION:  # no process was faster
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
