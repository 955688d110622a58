"""PostgreSQL: one table, one statement a step, `FOR UPDATE SKIP LOCKED` for the claim.

`fsync` and `synchronous_commit` are on, over a Unix socket, with prepared statements, room on each
page for updates in place, and checkpoints that do not fall into so short a run. With a window the
steps go through psycopg's pipeline mode; the driver ends it with one synchronization, so the server
commits the whole window at once. That is the fastest way it has, and less than what we promise: one
step that fails takes the window along.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from benchmarks.systems.system import TTL_SECONDS, Refused, Unfit
from tests.services.postgres import running

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "256MB",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "jit": "off",
}

_TABLES = """
CREATE TABLE work (
    id text PRIMARY KEY, state text NOT NULL, owner text, fence bigint NOT NULL, due timestamptz
) WITH (fillfactor = 50);
CREATE TABLE op (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz, id text, step text, owner text, fence bigint
);
"""
_CLAIM = """
UPDATE work
SET state = 'held', owner = %(owner)s, fence = fence + 1,
    due = now() + make_interval(secs => %(time)s)
WHERE id = (
    SELECT id FROM work
    WHERE id = %(id)s AND (state = 'open' OR (state = 'held' AND due < now()))
    FOR UPDATE SKIP LOCKED
)
RETURNING id, fence
"""
_HELD = """
WHERE id = %(id)s AND state = 'held' AND owner = %(owner)s AND fence = %(fence)s AND due >= now()
RETURNING id, fence
"""
_RENEW = "UPDATE work SET due = now() + make_interval(secs => %(time)s)" + _HELD
_COMPLETE = "UPDATE work SET state = 'closed'" + _HELD


class Rows:
    """A server of our own, or the one that the environment names, with a schema of our own."""

    def __init__(self, folder: Path, *, noted: bool = False) -> None:
        self._noted = noted
        self._schema: LiteralString = "understudy_audit" if noted else "understudy_plain"
        self.name = "PostgreSQL" + " + audit row" * noted
        self.evidence = "audit row" if noted else "none"
        self._opened = ExitStack()
        self._url = self._opened.enter_context(running(folder, SETTINGS))
        try:
            self._db = self._opened.enter_context(psycopg.connect(self._url, autocommit=True))
            self._refuse_unfit()
            self._db.execute("CREATE SCHEMA IF NOT EXISTS " + self._schema)
            self._db.execute("SET search_path = " + self._schema)
        except BaseException:
            self._opened.close()
            raise

    def prepare(self, count: int) -> None:
        self._db.execute("DROP TABLE IF EXISTS work, op")
        self._db.execute(_TABLES)
        self._db.execute(
            "INSERT INTO work (id, state, fence)"
            " SELECT 'i' || n, 'open', 0 FROM generate_series(0, %s - 1) AS n",
            (count,),
        )
        self._db.execute("VACUUM (ANALYZE) work")

    def connect(self, owner: str) -> "Worker":
        db = psycopg.connect(self._url, autocommit=True, prepare_threshold=0)
        db.execute("SET search_path = " + self._schema)
        return Worker(db, owner, noted=self._noted)

    def stop(self) -> None:
        self._db.execute("DROP SCHEMA " + self._schema + " CASCADE")
        self._opened.close()

    def _refuse_unfit(self) -> None:
        for name in ("fsync", "synchronous_commit"):
            found = self._db.execute("SELECT current_setting(%s)", (name,)).fetchone()
            if found != ("on",):
                raise Unfit(f"not durable: {name} is {found}")


class Worker:
    def __init__(self, db: psycopg.Connection[Any], owner: str, *, noted: bool) -> None:
        self._db = db
        self._asked: dict[str, Any] = {"owner": owner, "time": TTL_SECONDS}
        self._cursor = db.cursor()
        self._claim, self._renew, self._complete = (
            _noted(step, query) if noted else query
            for step, query in (("claim", _CLAIM), ("renew", _RENEW), ("complete", _COMPLETE))
        )

    def claim(self, keys: Sequence[str]) -> list[int]:
        return self._steps(self._claim, [self._asked | {"id": key} for key in keys])

    def renew(self, keys: Sequence[str], fences: Sequence[int]) -> list[int]:
        return self._steps(self._renew, self._held(keys, fences))

    def complete(self, keys: Sequence[str], fences: Sequence[int]) -> None:
        self._steps(self._complete, self._held(keys, fences))

    def close(self) -> None:
        self._db.close()

    def _held(self, keys: Sequence[str], fences: Sequence[int]) -> list[dict[str, Any]]:
        held = zip(keys, fences, strict=True)
        return [self._asked | {"id": key, "fence": fence} for key, fence in held]

    def _steps(self, query: LiteralString, asked: Sequence[dict[str, Any]]) -> list[int]:
        """The fences, of as many rows as were asked for."""
        if len(asked) == 1:
            rows = self._cursor.execute(query, asked[0]).fetchall()
        else:
            self._cursor.executemany(query, asked, returning=True)
            rows = [row for result in self._cursor.results() for row in result.fetchall()]
        if [row[0] for row in rows] != [each["id"] for each in asked]:
            raise Refused(f"{len(rows)} of {len(asked)} steps")
        return [row[1] for row in rows]


def _noted(step: LiteralString, query: LiteralString) -> LiteralString:
    """The same step, and an audit row in the same transaction."""
    return (
        "WITH done AS (" + query + ")"
        " INSERT INTO op (at, id, step, owner, fence)"
        " SELECT now(), id, '" + step + "', %(owner)s, fence FROM done RETURNING id, fence"
    )
