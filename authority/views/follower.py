"""Lets the SQL tables follow a running authority, beside its work and at leisure.

A thread of the sidecar calls `step` again and again. What it does costs the interpreter time that
answers need too: so while a client asks it takes a small share of it, and the tables fall behind;
when none does, it goes on without a pause until they have caught up.
"""

import logging
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import apsw

from ..journal.journal import SqlTables, Storage, Unavailable
from ..journal.state_dir import open_journal

_ROWS_MAX = 256  # at once
_STEP_SECONDS = 0.005  # of a processor: as long as a client may have to wait
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a step went, and so when the next one is."""

    QUIET_SECONDS: ClassVar[float] = 0.25  # without a request; then no client is in a hurry
    RETRY_SECONDS: ClassVar[float] = 10.0  # after tables that could not follow
    SHARE: ClassVar[int] = 25  # under load, one part in so many of the time

    took_s: float = 0.0  # by the watch: a database works for us as well
    has_more: bool = False
    failed: bool = False

    def pause(self, quiet_s: float) -> float:
        """How long to wait, after so long without a request."""
        if self.failed:
            return self.RETRY_SECONDS
        return 0.0 if quiet_s >= self.QUIET_SECONDS else self.took_s * self.SHARE


class Follower:
    """Has its own eyes for the journal: the authority's are in use. One thread at a time."""

    def __init__(self, state_dir: Path, journal: Storage) -> None:
        self._state_dir, self._journal = state_dir, journal
        self._opened: ExitStack | None = None
        self._reader: Storage
        self._tables: SqlTables
        self._rows = 1  # so many take about as long as a step may
        self._complaint = ""

    def step(self) -> Pace:
        """Show a few rows. Tables that cannot follow are behind, and that is all."""
        if not self._journal.leads:
            return Pace()
        began_s, worked_s = time.monotonic(), time.thread_time()
        try:
            if self._opened is None:
                self._open()
            count = self._tables.follow(self._reader, self._rows)
        except (apsw.Error, Unavailable) as error:
            self.close()
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("the SQL tables are behind: %s", error)
            return Pace(has_more=True, failed=True)
        self._complaint = ""
        has_more = count == self._rows
        if time.thread_time() - worked_s > _STEP_SECONDS:
            self._rows = max(1, self._rows // 2)
        elif has_more:
            self._rows = min(_ROWS_MAX, 2 * self._rows)
        return Pace(time.monotonic() - began_s, has_more=has_more)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _open(self) -> None:
        with ExitStack() as opened:
            reading = open_journal(self._state_dir, read_only=True)
            self._reader = opened.enter_context(reading)
            self._tables = opened.enter_context(closing(self._journal.tables(self._state_dir)))
            self._opened = opened.pop_all()
