"""The authority at work: requests in, decisions committed together, answers out.

    parse -> stamp -> decide -> apply -> (the rest of the batch) -> commit -> evidence -> answer

Nobody gets an answer before their row is on disk. When a commit fails, memory is ahead of the
disk, so the authority answers nothing more; a new one starts from the journal.
"""

import fcntl
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Literal, Self

import apsw
import orjson

from ..contracts import (
    Door,
    Garbage,
    Reason,
    Request,
    Stamp,
    Transport,
    limits,
    parse,
    startup_check,
)
from . import place
from .answers import Answers
from .clock import HybridClock, SteadyClock
from .decide import decide, looks_back
from .envelope import chain_state, glimpsed, is_sound, refused_garbage, sealed, with_mark
from .failpoint import failpoint
from .journal import (
    Entry,
    Head,
    Journal,
    Packed,
    Row,
    Snapshot,
    Storage,
    Unavailable,
    changes_of,
    unpacked,
)
from .outcome import Repeated
from .past import Past, look_back
from .sqlite import SqliteJournal, flush_folder
from .state import State, apply, dump, load
from .trajectory import Steps, Trajectory, last_seq, refuse_rewound

JOURNAL = "journal.db"
TRAJECTORY = "harness_trajectory.jsonl"
TABLES = "tables.db"
SOCKET = "authority.sock"
_LOCK = "lock"
_EVIDENCE_LOCK = "evidence.lock"
_CATCH_UP_ROWS = 1_000  # at once
LOOK_SECONDS = 0.25  # between two looks of a standby

Evidence = Literal["inside", "outside"]  # who writes the trajectory

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
            self.snapshot()
        return proposal.answers.lines(), proposal.rows

    def propose(self, batch: Sequence[Request | Garbage]) -> Proposal:
        """Decide in order. Nobody may hear of it before it is committed."""
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
                self.journal.confirm()  # what was read may be old where somebody else writes
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
        return rows >= limits.SNAPSHOT_ROWS and rows * 4 >= self._record_count()

    @property
    def snapshot_overdue(self) -> bool:
        """So many rows that a start would take long, even if now is no good time."""
        return self.unsaved_rows >= max(limits.SNAPSHOT_ROWS_MAX, self._record_count())

    @property
    def unsaved_rows(self) -> int:
        """Rows that the next start has to fold."""
        return self.head.seq - self._snapshot_seq

    def _record_count(self) -> int:
        return len(self.state.issues) + len(self.state.lane.jobs)

    def snapshot(self) -> None:
        """Save the next start from folding the rows up to here."""
        self._refuse_after_failure()
        if self.head.seq == self._snapshot_seq:
            return
        self.journal.put_snapshot(Snapshot.of(self.head, dump(self.state)))
        self._snapshot_seq = self.head.seq

    def _answer(self, asked: Request | Garbage, rows: list[Row]) -> bytes:
        if isinstance(asked, Garbage):
            self.garbage_count += 1
            return with_mark(refused_garbage(asked, self.head.seq), asked.id)
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
        """What the rows so far say, where the rule looks back."""
        if not looks_back(asked):
            return ()
        return look_back(self.journal, self.head.seq, tuple(self._uncommitted))

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

    A damaged snapshot costs time: everything is folded from the first row. A damaged row is named.
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
        head, last = _head(row), row
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


# --- in a state directory -----------------------------------------------------------------------


