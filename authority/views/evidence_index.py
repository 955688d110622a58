"""Finds the rows of the journal that concern one piece of work, or were refused, in no time.

A file beside the journal, for whoever shows the past to people: a projection like the SQL tables,
which can be deleted at any time. Rows that are new are taken in first, then older ones backwards,
so that of a long journal the newest part can be looked at at once.

    I1  Rows `low` to `high` are taken in, without a gap.
    I2  It belongs to one journal: where that has another row `high`, it begins anew.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import orjson

from ...contracts import issue_resource, job_resource
from ..journal import private
from ..journal.journal import Row, Storage

FILE = "evidence-index.db"
_VERSION = 1
_ROWS = 50  # in one transaction
_BOUNDS = "SELECT low, high, digest FROM bounds"
_TABLES = """
CREATE TABLE step (
    seq INTEGER PRIMARY KEY, at_ms INTEGER, action TEXT, result TEXT, fence INTEGER, who TEXT,
    work TEXT
) STRICT;
CREATE TABLE touched (work TEXT, seq INTEGER, PRIMARY KEY (work, seq)) STRICT, WITHOUT ROWID;
CREATE INDEX step_refused ON step (seq) WHERE result != 'accepted';
CREATE INDEX step_result ON step (result, seq);
CREATE INDEX step_action ON step (action, seq);
CREATE TABLE bounds (one INTEGER PRIMARY KEY, low INTEGER, high INTEGER, digest TEXT) STRICT;
INSERT INTO bounds VALUES (1, 0, 0, '');
"""
_WHO = ("assignee", "worker", "runner", "dispatcher", "gluer", "byName")


class EvidenceStep(NamedTuple):
    """What a list shows of a row; the journal has the rest."""

    seq: int
    at_ms: int
    action: str
    result: str  # `accepted`, or the first failure class
    fence: int | None
    who: str
    work: str  # the resource that it is about; nothing where it is about none

    @property
    def is_refused(self) -> bool:
        return self.result != "accepted"


class Indexed(NamedTuple):
    """A row as it was taken in, and the work that it concerns."""

    step: EvidenceStep
    works: frozenset[str]


class EvidenceIndex:
    """The index of one state directory. One thread at a time; several processes may share it."""

    def __init__(self, state_dir: Path) -> None:
        path = state_dir / FILE
        private.touch(path)
        self._db = apsw.Connection(str(path))
        self._db.set_busy_timeout(5_000)
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "NORMAL")
        if self._db.pragma("user_version") != _VERSION:
            with self._db:
                self._make_anew()

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last row that are taken in; zeros for none."""
        low, high, _ = self._db.execute(_BOUNDS).get
        return low, high

    def follow(
        self, journal: Storage, rows_max: int, seconds: float = float("inf")
    ) -> list[Indexed]:
        """Take in at most so many rows, or what takes so long; those newer than all before.

        New ones come first, then older ones.
        """
        give_up_s = time.monotonic() + seconds
        self._refuse_another(journal)
        low, high = self.bounds
        head = journal.last_seq()
        if high == 0 and head > rows_max:
            low, high = head - rows_max + 1, head - rows_max  # the newest first
        fresh: list[Indexed] = []
        while rows := journal.rows(high, min(_ROWS, rows_max - len(fresh))):
            found = [_indexed(row) for row in rows]
            low, high = low or rows[0].seq, rows[-1].seq
            self._take_in(found, low, high, rows[-1].digest)
            fresh += found
            if len(fresh) >= rows_max or time.monotonic() > give_up_s:
                return fresh
        left = rows_max - len(fresh)
        while left > 0 and low > 1 and time.monotonic() < give_up_s:
            count = min(_ROWS, left, low - 1)
            older = [_indexed(row) for row in journal.rows(low - 1 - count, count)]
            low, left = low - count, left - count
            self._take_in(older, low, high)
        return fresh

    def timeline(self, work: str, before: int | None, count: int) -> list[EvidenceStep]:
        """The newest rows that concern a resource, before this one."""
        query = (
            "SELECT step.* FROM touched JOIN step USING (seq) "
            "WHERE touched.work = ? AND touched.seq < ? ORDER BY touched.seq DESC LIMIT ?"
        )
        return self._steps(query, (work, _before(before), count))

    def steps(
        self, before: int | None, count: int, *, action: str = "", result: str = ""
    ) -> list[EvidenceStep]:
        """The newest rows before this one; `refused` is every result but `accepted`."""
        asked: list[Any] = [_before(before)]
        where = "seq < ?"
        if action:
            where, asked = f"{where} AND action = ?", [*asked, action]
        if result == "refused":
            where += " AND result != 'accepted'"
        elif result:
            where, asked = f"{where} AND result = ?", [*asked, result]
        query = f"SELECT * FROM step WHERE {where} ORDER BY seq DESC LIMIT ?"
        return self._steps(query, (*asked, count))

    def close(self) -> None:
        self._db.close()

    # --- writing --------------------------------------------------------------------------------

    def _refuse_another(self, journal: Storage) -> None:
        """Begin anew where the row that we ended with is another, or none (I2)."""
        _, high, digest = self._db.execute(_BOUNDS).get
        row = journal.row(high) if high else None
        if high and (row is None or row.digest != digest):
            with self._db:
                self._make_anew()

    def _take_in(
        self, rows: Sequence[Indexed], low: int, high: int, digest: str | None = None
    ) -> None:
        with self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO step VALUES (?, ?, ?, ?, ?, ?, ?)",
                [each.step for each in rows],
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO touched VALUES (?, ?)",
                [(work, each.step.seq) for each in rows for work in each.works],
            )
            self._db.execute(
                "UPDATE bounds SET low = ?, high = ?, digest = coalesce(?, digest)",
                (low, high, digest),
            )

    def _make_anew(self) -> None:
        for (name,) in self._db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
        ).fetchall():
            self._db.execute(f'DROP TABLE "{name}"')
        self._db.execute(_TABLES)
        self._db.pragma("user_version", _VERSION)

    def _steps(self, query: str, values: tuple[Any, ...]) -> list[EvidenceStep]:
        return [EvidenceStep(*row) for row in self._db.execute(query, values)]


