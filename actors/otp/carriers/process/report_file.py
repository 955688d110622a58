"""Where the rows of `report` end up: one file, appended to by every cell of a system."""

import json
import os
import time
from pathlib import Path

from ... import report
from ...cell import ExitReason, Ref
from . import run_file

_FAULT_LENGTH_MAX = 4_000


def write(path: Path, row: report.Row) -> None:
    """One line, whole: an append of one write is not torn by others."""
    full = {**row, "wall_ms": time.time_ns() // 1_000_000, "pid": os.getpid()}
    line = json.dumps(full, sort_keys=True, default=report.shown) + "\n"
    fd = run_file.opener(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def death(ref: Ref, reason: ExitReason, fault: str, now_ms: int) -> report.Row:
    """A process ended that had no time to say so; what a fault in C code left is kept."""
    return {
        "kind": "death",
        "at_ms": now_ms,
        "cell": {"system": ref.system, "serial": ref.serial, "label": ref.label},
        "reason": {"kind": reason.kind, "detail": reason.detail, "code": reason.code},
        "traceback": fault[:_FAULT_LENGTH_MAX],
    }


def unreadable(ref: Ref, error: Exception, now_ms: int) -> report.Row:
    """A message could not be opened, and is dropped."""
    return {
        "kind": "unreadable",
        "at_ms": now_ms,
        "cell": {"system": ref.system, "serial": ref.serial, "label": ref.label},
        "reason": {"kind": "crash", "detail": report.crash_reason(error).detail, "code": None},
    }
