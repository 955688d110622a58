"""Where the rows of `report` end up: one file, appended to by every cell of a system."""

import json
import os
import threading
import time
from collections import deque
from contextlib import suppress
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


class ReportTail:
    """The rows of some kinds that are written from now on, the last of them or all: they outlive a
    cell.

    May be used by several threads.
    """

    def __init__(self, path: Path, kinds: frozenset[str], rows_max: int | None) -> None:
        self._path, self._kinds = path, kinds
        self._offset = path.stat().st_size if path.exists() else 0
        self._kept: deque[report.Row] = deque(maxlen=rows_max)
        self._lock = threading.Lock()

    def rows(self) -> list[report.Row]:
        """The newest last, each as it was before it was written."""
        with self._lock:
            self._read()
            return list(self._kept)

    def take(self) -> list[report.Row]:
        """The same, and each row only once."""
        with self._lock:
            self._read()
            rows = list(self._kept)
            self._kept.clear()
            return rows

    def _read(self) -> None:
        for line in self._lines():
            with suppress(ValueError):  # torn by a full disk
                row = json.loads(line)
                if row.get("kind") in self._kinds:
                    del row["wall_ms"], row["pid"]
                    self._kept.append(row)

    def _lines(self) -> list[bytes]:
        """Whole lines that were not read before."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()


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