def _indexed(row: Row) -> Indexed:
    effect = orjson.loads(row.response)["effect"]
    payload = orjson.loads(row.request)["payload"]
    main = next(_works(effect, payload), "")
    works = {main} if main else set[str]()
    for change in orjson.loads(row.changes):
        works.update(_changed(change))
    who = next((str(payload[name]) for name in _WHO if payload.get(name)), effect.get("agent", ""))
    step = EvidenceStep(
        row.seq, row.wall_ms, effect["action"], effect["resultClass"], effect["fence"], who, main
    )
    return Indexed(step, frozenset(works))


def _works(effect: dict[str, Any], payload: dict[str, Any]) -> Iterator[str]:
    if effect["issueId"] is not None:
        yield issue_resource(effect["issueId"])
    if "jobId" in effect:
        yield job_resource(effect["jobId"])
    if "specId" in effect:
        yield f"spec/{effect['specId']}"
    if effect["action"].startswith(("descent.", "glue.")) and isinstance(
        payload.get("target"), str
    ):
        yield f"glue/{payload['target']}"


def _changed(change: dict[str, Any]) -> Iterator[str]:
    """The work that a change is about; most have it in a record of theirs."""
    for record in (change, *(each for each in change.values() if isinstance(each, dict))):
        match record:
            case {"resource": str(resource)}:
                family, _, name = resource.partition("/")
                yield f"job/{name}" if family == "dispatch" else resource
            case {"issue_id": str(issue_id)} | {"section_id": str(issue_id)}:
                yield issue_resource(issue_id)
            case {"job_id": str(job_id)}:
                yield job_resource(job_id)
            case {"spec_id": str(spec_id)}:
                yield f"spec/{spec_id}"
            case {"id": str(issue_id)} if str(change.get("change", "")).startswith("issue."):
                yield issue_resource(issue_id)
            case _:
                pass


def _before(seq: int | None) -> int:
    return 2**62 if seq is None else seq
