"""Who beside the journal knows how many rows there were: so that a rewound journal is noticed.

A fence is the number of its row. A journal that was restored from an old copy, or lost its end,
would give out fences again that were given out before. Whatever lies in the state directory and has
seen a later row speaks against that; any one of these is enough:

    answered.seq               the last row that was answered, written behind every batch
    harness_trajectory.jsonl   the number in its last line
    tables.db                  the row that the tables show, where they are a file

An operator who accepts the loss has the missing numbers filled with rows that say so
(`service.lost_rows`), so that no fence is given out twice then either.

`answered.seq` is written in place and not flushed: it costs a commit nothing, outlives any process,
and after a power cut may be some rows behind, never ahead.
"""

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from ...contracts import Reason
from ..journal import private
from ..journal.journal import Unavailable
from ..journal.state_files import ANSWERED, TABLES, TRAJECTORY
from .trajectory import last_line_seq

_READ = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


class AnsweredMark:
    """The highest row that was answered here, in a small file of its own; it never goes back."""

    def __init__(self, state_dir: Path) -> None:
        self._file = private.opener(state_dir / ANSWERED, os.O_RDWR | os.O_CREAT)
        with suppress(ValueError):
            self._seq = int(os.pread(self._file, 32, 0))

    _seq = 0

    def move(self, seq: int) -> None:
        """One mark of several: a disk without room takes no answer away."""
        if seq > self._seq:
            self._seq = seq
            with suppress(OSError):
                os.pwrite(self._file, b"%020d\n" % seq, 0)

    def close(self) -> None:
        os.close(self._file)


def high_water_marks(state_dir: Path) -> dict[str, int]:
    """The highest row that each file knows of, by its name. Ask before the journal is opened."""
    return {name: seq for name, seq in _seen(state_dir) if seq}


def refuse_rewound(known: dict[str, int], last_seq: int) -> None:
    """Raise `Unavailable` where the journal ends before a row that was answered."""
    name = max(known, key=known.__getitem__, default=None)
    if name is not None and known[name] > last_seq:
        detail = f"{name} knows row {known[name]}, the journal ends with row {last_seq}"
        raise Unavailable(Reason.TRAJECTORY_MISMATCH, detail)


def _seen(state_dir: Path) -> Iterator[tuple[str, int]]:
    with suppress(OSError, ValueError):
        yield ANSWERED, int((state_dir / ANSWERED).read_bytes())
    with suppress(OSError):
        yield TRAJECTORY, last_line_seq(state_dir / TRAJECTORY) or 0
    # As it lies there: whatever is still in its log is one mark less.
    place = quote(os.fsencode((state_dir / TABLES).absolute()))
    with (
        suppress(apsw.Error, TypeError, ValueError),
        closing(apsw.Connection(f"file:{place}?immutable=1", flags=_READ)) as db,
    ):
        yield TABLES, int(db.execute("SELECT seq FROM watermark").get)
