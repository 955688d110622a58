"""The one journal: rows in order, written by one authority at a time.

I1  Sequence numbers have no gaps.
I2  A row is on disk before anybody hears of it.
I3  A writer whose epoch is not the newest can append nothing.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from ...contracts import FAILURES, Operation, Reason, canonical, limits
from ..law.outcome import Change, OperationAdmitted, decode_changes

if TYPE_CHECKING:
    from .relay_message import RelayChannel

GENESIS = "row1_" + "0" * 64  # what the first row is chained to
STATE_GENESIS = "st1_" + "0" * 64

Bytes = bytes | memoryview  # many at once may be lent instead of copied


class Row(NamedTuple):
    """One decided request, in the order of the journal's columns. The blobs are canonical JSON."""

    seq: int
    epoch: int
    wall_ms: int
    counter: int
    node: str
    request: bytes
    response: bytes
    changes: bytes
    digest: str  # of the host-effect envelope; the next row's `prev`
    state_digest: str  # of all changes up to here


class Packed(NamedTuple):
    """Rows that follow one another, as C laid them out: an engine may take them as they are."""

    first_seq: int
    last_seq: int
    epoch: int
    node: str
    table: bytes  # a `us_row` of native/lease.h for each
    text: Bytes  # which those have their slices of
    library: str  # the path of what can append them, where SQLite is the engine

    def rows(self) -> Iterator[Row]:
        """One by one."""
        for (
            seq, wall_ms, counter, request, request_end, changes, response, end, digest, state,
        ) in _PACKED.iter_unpack(self.table):  # fmt: skip
            yield Row(
                seq,
                self.epoch,
                wall_ms,
                counter,
                self.node,
                bytes(self.text[request:request_end]),
                bytes(self.text[response:end]),
                bytes(self.text[changes:response]),
                digest.decode(),
                state.decode(),
            )


class Steps(NamedTuple):
    """Lines of the trajectory for rows that follow one another, already written out."""

    first_seq: int
    last_seq: int
    data: Bytes


Entry = Row | Packed
_PACKED = struct.Struct("=qq4I4x2I12x69s68s7x")


def unpacked(entries: Iterable[Entry]) -> Iterator[Row]:
    """Every row, however it came."""
    for entry in entries:
        if isinstance(entry, Packed):
            yield from entry.rows()
        else:
            yield entry


@dataclass(frozen=True, slots=True)
class Head:
    """Where the journal ends: what the next row is chained to."""

    seq: int = 0
    digest: str = GENESIS
    state_digest: str = STATE_GENESIS


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at a head, so that a start need not fold all rows before it."""

    head: Head
    image: bytes
    digest: str

    @classmethod
    def of(cls, head: Head, image: bytes) -> "Snapshot":
        return cls(head, image, canonical.digest("img1", image))

    @property
    def values(self) -> tuple[int, str, str, bytes, str]:
        """As the engines keep it; the image of one in pieces is left out."""
        head = self.head
        image = b"" if self.pieces else self.image
        return head.seq, head.digest, head.state_digest, image, self.digest

    @property
    def pieces(self) -> list[bytes]:
        """The parts of an image that is too long for one value; none of one that is not."""
        size = limits.SNAPSHOT_PIECE_BYTES
        if len(self.image) <= size:
            return []
        return [self.image[start : start + size] for start in range(0, len(self.image), size)]

    @property
    def sound(self) -> bool:
        return canonical.digest("img1", self.image) == self.digest


class Unavailable(Exception):
    """The authority cannot work, for a reason with a failure class."""

    def __init__(self, reason: Reason, detail: str) -> None:
        failure = FAILURES[reason]
        super().__init__(f"{detail}: {failure.meaning}; {failure.remedy}")
        self.reason = reason


def changes_of(row: Row) -> list[Change]:
    """What a row changed; `Unavailable` where its bytes are not what an authority writes."""
    try:
        return decode_changes(row.changes)
    except msgspec.MsgspecError as error:
        raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {row.seq}: its changes") from error


def operations(journal: "Journal") -> Iterator[Operation]:
    """The operation log that a journal holds, in the order in which it was admitted."""
    for row in journal.read():
        for change in changes_of(row):
            if isinstance(change, OperationAdmitted):
                yield change.operation


class Journal(Protocol):
    """What an engine must do. SQLite is the embedded one, PostgreSQL the shared one."""

    def node(self) -> str:
        """The name of the authority's clock."""

    def epoch(self) -> int:
        """The newest epoch that was taken."""

    def acquire_epoch(self) -> int:
        """Take over: from now on only this epoch appends."""

    def epoch_starts(self) -> Sequence[tuple[int, int]]:
        """Epochs in order, each with the last row before it; an old journal may miss some."""

    def append(self, entries: Sequence[Entry], expected_seq: int, epoch: int) -> None:
        """Commit all rows after row `expected_seq`, or none; raise `Unavailable` for none."""

    def confirm(self) -> None:
        """Return only while no other authority can be at work; raise `Unavailable` where one is."""

    def read(self, after_seq: int = 0) -> Iterator[Row]:
        """Rows in order, from `after_seq` + 1."""

    def rows(self, after_seq: int, count: int) -> list[Row]:
        """At most so many rows, read at once."""

    def row(self, seq: int) -> Row | None:
        """One row."""

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keep this snapshot in place of an older one."""

    def tidy(self) -> None:
        """Do what the storage needs now and then; another thread may be appending."""

    def close(self) -> None:
        """Let go of the storage."""


class SqlTables(Protocol):
    """SQL tables that follow a journal, wherever they are."""

    def watermark(self) -> int:
        """The last row that they show."""

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All that a table shows."""

    def follow(self, journal: Journal, rows_max: int | None = None) -> int:
        """Take in the rows that are missing, or so many of them; how many there were."""

    def clear(self) -> None:
        """Forget everything; the next `follow` begins with the first row."""

    def close(self) -> None:
        """Let go of them."""


class Storage(Journal, Protocol):
    """The journal of a state directory."""

    @property
    def was_abandoned(self) -> bool:
        """Whether the last writer may have lost power, as far as that can be told."""

    @property
    def leads(self) -> bool:
        """Whether we may write. Where the folder's lock says so already, it is always true."""

    @property
    def post(self) -> "RelayChannel | None":
        """How standbys reach the active one, where there can be any."""

    def stand_in(self) -> int | None:
        """Become the authority that may write, if there is none: our epoch."""

    def who(self) -> str:
        """Who may write, for people."""

    def last_seq(self) -> int:
        """The number of the last row."""

    def tables(self, folder: Path) -> SqlTables:
        """The SQL tables of this journal; a file of them is in the state directory."""

    def flush(self) -> None:
        """Put on disk what can be read here; its writer may not have lived to flush it."""
