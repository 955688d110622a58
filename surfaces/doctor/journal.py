"""Checks of what is written in a state directory: the journal, its evidence, its tables.

A process that opens a journal in WAL mode leaves files beside it, even to read. So one that is not
open is read as if it could not change, and the look is void if it did. What a writer left behind
is read as any command reads it; SQLite's shared memory (`-shm`) may be made anew by that.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import orjson

from ...authority import (
    GENESIS,
    TABLES,
    TRAJECTORY,
    Storage,
    Unavailable,
    open_journal,
)
from ...authority.engine import engine
from ...authority.journal import sqlite, state_files
from ...authority.views import high_water, replay, trajectory
from ...contracts import Reason, limits
from .finding import DoctorFinding
from .folder import holder_of

_LOOKS_MAX = 3
_TAIL_BYTES = 262_144  # more than a line of evidence has
_RESTORE = "keep a copy; `understudy replay` names the first bad row; restore from a backup"
_NEWER = "the journal lost rows, as an old backup does: find the newer one"
_REBUILD = "`understudy rebuild` makes it anew from the journal"
_READ = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


class StillJournal(sqlite.SqliteJournal):
    """A journal that is not written, opened without a trace."""

    def __init__(self, path: Path) -> None:
        uri = f"file:{quote(os.fsencode(path.absolute()))}?immutable=1"
        self._db = apsw.Connection(uri, flags=_READ)
        try:
            self._check_format(path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._db.close()


def written(folder: Path) -> Iterator[DoctorFinding]:
    """Everything that lies in the state directory, looked at as one."""
    for _ in range(_LOOKS_MAX):
        before = _moment(folder)
        found = list(_looked(folder))
        if _moment(folder) == before or holder_of(folder) is not None:
            break
    yield from found


def _moment(folder: Path) -> tuple[int, int]:
    found = (folder / state_files.JOURNAL).stat()
    return found.st_mtime_ns, found.st_size


def _looked(folder: Path) -> Iterator[DoctorFinding]:
    log, memory = (folder / f"{state_files.JOURNAL}{suffix}" for suffix in ("-wal", "-shm"))
    if log.exists() and log.stat().st_size and not memory.exists():
        words = f"{log.name} is there and {memory.name} is not, as in a copy; it was not looked at"
        remedy = "the next command that writes takes the log in; then look again"
        yield DoctorFinding("journal", "note", words, remedy)
        return
    busy = holder_of(folder) is not None
    known = high_water.high_water_marks(folder)  # first: they are never ahead of the journal
    evidence = end_of(folder / TRAJECTORY)
    try:
        with _opened(folder, still=not log.exists()) as journal:
            yield from recovered(journal, log)
            yield from rewound(journal, known)
            yield followed(journal, evidence, busy=busy)
            head_seq = journal.last_seq()
    except Unavailable as error:
        is_denied = error.reason is Reason.STATE_DIR_DENIED  # its words say what to do
        advice = None if is_denied else _RESTORE
        yield DoctorFinding("journal", "problem", str(error), advice, error.reason.wire)
    except (apsw.Error, ValueError, LookupError, TypeError) as error:
        words, failure = f"it cannot be read: {error}", Reason.JOURNAL_CORRUPT.wire
        yield DoctorFinding("journal", "problem", words, _RESTORE, failure)
    else:
        yield shown(folder / TABLES, head_seq, busy=busy)


@contextmanager
def _opened(folder: Path, *, still: bool) -> Iterator[Storage]:
    if still:
        with closing(StillJournal(folder / state_files.JOURNAL)) as journal:
            yield journal
    else:
        with open_journal(folder, read_only=True) as journal:
            yield journal


# --- the journal ----------------------------------------------------------------------------------


def recovered(journal: Storage, log: Path | None = None) -> Iterator[DoctorFinding]:
    """What a start would meet: the newest snapshot, and every row after it."""
    snapshot = journal.snapshot()
    _, head, last = engine.recover(journal)
    saved = snapshot.head.seq if snapshot is not None and snapshot.sound else 0
    unfolded = log.stat().st_size if log is not None and log.exists() else 0
    facts: dict[str, Any] = {
        "rows": head.seq,
        "head": head.digest,
        "stateDigest": head.state_digest,
        "node": journal.node(),
        "epoch": journal.epoch(),
        "snapshotSeq": saved,
        "logBytes": unfolded,
    }
    words = f"{head.seq} rows, the last is {head.digest}"
    if unfolded:
        words += f"; {unfolded} bytes of its log are still to be folded in"
    yield DoctorFinding("journal", "ok", words, facts=facts)
    yield _snapshot(snapshot is not None and not snapshot.sound, head.seq, saved)
    yield _clock(last.wall_ms if last is not None else 0)


def _snapshot(damaged: bool, rows: int, saved: int) -> DoctorFinding:
    facts = {"seq": saved, "rowsSince": rows - saved}
    if damaged:
        words = "it is damaged, and not used; every start folds all rows"
        remedy = "nothing to do: the next one replaces it"
        return DoctorFinding("snapshot", "note", words, remedy, facts=facts)
    words = f"{rows - saved} rows are younger than the newest"
    if rows - saved > limits.SNAPSHOT_ROWS_MAX:
        remedy = "starts are slow: run a sidecar for a moment, and stop it with SIGTERM"
        return DoctorFinding("snapshot", "note", words, remedy, facts=facts)
    return DoctorFinding("snapshot", "ok", words, facts=facts)


def _clock(wall_ms: int) -> DoctorFinding:
    """Stamps never go back; a journal from the future makes leases last longer."""
    ahead_ms = wall_ms - time.time_ns() // 1_000_000
    facts = {"lastWallMs": wall_ms, "aheadMs": max(0, ahead_ms)}
    if ahead_ms <= limits.CLOCK_DRIFT_MS_MAX:
        return DoctorFinding("clock", "ok", "it is not behind the journal's", facts=facts)
    words = f"it is {ahead_ms / 1000:.0f} s behind the journal's last row"
    remedy = "set the clock right; until then no lease runs out"
    return DoctorFinding("clock", "note", words, remedy, facts=facts)


def rewound(journal: Storage, known: dict[str, int]) -> Iterator[DoctorFinding]:
    """Whether the journal ends before a row that was answered; other checks ask other files."""
    seq, head_seq = known.get(state_files.ANSWERED, 0), journal.last_seq()
    if seq > head_seq:
        words = f"row {seq} was answered here, and the journal ends with row {head_seq}"
        failure = Reason.TRAJECTORY_MISMATCH.wire
        facts = {"answeredSeq": seq, "rows": head_seq}
        yield DoctorFinding("journal", "problem", words, _NEWER, failure, facts)


def every_row(folder: Path) -> Iterator[DoctorFinding]:
    """Decide every row again, and hold it against its evidence; whoever is at work may be ahead."""
    with open_journal(folder, read_only=True) as journal:
        replayed = replay.replay(journal)
        seen, differs = trajectory.verify(folder / TRAJECTORY, journal)
        is_behind = seen < journal.last_seq() and holder_of(folder) is not None
    if replayed.mismatch is not None:
        failure = Reason.REPLAY_MISMATCH.wire
        yield DoctorFinding("rows", "problem", replayed.mismatch, _RESTORE, failure)
    elif differs is not None and not is_behind:
        failure = Reason.TRAJECTORY_MISMATCH.wire
        yield DoctorFinding("rows", "problem", differs, _REBUILD, failure)
    else:
        words = f"{replayed.rows} rows replay to the same bytes, and their evidence is theirs"
        yield DoctorFinding("rows", "ok", words, facts={"rows": replayed.rows})


# --- the trajectory -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EvidenceLook:
    """The end of the trajectory."""

    seq: int | None  # None: its last line is no evidence of ours
    digest: str
    torn: bool


def end_of(path: Path) -> EvidenceLook:
    whole, _, rest = _tail(path).rpartition(b"\n")
    last = whole.rpartition(b"\n")[2]
    if not last:
        return EvidenceLook(0, GENESIS, torn=bool(rest))
    try:
        step = orjson.loads(last)
        return EvidenceLook(int(step["effect"]["seq"]), str(step["digest"]), torn=bool(rest))
    except (ValueError, LookupError, TypeError):
        return EvidenceLook(None, "", torn=bool(rest))


def _tail(path: Path) -> bytes:
    """The end of a file, with a whole line in it, if there is one."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        wanted, tail = _TAIL_BYTES, b""
        while len(tail) < size and tail.count(b"\n") < 2:
            file.seek(max(0, size - wanted))
            tail = file.read(min(wanted, size))
            wanted *= 2
    return tail


