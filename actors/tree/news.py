"""What the cells of a tree have to say to people: one row for each thing that happens.

    {"kind", "at_ms", "at", "what", "detail", "issue" or "job", ...}

`at_ms` orders the rows of one machine, and `at` is the moment as people write it. What else a row
has is the same as its detail, in members for programs.
"""

import time
from typing import Any

from ...contracts import rfc3339
from ..otp import report
from ..otp.cell import Cell

KINDS = frozenset({"dispatch", "rounds", "steering"})  # of reports that are for people


def tell(cell: Cell, kind: str, what: str, detail: str, **more: Any) -> dict[str, Any]:
    """Report it; the row, for those who keep their own."""
    assert kind in KINDS, kind
    at = rfc3339.record_text(time.time_ns() // 1_000_000)
    row = {"kind": kind, "at_ms": cell.now_ms(), "at": at, "what": what, "detail": detail} | more
    report.emit(cell, row)
    return row