class Office:
    """An authority, its lock and its projections, in a state directory.

    The trajectory is left to another process where `evidence` is `outside`, and where one has it
    already.
    """

    boundary = "reference"
    authority: Authority

    def __init__(
        self,
        state_dir: Path,
        *,
        writable: bool = True,
        lasting: bool = False,
        evidence: Evidence = "inside",
        standby: bool = False,
    ) -> None:
        """Whoever is to write waits a while for the one who does, or is content to be a standby."""
        report = startup_check()
        if report["result"] != "accepted":
            raise Unavailable(Reason.CONTRACT_DRIFT, ", ".join(report["failureClasses"]))
        self.state_dir = state_dir
        self._writable = writable
        self._trajectory: Trajectory | None = None
        self._unwritten: deque[Row | Steps] = deque()  # what the trajectory does not show yet
        self._wrote = False
        with ExitStack() as opened:
            if writable:
                opened.enter_context(locked(state_dir))
            self.journal = opened.enter_context(
                open_journal(state_dir, read_only=not writable, lasting=lasting)
            )
            self.authority = self._authority()
            self._followed_seq = self.authority.head.seq
            if writable and evidence == "inside" and self._takes_evidence(opened):
                doubt = self.journal if self.journal.was_abandoned else None
                path, last_seq = state_dir / TRAJECTORY, self.authority.head.seq
                self._trajectory = opened.enter_context(closing(Trajectory(path, last_seq, doubt)))
            elif writable:
                refuse_rewound(state_dir / TRAJECTORY, self.authority.head.seq)
            if writable and not standby:
                self._wait_for_turn()
            self._opened = opened.pop_all()

    def _takes_evidence(self, opened: ExitStack) -> bool:
        """Whether the trajectory is ours to write."""
        try:
            opened.enter_context(evidence_locked(self.state_dir, wait_ms=0))
        except Unavailable as error:
            if error.reason is not Reason.AUTHORITY_BUSY:
                raise
            return False
        return True

    @property
    def leads(self) -> bool:
        """Whether this authority is the one that writes."""
        return self.journal.leads

    def stand_in(self) -> bool:
        """Take over where nobody is at work, and keep up with who is; whether it is our turn now.

        The epoch comes first, so that nothing is committed behind the last row that is taken in.
        """
        epoch = self.journal.stand_in()
        while rows := self.authority.catch_up():
            self._unwritten.extend(rows)
            self.follow()
        if epoch is not None:
            self.authority.lead(epoch)
        return epoch is not None

    def _wait_for_turn(self) -> None:
        give_up = time.monotonic() + limits.LOCK_WAIT_MS / 1000
        while not self.journal.leads and not self.stand_in():
            if time.monotonic() > give_up:
                raise Unavailable(Reason.AUTHORITY_STANDBY, self.journal.who())
            time.sleep(LOOK_SECONDS)

    @property
    def evidence(self) -> Evidence:
        """Who writes the trajectory: we, or somebody else."""
        return "outside" if self._trajectory is None else "inside"

    def _authority(self) -> Authority:
        return Authority(self.journal)

    def submit(self, batch: Sequence[Request | Garbage]) -> list[bytes]:
        """The answers; when they come back, their rows and their evidence are on disk."""
        return self._followed(self.authority.propose(batch))

    def submit_lines(self, lines: Sequence[tuple[bytes, Door]]) -> list[bytes]:
        """As `submit`, for requests as they come through their doors."""
        return self._followed(
            self.authority.propose_lines([(door, [line]) for line, door in lines])
        )

    def _followed(self, proposal: Proposal) -> list[bytes]:
        self.commit(proposal)
        if self.authority.snapshot_due:
            self.authority.snapshot()
        self.follow()
        failpoint("answer.ready")
        return proposal.answers.lines()

    def commit(self, proposal: Proposal) -> None:
        """Put what was proposed on disk; `follow` writes the evidence out later."""
        self.authority.commit(proposal)
        self._unwritten.extend(proposal.steps)

    @property
    def behind(self) -> int:
        """For how many rows `follow` has not done yet what comes behind a commit."""
        return self.authority.head.seq - self._followed_seq

    def follow(self) -> None:
        """Do what comes behind a commit; another thread may be committing more.

        The trajectory is brought up to what was committed, if it is ours, and the journal is kept
        tidy.
        """
        if not self._writable:
            return
        fresh = [self._unwritten.popleft() for _ in range(len(self._unwritten))]
        self._wrote = self._wrote or bool(fresh)
        if self._trajectory is not None:
            self._followed_seq = self._trajectory.follow(self.journal, fresh)
        elif fresh:
            self._followed_seq = last_seq(fresh[-1])
        self.journal.tidy()

    def ask(
        self,
        action: str,
        payload: dict[str, Any],
        context: dict[str, Any] | None = None,
        *,
        transport: Transport = "local-repl",
    ) -> dict[str, Any]:
        """One request from this interpreter or from a command, and its answer.

        Raises `ValueError` for what is no JSON at all; everything else is an answer.
        """
        try:
            data = orjson.dumps({"action": action, "payload": payload, "context": context or {}})
        except orjson.JSONEncodeError as error:
            raise ValueError(f"not JSON: {error}") from None
        answer: dict[str, Any] = orjson.loads(self.submit([parse(data, Door(transport))])[0])
        return answer

    def close(self) -> None:
        """Let go; the SQL tables catch up last, when nobody waits for them any more."""
        with self._opened:
            if self._wrote:
                self._follow_with_tables()

    def _follow_with_tables(self) -> None:
        """They are a projection: if they cannot follow, that takes nobody's answer away."""
        from .tables import Tables  # noqa: PLC0415 - only writers need it

        try:
            with closing(Tables(self.state_dir / TABLES)) as tables:
                tables.follow(self.journal)
        except apsw.Error as error:
            import logging  # noqa: PLC0415 - only in trouble

            logging.getLogger(__name__).warning("%s is behind: %s", TABLES, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextmanager
def held(path: Path, wait_ms: int) -> Iterator[None]:
    """Hold a lock file; the operating system lets go of it however we end."""
    handle = _lock(path, wait_ms)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """Hold the state directory."""
    _require(state_dir)
    with held(state_dir / _LOCK, limits.LOCK_WAIT_MS):
        yield


@contextmanager
def evidence_locked(state_dir: Path, *, wait_ms: int | None = None) -> Iterator[None]:
    """Hold the trajectory: whoever writes it, in whatever process, is the only one who does."""
    _require(state_dir)
    wait_ms = limits.LOCK_WAIT_MS if wait_ms is None else wait_ms
    with held(state_dir / _EVIDENCE_LOCK, wait_ms):
        yield


@contextmanager
def open_journal(state_dir: Path, *, read_only: bool, lasting: bool = False) -> Iterator[Storage]:
    """The journal of a state directory, and nothing else of it."""
    _require(state_dir)
    shared = place.of(state_dir)
    journal: Storage
    if shared is None:
        path = state_dir / JOURNAL
        journal = SqliteJournal(path, read_only=read_only, lasting=lasting)
    else:
        home = None if read_only else _home(state_dir)
        engine = postgres().PostgresJournal
        journal = engine(shared, read_only=read_only, lasting=lasting, home=home)
    with closing(journal):
        yield journal


def _home(state_dir: Path) -> str:
    """The folder's lock, as no other lock on any machine is called."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    found = (state_dir / _LOCK).stat()
    return f"{boot}.{found.st_dev}.{found.st_ino}"


def postgres() -> ModuleType:
    """The engine that not everybody has installed."""
    try:
        return import_module(".postgres", __package__)
    except ImportError as error:
        raise Unavailable(Reason.JOURNAL_ENGINE_MISSING, str(error)) from error


def _require(state_dir: Path) -> None:
    if not any((state_dir / name).exists() for name in (JOURNAL, place.URL_FILE)):
        raise Unavailable(Reason.STATE_DIR_MISSING, str(state_dir))


def _lock(path: Path, wait_ms: int) -> int:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(Reason.STATE_DIR_DENIED, f"{path}: {error.strerror}") from error
    give_up = time.monotonic() + wait_ms / 1000
    pause = 0.001
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            return handle
        if not wait_ms or time.monotonic() > give_up:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            os.close(handle)
            raise Unavailable(Reason.AUTHORITY_BUSY, f"{path} is held by process {holder}")
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def create_state_dir(state_dir: Path, node: str, url: str | None = None) -> bool:
    """Make a state directory with an empty journal; False where there is one already.

    With the URL of a database the journal is there; of one that exists, this becomes one more
    state directory.
    """
    if url is not None:
        place.refuse_secret(url, "the URL")
    if url is not None and (state_dir / JOURNAL).exists():
        raise Unavailable(Reason.JOURNAL_URL_INVALID, f"{state_dir} has a journal of its own")
    fresh = not any((state_dir / name).exists() for name in (JOURNAL, place.URL_FILE))
    missing = [each for each in (state_dir, *state_dir.parents) if not each.exists()]
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in missing:
            flush_folder(folder.parent)
    except OSError as error:
        raise Unavailable(Reason.STATE_DIR_DENIED, f"{state_dir}: {error.strerror}") from error
    shared = place.of(state_dir) if url is None else place.parsed(url)
    if shared is None:
        SqliteJournal.create(state_dir / JOURNAL, node)
        return fresh
    if url is not None:
        place.remember(state_dir, url)
    postgres().PostgresJournal.create(shared, node)
    flush_folder(state_dir)
    return fresh
