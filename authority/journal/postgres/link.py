"""A connection to the database that waits for no answer forever.

A peer that is gone is noticed by TCP sooner or later, on either side. A network that swallows
everything goes unnoticed, so every wait has a watch.
"""

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.waiting import Ready, Wait

from ....contracts import Reason
from ..journal import Unavailable
from ..journal_url import JournalUrl

ANSWER_SECONDS = 10.0  # without a byte; the slowest commit is far from it
_CONNECT_SECONDS = 5
_HABITS = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "understudy",
}
# No caller is answered before the row is on disk, however the server is set up.
_SESSION = """
SET search_path = {schema};
SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '10s';
SET tcp_keepalives_idle = 5;
SET tcp_keepalives_interval = 2;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = '15s';
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
"""
_EVENTS = {
    Wait.R: select.POLLIN,
    Wait.W: select.POLLOUT,
    Wait.RW: select.POLLIN | select.POLLOUT,
}
_Found = TypeVar("_Found")


class Lost(Exception):
    """The connection is gone, and what was asked last may or may not have been done."""


class Link(psycopg.Connection[tuple[Any, ...]]):
    """As `psycopg.Connection`; closed when nothing is heard for too long."""

    answer_seconds = ANSWER_SECONDS

    def wait(
        self,
        gen: PQGen[_Found],
        interval: float = 0.0,  # noqa: ARG002 - signals interrupt us anyway
        timeout: float | None = None,
    ) -> _Found:
        limit = self.answer_seconds if timeout is None else timeout
        poll = select.poll()
        try:
            wanted = next(gen)
            while True:
                poll.register(self.pgconn.socket, _EVENTS[wanted])
                events = poll.poll(limit * 1000)
                if not events:
                    self.close()
                    raise psycopg.OperationalError(f"no answer in {limit:g} s")
                wanted = gen.send(_ready(events[0][1], wanted))
        except StopIteration as done:
            found: _Found = done.value
            return found


def _ready(events: int, wanted: Wait) -> Ready:
    """What to go on with; a connection that broke is read from, and says so itself."""
    if events & ~(select.POLLIN | select.POLLOUT):
        return Ready(wanted)
    reads, writes = events & select.POLLIN, events & select.POLLOUT
    return Ready.RW if reads and writes else Ready.R if reads else Ready.W


def connect(place: JournalUrl, *, connect_seconds: int = _CONNECT_SECONDS) -> Link:
    """A fresh connection, in autocommit; `Unavailable` where there is none to be had."""
    habits = _HABITS | {"connect_timeout": connect_seconds}
    try:
        given = conninfo_to_dict(place.url)
        db = Link.connect(place.url, autocommit=True, **(habits | given))  # type: ignore[arg-type]  # psycopg checks its own
        try:
            db.execute(sql.SQL(_SESSION).format(schema=sql.Identifier(place.schema)))
        except BaseException:
            db.close()
            raise
    except psycopg.ProgrammingError:
        # Its own words would repeat the URL, and with it the password.
        detail = f"{place}: libpq cannot read it"
        raise Unavailable(Reason.JOURNAL_URL_INVALID, detail) from None
    except psycopg.Error as error:
        words = " ".join(str(error).split())
        raise Unavailable(Reason.JOURNAL_UNREACHABLE, f"{place}: {words}") from error
    return db


@contextmanager
def noticing(db: Link) -> Iterator[None]:
    """Tell a lost connection from an answer that says no."""
    try:
        yield
    except psycopg.Error as error:
        if db.closed:
            raise Lost(str(error).strip() or repr(error)) from error
        raise


def now_s() -> float:
    """A watch that cannot be set, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
