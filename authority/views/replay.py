"""Replay: fold the journal from nothing, decide every request again, and compare the bytes."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter

from ...contracts import Garbage, Reason, Stamp, limits, restore
from ..engine.envelope import glean, sealed
from ..journal.journal import Head, Journal, Row, Snapshot
from ..law.decide import decide, looks_back
from ..law.image import dump
from ..law.outcome import Repeated
from ..law.state import State, apply


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far the journal replays, and what is wrong with the row after that."""

    rows: int
    head: Head
    mismatch: str | None = None

    @property
    def reason(self) -> Reason | None:
        return Reason.REPLAY_MISMATCH if self.mismatch else None


def replay(journal: Journal, progress: Callable[[int], None] = lambda _: None) -> Replayed:
    """Compare every stored answer, envelope, change and digest; stop at the first that differs."""
    state, head = State(), Head()
    snapshot = journal.snapshot()
    epochs = _Epochs(journal)
    before: deque[Row] = deque(maxlen=limits.PAST_ROWS_MAX)
    for row in journal.read():
        problem, head_after = _step(state, row, head, before)
        problem = problem or epochs.problem(row)
        if problem is None and snapshot is not None and snapshot.head.seq == row.seq:
            problem = _snapshot_problem(snapshot, state, head_after)
        if problem is not None:
            return Replayed(head.seq, head, f"row {head.seq + 1}: {problem}")
        head = head_after
        before.append(row)
        progress(head.seq)
    if snapshot is not None and snapshot.head.seq > head.seq:
        return Replayed(head.seq, head, f"row {head.seq + 1}: the snapshot is ahead of the journal")
    return Replayed(head.seq, head)


class _Epochs:
    """Under which epoch each row was written; as far as an older journal knows, which it may be."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._last = journal, 1
        self._look()

    def _look(self) -> None:
        self._newest, self._starts = self._journal.epoch(), self._journal.epoch_starts()

    def problem(self, row: Row) -> str | None:
        if row.epoch > self._newest:
            self._look()  # it may have been taken since
        began = bisect_left(self._starts, row.seq, key=itemgetter(1))
        known = self._starts[began - 1][0] if began else None
        if not self._last <= row.epoch <= self._newest or known not in (None, row.epoch):
            return f"its epoch {row.epoch} comes after {self._last}, where {known or 'none'} began"
        self._last = row.epoch
        return None


def _step(state: State, row: Row, head: Head, before: Iterable[Row]) -> tuple[str | None, Head]:
    if row.seq != head.seq + 1:
        return "it is missing", head
    if not 0 <= row.wall_ms <= limits.NOW_MS_MAX + limits.COUNTER_MAX:
        return "its stamp is from no clock", head
    try:
        request = restore(row.request)
    except ValueError as error:
        return f"its request cannot be read: {error}", head
    if isinstance(request, Garbage):
        return f"its request is none: {request.detail}", head
    stamp = Stamp(row.seq, row.wall_ms, row.counter, row.node)
    past = [glean(each) for each in before] if looks_back(request) else ()
    outcome = decide(state, request, stamp, past)
    if isinstance(outcome, Repeated):
        return f"its request id was answered by row {outcome.seq}", head
    again, head_after = sealed(request, outcome, stamp, head, row.epoch)
    for part in ("request", "response", "changes", "state_digest", "digest"):
        if getattr(again, part) != getattr(row, part):
            return f"its {part} differs", head
    apply(state, outcome.changes)
    return None, head_after


def _snapshot_problem(snapshot: Snapshot, state: State, head: Head) -> str | None:
    if snapshot.head != head:
        return "the snapshot is chained to another row"
    same = snapshot.image == dump(state) and snapshot.sound
    return None if same else "the snapshot differs from the state"
