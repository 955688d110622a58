"""Writes the trajectory for a sidecar that leaves it to others: a process that follows the journal.

    sidecar --rows--> journal --read-only--> evidence writer --lines--> trajectory
                                                    \\--rows--> who is to hear of them

I1  One process at a time writes the trajectory; the operating system frees the lock of a dead one.
I2  A line is written when its row is on disk, in the row's order and as the row's only line.
I3  A writer that was killed leaves the beginning of the right file, and half a line at most; the
    next one cuts that off, and goes on behind it.
I4  A row without exactly one route to Ev is not written, and nor is any behind it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

import orjson

from ...authority import TRAJECTORY, evidence_locked, open_journal
from ...authority.journal import journal
from ...authority.views import trajectory

TURN_ROWS_MAX = 2_048  # written between two flushes
_BUSY_SECONDS = 0.02  # between two turns, so that rows that come together share a flush
_IDLE_SECONDS = 0.25  # between two looks at a journal that stands still

# Actions after which there may be work that was not there before.
_STIRRING = frozenset(
    {
        "approval.give",
        "budget.clear",
        "budget.set",
        "dep.remove",
        "dep.replace",
        "descent.abort",
        "descent.obstruct",
        "descent.seal",
        "issue.add",
        "issue.close",
        "issue.discover",
        "issue.import",
        "issue.lease_break",
        "issue.lease_release",
        "issue.prioritize",
        "issue.retry",
        "issue.update",
        "pause.clear",
        "policy.set",
    }
)
# Actions that may take leases from holders who do not know of it.
_TAKING = frozenset(
    {"issue.cancel", "issue.lease_break", "job.cancel", "pause.set", "spend.report"}
)
# Actions by which people steer work, and what becomes of sections.
_STEERING = frozenset(
    {"approval.ask", "approval.give", "descent.obstruct", "descent.seal", "issue.cancel"}
    | {"issue.retry", "job.cancel", "job.retry", "pause.clear", "pause.set"}
)
# Lanes in which all but a claim may make a job claimable, or a worker fit to claim it.
_JOB_LANES = (
    *("approval.", "budget.", "coordinator.", "job.", "limit.", "node.", "pause.", "policy."),
    *("route.", "schedule.", "spec."),
)

# Actions after which there may be a spec to make jobs of, or a job to dispatch.
SPEC_NEWS = frozenset({"schedule.fire", "spec.release", "spec.submit"})
SCHEDULE_NEWS = frozenset({"schedule.set"})
JOB_NEWS = frozenset(
    {"approval.give", "dispatch.release", "job.admit", "job.complete", "job.expire", "job.retry"}
    | {"job.yield", "pause.clear", "policy.set", "spec.materialize"}
)


class EvidenceWriter:
    """The trajectory of a state directory, in our hands until it is closed.

    Raises `Unavailable` where another process has it, or where it is not the journal's.
    """

    def __init__(self, state_dir: Path, *, wait_ms: int | None = None) -> None:
        with ExitStack() as opened:
            opened.enter_context(evidence_locked(state_dir, wait_ms=wait_ms))
            self._journal = opened.enter_context(open_journal(state_dir, read_only=True))
            # Rows that a killed sidecar did not flush can be read, and be gone after a power cut.
            self._journal.flush()
            doubt = self._journal if self._journal.was_abandoned else None
            path = state_dir / TRAJECTORY
            self._trajectory = opened.enter_context(
                closing(trajectory.Trajectory(path, self._journal.last_seq(), doubt))
            )
            self.seq = self._trajectory.seq
            self._opened = opened.pop_all()

    def turn(self) -> Sequence[journal.Row]:
        """Write what is new, up to a bound, and flush it; the rows that were written."""
        rows = self._journal.rows(self.seq, TURN_ROWS_MAX)
        if rows:
            self.seq = self._trajectory.follow(self._journal, rows)
        return rows

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def follow(
    state_dir: Path,
    stop: threading.Event,
    heard: Callable[[Sequence[journal.Row]], object] = len,
) -> None:
    """Follow the journal until told to stop, and then to its end; `heard` gets every row once."""
    with EvidenceWriter(state_dir) as writer:
        pause_seconds = _BUSY_SECONDS
        while True:
            last = stop.is_set()
            if rows := writer.turn():
                heard(rows)
                pause_seconds = _BUSY_SECONDS
            elif last:
                return
            else:
                pause_seconds = min(2 * pause_seconds, _IDLE_SECONDS)
            if len(rows) < TURN_ROWS_MAX:
                stop.wait(pause_seconds)


def stirs(row: journal.Row) -> bool:
    """Whether there may be work to hand out now that was not there before this row."""
    effect = _effect(row)
    return effect["action"] in _STIRRING and effect["resultClass"] == "accepted"


def done(rows: Sequence[journal.Row]) -> set[str]:
    """The actions that were accepted in some rows."""
    effects = map(_effect, rows)
    return {each["action"] for each in effects if each["resultClass"] == "accepted"}


def stirs_jobs(row: journal.Row) -> bool:
    """Whether there may be a job to claim now that could not be claimed before this row."""
    effect = _effect(row)
    action: str = effect["action"]
    is_news = action.startswith(_JOB_LANES) and action != "job.claim"
    return is_news and effect["resultClass"] == "accepted"


def taken(rows: Sequence[journal.Row]) -> Iterator[tuple[str, str]]:
    """The resources whose lease an operator or a budget took from its holder, and how."""
    for row in rows:
        effect = _effect(row)
        if effect["action"] in _TAKING and effect["resultClass"] == "accepted":
            for change in orjson.loads(row.changes):
                if change["change"] == "lease.dropped":
                    yield change["resource"], effect["action"]


def steered(rows: Sequence[journal.Row]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What people said about work in some rows, or a gluer: the action, and the answer to it."""
    for row in rows:
        answer: dict[str, Any] = orjson.loads(row.response)
        if answer["action"] in _STEERING and answer["result"] == "accepted":
            yield answer["action"], answer


def _effect(row: journal.Row) -> dict[str, Any]:
    effect: dict[str, Any] = orjson.loads(row.response)["effect"]
    return effect
