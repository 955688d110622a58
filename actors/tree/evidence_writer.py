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
    SCHEDULE_NEWS,
    SPEC_NEWS,
    TURN_ROWS_MAX,
    EvidenceWriter,
    done,
    steered,
    stirs,
    stirs_jobs,
    taken,
)
from . import chain_runner, job_dispatcher, news, scheduler
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
        self._listeners = {"issue": listener, "job": job_listener}
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
        for resource, _ in taken(rows):
            family, _, name = resource.partition("/")
            if family in self._listeners:
                self.cast(self._listeners[family], Doubt(name))
        for action, answer in steered(rows):
            what, detail, about = _said(action, answer)
            news.tell(self.cell, "steering", what, detail, **about)
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
        if actions & SCHEDULE_NEWS:
            self.cast(scheduler.NAME, Wake())

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


# --- what people said, and what became of sections ----------------------------------------------

_PATHS_MAX = 3  # in a line
_WORDS = {
    "approval.ask": "waits for approval",
    "issue.cancel": "cancelled",
    "issue.retry": "brought back",
    "job.cancel": "cancelled",
    "job.retry": "brought back",
    "pause.clear": "unpaused",
    "pause.set": "paused",
}


def _said(action: str, answer: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """What happened, by whom and why, and to which work."""
    if action.startswith("descent."):
        return _of_sections(answer)
    if "pause" in answer:
        pause = answer["pause"]
        by, why = (pause["byName"], pause["reason"]) if action == "pause.set" else ("", "")
        about: dict[str, Any] = {"scope": pause["scope"]}
        if count := answer.get("handedBackCount"):
            about["handedBack"] = count
    elif "job" in answer:
        job = answer["job"]
        by, why = job.get("steeredBy", ""), job.get("reason", "")
        about = {"job": job["jobId"]}
    else:
        issue = answer["issue"]
        by, why = (issue.get("steered", {}).get(name, "") for name in ("byName", "reason"))
        about = {"issue": issue["id"]}
    what = _WORDS.get(action) or _ruling(answer)
    said = [about["scope"]] if "scope" in about else []
    said += [f"{about['handedBack']} handed back"] if "handedBack" in about else []
    said += ([f"by {by}"] if by else []) + ([why] if why else [])
    return what, ", ".join(said), about | ({"by": by} if by else {}) | ({"why": why} if why else {})


def _of_sections(answer: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """What a gluer says: what is on the branch now, or what does not fit."""
    if "glue" in answer:
        ids = ", ".join(each["sectionId"] for each in answer["sections"])
        what = "glued" if answer["closed"] else "not glued"
        return what, f"{answer['glue']['target']}: {ids}", {}
    found, issue = answer["obstruction"], answer["issue"]
    others = f" with {', '.join(found['others'])}" if found["others"] else ""
    where = found.get("check") or ", ".join(found["paths"][:_PATHS_MAX])
    said = f"{found['kind']}{others}: {where}; it is {issue['status']}"
    return "obstructed", said, {"issue": issue["id"]}


def _ruling(answer: dict[str, Any]) -> str:
    """Approved, or rejected."""
    return str((answer.get("issue") or answer["job"])["approval"])
