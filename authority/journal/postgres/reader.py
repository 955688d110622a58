"""Questions to the tables in the database, each in a transaction that can only read.

A transaction that began as one for reading stays one: PostgreSQL lets none change that after the
first statement, and a question is one statement. Statements of another sort are refused unseen.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from ..journal_url import JournalUrl
from ..tables.inquiry import BadQuery, QueryAnswer, bare
from .link import Link, connect

_ROWS = 500  # at once
_SPARE_SECONDS = 5.0  # the server gives up before we do
_FIRST = re.compile(r"\(*\s*(\w+)")
_STREAMED = frozenset({"select", "with", "values", "table"})
_SESSION = """
SET default_transaction_read_only = on;
SET idle_in_transaction_session_timeout = '1h';
SET lock_timeout = '5s';
"""


class PostgresReader:
    """See `Reader` for the promises."""

    def __init__(self, place: JournalUrl, timeout_s: float) -> None:
        self._place, self._timeout_s = place, timeout_s
        self._db = self._connected()
        self._streamed: psycopg.ServerCursor[tuple[Any, ...]] | None = None

    def ask(self, statement: str, values: Sequence[str | int] = ()) -> QueryAnswer:
        found = _FIRST.match(bare(statement))
        word = found[1].lower() if found else ""
        if word not in _STREAMED | {"explain"}:
            words = f"`{word.upper() or statement.strip()}`: only SELECT, WITH, VALUES, TABLE and"
            raise BadQuery(f"{words} EXPLAIN are questions")
        with self._worded():
            self._begin()
            if word == "explain":
                cursor = self._db.execute(statement.encode(), binary=True)  # one, and no more
                return QueryAnswer(_names(cursor), iter(cursor.fetchall()))
            self._streamed = self._db.cursor("question")
            self._streamed.itersize = _ROWS
            if values:
                statement = statement.replace("%", "%%").replace("?", "%s")
            self._streamed.execute(statement.encode(), tuple(values) or None)
        return QueryAnswer(_names(self._streamed), self._rows(self._streamed))

    def watermark(self) -> int:
        with self._worded():
            self._begin()
            found = self._db.execute("SELECT seq FROM watermark").fetchone()
            return 0 if found is None else int(found[0])

    def close(self) -> None:
        self._forget()
        self._db.close()

    def _forget(self) -> None:
        """The answer before this one, however far it was read."""
        if self._streamed is not None:
            with suppress(psycopg.Error):
                self._streamed.close()
            self._streamed = None

    def _begin(self) -> None:
        self._forget()
        if self._db.closed:
            self._db = self._connected()
        timeout_ms = int(self._timeout_s * 1000)
        self._db.execute(
            f"ROLLBACK; BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; "
            f"SET LOCAL statement_timeout = {timeout_ms}".encode()
        )

    def _rows(self, cursor: psycopg.ServerCursor[Any]) -> Iterator[tuple[Any, ...]]:
        with self._worded():
            yield from cursor

    def _connected(self) -> Link:
        db = connect(self._place)
        db.execute(_SESSION)
        db.answer_seconds = self._timeout_s + _SPARE_SECONDS
        return db

    @contextmanager
    def _worded(self) -> Iterator[None]:
        """What PostgreSQL says no with; after an interrupt the connection is a fresh one."""
        try:
            yield
        except psycopg.errors.QueryCanceled as error:
            raise BadQuery(f"no answer in {self._timeout_s:g} s (--timeout)") from error
        except psycopg.Error as error:
            raise BadQuery(str(error).strip() or repr(error)) from error
        except UnicodeEncodeError as error:
            raise BadQuery(str(error)) from error
        except KeyboardInterrupt:
            with suppress(psycopg.Error):
                self._db.cancel_safe(timeout=2)
            self._db.close()
            raise


def _names(cursor: psycopg.Cursor[Any]) -> list[str]:
    return [each.name for each in cursor.description or ()]