def followed(journal: Storage, evidence: EvidenceLook, *, busy: bool) -> DoctorFinding:
    head_seq = journal.last_seq()
    behind = None if evidence.seq is None else head_seq - evidence.seq
    facts = {"seq": evidence.seq, "behind": behind, "torn": evidence.torn}
    failure = Reason.TRAJECTORY_MISMATCH.wire
    if evidence.seq is None:
        words = "its last line is none of ours"
        return DoctorFinding("trajectory", "problem", words, _REBUILD, failure, facts)
    if evidence.seq > head_seq:
        words = f"it knows row {evidence.seq}, and the journal ends with row {head_seq}"
        return DoctorFinding("trajectory", "problem", words, _NEWER, failure, facts)
    row = journal.row(evidence.seq) if evidence.seq else None
    if evidence.digest != (row.digest if row else GENESIS):
        words = f"row {evidence.seq} is another one there than in the journal"
        remedy = f"`understudy verify` finds the first that differs; {_REBUILD}"
        return DoctorFinding("trajectory", "problem", words, remedy, failure, facts)
    if busy:
        words = f"it is {behind} rows behind a process that is at work"
        return DoctorFinding("trajectory", "ok", words, facts=facts)
    if behind or evidence.torn:
        torn = ", and its last line is torn" if evidence.torn else ""
        remedy = "nothing to do: the next command that writes fills it in"
        return DoctorFinding(
            "trajectory", "note", f"it is {behind} rows behind{torn}", remedy, facts=facts
        )
    words = f"it ends where the journal ends; `understudy verify` looks at all {head_seq} lines"
    return DoctorFinding("trajectory", "ok", words, facts=facts)


