"""What many write themselves: one table in SQLite, one durable transaction a step.

WAL and `synchronous=FULL`, so that a commit is on disk; `BEGIN IMMEDIATE` and a busy timeout, as
its manual advises for several writers. There is no server, so no request waits in flight: a client
with a window does one step after the other, unless it puts the steps of its window into one
transaction. That is no longer a transaction a step (one that fails takes the others along), so the
variant that does it is shown for comparison only.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import apsw

from benchmarks.systems.system import OWNER, TTL_SECONDS, Refused, names, now_ms

_TABLES = """
CREATE TABLE work (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, owner TEXT, fence INTEGER NOT NULL, due_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE op (
    seq INTEGER PRIMARY KEY, at_ms INTEGER, id TEXT, step TEXT, owner TEXT, fence INTEGER
);
"""
_CLAIM = """
UPDATE work SET state = 'held', owner = ?, fence = fence + 1, due_ms = ?
WHERE id = ? AND (state = 'open' OR (state = 'held' AND due_ms < ?)) RETURNING fence
"""
_RENEW = """
UPDATE work SET due_ms = ?
WHERE id = ? AND state = 'held' AND owner = ? AND fence = ? AND due_ms >= ? RETURNING fence
"""
_CLOSE = """
UPDATE work SET state = 'closed'
WHERE id = ? AND state = 'held' AND owner = ? AND fence = ? AND due_ms >= ? RETURNING fence
"""
_NOTE = "INSERT INTO op (at_ms, id, step, owner, fence) VALUES (?, ?, ?, ?, ?)"
_BUSY_MS = 30_000


class Table:
    """A database file; `noted` also writes an audit row in each transaction."""

    def __init__(self, folder: Path, *, noted: bool = False, together: bool = False) -> None:
        self._folder, self._noted, self._together = folder, noted, together
        self.name = "SQLite" + " + audit row" * noted + ", a transaction a window" * together
        self.evidence = "audit row" if noted else "none"
        folder.mkdir()
        self._path = folder / "work.db"

    def prepare(self, count: int) -> None:
        for path in self._folder.iterdir():
            path.unlink()
        db = opened(self._path)
        db.execute(_TABLES)
        with db:
            rows = [(key, "open", 0) for key in names(count)]
            db.executemany("INSERT INTO work (id, state, fence) VALUES (?, ?, ?)", rows)
        db.close()

    def connect(self) -> "Worker":
        return Worker(opened(self._path), noted=self._noted, together=self._together)

    def stop(self) -> None:
        pass


class Worker:
    def __init__(self, db: apsw.Connection, *, noted: bool, together: bool) -> None:
        self._db, self._noted, self._together = db, noted, together

    def run(self, keys: Iterator[str], window: int, done: Callable[[str], None]) -> None:
        size = window if self._together else 1
        while batch := list(islice(keys, size)):
            fences = self._claim(batch)
            self._renew(batch, fences)
            self._close(batch, fences)
            for key in batch:
                done(key)

    def close(self) -> None:
        self._db.close()

    def _claim(self, keys: Sequence[str]) -> list[int]:
        now = now_ms()
        self._db.execute("BEGIN IMMEDIATE")
        due = now + TTL_SECONDS * 1000
        fences = [self._step("claim", key, _CLAIM, (OWNER, due, key, now), now) for key in keys]
        self._db.execute("COMMIT")
        return fences

    def _renew(self, keys: Sequence[str], fences: Sequence[int]) -> None:
        now = now_ms()
        self._db.execute("BEGIN IMMEDIATE")
        due = now + TTL_SECONDS * 1000
        for key, fence in zip(keys, fences, strict=True):
            self._step("renew", key, _RENEW, (due, key, OWNER, fence, now), now)
        self._db.execute("COMMIT")

    def _close(self, keys: Sequence[str], fences: Sequence[int]) -> None:
        now = now_ms()
        self._db.execute("BEGIN IMMEDIATE")
        for key, fence in zip(keys, fences, strict=True):
            self._step("close", key, _CLOSE, (key, OWNER, fence, now), now)
        self._db.execute("COMMIT")

    def _step(self, step: str, key: str, query: str, values: tuple[object, ...], now: int) -> int:
        rows = self._db.execute(query, values).fetchall()
        if len(rows) != 1:
            raise Refused(f"{step} of {key}")
        fence = rows[0][0]
        assert isinstance(fence, int)
        if self._noted:
            self._db.execute(_NOTE, (now, key, step, OWNER, fence))
        return fence


def opened(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.set_busy_timeout(_BUSY_MS)
    if db.pragma("journal_mode", "wal") != "wal":
        raise Refused("no WAL")
    db.pragma("synchronous", "FULL")
    return db
