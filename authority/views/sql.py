"""Opens the SQL tables of a state directory to queries, as fresh as they can be had.

A file of tables is brought up to the journal here and now, beside the writer. Tables in a
database are written by the active authority alone: it is waited for, for a moment.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from ..journal import journal_url
from ..journal.state_dir import open_journal
from ..journal.state_files import TABLES
from ..journal.tables import SCHEMA
from ..journal.tables.inquiry import BadQuery, FileReader, Reader, bare, split

__all__ = [
    "SCHEMA",
    "BadQuery",
    "Freshness",
    "Inquiry",
    "bare",
    "brought_up",
    "opened",
    "reader",
    "split",
]

_LOOK_SECONDS = 0.05


class Freshness(NamedTuple):
    """How old an answer is: the rows that it knows of, of those that there were."""

    watermark: int
    head: int

    @property
    def behind(self) -> int:
        return max(0, self.head - self.watermark)


class Inquiry:
    """Where questions are asked, again and again."""

    def __init__(self, state_dir: Path, reader: Reader, wait_s: float) -> None:
        self.reader = reader
        self._state_dir, self._wait_s = state_dir, wait_s

    def freshen(self) -> Freshness:
        """Have the tables show what the journal says by now, if that can be had."""
        head = brought_up(self._state_dir, self._wait_s)
        return Freshness(self.reader.watermark(), head)


@contextmanager
def opened(state_dir: Path, timeout_s: float, wait_s: float) -> Iterator[Inquiry]:
    """The tables, for reading."""
    is_file = journal_url.of(state_dir) is None
    brought_up(state_dir, wait_s if is_file else 0.0)  # else there may be none yet
    with closing(reader(state_dir, timeout_s)) as opened_reader:
        yield Inquiry(state_dir, opened_reader, wait_s)


def reader(state_dir: Path, timeout_s: float) -> Reader:
    """The tables as they are, however old."""
    shared = journal_url.of(state_dir)
    if shared is None:
        return FileReader(state_dir / TABLES, timeout_s)
    found: Reader = journal_url.engine().PostgresReader(shared, timeout_s)
    return found


def brought_up(state_dir: Path, wait_s: float) -> int:
    """The last row of the journal, which the tables show by now, or do not in that time."""
    give_up = time.monotonic() + wait_s
    shared = journal_url.of(state_dir) is not None
    with open_journal(state_dir, read_only=True) as journal:
        head = journal.last_seq()
        try:
            with closing(journal.tables(state_dir)) as tables:
                if not shared:
                    tables.follow(journal)
                while tables.watermark() < head and time.monotonic() < give_up:
                    time.sleep(_LOOK_SECONDS)
        except apsw.Error:
            pass  # what there is can be read, and says how old it is
    return head
