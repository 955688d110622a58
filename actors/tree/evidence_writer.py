"""Writes the trajectory behind the journal, and says to the loops when there may be work.

The work itself is `evidence.EvidenceWriter`; here it has a cell, and turns. A row that cannot be
written ends the cell with what is wrong; its supervisor tries again, and then gives up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...authority import Unavailable
from ...authority.journal import journal
from ...contracts import Reason as Failure
from ..dispatch.orders import Doubt, Wake
from ..otp import Caller, ExitReason, GenServer, Next, Word
from ..run.evidence_process import (
    JOB_NEWS,
    SPEC_NEWS,
    TURN_ROWS_MAX,
    EvidenceWriter,
    broken,
    broken_job,
    done,
    stirs,
    stirs_jobs,
)
from . import chain_runner, job_dispatcher
from .plan import Plan

NAME: Final = "evidence_writer"
_LOCK_MS = 10_000  # how long one that was killed may take to let go
_BUSY_MS = 20  # between two turns, so that rows that come together share a flush
_IDLE_MS = 250  # between two looks at a journal that stands still


@dataclass(frozen=True, slots=True)
class EvidenceTurn:
    """How far it is, for people: a dictionary."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """Time to write what is new."""


class EvidenceCell(GenServer):
    """Answers `EvidenceTurn`."""

    name = NAME

    def __init__(self, plan: Plan, listener: str, job_listener: str) -> None:
        self._plan, self._listener, self._job_listener = plan, listener, job_listener
        self._pause_ms = _BUSY_MS
        self.rows = 0

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        self._writer = EvidenceWriter(self._plan.state_dir, wait_ms=_LOCK_MS)
        self.cell.after(0, _Turn())
        return None

    def handle_call(self, request: object, caller: Caller) -> object:
        if isinstance(request, EvidenceTurn):
            return self._known()
        return super().handle_call(request, caller)

    def handle_info(self, message: object) -> Next:
        if not isinstance(message, _Turn):
            return super().handle_info(message)
        rows = self._write()
        for issue_id in filter(None, map(broken, rows)):
            self.cast(self._listener, Doubt(issue_id))
        for job_id in filter(None, map(broken_job, rows)):
            self.cast(self._job_listener, Doubt(job_id))
        if any(map(stirs, rows)):
            self.cast(self._listener, Wake())
        if any(map(stirs_jobs, rows)):
            self.cast(self._job_listener, Wake())
        if self._plan.job_files is not None:
            self._wake_rounds(done(rows))
        if rows:
            self._pause_ms = 0 if len(rows) == TURN_ROWS_MAX else _BUSY_MS
        else:
            self._pause_ms = min(2 * max(_BUSY_MS, self._pause_ms), _IDLE_MS)
        self.cell.after(self._pause_ms, _Turn())
        return None

    def terminate(self, reason: ExitReason) -> None:
        if reason.is_clean:
            while self._write():
                pass
        self._writer.close()

    def summary(self) -> object:
        return self._known()

    def _wake_rounds(self, actions: set[str]) -> None:
        if actions & SPEC_NEWS:
            self.cast(chain_runner.NAME, Wake())
        if actions & JOB_NEWS:
            self.cast(job_dispatcher.NAME, Wake())

    def _write(self) -> Sequence[journal.Row]:
        try:
            rows = self._writer.turn()
        except Unavailable as error:
            if error.reason is not Failure.JOURNAL_UNREACHABLE:
                raise
            return ()  # workers go on meanwhile, and so do we
        self.rows += len(rows)
        return rows

    def _known(self) -> dict[str, Any]:
        return {"seq": self._writer.seq, "rows": self.rows}
