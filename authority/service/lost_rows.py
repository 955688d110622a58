"""Fills the numbers of rows that were answered and are not in the journal any more.

A fence is the number of its row, so the journal must not come to these numbers with new grants.
Each gets a row that says what is lost, and changes no state; the grants after it have greater
fences than any that was given out.
"""

from collections.abc import Callable
from pathlib import Path

from ...contracts import Door, Reason, limits
from ..journal.journal import Unavailable
from .local import Office

_BATCH = 1_000
_STEP: dict[str, object] = {
    "worker": "understudy rebuild",
    "action": "row.lost",
    "resultClass": "lost",
}


def fill_lost_rows(state_dir: Path, last_seq: int, told: Callable[[int], None]) -> int:
    """Bring the journal to this row; how many rows it was short of. Calls `told` with each row.

    A part that was filled by a process that died is gone on with.
    """
    with Office(state_dir, accepts_loss=True) as office:
        first_seq = office.authority.head.seq + 1
        missing = max(0, last_seq - office.authority.head.seq)
        if missing > limits.LOST_ROWS_MAX:
            detail = f"{missing:,} rows are missing: restore a newer copy of the journal"
            raise Unavailable(Reason.TRAJECTORY_MISMATCH, detail)
        for seq in range(first_seq, last_seq + 1, _BATCH):
            rows = range(seq, min(seq + _BATCH, last_seq + 1))
            office.ask_many([_lost(row) for row in rows], Door("cli"))
            for row in rows:
                told(row - first_seq + 1)
        return missing


def _lost(seq: int) -> tuple[str, dict[str, object], None]:
    summary = f"row {seq} was answered once, and is not in this journal"
    return "harness.trajectory.append", _STEP | {"summary": summary}, None
