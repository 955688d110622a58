"""The embedded journal: SQLite through apsw, in WAL mode, with every commit on disk.

journal    one row per decided request
snapshot   at most one: the newest image of the state; a long one is in snapshot_piece, which is
           made when it is needed first, so that older versions find an image of nothing
meta       node, epoch, format version
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from ...contracts import Reason
from . import private
from .failpoint import failpoint
from .journal import Entry, Head, Packed, Row, Snapshot, Unavailable
from .state_files import TABLES

if TYPE_CHECKING:
    from .move import Load
    from .tables import Tables

_APPLICATION_ID = 0x75_6E_64_73  # "unds": `file` and we can tell the journal from other databases
_VERSION = 1
_PAGE_BYTES = 16_384  # half a dozen rows; with a row a page, the log is written out half empty
_LOG_PAGES = 512  # after which the log is folded into the database
_LOG_TURNS = 4  # so many times; then the writer waits until the log can begin anew

_SCHEMA = """
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    node TEXT NOT NULL,
    request BLOB NOT NULL,
    response BLOB NOT NULL,
    changes BLOB NOT NULL,
    digest TEXT NOT NULL,
    state_digest TEXT NOT NULL
) STRICT;
CREATE TABLE snapshot (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    seq INTEGER NOT NULL,
    digest TEXT NOT NULL,
    state_digest TEXT NOT NULL,
    image BLOB NOT NULL,
    image_digest TEXT NOT NULL
) STRICT;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
"""
_PIECES = """
CREATE TABLE IF NOT EXISTS snapshot_piece (number INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT
"""
_STARTS = """
CREATE TABLE IF NOT EXISTS epoch_start (
    epoch INTEGER PRIMARY KEY, after_seq INTEGER NOT NULL
) STRICT
"""
_HAS_TABLE = "SELECT count(*) FROM sqlite_schema WHERE name = ?"
_TYPES = (int, int, int, int, str, bytes, bytes, bytes, str, str)
_NEWEST = "SELECT value, (SELECT coalesce(max(seq), 0) FROM journal) FROM meta WHERE key = 'epoch'"
_COLUMNS = "seq, epoch, wall_ms, counter, node, request, response, changes, digest, state_digest"
_INSERT = f"INSERT INTO journal ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class SqliteJournal:
    """See `Journal` for the promises."""

    leads = True  # the holder of the folder's lock does
    post = None  # so there is no other to send errands to

    def __init__(self, path: Path, *, read_only: bool = False, lasting: bool = False) -> None:
        """A journal that is going to be used for long prepares its log."""
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        log = path.with_name(f"{path.name}-wal")
        left = log.stat().st_size if log.exists() else 0
        self.was_abandoned = left > 0  # closing a journal folds its log and removes it
        try:
            if self.was_abandoned and not read_only:
                _settle(log)
            elif lasting:
                _prepare(log)
            elif log.exists() and not read_only:
                flush_folder(path.parent)  # SQLite flushes the name of a log that it makes
            self._db = apsw.Connection(str(path), flags=flags)
            self._db.set_busy_timeout(5_000)
            self._check_format(path)
            # The log is folded while another thread appends, and a connection has one user.
            self._keeper = apsw.Connection(str(path), flags=flags)
            self._log_pages = self._folded_pages = 0
            self._takes_packed: bool | None = None  # not known before it is tried
            if not read_only:
                self._db.pragma("synchronous", "FULL")
                self._keeper.pragma("synchronous", "FULL")
                # SQLite would fold the log by itself, and not tell when it cannot.
                self._db.set_wal_hook(self._logged)
        except (apsw.Error, OSError, UnicodeEncodeError) as error:
            raise _unavailable(error, path) from error

    @classmethod
    def create(cls, path: Path, node: str) -> None:
        """Make an empty journal; an existing one is left alone."""
        try:
            str(path).encode()  # SQLite takes no other names
            private.touch(path)  # its log and its shared memory get the same mode from SQLite
            db = apsw.Connection(str(path))
        except (apsw.Error, UnicodeEncodeError) as error:
            raise _unavailable(error, path) from error
        try:
            db.set_busy_timeout(5_000)
            db.pragma("page_size", _PAGE_BYTES)
            db.pragma("journal_mode", "wal")
            with db:
                if db.pragma("user_version") == 0:
                    db.execute(_SCHEMA)
                    db.pragma("application_id", _APPLICATION_ID)
                    db.pragma("user_version", _VERSION)
                    meta = [("node", node), ("epoch", "0")]
                    db.executemany("INSERT INTO meta VALUES (?, ?)", meta)
        except apsw.Error as error:
            raise _unavailable(error, path) from error
        finally:
            db.close()

    @classmethod
    def fill(cls, path: Path, load: "Load") -> None:
        """Make a journal that holds what another one held; on disk when this returns."""
        cls.create(path, load.node)
        with _naming(Reason.JOURNAL_WRITE_FAILED), closing(apsw.Connection(str(path))) as db:
            db.pragma("synchronous", "FULL")
            with db:
                db.executemany(_INSERT, load.rows)
                db.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (str(load.epoch),))
                if (snapshot := load.snapshot()) is not None:
                    _put_snapshot(db, snapshot)
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def node(self) -> str:
        return self._meta("node")

    def epoch(self) -> int:
        return int(self._meta("epoch"))

    def acquire_epoch(self) -> int:
        with _naming(Reason.JOURNAL_WRITE_FAILED), self._db:
            epoch = self.epoch() + 1
            self._db.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (str(epoch),))
            self._db.execute(_STARTS)
            last = "SELECT ?, coalesce(max(seq), 0) FROM journal"
            self._db.execute(f"INSERT INTO epoch_start {last}", (epoch,))
        return epoch

    def epoch_starts(self) -> list[tuple[int, int]]:
        with _naming(Reason.JOURNAL_CORRUPT):
            if not self._db.execute(_HAS_TABLE, ("epoch_start",)).get:
                return []
            found = self._db.execute("SELECT epoch, after_seq FROM epoch_start ORDER BY epoch")
            return [(int(epoch), int(after_seq)) for epoch, after_seq in found]

    def stand_in(self) -> int | None:
        return None

    def who(self) -> str:
        return "whoever has the lock"

    def confirm(self) -> None:
        """The lock is ours as long as we live."""

    def append(self, entries: Sequence[Entry], expected_seq: int, epoch: int) -> None:
        with _naming(Reason.JOURNAL_WRITE_FAILED):
            if self._log_pages >= _LOG_PAGES * _LOG_TURNS and _fold(self._db):
                self._log_pages = self._folded_pages = 0  # the next row begins it anew
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._refuse_strangers(expected_seq, epoch)
                failpoint("append.begun")
                self._insert(entries)
                failpoint("append.written")
                self._db.execute("COMMIT")
                failpoint("append.committed")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _insert(self, entries: Sequence[Entry]) -> None:
        rows: list[Row] = []
        for entry in entries:
            if isinstance(entry, Row):
                rows.append(entry)
                continue
            self._db.executemany(_INSERT, rows)
            rows.clear()
            self._insert_packed(entry)
        self._db.executemany(_INSERT, rows)

    def _insert_packed(self, packed: Packed) -> None:
        """In C, where SQLite takes extensions; a row then costs no object of Python."""
        if self._takes_packed is None:
            self._takes_packed = _load_extension(self._db, packed.library)
        if not self._takes_packed:
            self._db.executemany(_INSERT, packed.rows())
            return
        values = (_INSERT, packed.table, packed.text, packed.epoch, packed.node)
        self._db.execute("SELECT us_append(?, ?, ?, ?, ?)", values)

    def read(self, after_seq: int = 0) -> Iterator[Row]:
        query = f"SELECT {_COLUMNS} FROM journal WHERE seq > ? ORDER BY seq"
        with _naming(Reason.JOURNAL_CORRUPT):
            for values in self._db.execute(query, (after_seq,)):
                yield _row(values)

    def rows(self, after_seq: int, count: int) -> list[Row]:
        """At most so many rows, read at once: a long read keeps the log from being folded."""
        query = f"SELECT {_COLUMNS} FROM journal WHERE seq > ? ORDER BY seq LIMIT ?"
        with _naming(Reason.JOURNAL_CORRUPT):
            return [_row(values) for values in self._db.execute(query, (after_seq, count))]

    def flush(self) -> None:
        """Put on disk what can be read here; its writer may not have lived to flush it."""
        path = Path(self._db.filename)
        for each in (path, path.with_name(f"{path.name}-wal")):
            with suppress(FileNotFoundError):
                handle = os.open(each, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    def row(self, seq: int) -> Row | None:
        query = f"SELECT {_COLUMNS} FROM journal WHERE seq = ?"
        with _naming(Reason.JOURNAL_CORRUPT):
            values = self._db.execute(query, (seq,)).fetchone()
        return None if values is None else _row(values)

    def last_seq(self) -> int:
        with _naming(Reason.JOURNAL_CORRUPT):
            return int(self._db.execute("SELECT coalesce(max(seq), 0) FROM journal").get)

    def snapshot(self) -> Snapshot | None:
        query = "SELECT seq, digest, state_digest, image, image_digest FROM snapshot"
        with _naming(Reason.JOURNAL_CORRUPT), self._db:  # one moment for all that is read
            found = self._db.execute(query).fetchone()
            if found is None:
                return None
            values: tuple[Any, ...] = found
            if values[3] == b"" and self._db.execute(_HAS_TABLE, ("snapshot_piece",)).get:
                pieces = self._db.execute("SELECT data FROM snapshot_piece ORDER BY number")
                values = (*values[:3], b"".join(data for (data,) in pieces), values[4])
        if tuple(map(type, values)) != (int, str, str, bytes, str):
            raise Unavailable(Reason.JOURNAL_CORRUPT, "a column of the snapshot has another type")
        return Snapshot(Head(*values[:3]), values[3], values[4])

    def put_snapshot(self, snapshot: Snapshot) -> None:
        with _naming(Reason.JOURNAL_WRITE_FAILED), self._db:
            failpoint("snapshot.begun")
            _put_snapshot(self._db, snapshot)

    def tables(self, folder: Path) -> "Tables":
        """They are a file of the folder."""
        from .tables import Tables

        return Tables(folder / TABLES)

    def tidy(self) -> None:
        pages = self._log_pages
        if pages - self._folded_pages >= _LOG_PAGES and pages < _LOG_PAGES * _LOG_TURNS:
            with _naming(Reason.JOURNAL_WRITE_FAILED):
                _fold(self._keeper)
            self._folded_pages = pages

    def close(self) -> None:
        self._keeper.close()
        self._db.close()

    def _logged(self, db: apsw.Connection, name: str, pages: int) -> int:  # noqa: ARG002 - SQLite's hook
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _meta(self, key: str) -> str:
        with _naming(Reason.JOURNAL_CORRUPT):
            return str(self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).get)

    def _refuse_strangers(self, expected_seq: int, epoch: int) -> None:
        newest, last = self._db.execute(_NEWEST).get
        if int(newest) != epoch:
            raise Unavailable(Reason.JOURNAL_DEPOSED, f"epoch {epoch}")
        if last != expected_seq:
            raise Unavailable(Reason.JOURNAL_DEPOSED, f"row {last} instead of {expected_seq}")

    def _check_format(self, path: Path) -> None:
        found = (self._db.pragma("application_id"), self._db.pragma("user_version"))
        if found == (0, 0) and not self._db.execute("SELECT count(*) FROM sqlite_schema").get:
            detail = f"{path} is empty (an `understudy init` that was cut short can be run again)"
            raise Unavailable(Reason.JOURNAL_CORRUPT, detail)
        if found != (_APPLICATION_ID, _VERSION):
            raise Unavailable(Reason.JOURNAL_CORRUPT, f"{path}: format {found}")


def _put_snapshot(db: apsw.Connection, snapshot: Snapshot) -> None:
    pieces = snapshot.pieces
    if pieces:
        db.execute(_PIECES)
    if db.execute(_HAS_TABLE, ("snapshot_piece",)).get:
        db.execute("DELETE FROM snapshot_piece")
    for number, data in enumerate(pieces):
        db.execute("INSERT INTO snapshot_piece VALUES (?, ?)", (number, data))
    db.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?, ?, ?)", snapshot.values)


def _settle(log: Path) -> None:
    """Write a log over itself and flush it, so that what we are going to read from it is safe.

    What a killed process wrote may be in the system's memory only, and what a process failed to
    flush can be read for a while, and no later flush writes it.
    """
    handle = os.open(log, os.O_RDWR)
    try:
        offset = 0
        while data := os.pread(handle, 1_048_576, offset):
            offset += os.pwrite(handle, data, offset)
        os.fsync(handle)
    finally:
        os.close(handle)
    flush_folder(log.parent)


def _prepare(log: Path) -> None:
    """Give a log its size ahead of use: to flush bytes takes less time where no file grows.

    Zeros are no frames, so that to SQLite the log is empty.
    """
    handle = private.opener(log, os.O_RDWR | os.O_CREAT)
    try:
        for turn in range(_LOG_TURNS):
            zeros = bytes(_PAGE_BYTES * _LOG_PAGES)
            os.pwrite(handle, zeros, turn * len(zeros))
        os.fsync(handle)
    except OSError:  # it will grow where there is room
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)
    flush_folder(log.parent)


def _load_extension(db: apsw.Connection, library: str) -> bool:
    """Teach SQLite `us_append`; False where it was built without extensions."""
    try:
        db.enable_load_extension(enable=True)
        try:
            db.load_extension(library, "us_sqlite_init")
        finally:
            db.enable_load_extension(enable=False)
    except (apsw.ExtensionLoadingError, AttributeError):  # built without
        return False
    return True


def flush_folder(folder: Path) -> None:
    """Make the names in a folder outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fold(db: apsw.Connection) -> bool:
    """Write the log into the database; False where another connection is at it."""
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.BusyError:
        return False
    return True


@contextmanager
def _naming(reason: Reason) -> Iterator[None]:
    """What SQLite raises, as a failure with a class. Damage is damage, for readers too."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, UnicodeDecodeError) as error:
        raise Unavailable(Reason.JOURNAL_CORRUPT, str(error)) from error
    except apsw.Error as error:
        raise Unavailable(reason, str(error)) from error


def _row(values: tuple[object, ...]) -> Row:
    if tuple(map(type, values)) != _TYPES:
        # SQLite checks types when it writes; bits that flip later are found here.
        raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {values[0]}: a column has another type")
    return Row(*values)  # type: ignore[arg-type]  # just checked


def _unavailable(error: apsw.Error | OSError | UnicodeEncodeError, path: Path) -> Unavailable:
    denied = (
        apsw.CantOpenError
        | apsw.ReadOnlyError
        | apsw.PermissionsError
        | PermissionError
        | UnicodeEncodeError
    )
    if isinstance(error, denied):
        return Unavailable(Reason.STATE_DIR_DENIED, f"{path}: {error}")
    if isinstance(error, apsw.FullError | apsw.IOError | OSError):
        return Unavailable(Reason.JOURNAL_WRITE_FAILED, f"{path}: {error}")
    return Unavailable(Reason.JOURNAL_CORRUPT, f"{path}: {error}")
