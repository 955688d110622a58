"""Which work a scope covers, and why work in a scope is withheld from those who claim it.

    *           all work
    label/L     issues with the label
    kind/K      jobs of the kind; `kind/ci.` is every kind below `ci.`, as routes have it
    issue/ID    one issue
    job/ID      one job
    tree/NAME   what a tree of this name holds; for budgets alone

`scopes_of` is the only place that knows. Withheld work keeps its place; what runs goes on.
"""

from msgspec import UNSET

from ...contracts import (
    ALL_WORK,
    Approval,
    Issue,
    JobRecord,
    Reason,
    ScopePause,
    issue_resource,
    job_resource,
)
from .jobs.job_index import kinds_above, plain_kind
from .outcome import Refused
from .state import State

Work = Issue | JobRecord


def scopes_of(work: Work) -> tuple[str, ...]:
    """Every scope that covers a piece of work whoever holds it, the narrowest first."""
    if isinstance(work, Issue):
        return (issue_resource(work.id), *(f"label/{each}" for each in work.labels), ALL_WORK)
    kinds = (f"kind/{each}" for each in kinds_above(work.kind))
    return (job_resource(work.job_id), *kinds, ALL_WORK)


def trees_of(work: Work, owner: str | None) -> tuple[str, ...]:
    """The tree that holds the work, if one does: its workers are called after it, and claim jobs
    under its very name."""
    name, slash, _ = (owner or "").partition("/")
    return (f"tree/{name}",) if slash or (name and isinstance(work, JobRecord)) else ()


def plain_scope(text: str) -> str | None:
    """A scope in its one spelling; None where it is none."""
    family, _, name = text.partition("/")
    if text == ALL_WORK or (family in ("label", "issue", "job") and name):
        return text
    if family != "kind" or name in ("", "*", ".", ".*"):
        return None
    return plain_kind(text)


def covers(scope: str, work: Work) -> bool:
    return scope in scopes_of(work)


def pause_of(state: State, work: Work) -> ScopePause | None:
    """The narrowest pause that a piece of work is under."""
    if not state.pauses:
        return None
    return next((state.pauses[each] for each in scopes_of(work) if each in state.pauses), None)


def approval_of(state: State, work: Work) -> str | None:
    """Where the approval of a piece of work stands; None where it needs none."""
    if work.approval is not UNSET:
        return work.approval
    wanted = state.policy.approve
    if wanted is UNSET or not wanted:
        return None
    return Approval.WAITING if any(each in wanted for each in scopes_of(work)) else None


def withheld(state: State, work: Work) -> Refused | None:
    """Why no new term of it begins, whoever asks: it waits for a person, or is paused."""
    approval, pause = approval_of(state, work), pause_of(state, work)
    if approval in (None, Approval.APPROVED) and pause is None:
        return None
    if isinstance(work, Issue):
        name, about = f"issue {work.id}", {"issue_id": work.id}
    else:
        name, about = f"job {work.job_id}", {"job_id": work.job_id}
    if approval == Approval.WAITING:
        return Refused(Reason.APPROVAL_MISSING, name).about(**about)
    if approval == Approval.REJECTED:
        return Refused(Reason.APPROVAL_REJECTED, name).about(**about)
    assert pause is not None
    said = f"{name}: {pause.scope}"
    if pause.reason:
        said += f", {pause.reason}"
    return Refused(Reason.WORK_PAUSED, said).about(**about)
