"""A journal in memory whose disk outlives the process, and fails on demand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from understudy.authority.journal.journal import Entry, Head, Row, Snapshot, Unavailable, unpacked
from understudy.contracts.reason import Reason

Fault = Literal["refused", "killed", "killed_late", "refused_late"]
FAULTS: tuple[Fault, ...] = ("refused", "killed", "killed_late", "refused_late")


class Crash(BaseException):
    """The process ends here: whatever was not on the disk is gone."""


@dataclass
class Disk:
    """What survives a crash. `faults` are met by the next appends, one each."""

    node: str = "n1"
    epoch: int = 0
    rows: list[Row] = field(default_factory=list)
    saved: Snapshot | None = None
    faults: list[Fault] = field(default_factory=list)


class MemoryJournal:
    """One process's handle on a disk. A commit is all of its rows, or none of them."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()

    def node(self) -> str:
        return self.disk.node

    def epoch(self) -> int:
        return self.disk.epoch

    def acquire_epoch(self) -> int:
        self.disk.epoch += 1
        return self.disk.epoch

    def epoch_starts(self) -> list[tuple[int, int]]:
        return []

    def append(self, entries: Sequence[Entry], expected_seq: int, epoch: int) -> None:
        if epoch != self.disk.epoch or expected_seq != len(self.disk.rows):
            raise Unavailable(Reason.JOURNAL_DEPOSED, f"epoch {epoch}, row {expected_seq}")
        fault = self.disk.faults.pop(0) if self.disk.faults else None
        if fault == "refused":
            raise Unavailable(Reason.JOURNAL_WRITE_FAILED, "the disk is full")
        if fault == "killed":
            raise Crash
        self.disk.rows.extend(unpacked(entries))
        if fault == "refused_late":
            raise Unavailable(Reason.JOURNAL_WRITE_FAILED, "the disk wrote it and said no")
        if fault == "killed_late":
            raise Crash

    def confirm(self) -> None:
        """No other journal has this disk."""

    def read(self, after_seq: int = 0) -> Iterator[Row]:
        yield from self.disk.rows[after_seq:]

    def rows(self, after_seq: int, count: int) -> list[Row]:
        return self.disk.rows[after_seq : after_seq + count]

    def row(self, seq: int) -> Row | None:
        return self.disk.rows[seq - 1] if 0 < seq <= len(self.disk.rows) else None

    def snapshot(self) -> Snapshot | None:
        return self.disk.saved

    def put_snapshot(self, snapshot: Snapshot) -> None:
        self.disk.saved = snapshot

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        """Nothing to let go of."""

    def head(self) -> Head:
        if not self.disk.rows:
            return Head()
        last = self.disk.rows[-1]
        return Head(last.seq, last.digest, last.state_digest)
