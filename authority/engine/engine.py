"""The authority at work: requests in, decisions committed together, answers out.

    parse -> stamp -> decide -> apply -> (the rest of the batch) -> commit -> evidence -> answer

No caller gets an answer before its row is on disk. When a commit fails, memory is ahead of the
disk, so the authority answers nothing more; a new one starts from the journal.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ...contracts import (
    Door,
    Garbage,
    Reason,
    Request,
    Stamp,
    limits,
    parse,
    refuse_garbage,
    with_mark,
)
from ..journal.chain import chain_state, is_sound
from ..journal.clock import HybridClock, SteadyClock
from ..journal.journal import (
    Entry,
    Head,
    Journal,
    Packed,
    Row,
    Snapshot,
    Steps,
    Unavailable,
    changes_of,
    unpacked,
)
from ..law.decide import decide, looks_back
from ..law.image import dump, load
from ..law.outcome import Repeated
from ..law.state import State, apply
from ..law.workers.history import Past
from .answers import Answers
from .envelope import glean, glimpsed, sealed

_CATCH_UP_ROWS = 1_000  # at once

# Actions whose rule asks nothing of the time; their rows leave the clock where it is.
_TIMELESS = frozenset({"issue.import", "policy.set"})


Run = tuple[Door, list[bytes]]  # lines through one door


@dataclass(frozen=True, slots=True)
class Proposal:
    """Answers that may leave once their rows are committed after row `after_seq`."""

    answers: Answers
    entries: Sequence[Entry]
    after_seq: int
    steps: Sequence[Row | Steps]  # the rows, as the trajectory takes them

    @property
    def rows(self) -> list[Row]:
        """One by one."""
        return list(unpacked(self.entries))


class Authority:
    """Decides for one journal, in two steps: `propose` in memory, `commit` on disk.

    Several batches may be proposed before the first is committed. Either step failing leaves
    memory and disk apart, and the authority does neither again.
    """

    def __init__(self, journal: Journal, physical_ms: SteadyClock | None = None) -> None:
        self.journal = journal
        self.state, self.head, last = recover(journal)
        wall_ms, counter = (last.wall_ms, last.counter) if last else (0, 0)
        self._clock = HybridClock(journal.node(), physical_ms or SteadyClock(), wall_ms, counter)
        self._epoch: int | None = None
        self._failed: BaseException | None = None
        self._uncommitted: deque[Entry] = deque()  # what is on its way to the disk
        snapshot = journal.snapshot()
        self._snapshot_seq = snapshot.head.seq if snapshot else 0
        self._retry_seq = 0  # no snapshot is tried before this row
        self.snapshot_failure: str | None = None  # why the last one could not be written
        self.garbage_count = 0

    def submit(self, batch: Sequence[Request | Garbage]) -> tuple[list[bytes], list[Row]]:
        """Decide in order, commit once; the answers, and the rows that were written for them."""
        return self._submitted(self.propose(batch))

    def submit_lines(self, lines: Sequence[tuple[bytes, Door]]) -> tuple[list[bytes], list[Row]]:
        """As `submit`, for requests as they come through their doors."""
        return self._submitted(self.propose_lines([(door, [line]) for line, door in lines]))

    def _submitted(self, proposal: Proposal) -> tuple[list[bytes], list[Row]]:
        self.commit(proposal)
        if self.snapshot_due:
            self.try_snapshot()
        return proposal.answers.lines(), proposal.rows

    def propose(self, batch: Sequence[Request | Garbage]) -> Proposal:
        """Decide in order. No caller hears of it before it is committed."""
        self._refuse_after_failure()
        answers, rows = Answers(), list[Row]()
        after_seq = self.head.seq
        try:
            for each in batch:
                answers.add(self._answer(each, rows))
        except BaseException as error:
            self._failed = error
            raise
        return Proposal(answers, rows, after_seq, rows)

    def propose_lines(self, runs: Sequence[Run]) -> Proposal:
        """As `propose`, for requests as they come through their doors."""
        return self.propose([parse(line, door) for door, lines in runs for line in lines])

    def commit(self, proposal: Proposal) -> None:
        """Put the rows on disk, in the order in which they were proposed."""
        self._refuse_after_failure()
        try:
            if not proposal.entries:
                self.journal.confirm()  # what was read may be old where another authority writes
                return
            self.journal.append(proposal.entries, proposal.after_seq, proposal.entries[0].epoch)
        except BaseException as error:
            self._failed = error
            raise
        for _ in proposal.entries:
            self._uncommitted.popleft()

    def catch_up(self) -> list[Row]:
        """Take in what another authority has committed, up to a bound; the rows that were new."""
        rows = list(islice(self.journal.read(self.head.seq), _CATCH_UP_ROWS))
        for row in rows:
            _fold(self.state, row, self.head)
            self._clock.advance(Stamp(row.seq, row.wall_ms, row.counter, row.node))
            self.head = _head(row)
        return rows

    def lead(self, epoch: int) -> None:
        """Write under this epoch from now on; everything before it has been taken in."""
        self._epoch = epoch

    @property
    def snapshot_due(self) -> bool:
        """After so many rows; a large state waits longer, since its image costs more."""
        rows = self.unsaved_rows
        due = rows >= limits.SNAPSHOT_ROWS and rows * 4 >= self._record_count()
        return due and self.head.seq >= self._retry_seq

    @property
    def snapshot_overdue(self) -> bool:
        """So many rows that a start would take long, even if now is no good time."""
        overdue = self.unsaved_rows >= max(limits.SNAPSHOT_ROWS_MAX, self._record_count())
        return overdue and self.head.seq >= self._retry_seq

    @property
    def unsaved_rows(self) -> int:
        """Rows that the next start has to fold."""
        return self.head.seq - self._snapshot_seq

    def _record_count(self) -> int:
        return len(self.state.issues) + self.state.lane.record_count

    def snapshot(self) -> None:
        """Save the next start from folding the rows up to here."""
        self._refuse_after_failure()
        if self.head.seq == self._snapshot_seq:
            return
        self.journal.put_snapshot(Snapshot.of(self.head, dump(self.state)))
        self._snapshot_seq = self.head.seq

    def try_snapshot(self) -> None:
        """As `snapshot`; one that cannot be written is reported, and tried again some rows later.

        It saves time and nothing else: whether we can go on is for the next commit to say.
        """
        try:
            self.snapshot()
        except Unavailable as error:
            if error.reason is not Reason.JOURNAL_WRITE_FAILED:
                raise
            import logging

            words = "no snapshot could be written, and the next start is slow: %s"
            logging.getLogger(__name__).warning(words, error)
            self.snapshot_failure = str(error)
            self._retry_seq = self.head.seq + limits.SNAPSHOT_ROWS
        else:
            self.snapshot_failure = None

    def _answer(self, asked: Request | Garbage, rows: list[Row]) -> bytes:
        if isinstance(asked, Garbage):
            self.garbage_count += 1
            return refuse_garbage(asked, self.head.seq)
        recorded = asked.action.mutates or self.state.policy.evidence_reads
        stamp = self._clock.next_stamp(
            self.head.seq + (1 if recorded else 0),
            now_ms=asked.now_ms,
            caller=asked.context.stamp,
            timeless=asked.action.action in _TIMELESS and asked.context.stamp is None,
        )
        outcome = decide(self.state, asked, stamp, self._past(asked))
        if isinstance(outcome, Repeated):
            return with_mark(self._first_answer(outcome.seq), asked.id)
        if not recorded:
            return with_mark(glimpsed(asked, outcome, stamp, self.head), asked.id)
        if self._epoch is None:
            self._epoch = self.journal.acquire_epoch()
        row, self.head = sealed(asked, outcome, stamp, self.head, self._epoch)
        self._clock.advance(stamp)
        apply(self.state, outcome.changes)
        rows.append(row)
        self._uncommitted.append(row)
        return with_mark(row.response, asked.id)

    def _past(self, asked: Request) -> Past:
        """What the newest rows say, on disk and on their way there, where the rule looks back."""
        if not looks_back(asked):
            return ()
        fresh = list(unpacked(self._uncommitted))[-limits.PAST_ROWS_MAX :]
        last = fresh[0].seq - 1 if fresh else self.head.seq
        first = max(1, self.head.seq + 1 - limits.PAST_ROWS_MAX)
        older = islice(self.journal.read(first - 1), max(0, last + 1 - first))
        return [glean(row) for row in (*older, *fresh)]

    def _first_answer(self, seq: int) -> bytes:
        for entry in self._uncommitted:
            if isinstance(entry, Packed):
                if entry.first_seq <= seq <= entry.last_seq:
                    return next(row.response for row in entry.rows() if row.seq == seq)
            elif entry.seq == seq:
                return entry.response
        row = self.journal.row(seq)
        assert row is not None, "a remembered answer is a row"
        if not is_sound(row):
            raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {seq}: its answer")
        return row.response

    @property
    def has_failed(self) -> bool:
        """Memory and disk are apart."""
        return self._failed is not None

    def _refuse_after_failure(self) -> None:
        if isinstance(self._failed, Unavailable):
            raise self._failed
        if self._failed is not None:
            raise Unavailable(Reason.JOURNAL_WRITE_FAILED, repr(self._failed)) from self._failed


def recover(journal: Journal) -> tuple[State, Head, Row | None]:
    """The state at the journal's end: the newest snapshot, and the changes of the rows after it.

    A damaged snapshot costs time: everything is folded from the first row. A damaged row is named:
    of every row its changes and its epoch are looked at, of the last one everything that the next
    row rests on.
    """
    state, head, last = State(), Head(), None
    snapshot = journal.snapshot()
    if snapshot is not None:
        last = journal.row(snapshot.head.seq)
        if last is None:
            detail = f"row {snapshot.head.seq}, of which there is a snapshot, is missing"
            raise Unavailable(Reason.JOURNAL_CORRUPT, detail)
        if snapshot.sound and _head(last) == snapshot.head:
            state, head = load(snapshot.image), snapshot.head
    for row in journal.read(head.seq):
        _fold(state, row, head)
        if last is not None and row.epoch < last.epoch:
            raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {row.seq}: its epoch is too old")
        head, last = _head(row), row
    if last is not None and (not is_sound(last) or last.epoch > journal.epoch()):
        raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {last.seq}: it is not its evidence's")
    return state, head, last


def _head(row: Row) -> Head:
    return Head(row.seq, row.digest, row.state_digest)


def _fold(state: State, row: Row, head: Head) -> None:
    if row.seq != head.seq + 1:
        raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {head.seq + 1} is missing")
    if chain_state(head.state_digest, row.changes) != row.state_digest:
        raise Unavailable(
            Reason.JOURNAL_CORRUPT, f"row {row.seq}: its changes are not its digest's"
        )
    apply(state, changes_of(row))
