"""Takes errands in for the active authority, and writes out the replies that need no row.

    written --taken--> in hand --decided, with its reply--> done --> deleted

I1  An errand is handed in once while we live: it is known until its row is deleted.
I2  One that has a reply is not taken any more, nor one that is old: its asker has gone.
I3  A deposed authority takes nothing. What it has taken, its successor takes again.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

import psycopg

from ....contracts import Garbage, limits
from ..journal import Unavailable
from ..journal_url import JournalUrl
from ..relay_message import RelayReply, TakenErrand, unpacked
from .bell import Bell
from .link import Link
from .messenger import channel

_LOOK_SECONDS = 0.25  # between two looks without a ring
_SWEEP_SECONDS = 5.0
_GOODBYE_ROUNDS = 3
_TAKE = """
UPDATE errand SET taker = %(token)s
FROM (
    SELECT asker, number FROM errand AS found
    WHERE taker IS DISTINCT FROM %(token)s AND asker <> %(me)s
      AND written > clock_timestamp() - %(age_ms)s * interval '1 ms'
      AND NOT EXISTS (
          SELECT FROM reply WHERE (reply.asker, reply.number) = (found.asker, found.number)
      )
    ORDER BY place LIMIT %(room)s FOR UPDATE SKIP LOCKED
) AS next
WHERE (errand.asker, errand.number) = (next.asker, next.number)
  AND EXISTS (SELECT FROM head WHERE holder = %(me)s)
RETURNING place, errand.asker, errand.number,
          CASE WHEN octet_length(body) <= %(bytes_max)s THEN body END
"""
REPLY = """
INSERT INTO reply (asker, number, reason, lines)
SELECT * FROM unnest(%b::text[], %b::int8[], %b::int4[], %b::bytea[])
"""
_DONE = """
DELETE FROM errand USING unnest(%s::text[], %s::int8[]) AS done(asker, number)
WHERE (errand.asker, errand.number) = (done.asker, done.number)
"""
_SWEEP_ERRANDS = "DELETE FROM errand WHERE written < clock_timestamp() - %s * interval '1 ms'"
_SWEEP_REPLIES = "DELETE FROM reply WHERE written < clock_timestamp() - %s * interval '1 ms'"

_Key = tuple[str, int]


class PostgresInbox:
    """See `Inbox` for the promises."""

    def __init__(
        self,
        place: JournalUrl,
        me: str,
        take: Callable[[list[TakenErrand]], None],
        *,
        frozen_clock: bool,
    ) -> None:
        self._me, self._take, self._frozen_clock = me, take, frozen_clock
        self._bell = Bell(place, channel(place.schema))
        self._known: set[_Key] = set()  # the thread's alone, as is `_done`
        self._done: list[_Key] = []
        self._answered: deque[tuple[Sequence[RelayReply], bool]] = deque()
        self._owed_bytes = self._paid_bytes = 0  # of replies; each is counted in one thread
        self._swept_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inbox", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        return self._owed_bytes - self._paid_bytes > limits.REPLY_BYTES_MAX

    def answer(self, replies: Sequence[RelayReply], *, written: bool) -> None:
        if not written:
            self._owed_bytes += _size(replies)
        self._answered.append((replies, written))
        self._bell.ring()

    def close(self) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._bell.ring()
            self._thread.join()
            self._bell.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._try(self._round)
            self._bell.wait(_LOOK_SECONDS)
        for _ in range(_GOODBYE_ROUNDS):
            if self._answered or self._done:
                self._try(self._write)

    def _try(self, work: Callable[[Link], None]) -> None:
        try:
            work(self._bell.db())
        except (psycopg.Error, Unavailable):
            self._bell.hang_up()  # the next round connects again

    def _round(self, db: Link) -> None:
        self._write(db)
        has_heard, room = self._bell.heard, limits.ERRANDS_TAKEN_MAX - len(self._known)
        if room > 0 and has_heard:
            self._take_in(self._taken(db, room))
        if time.monotonic() > self._swept_s + _SWEEP_SECONDS:
            db.execute(_SWEEP_ERRANDS, (limits.ERRAND_AGE_MS,))
            db.execute(_SWEEP_REPLIES, (limits.REPLY_AGE_MS,))
            self._swept_s = time.monotonic()

    def _write(self, db: Link) -> None:
        """Replies first; only what was deleted is forgotten (I1). Done twice, it does no harm."""
        while self._answered:
            replies, written = self._answered[0]
            if not written:
                db.execute(REPLY, columns(replies))
                was_full = self.is_full
                self._paid_bytes += _size(replies)
                if was_full:
                    self._take([])  # to go on
            self._done += [(each.asker, each.number) for each in replies]
            self._answered.popleft()
        if self._done:
            askers, numbers = zip(*self._done, strict=True)
            db.execute(_DONE, (list(askers), list(numbers)), prepare=True)
            if len(self._known) >= limits.ERRANDS_TAKEN_MAX:
                self._bell.missed()
            self._known.difference_update(self._done)
            self._done = []

    def _taken(self, db: Link, room: int) -> list[tuple[str, int, bytes | None]]:
        values = {
            "token": f"{self._me}.{self._bell.connections}",
            "me": self._me,
            "age_ms": limits.ERRAND_AGE_MS,
            "room": room,
            "bytes_max": limits.ERRAND_BYTES_MAX,
        }
        found = db.execute(_TAKE, values, prepare=True, binary=True).fetchall()
        if len(found) == room:
            self._bell.missed()
        return [
            (asker, number, body) for _, asker, number, body in sorted(found, key=itemgetter(0))
        ]

    def _take_in(self, found: Iterable[tuple[str, int, bytes | None]]) -> None:
        taken: list[TakenErrand] = []
        for asker, number, body in found:
            if (asker, number) in self._known:
                continue
            self._known.add((asker, number))
            runs = unpacked(body, frozen_clock=self._frozen_clock)
            if isinstance(runs, Garbage):
                self._answered.append(([RelayReply(asker, number, runs.reason.value, b"")], False))
                self._bell.ring()
            else:
                taken.append(TakenErrand(asker, number, runs, sum(len(lines) for _, lines in runs)))
        if taken:
            self._take(taken)


def _size(replies: Sequence[RelayReply]) -> int:
    return sum(len(each.lines) for each in replies)


def columns(replies: Sequence[RelayReply]) -> tuple[list[object], ...]:
    """As `REPLY` takes them."""
    return tuple(list(column) for column in zip(*replies, strict=True))
