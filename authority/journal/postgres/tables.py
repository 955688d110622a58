"""The tables in the journal's own schema, where people on any host can ask them.

What a few rows do is sent as one text, which the server runs and ends by itself: nothing is locked
while it waits for us, however we end.

    I1  Only the active authority writes: the database refuses an older epoch.
    I2  Rows and watermark change together, from the watermark that they were made for. Of two that
        follow at once, one is refused.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from ....contracts import Reason
from ..failpoint import failpoint
from ..journal import Journal, Row, Unavailable, changes_of
from ..journal_url import JournalUrl
from ..tables.changes import Cell, statements
from .link import Link, connect

_ROWS = 256  # in one transaction
_TEXT_MAX = 4 * 1_048_576  # of its statements, and a row more
_PREPARED_MAX = 128  # statements; there are fewer, but for changes of unusual members of an issue
_STRANGER, _ELSEWHERE = "UD001", "UD003"  # errors of our own functions


class PostgresTables:
    """See `SqlTables` for the promises."""

    def __init__(self, place: JournalUrl, epoch: Callable[[], int]) -> None:
        """A caller that writes says under which epoch, each time."""
        self._place, self._epoch = place, epoch
        self._db: Link | None = None
        self._prepared: dict[str, str] = {}

    def watermark(self) -> int:
        try:
            with self._naming():
                found = self._link().execute("SELECT seq FROM watermark").fetchone()
        except _Missing:
            return 0
        if found is None:
            raise Unavailable(Reason.JOURNAL_CORRUPT, f"{self._place}: `watermark` is empty")
        return int(found[0])

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        query = f"SELECT * FROM {table}".encode()
        with self._naming():
            return self._link().execute(query).fetchall()

    def follow(self, journal: Journal, rows_max: int | None = None) -> int:
        count = 0
        while rows_max is None or count < rows_max:
            wanted = _ROWS if rows_max is None else min(_ROWS, rows_max - count)
            seq = self.watermark()
            rows = journal.rows(seq, wanted)
            if not rows:
                break
            with self._naming():
                count += self._take_in(rows, seq)
        return count

    def clear(self) -> None:
        seq = self.watermark()
        with self._naming():
            self._link().execute(self._guarded([("SELECT clear_tables()", ())], seq, 0))

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def _take_in(self, rows: Sequence[Row], seq: int) -> int:
        """Show so many of the rows that the text does not become too long; how many."""
        made: list[tuple[str, Sequence[Cell]]] = []
        size = count = 0
        for row in rows:
            for change in changes_of(row):
                made += statements(change)
            size += len(row.changes)
            count += 1
            if size > _TEXT_MAX:
                break
        text = self._guarded(made, seq, rows[count - 1].seq)
        failpoint("tables.written")
        try:
            self._link().execute(text)
        except psycopg.Error as error:
            if error.sqlstate == _ELSEWHERE:
                return 0  # another process has shown them
            raise
        return count

    def _guarded(self, made: Sequence[tuple[str, Sequence[Cell]]], seq: int, then: int) -> bytes:
        """One text of statements, with values in it; all or nothing, and only by the active one."""
        cursor = psycopg.ClientCursor(self._link())
        first = cursor.mogrify("SELECT follow_from(%s)", (seq,))
        last = cursor.mogrify("SELECT follow_to(%s, %s)", (self._epoch(), then))
        rest = [cursor.mogrify(self._spoken(query, len(values)), values) for query, values in made]
        return ";\n".join([first, *rest, last]).encode()

    def _spoken(self, query: str, count: int) -> str:
        """A statement that the server has read and planned before, as most are."""
        marks = ", ".join(["%s"] * count)
        if query not in self._prepared and len(self._prepared) < _PREPARED_MAX and count:
            name, parts = f"t{len(self._prepared)}", query.split("?")
            numbered = "".join(f"{part}${at}" for at, part in enumerate(parts[:-1], 1)) + parts[-1]
            self._link().execute(f"PREPARE {name} AS {numbered}".encode())
            self._prepared[query] = f"EXECUTE {name}({marks})"
        return self._prepared.get(query) or query.replace("?", "%s")

    def _link(self) -> Link:
        if self._db is None or self._db.closed:
            self._db = connect(self._place)
            self._prepared.clear()
            # A crash may lose what follows again anyway.
            self._db.execute("SET synchronous_commit = off; SET lock_timeout = '5s'")
        return self._db

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.UndefinedTable as error:
            raise _Missing(Reason.JOURNAL_WRITE_FAILED, _words(error)) from error
        except psycopg.Error as error:
            reason = Reason.JOURNAL_WRITE_FAILED
            if error.sqlstate == _STRANGER:
                reason = Reason.JOURNAL_DEPOSED
            elif self._db is not None and self._db.closed:
                reason = Reason.JOURNAL_UNREACHABLE
            raise Unavailable(reason, _words(error)) from error


class _Missing(Unavailable):
    """A reader meets a database that no writer has brought to this version yet."""


def _words(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
