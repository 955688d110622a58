"""Sends the spans of a state directory on, each one at least once: a process that follows the
journal, and remembers how far it came.

    journal --rows--> fold --spans that ended--> send --> run/traces.json

I1  The file names the last row whose spans have all been sent, and is replaced, never changed.
I2  What could not be sent is kept, and no row is read until it is: memory has a bound, and the
    journal keeps the rest.
I3  A sender that was killed sends again what it had sent since it wrote the file. The ids of spans
    are derived, so what is sent twice is the same span.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Literal, Self

import orjson

from ...authority import Unavailable, held, open_journal
from ...authority.journal import origin, private
from ...authority.views import spans
from ...contracts import Reason, canonical

POSITION: Final = "traces.json"  # in the run folder
LOCK: Final = "traces.lock"
BATCH_MAX: Final = 512  # spans in one request
_TURN_ROWS_MAX = 2_048
_BUSY_SECONDS = 0.1  # between two turns, so that spans that end together share a request
_IDLE_SECONDS = 1.0  # between two looks at a journal that stands still
_AWAY_SECONDS = 0.5  # after what could not be sent; doubled each time
_AWAY_SECONDS_MAX = 60.0

Send = Callable[[Sequence[spans.WorkSpan]], bool]
Turn = Literal["busy", "idle", "away"]


class SpanSender:
    """The only sender of a state directory, until it is closed; `Unavailable` where there is one.

    `from_start` forgets what was sent: for a collector that has lost it.
    """

    def __init__(self, state_dir: Path, run_dir: Path, send: Send, *, from_start: bool) -> None:
        private.make_folder(run_dir)
        self._path, self._send = run_dir / POSITION, send
        self._from_start = from_start
        self._pending: list[spans.WorkSpan] = []
        self._fold: spans.SpanFold | None = None
        self._origin = ""
        self._read_seq = 0
        self.sent_seq = self.count = 0
        with ExitStack() as opened:
            opened.enter_context(held(run_dir / LOCK, 0))
            self._journal = opened.enter_context(open_journal(state_dir, read_only=True))
            self._opened = opened.pop_all()

    def turn(self) -> Turn:
        """Send what has ended, up to a bound; `away` where it could not be sent (I2)."""
        fold = self._begun()
        if fold is None:
            return "idle"
        rows = [] if self._pending else self._journal.rows(self._read_seq, _TURN_ROWS_MAX)
        for row in rows:
            ended = fold.take(row)
            self._pending += ended if row.seq > self.sent_seq else []
            self._read_seq = row.seq
        if not rows and not self._pending:
            return "idle"
        while self._pending:
            batch = self._pending[:BATCH_MAX]
            if not self._send(batch):
                return "away"
            del self._pending[: len(batch)]
            self.count += len(batch)
        if self._read_seq > self.sent_seq:
            self.sent_seq = self._read_seq
            self._remember(fold)
        return "busy"

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begun(self) -> spans.SpanFold | None:
        """The fold, from where it has to begin; an empty journal has no origin yet."""
        if self._fold is not None:
            return self._fold
        found = origin.of_journal(self._journal)
        if found is None:
            return None
        self._origin = found
        if not self._from_start:
            self._recall()
        self._fold = spans.SpanFold(found)
        return self._fold

    def _recall(self) -> None:
        """What was sent of this very journal; a file that cannot be read says nothing."""
        with suppress(OSError, ValueError, LookupError, TypeError):
            known = orjson.loads(self._path.read_bytes())
            sent_seq, after_seq = int(known["sentSeq"]), int(known["afterSeq"])
            is_ours = known["origin"] == self._origin
            if is_ours and 0 <= after_seq <= sent_seq <= self._journal.last_seq():
                self.sent_seq, self._read_seq = sent_seq, after_seq

    def _remember(self, fold: spans.SpanFold) -> None:
        """Where the next sender goes on, and where it has to begin to know what is open (I1)."""
        begun = fold.begun_after
        after_seq = self.sent_seq if begun is None else min(begun, self.sent_seq)
        known = {"origin": self._origin, "sentSeq": self.sent_seq, "afterSeq": after_seq}
        fresh = self._path.with_suffix(".new")
        private.write(fresh, canonical.encode(known) + b"\n")
        fresh.replace(self._path)


def send_all(sender: SpanSender) -> bool:
    """Send what there is now; False where that could not be done."""
    while (turn := sender.turn()) == "busy":
        pass
    return turn == "idle"


def follow(sender: SpanSender, stop: threading.Event) -> None:
    """Send what ends until told to stop, and then once more. Who is away is asked less and less."""
    pause_seconds = _BUSY_SECONDS
    while True:
        last = stop.is_set()
        turn = _turn(sender)
        if turn == "away":
            pause_seconds = min(max(_AWAY_SECONDS, 2 * pause_seconds), _AWAY_SECONDS_MAX)
        elif turn == "busy":
            pause_seconds = _BUSY_SECONDS
        else:
            pause_seconds = min(2 * pause_seconds, _IDLE_SECONDS)
        if last and turn != "busy":
            return
        if stop.wait(0 if last else pause_seconds) and turn == "away":
            return  # who was away a moment ago is not waited for


def _turn(sender: SpanSender) -> Turn:
    try:
        return sender.turn()
    except Unavailable as error:
        if error.reason is not Reason.JOURNAL_UNREACHABLE:
            raise
        return "away"