# --- the tables -----------------------------------------------------------------------------------


def shown(path: Path, head_seq: int, *, busy: bool) -> DoctorFinding:
    """How far the SQL tables in a file are."""
    if not path.exists():
        facts = {"seq": 0, "behind": head_seq}
        return DoctorFinding("tables", "ok", "there are none yet", facts=facts)
    still = "" if path.with_name(f"{path.name}-wal").exists() else "?immutable=1"
    uri = f"file:{quote(os.fsencode(path.absolute()))}{still}"
    try:
        with closing(apsw.Connection(uri, flags=_READ)) as db:
            seq = int(db.execute("SELECT seq FROM watermark").get)
    except (apsw.Error, TypeError, ValueError) as error:
        if busy and isinstance(error, apsw.SQLError | apsw.BusyError):
            facts = {"seq": 0, "behind": head_seq}
            return DoctorFinding("tables", "ok", "the process at work is making them", facts=facts)
        return DoctorFinding("tables", "problem", f"they cannot be read: {error}", _REBUILD)
    return tables_at(seq, head_seq, busy=busy)


def tables_at(seq: int, head_seq: int, *, busy: bool) -> DoctorFinding:
    """The writer brings them up to date, while it runs and when it stops."""
    facts = {"seq": seq, "behind": head_seq - seq}
    if seq > head_seq and not busy:
        words = f"they show row {seq}, and the journal ends with row {head_seq}"
        return DoctorFinding("tables", "problem", words, _REBUILD, facts=facts)
    if busy:
        words = f"they show row {seq}, and follow when the process at work has time"
        return DoctorFinding("tables", "ok", words, facts=facts)
    if seq < head_seq:
        remedy = f"nothing to do: they follow when a command writes, or asks them; or {_REBUILD}"
        words = f"they are {head_seq - seq} rows behind"
        return DoctorFinding("tables", "note", words, remedy, facts=facts)
    return DoctorFinding("tables", "ok", "they show what the journal says", facts=facts)
