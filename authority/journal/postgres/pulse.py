"""Says again and again that the active authority lives, beside its work.

A thread with a connection of its own: a long commit must not look like a death. One that is
stopped with its process says nothing, as it should be. Beats are as durable as rows: a count that
went back after a crash could look like one that stood still.
"""

import threading
from collections.abc import Callable

import psycopg

from ..journal import Unavailable
from ..journal_url import JournalUrl
from .link import Link, connect, now_s

BEAT_MS = 500  # between two signs of life of an active authority
HOLD_MS = 2_000  # after the last one that was taken, how long it goes on without asking
LAPSE_MS = 3_000  # without one; then a standby takes over
BEAT = "UPDATE head SET beat = beat + 1 WHERE holder = %s RETURNING beat"

Heard = Callable[[float, bool], None]  # when it was asked, and whether the journal is still ours


class Pulse:
    """Beats until it is stopped, or another authority has the journal."""

    def __init__(self, place: JournalUrl, holder: str, heard: Heard) -> None:
        self._place, self._holder, self._heard = place, holder, heard
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        db: Link | None = None
        # An authority that is done within a beat needs none.
        while not self._stopping.wait(BEAT_MS / 1000):
            try:
                if db is None or db.closed:
                    db = _connected(self._place)
                asked_s = now_s()
                is_ours = db.execute(BEAT, (self._holder,)).fetchone() is not None
            except (psycopg.Error, Unavailable):
                continue  # the next one says more
            self._heard(asked_s, is_ours)
            if not is_ours:
                break
        if db is not None:
            db.close()


def _connected(place: JournalUrl) -> Link:
    db = connect(place)
    db.answer_seconds = LAPSE_MS / 1000
    return db
