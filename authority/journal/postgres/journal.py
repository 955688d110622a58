"""The journal itself: rows under one epoch, and who is the one that writes them.

    journal    one row per decided request, as in SQLite; rows are added, and nothing else
    snapshot   at most one: the newest image of the state; a long one is in snapshot_piece
    head       format version, node, epoch, and who is active, with a beat that counts up

A batch is one statement, which the server ends by itself: no lock ever waits for a client, however
that ends. A trigger lets rows in under the newest epoch and behind the last row only.

    I1  The database refuses a writer without the newest epoch. Nothing is checked ahead of it.
    I2  When a connection is lost, whatever was in flight is settled by a new epoch: what it has
        not written before, it can write no more. Only then is it looked for.
    I3  The active one knows until when no other can have become active, and answers nothing
        later without asking.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg

from ....contracts import Reason
from ..failpoint import failpoint
from ..journal import Entry, Head, Row, Snapshot, Unavailable, unpacked
from ..journal_url import JournalUrl
from ..relay_message import Errand, RelayReply, TakenErrand, reason_of
from .inbox import REPLY, PostgresInbox, columns
from .link import ANSWER_SECONDS, Link, Lost, connect, noticing, now_s
from .messenger import PostgresMessenger
from .migration import STEPS, migrate, version
from .pulse import BEAT, HOLD_MS, LAPSE_MS, Pulse
from .tables import PostgresTables

if TYPE_CHECKING:
    from ..move import Load

_RETRY_SECONDS = 30.0  # how long an active one waits for a database that is lost
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.02, 1.0  # between two tries
_READ_ROWS = 1_000  # at once
_IMAGE_BYTES_PER_SECOND = 10_000_000  # at the least
_REFUSED = "UD001"  # the trigger's own error
_COLUMNS = "seq, epoch, wall_ms, counter, node, request, response, changes, digest, state_digest"
_INSERT = f"""
INSERT INTO journal ({_COLUMNS})
SELECT seq, %s, wall_ms, counter, node, request, response, changes, digest, state_digest
FROM unnest(%b::int8[], %b::int8[], %b::int8[], %b::text[], %b::bytea[], %b::bytea[], %b::bytea[],
            %b::text[], %b::text[])
     AS fresh(seq, wall_ms, counter, node, request, response, changes, digest, state_digest)
"""
_INSERT_WITH_REPLIES = f"WITH said AS ({REPLY}) {_INSERT}"
_FILL = f"""
INSERT INTO journal ({_COLUMNS})
SELECT * FROM unnest(%b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::text[], %b::bytea[],
                     %b::bytea[], %b::bytea[], %b::text[], %b::text[])
"""
_FILL_ROWS = 500  # at once
_LAST = "SELECT coalesce(max(seq), 0) FROM journal"
_SNAPSHOT = """
INSERT INTO snapshot (seq, digest, state_digest, image, image_digest) VALUES (%s, %s, %s, %b, %s)
ON CONFLICT (one) DO UPDATE
SET (seq, digest, state_digest, image, image_digest)
    = (excluded.seq, excluded.digest, excluded.state_digest, excluded.image, excluded.image_digest)
