"""A connection for a thread that waits: for notifications, for other threads, or for a while."""

import os
import select
from contextlib import suppress

import psycopg
from psycopg import sql

from ..journal_url import JournalUrl
from .link import Link, connect

ANSWER_SECONDS = 4.0  # without a byte; the caller waits meanwhile
_CONNECT_SECONDS = 2


class Bell:
    """Rung by `NOTIFY` on its channel, and by `ring` from any thread."""

    def __init__(self, place: JournalUrl, channel: str) -> None:
        self._place, self._channel = place, channel
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._db: Link | None = None
        self._heard = True
        self.connections = 0  # so many were made

    def db(self) -> Link:
        """The connection, made anew where it was lost; raises `Unavailable` or `psycopg.Error`."""
        if self._db is None or self._db.closed:
            self._db = None
            db = connect(self._place, connect_seconds=_CONNECT_SECONDS)
            try:
                db.answer_seconds = ANSWER_SECONDS
                db.add_notify_handler(self._hear)
                db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            except BaseException:
                db.close()
                raise
            self._db, self._heard = db, True
            self.connections += 1
        return self._db

    def _hear(self, _: psycopg.Notify) -> None:
        self._heard = True

    @property
    def heard(self) -> bool:
        """Whether another host may have written since the last look; looks are counted."""
        heard, self._heard = self._heard, False
        return heard

    def missed(self) -> None:
        """There may be more than was looked at."""
        self._heard = True

    def ring(self) -> None:
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def wait(self, seconds: float) -> None:
        """Until something is heard, or the time is over, which counts as well: bells can fail."""
        if self._heard:
            return
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._db is not None and not self._db.closed:
            poll.register(self._db.pgconn.socket, select.POLLIN)
        events = poll.poll(seconds * 1000)
        self._heard = not events
        for handle, _ in events:
            if handle == self._wake:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
            else:
                self._read()

    def _read(self) -> None:
        assert self._db is not None
        try:
            self._db.pgconn.consume_input()
            while self._db.pgconn.notifies() is not None:
                self._heard = True
        except psycopg.Error:
            self.hang_up()

    def hang_up(self) -> None:
        """Let go of the connection; `db` makes another one. What it told is dropped."""
        self._heard = False
        if self._db is not None:
            self._db.close()
            self._db = None

    def close(self) -> None:
        self.hang_up()
        handle, self._wake = self._wake, -1  # its number may be another file's soon
        if handle >= 0:
            os.close(handle)
