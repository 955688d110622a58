"""Takes a journal from one engine to the other: the same rows, byte by byte, or nothing.

The source is held while it is read, so that no row follows the last one that is taken along.
Every row is held against the chain before it is written. The copy begins under an epoch of its
own, later than any that the source has given out.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import orjson

from ...contracts import Reason, limits
from . import journal_url
from .chain import chain_state, is_sound
from .journal import Head, Row, Snapshot, Storage, Unavailable
from .sqlite import SqliteJournal, flush_folder
from .state_dir import locked, make_folder, open_journal
from .state_files import IGNORED, JOURNAL, is_state_dir

_LOOK_SECONDS = 0.25
_PART = f"{JOURNAL}.part"

Progress = Callable[[int], None]


class Copied(NamedTuple):
    """What there is twice now."""

    head: Head
    epoch: int
    snapshot_seq: int


class Load(NamedTuple):
    """What an engine is to hold from the beginning."""

    node: str
    epoch: int  # later than those of all rows
    rows: Iterator[Row]
    snapshot: Callable[[], Snapshot | None]  # once the rows are through


def is_url(target: str) -> bool:
    return "://" in target


def copy(state_dir: Path, target: str, progress: Progress = lambda _: None) -> Copied:
    """Copy the journal of a state directory to an empty database, or to a new directory.

    `Unavailable` where an authority is at work here, where a journal is there already, and where
    a row is not what the row before it promises.
    """
    with _held(state_dir) as journal:
        chain = _Chain(journal, progress)
        load = Load(journal.node(), journal.epoch() + 1, chain.rows(), chain.snapshot)
        if is_url(target):
            journal_url.refuse_secret(target, "the URL")
            epoch = journal_url.engine().PostgresJournal.fill(journal_url.completed(target), load)
        else:
            epoch = _fill_folder(Path(target), load)
    saved = chain.snapshot()
    return Copied(chain.head, int(epoch), saved.head.seq if saved else 0)


@contextmanager
def _held(state_dir: Path) -> Iterator[Storage]:
    """The journal, while no authority can write to it."""
    with locked(state_dir), open_journal(state_dir, read_only=False) as journal:
        give_up = time.monotonic() + limits.LOCK_WAIT_MS / 1000
        while not journal.leads and journal.stand_in() is None:
            if time.monotonic() > give_up:
                raise Unavailable(Reason.AUTHORITY_STANDBY, journal.who())
            time.sleep(_LOOK_SECONDS)
        yield journal


class _Chain:
    """Rows on their way, each held against the one before it."""

    def __init__(self, journal: Storage, progress: Progress) -> None:
        self.head = Head()
        self._journal, self._progress = journal, progress
        found = journal.snapshot()
        self._snapshot = found if found is not None and found.sound else None
        self._fits = False

    def rows(self) -> Iterator[Row]:
        for row in self._journal.read():
            if problem := _broken(row, self.head):
                raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {self.head.seq + 1}: {problem}")
            self.head = Head(row.seq, row.digest, row.state_digest)
            self._fits |= self._snapshot is not None and self._snapshot.head == self.head
            self._progress(row.seq)
            yield row

    def snapshot(self) -> Snapshot | None:
        """One that is damaged, or of other rows, is left behind: it only saves some time."""
        return self._snapshot if self._fits else None


def _broken(row: Row, head: Head) -> str | None:
    if row.seq != head.seq + 1:
        return "it is missing"
    if not is_sound(row):
        return "its digest or stamp is not that of its effect"
    if orjson.loads(row.response)["effect"]["prev"] != head.digest:
        return "it is chained to another row"
    if chain_state(head.state_digest, row.changes) != row.state_digest:
        return "its changes are not those that its digest was made of"
    return None


def _fill_folder(folder: Path, load: Load) -> int:
    """A new state directory; a part that a killed move left behind is made anew."""
    if is_state_dir(folder):
        detail = f"{folder} has a journal already, and a copy needs a place of its own"
        raise Unavailable(Reason.STATE_DIR_DENIED, detail)
    fresh = not folder.exists()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        make_folder(folder)
        part = folder / _PART
        _remove(part)
        SqliteJournal.fill(part, load)
        part.rename(folder / JOURNAL)
        flush_folder(folder)
        flush_folder(folder.parent)
    except OSError as error:
        raise Unavailable(Reason.STATE_DIR_DENIED, f"{folder}: {error.strerror}") from error
    except BaseException:
        _remove(folder / _PART)
        with suppress(OSError):
            if fresh:
                (folder / IGNORED).unlink()
            folder.rmdir()  # unless there is more in it
        raise
    return load.epoch


def _remove(part: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        part.with_name(part.name + suffix).unlink(missing_ok=True)