"""
_TAKE = "UPDATE head SET epoch = epoch + 1, beat = beat + 1, holder = %s, home = %s, place = %s"
_Found = TypeVar("_Found")


class PostgresStanding(NamedTuple):
    """Who is active: the newest epoch, where its holder is, and how far its beat is."""

    epoch: int
    holder: str | None
    home: str | None
    place: str | None
    beat: int


class PostgresJournal:
    """See `Journal` for the promises."""

    def __init__(
        self,
        place: JournalUrl,
        *,
        read_only: bool = False,
        lasting: bool = False,
        home: str | None = None,
    ) -> None:
        """The holder of a folder's lock says which: no other authority at that home is alive."""
        self._place, self._read_only, self._home = place, read_only, home
        # It is unknown whether the last one here lost power; one command does not ask.
        self.was_abandoned = lasting or read_only
        self._lock = threading.RLock()  # one at a time; the trajectory is written by a thread
        self._me = secrets.token_hex(8)
        self._since: int | None = None  # the first of our epochs in unbroken succession
        self._epoch = 0  # the last of them
        self._confirmed_s = 0.0  # until when no other can be active (I3)
        self._deposed: str | None = None
        self._pulse: Pulse | None = None
        self._enclosed: Sequence[RelayReply] = ()
        self._errand_numbers = count(1)
        self._db = self._connected()
        try:
            self._node = str(self._one("SELECT node FROM head")[0])
            self._seen = self.standing(), now_s()  # and since when
        except BaseException:
            self._db.close()
            raise

    @classmethod
    def create(cls, place: JournalUrl, node: str) -> bool:
        """Make an empty journal; an existing one is brought to this version. Whether it is new."""
        with _naming(Reason.JOURNAL_WRITE_FAILED), closing(connect(place)) as db:
            return migrate(db, place.schema, node)

    @classmethod
    def fill(cls, place: JournalUrl, load: "Load") -> int:
        """Make a journal that holds what another one held, or none; its epoch.

        Rows keep the epochs that they were written under, so the trigger that lets in the newest
        one only is off as long as no other connection sees the table.
        """
        with (
            _naming(Reason.JOURNAL_WRITE_FAILED),
            closing(connect(place)) as db,
            db.transaction(),
        ):
            migrate(db, place.schema, load.node)
            epoch = _refuse_occupied(db, place)
            db.execute("ALTER TABLE journal DISABLE TRIGGER refuse_strangers")
            rows = iter(load.rows)
            while part := list(islice(rows, _FILL_ROWS)):
                db.execute(_FILL, tuple(map(list, zip(*part, strict=True))))
            db.execute("ALTER TABLE journal ENABLE TRIGGER refuse_strangers")
            snapshot = load.snapshot()
            if snapshot is not None:
                _put_snapshot(db, snapshot)
            epoch = max(epoch + 1, load.epoch)
            db.execute("UPDATE head SET node = %s, epoch = %s", (load.node, epoch))
        return epoch

    def node(self) -> str:
        return self._node

    def epoch(self) -> int:
        return self.standing().epoch

    # --- rows ---------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry], expected_seq: int, epoch: int) -> None:
        rows = list(unpacked(entries))
        failpoint("append.begun")
        with self._lock, _naming(Reason.JOURNAL_WRITE_FAILED):
            ours = self._since is not None and self._since <= epoch <= self._epoch
            try:
                self._insert(rows, self._epoch if ours else epoch, expected_seq)
            except Lost as error:
                if not ours:
                    raise Unavailable(Reason.JOURNAL_UNREACHABLE, str(error)) from error
                self._again(error, lambda: self._settled(rows, expected_seq))
        self._enclosed = ()
        failpoint("append.committed")

    def _insert(self, rows: Sequence[Row], epoch: int, expected_seq: int) -> None:
        seqs, _, *cells = zip(*rows, strict=True)
        try:
            with noticing(self._db):
                values = (epoch, list(seqs), *map(list, cells))
                if self._enclosed:
                    values = (*columns(self._enclosed), *values)
                    self._db.execute(_INSERT_WITH_REPLIES, values, prepare=True)
                else:
                    self._db.execute(_INSERT, values, prepare=True)
        except psycopg.errors.UniqueViolation as error:
            standing, (last,) = self.standing(), self._one(_LAST)
            if (standing.epoch, last) != (epoch, expected_seq):
                detail = f"epoch {epoch}, row {last} instead of {expected_seq}"
                raise Unavailable(Reason.JOURNAL_DEPOSED, detail) from error
            raise
        except psycopg.Error as error:
            if error.sqlstate == _REFUSED:
                detail = str(error).splitlines()[0]
                raise Unavailable(Reason.JOURNAL_DEPOSED, detail) from error
            raise

    def _settled(self, rows: Sequence[Row], expected_seq: int) -> None:
        """Find out what became of rows, on a fresh connection; write them if nothing did (I2)."""
        where = " WHERE holder = %s RETURNING epoch"
        taken = self._maybe(_TAKE + where, (*self._names, self._me))
        if taken is None:
            raise self._depose(f"after row {expected_seq}")
        self._epoch = int(taken[0])
        found = self._maybe("SELECT digest FROM journal WHERE seq = %s", (rows[-1].seq,))
        if found is None:
            self._insert(rows, self._epoch, expected_seq)
        elif found[0] != rows[-1].digest:
            raise Unavailable(Reason.JOURNAL_DEPOSED, f"row {rows[-1].seq} is another one")

    def read(self, after_seq: int = 0) -> Iterator[Row]:
        while rows := self.rows(after_seq, _READ_ROWS):
            yield from rows
            after_seq = rows[-1].seq

    def rows(self, after_seq: int, count: int) -> list[Row]:
        """At most so many rows."""
        query = f"SELECT {_COLUMNS} FROM journal WHERE seq > %s ORDER BY seq LIMIT %s"
        return [Row(*values) for values in self._all(query, (after_seq, count))]

    def row(self, seq: int) -> Row | None:
        query = f"SELECT {_COLUMNS} FROM journal WHERE seq = %s"
        return next((Row(*values) for values in self._all(query, (seq,))), None)

    def last_seq(self) -> int:
        return int(self._one(_LAST)[0])

    def snapshot(self) -> Snapshot | None:
        found = self._maybe("SELECT seq, digest, state_digest, image, image_digest FROM snapshot")
        if found is None:
            return None
        head, image, digest = Head(*found[:3]), found[3], found[4]
        if image == b"" and self._one("SELECT to_regclass('snapshot_piece') IS NOT NULL")[0]:
            # Pieces that are replaced meanwhile make an image that is not sound, and costs time.
            pieces = self._all("SELECT data FROM snapshot_piece ORDER BY number")
            image = b"".join(data for (data,) in pieces)
        return Snapshot(head, image, digest)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        failpoint("snapshot.begun")

        def put() -> None:
            with noticing(self._db), self._db.transaction():
                _put_snapshot(self._db, snapshot)

        with self._lock, _naming(Reason.JOURNAL_WRITE_FAILED):
            try:
                put()
            except Lost as error:
                self._again(error, put)

    # --- errands ------------------------------------------------------------------------------

    @property
    def post(self) -> "PostgresJournal":
        """An authority that reaches the journal can hand errands to the active one."""
        return self

    def messenger(self, deliver: Callable[[Errand], None]) -> PostgresMessenger:
        return PostgresMessenger(self._place, self._me, self._errand_numbers, self.who, deliver)

    def inbox(
        self, take: Callable[[list[TakenErrand]], None], *, frozen_clock: bool
    ) -> PostgresInbox:
        return PostgresInbox(self._place, self._me, take, frozen_clock=frozen_clock)

    def enclose(self, replies: Sequence[RelayReply]) -> None:
        """They are in the statement of the rows, and so there or not there together with them."""
        self._enclosed = replies

    def settle(self, errands: Sequence[Errand]) -> None:
        """Nothing is committed behind our epoch: what has no reply by now was not done."""
        query = "SELECT number, reason, lines FROM reply WHERE asker = %s"
        replies = {number: said for number, *said in self._all(query, (self._me,))}
        query = "DELETE FROM errand WHERE asker = %s RETURNING number"
        undone = {number for (number,) in self._all(query, (self._me,))}
        for errand in errands:
            if errand.is_whole or errand.number is None:
                continue
            reason, lines = replies.get(errand.number, (None, b""))
            known = reason_of(reason)
            if known is not None:
                errand.refuse(known, "the active authority did not read it")
            elif not errand.fill(lines) and errand.number not in undone:
                errand.doubt("it was handed over, and the database has lost it")

    def settings(self, names: Sequence[str]) -> dict[str, str]:
        """How the server is set up for its clients, for people."""
        query = "SELECT name, reset_val FROM pg_settings WHERE name = ANY(%s)"
        return dict(self._all(query, (list(names),)))

    def tables(self, folder: Path) -> PostgresTables:  # noqa: ARG002 - they are not there
        """They are in the journal's schema, and written under the epoch that is ours then."""
        return PostgresTables(self._place, lambda: self._epoch)

    def flush(self) -> None:
        """What can be read here is on the server's disk."""

    def tidy(self) -> None:
        """The server does it by itself."""

    def close(self) -> None:
        """Let go; a standby may take over at once."""
        if self._pulse is not None:
            self._pulse.stop()
        with self._lock, suppress(psycopg.Error, Lost):
            if self.leads:
                self._db.execute("UPDATE head SET holder = NULL WHERE holder = %s", (self._me,))
        self._db.close()

    # --- who is active ------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether we have taken the journal over, and have not heard of anybody after us."""
        return self._since is not None and self._deposed is None

    def acquire_epoch(self) -> int:
        """Take over, even from one that is at work."""
        epoch = self._take(_TAKE + " RETURNING epoch")
        assert epoch is not None, "`head` has one row"
        return epoch

    def epoch_starts(self) -> list[tuple[int, int]]:
        with self._lock:
            rows = self._db.execute("SELECT epoch, after_seq FROM epoch_start ORDER BY epoch")
            return [(int(epoch), int(after_seq)) for epoch, after_seq in rows.fetchall()]

    def stand_in(self) -> int | None:
        """Take over if no authority is at work: our epoch. None where one is.

        One that ends well says so, and the one at our own home has ended. Of any other the
        beat stands still, by our own watch and for longer than it goes on without asking (I3).
        """
        standing = self.standing()
        if self._seen[0] != standing:
            self._seen = standing, now_s()
        waited_ms = (now_s() - self._seen[1]) * 1000
        is_free = standing.holder in (None, self._me) or (
            self._home is not None and standing.home == self._home
        )
        if not is_free and waited_ms <= LAPSE_MS:
            return None
        where = " WHERE (epoch, beat) = (%s, %s) RETURNING epoch"
        return self._take(_TAKE + where, standing.epoch, standing.beat)

    def confirm(self) -> None:
        """Return only while no other can be active; raise `Unavailable` where one is."""
        if self._since is None:
            return
        if self._deposed is not None:
            raise Unavailable(Reason.JOURNAL_DEPOSED, self._deposed)
        if now_s() < self._confirmed_s:
            return
        with self._lock:
            asked_s = now_s()
            self._beaten(asked_s, self._maybe(BEAT, (self._me,)) is not None)
        if self._deposed is not None:
            raise Unavailable(Reason.JOURNAL_DEPOSED, self._deposed)

    def _confirmed(self, asked_s: float) -> None:
        """The database has taken a beat that was sent then."""
        self._confirmed_s = asked_s + HOLD_MS / 1000

    def _depose(self, detail: str) -> Unavailable:
        self._deposed = detail
        return Unavailable(Reason.JOURNAL_DEPOSED, detail)

    def who(self) -> str:
        standing, _ = self._seen
        if standing.holder is None:
            return "nobody yet"
        return f"{standing.place}, epoch {standing.epoch}"

    def standing(self) -> PostgresStanding:
        """Who is active, as the database has it now."""
        return PostgresStanding(*self._one("SELECT epoch, holder, home, place, beat FROM head"))

    @property
    def _names(self) -> tuple[str, str | None, str]:
        return self._me, self._home, f"{socket.gethostname()}, process {os.getpid()}"

    def _take(self, query: str, *values: object) -> int | None:
        asked_s = now_s()
        taken = self._maybe(query, (*self._names, *values))
        if taken is None:
            return None
        self._since = self._epoch = int(taken[0])
        self._deposed = None
        self._confirmed(asked_s)
        if self._pulse is None:
            self._pulse = Pulse(self._place, self._me, self._beaten)
        return self._epoch

    def _beaten(self, asked_s: float, is_ours: bool) -> None:
        if is_ours:
            self._confirmed(asked_s)
        else:
            self._depose(f"epoch {self._epoch}")

    # --- the connection -----------------------------------------------------------------------

    def _connected(self) -> Link:
        db = connect(self._place)
        try:
            with _naming(Reason.JOURNAL_UNREACHABLE):
                self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: Link) -> None:
        found = version(db)
        if found == 0:
            detail = f"there is no journal in {self._place}"
            raise Unavailable(Reason.STATE_DIR_MISSING, detail)
        if self._read_only:
            db.execute("SET default_transaction_read_only = on")
        elif found < len(STEPS):
            migrate(db, self._place.schema, "")

    def _all(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What the database says, now or after it was lost for a while; safe to ask twice."""

        def ask() -> list[tuple[Any, ...]]:
            with noticing(self._db):
                cursor = self._db.execute(query, values, binary=True)
                return cursor.fetchall() if cursor.description else []

        with self._lock, _naming(Reason.JOURNAL_WRITE_FAILED):
            try:
                return ask()
            except Lost as error:
                return self._again(error, ask)

    def _maybe(self, query: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        return next(iter(self._all(query, values)), None)

    def _one(self, query: str) -> tuple[Any, ...]:
        found = self._maybe(query)
        if found is None:
            raise Unavailable(Reason.JOURNAL_CORRUPT, f"{self._place}: `head` is empty")
        return found

    def _again(self, cause: Exception, ask: Callable[[], _Found]) -> _Found:
        """Connect anew and ask once more; the active authority goes on with that for a while."""
        give_up = time.monotonic() + (_RETRY_SECONDS if self.leads else 0)
        pause = _PAUSE_SECONDS
        while True:
            self._db.close()
            try:
                self._db = self._connected()
                return ask()
            except (Lost, Unavailable) as error:
                if isinstance(error, Unavailable) and error.reason is not _UNREACHABLE:
                    raise
                cause = error
            if time.monotonic() >= give_up:
                raise Unavailable(_UNREACHABLE, f"{self._place}: {cause}") from cause
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)


_UNREACHABLE = Reason.JOURNAL_UNREACHABLE


def _put_snapshot(db: Link, snapshot: Snapshot) -> None:
    """In the caller's transaction."""
    db.answer_seconds = ANSWER_SECONDS + len(snapshot.image) / _IMAGE_BYTES_PER_SECOND
    try:
        db.execute("DELETE FROM snapshot_piece")
        for numbered in enumerate(snapshot.pieces):
            db.execute("INSERT INTO snapshot_piece VALUES (%s, %b)", numbered)
        db.execute(_SNAPSHOT, snapshot.values)
    finally:
        db.answer_seconds = ANSWER_SECONDS


def _refuse_occupied(db: Link, place: JournalUrl) -> int:
    """The epoch of a journal without a row; none is written while we look."""
    db.execute("LOCK TABLE journal IN SHARE ROW EXCLUSIVE MODE")
    found = db.execute(f"SELECT epoch, holder, place, ({_LAST}) FROM head FOR UPDATE").fetchone()
    assert found is not None, "`head` has one row"
    epoch, holder, who, last = found
    if last:
        detail = f"{place} has {last} rows already, and a copy needs a place of its own"
        raise Unavailable(Reason.JOURNAL_URL_INVALID, detail)
    if holder is not None:
        raise Unavailable(Reason.AUTHORITY_BUSY, f"{who} is active in {place}")
    return int(epoch)


@contextmanager
def _naming(reason: Reason) -> Iterator[None]:
    """What PostgreSQL says no with, as a failure with a class."""
    try:
        yield
    except psycopg.Error as error:
        raise Unavailable(reason, str(error).strip()) from error
