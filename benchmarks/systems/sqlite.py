"""What many write themselves: one table in SQLite, one durable transaction a step.

WAL and `synchronous=FULL`, so that a commit is on disk; `BEGIN IMMEDIATE` and a busy timeout, as
its manual advises for several writers. There is no server, so no request waits in flight: a client
with a window does one step after the other, unless it puts the steps of its window into one
transaction. That is no longer a transaction a step (one that fails takes the others along), so the
variant that does it is shown for comparison only.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from benchmarks.systems.system import TTL_SECONDS, Refused, names, now_ms

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
_COMPLETE = """
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

    def connect(self, owner: str) -> "Worker":
        return Worker(opened(self._path), owner, noted=self._noted, together=self._together)

    def stop(self) -> None:
        pass


class Worker:
    def __init__(self, db: apsw.Connection, owner: str, *, noted: bool, together: bool) -> None:
        self._owner = owner
        self._db, self._noted, self._together = db, noted, together

    def claim(self, keys: Sequence[str]) -> list[int]:
        now = now_ms()
        due = now + TTL_SECONDS * 1000
        return self._steps("claim", _CLAIM, keys, [(self._owner, due, key, now) for key in keys])

    def renew(self, keys: Sequence[str], fences: Sequence[int]) -> list[int]:
        now = now_ms()
        due = now + TTL_SECONDS * 1000
        held = zip(keys, fences, strict=True)
        values = [(due, key, self._owner, fence, now) for key, fence in held]
        return self._steps("renew", _RENEW, keys, values)

    def complete(self, keys: Sequence[str], fences: Sequence[int]) -> None:
        now = now_ms()
        held = zip(keys, fences, strict=True)
        values = [(key, self._owner, fence, now) for key, fence in held]
        self._steps("complete", _COMPLETE, keys, values)

    def close(self) -> None:
        self._db.close()

    def _steps(
        self, step: str, query: str, keys: Sequence[str], values: Sequence[tuple[str | int, ...]]
    ) -> list[int]:
        """One transaction for each, or one for all."""
        size = len(keys) if self._together else 1
        fences: list[int] = []
        for start in range(0, len(keys), size):
            with self._transaction():
                for key, each in zip(keys[start : start + size], values[start:], strict=False):
                    fences.append(self._step(step, query, key, each))
        return fences

    def _step(self, step: str, query: str, key: str, values: tuple[str | int, ...]) -> int:
        rows = self._db.execute(query, values).fetchall()
        if len(rows) != 1:
            raise Refused(f"{step} of {key}")
        fence = rows[0][0]
        assert isinstance(fence, int)
        if self._noted:
            self._db.execute(_NOTE, (now_ms(), key, step, self._owner, fence))
        return fence

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def opened(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.set_busy_timeout(_BUSY_MS)
    if db.pragma("journal_mode", "wal") != "wal":
        raise Refused("no WAL")
    db.pragma("synchronous", "FULL")
    return db
