"""What workers leave behind beside the work itself: hand-overs, sessions, features and steps.

The ledger's laws are here too, and what a result class means. All of it is pure.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from msgspec import Struct

from ..reason import BY_WIRE, FAILURES, Reason, Retry
from ..requests.shapes import Checkpoint, Ledger

SESSION_KIND = "premath.harness.session.v1"
BOOTSTRAP_KIND = "premath.harness.bootstrap.v1"
LEDGER_KIND: Final = "premath.harness.feature_ledger.v1"
LEDGER_CHECK_KIND = "premath.harness.feature_ledger.check.v1"
STEP_KIND = "premath.harness.step.v1"
TRAJECTORY_KIND = "premath.harness.trajectory.projection.v1"
FEATURE_STATUSES = ("pending", "in_progress", "blocked", "completed")

# --- records ------------------------------------------------------------------------------------


class Handover(Struct, frozen=True, kw_only=True):
    """A checkpoint of one holder in one term, for the next one."""

    issue_id: str
    owner: str
    lease_id: str
    fence: int
    seq: int
    at_ms: int
    checkpoint: Checkpoint


class WorkerSession(Struct, frozen=True, kw_only=True):
    """Where one worker stands. Every worker has its own."""

    worker: str
    session_id: str
    state: Literal["active", "stopped"] = "active"
    issue_id: str = ""
    summary: str = ""
    next_step: str = ""
    instruction_refs: tuple[str, ...] = ()
    witness_refs: tuple[str, ...] = ()
    lineage_refs: tuple[str, ...] = ()
    issues_path: str = ""
    issues_snapshot_ref: str = ""
    started_ms: int
    updated_ms: int
    updated_seq: int
    stopped_ms: int | None = None


class Feature(Struct, frozen=True, kw_only=True):
    """One line of a worker's ledger."""

    worker: str
    feature_id: str
    status: str = "pending"
    issue_id: str = ""
    summary: str = ""
    instruction_refs: tuple[str, ...] = ()
    verification_refs: tuple[str, ...] = ()
    updated_ms: int


def normal_refs(refs: Iterable[str]) -> tuple[str, ...]:
    """References in their one order: trimmed, sorted, none twice, none blank."""
    return tuple(sorted({text for ref in refs if (text := ref.strip())}))


# --- the laws of a ledger -----------------------------------------------------------------------


def ledger_flaws(ledger: Ledger, *, require_closure: bool) -> list[Reason]:
    """Every law that a ledger breaks, once each, in the order of the laws."""
    return sorted(set(_flaws(ledger, require_closure=require_closure)))


def _flaws(ledger: Ledger, *, require_closure: bool) -> Iterator[Reason]:
    features = ledger.features
    if not ledger.updated_at.strip():
        yield Reason.LEDGER_UPDATED_AT_EMPTY
    if not features:
        yield Reason.LEDGER_EMPTY
    if any(count > 1 for count in Counter(each.feature_id for each in features).values()):
        yield Reason.LEDGER_FEATURE_DUPLICATE
    for each in features:
        if not each.feature_id.strip():
            yield Reason.LEDGER_FEATURE_ID_EMPTY
        if not each.updated_at.strip():
            yield Reason.LEDGER_FEATURE_UPDATED_AT_EMPTY
        if each.status not in FEATURE_STATUSES:
            yield Reason.LEDGER_STATUS_INVALID
        if each.status == "completed" and not each.verification_refs:
            yield Reason.LEDGER_UNVERIFIED
        if not all(ref.strip() for ref in each.instruction_refs):
            yield Reason.LEDGER_INSTRUCTION_REF_EMPTY
        if not all(ref.strip() for ref in each.verification_refs):
            yield Reason.LEDGER_VERIFICATION_REF_EMPTY
    if sum(each.status == "in_progress" for each in features) > 1:
        yield Reason.LEDGER_IN_PROGRESS_TWICE
    if require_closure and not is_closed(each.status for each in features):
        yield Reason.LEDGER_CLOSURE_INCOMPLETE


def is_closed(statuses: Iterable[str]) -> bool:
    """Whether all that was planned is done."""
    return all(status == "completed" for status in statuses)


def next_feature(features: Iterable[tuple[str, str]]) -> str | None:
    """The id to go on with, of ids and statuses: what was begun, else what waits."""
    features = sorted(features)
    for wanted in ("in_progress", "pending"):
        for feature_id, status in features:
            if status == wanted:
                return feature_id
    return None


# --- what a result class means ------------------------------------------------------------------

_SUCCESS = frozenset({"accepted", "verified_accept", "completed", "success", "ok", "passed"})
_AGAIN = re.compile("retry|transient|timeout|network|rate_limit")


def is_success(result_class: str) -> bool:
    return _plain(result_class) in _SUCCESS


def needs_retry(result_class: str) -> bool:
    """Whether trying again may help: our own classes say so themselves, others by their words."""
    reason = BY_WIRE.get(result_class)
    if reason is not None:
        return FAILURES[reason].retry is Retry.LATER
    return _AGAIN.search(_plain(result_class)) is not None


def _plain(result_class: str) -> str:
    return result_class.strip().lower().replace("-", "_")
