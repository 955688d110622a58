"""Carries a standby's errands to the active authority through two tables, and brings replies back.

    fresh --written--> waits --reply--> whole --in turn--> delivered
                         |--lost with the connection, or with the database--> fresh, or doubted
                         |--too late: it is not taken--> refused, and surely not done
                         |--too late: it is taken--> refused, or doubted

I1  Errands are delivered in the order in which they were sent, each once.
I2  Each is delivered a little after its patience at the latest, whatever the database does.
I3  What was written, and may still be read, is not written again, except for what can
    be asked twice.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import psycopg

from ....contracts import Reason, limits
from ..journal import Unavailable
from ..journal_url import JournalUrl
from ..relay_message import Errand, reason_of
from .bell import Bell
from .link import Link

_LOOK_SECONDS = 0.25  # between two looks without a ring
_IDLE_SECONDS = 60.0  # without a question
_WRITE = """
WITH read AS (DELETE FROM reply WHERE asker = %(me)s AND NOT number = ANY(%(kept)s))
INSERT INTO errand (asker, number, body)
SELECT %(me)s, number, body
FROM unnest(%(numbers)b::int8[], %(bodies)b::bytea[]) AS fresh(number, body)
"""
_READ = """
SELECT number, reason, lines FROM reply
WHERE asker = %s AND number = ANY(%s) AND octet_length(lines) <= %s ORDER BY number
"""
_FIND = """
SELECT number FROM errand WHERE asker = %(me)s UNION SELECT number FROM reply WHERE asker = %(me)s
"""
_WITHDRAW = """
DELETE FROM errand WHERE asker = %s AND number = ANY(%s) AND taker IS NULL RETURNING number
"""
_FORGET = "DELETE FROM errand WHERE asker = %s AND number = ANY(%s)"
_LEAVE = """
WITH read AS (DELETE FROM reply WHERE asker = %(me)s) DELETE FROM errand WHERE asker = %(me)s
"""


class PostgresMessenger:
    """See `Messenger` for the promises."""

    def __init__(
        self,
        place: JournalUrl,
        me: str,
        numbers: Iterator[int],
        who: Callable[[], str],
        deliver: Callable[[Errand], None],
    ) -> None:
        """`numbers` are those of `me`, of all its carriers: no errand gets one that another had."""
        self._me, self._numbers, self._who, self._deliver = me, numbers, who, deliver
        self._bell = Bell(place, channel(me))
        self._known_connection = 0
        self._mutex = threading.Lock()
        self._line: deque[Errand] = deque()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="messenger", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._line)

    def send(self, errand: Errand) -> None:
        with self._mutex:
            self._line.append(errand)
        self._bell.ring()

    def close(self) -> list[Errand]:
        """What is left stays in the database; the next active authority settles it."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._bell.ring()
            self._thread.join()
            self._bell.close()
        return self._errands()

    def leave(self) -> None:
        """As `close`, for who is not active and waits for nothing more: nothing stays."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._bell.ring()
            self._thread.join()
            with suppress(psycopg.Error, Unavailable):
                self._bell.db().execute(_LEAVE, {"me": self._me})
            self._bell.close()

    def _errands(self) -> list[Errand]:
        with self._mutex:
            return list(self._line)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._line:
                    self._round(self._bell.db(), has_heard=self._bell.heard)
            except (psycopg.Error, Unavailable):
                self._bell.hang_up()
                self._give_up()
            self._hand_over()
            if self._line:
                self._bell.wait(_LOOK_SECONDS)
            elif not self._bell.heard:
                self._bell.wait(_IDLE_SECONDS)

    def _round(self, db: Link, *, has_heard: bool) -> None:
        if self._known_connection != self._bell.connections:
            self._look_for(db, [each for each in self._errands() if each.number is not None])
            self._known_connection = self._bell.connections
        errands = self._errands()
        self._write(db, [each for each in errands if not each.is_whole and each.number is None])
        if has_heard:
            self._read(db, errands)
        if late := [each for each in errands if not each.is_whole and each.is_late]:
            self._withdraw(db, late)

    def _look_for(self, db: Link, errands: Sequence[Errand]) -> None:
        """On a new connection: what is neither asked nor answered there is lost (I3)."""
        found = {number for (number,) in db.execute(_FIND, {"me": self._me})}
        for errand in errands:
            if not errand.is_whole and errand.number not in found:
                errand.doubt("it was handed over, and the database has lost it")

    def _write(self, db: Link, errands: Sequence[Errand]) -> None:
        if not errands:
            return
        bodies = [each.body() for each in errands]
        for errand in errands:
            errand.number = next(self._numbers)
        values = {
            "me": self._me,
            "kept": _numbers(self._errands()),
            "numbers": _numbers(errands),
            "bodies": bodies,
        }
        db.execute(_WRITE, values, prepare=True)

    def _read(self, db: Link, errands: Sequence[Errand]) -> None:
        by_number = {each.number: each for each in errands if not each.is_whole and each.number}
        if not by_number:
            return
        values = (self._me, list(by_number), 2 * limits.REPLY_BYTES_MAX)
        for number, reason, lines in db.execute(_READ, values, prepare=True, binary=True):
            errand = by_number[number]
            known = reason_of(reason)
            if known is not None:
                errand.refuse(known, "the active authority did not read it")
            elif reason is None and not errand.is_whole:
                errand.fill(lines)  # what is no reply to it is ignored

    def _withdraw(self, db: Link, late: Sequence[Errand]) -> None:
        """Take back what was not taken; of the rest no answer is known (I2)."""
        self._read(db, late)
        left = [each for each in late if not each.is_whole]
        undone = {n for (n,) in db.execute(_WITHDRAW, (self._me, _numbers(left)))}
        db.execute(_FORGET, (self._me, _numbers(left)))
        for errand in left:
            self._end(errand, is_undone=errand.number in undone)

    def _give_up(self) -> None:
        """There is no database, and some have waited long enough."""
        for errand in self._errands():
            if not errand.is_whole and errand.is_late:
                self._end(errand, is_undone=errand.number is None)

    def _end(self, errand: Errand, *, is_undone: bool) -> None:
        who = self._who()
        if not is_undone:
            errand.doubt(f"{who} has not answered")
        errand.refuse(Reason.AUTHORITY_STANDBY, who)

    def _hand_over(self) -> None:
        while self._line and self._line[0].is_whole:
            with self._mutex:
                errand = self._line.popleft()
            self._deliver(errand)


def channel(asker: str) -> str:
    """Where replies are rung for, and errands for a journal's schema."""
    return f"understudy_{asker}"


def _numbers(errands: Sequence[Errand]) -> list[int]:
    return [each.number for each in errands if each.number is not None]
