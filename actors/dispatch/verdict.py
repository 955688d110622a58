"""What a worker's end means, and the steps that follow from it. Pure, and all of it.

| stopped because        | ended with      | verdict                                            |
| ---------------------- | --------------- | -------------------------------------------------- |
| it lost its lease      | anything        | nothing: the issue is not ours                     |
| it was not confirmed   | anything        | given back: the lease may still be ours            |
| the dispatcher stops   | anything        | handed back                                        |
| its time was up        | anything        | failed: `job_timeout`                              |
| we do not know why     | anything        | given back: an earlier dispatcher knew             |
| not at all             | 0               | done                                               |
| not at all             | 0, and rubbish  | failed: what it leaves cannot be taken             |
| not at all             | 75              | handed back, and left alone for a while            |
| not at all             | 75, too often   | failed: `job_failed`                               |
| not at all             | another code    | failed: `job_failed`                               |
| not at all             | signal, or lost | failed: `job_worker_lost`                          |

An attempt that is handed back is excused; what is given back counts, since its work may be why.
Classes that a worker names itself come first; of all, the first that the policy knows decides.
"""

from dataclasses import dataclass
from typing import assert_never

from ...contracts import RetryPolicy, limits, retry_decision
from . import escalation
from .assignment import Assignment, EndStep, Why
from .escalation import FailedAttempt
from .orders import Amend, Ask, AskIssues, CloseWork, Discover, Release, WorkerExited
from .worklist import LOST

HAND_BACK = 75  # EX_TEMPFAIL: not me, or not now


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to ask of the authority, in this order; `rests` says by which backoff it waits then."""

    steps: tuple[EndStep, ...] = ()
    rests: str | None = None
    failure: FailedAttempt | None = None
    reason: str = ""  # why it is given back, where it has not failed
    handed_back: bool = False  # the attempt is excused

    @property
    def said(self) -> str:
        """What its next holder is told, in one line."""
        if self.failure is None:
            return self.reason
        name = escalation.matched(self.failure.decision)
        room = limits.REASON_LENGTH_MAX - len(name) - 2
        return f"{name}: {escalation.shortened(self.failure.detail, room)}"


def judge(
    why: Why | None,
    event: WorkerExited,
    attempt: int,
    labels: tuple[str, ...],
    policy: RetryPolicy,
    *,
    excused: int = 0,
) -> Verdict:
    """What becomes of an issue whose worker has ended; attempts that are excused come on top."""
    said = escalation.sound_classes(event.failure_classes)
    match why:
        case Why.LOST:
            return Verdict()
        case Why.UNCONFIRMED | Why.LEAVING:
            is_leaving = why is Why.LEAVING
            return Verdict((EndStep.RELEASE,), reason=why.value, handed_back=is_leaving)
        case Why.TIMEOUT:
            failure = _failure(event, (*said, "job_timeout"), "time was up", attempt, policy)
        case None if event.was_stopped:
            return Verdict((EndStep.RELEASE,), reason="it was stopped")
        case None if event.unsound:
            failure = _failure(event, (*said, "job_failed"), event.unsound, attempt, policy)
        case None if event.code == 0:
            return Verdict((EndStep.CLOSE,))
        case None if event.code == HAND_BACK and excused < limits.HAND_BACKS_MAX:
            rests = retry_decision(policy, LOST, attempt).backoff_class
            return Verdict((EndStep.RELEASE,), rests, reason="handed back", handed_back=True)
        case None if event.code is not None:
            end = f"exit code {event.code}"
            failure = _failure(event, (*said, "job_failed"), end, attempt, policy)
        case None:
            end = "it was lost" if event.signal is None else f"signal {event.signal}"
            failure = _failure(event, (*said, *LOST), end, attempt, policy)
        case _:
            assert_never(why)
    return failed(failure, labels)


def failed(failure: FailedAttempt, labels: tuple[str, ...]) -> Verdict:
    """Try again later, or escalate."""
    decision = failure.decision
    if decision.retry:
        return Verdict((EndStep.RELEASE,), decision.backoff_class, failure)
    match escalation.escalation_of(decision, labels):
        case "issue_discover":
            return Verdict((EndStep.READ, EndStep.FILE, EndStep.BLOCK), None, failure)
        case "mark_blocked":
            return Verdict((EndStep.READ, EndStep.BLOCK), None, failure)
        case escalation.BLOCKED:
            return Verdict((EndStep.RELEASE,), None, failure)
        case _:
            return Verdict(
                (EndStep.READ, EndStep.NOTE, EndStep.RELEASE, EndStep.STOP), None, failure
            )


def lost(worker: str, detail: str, attempt: int, policy: RetryPolicy) -> FailedAttempt:
    """An attempt of which no more is known than that it did not come to an end."""
    return FailedAttempt(worker, retry_decision(policy, LOST, max(1, attempt)), detail)


def effect_of(step: EndStep, term: Assignment, token: str, policy: RetryPolicy) -> Ask:
    """What a step asks of the authority."""
    holder = term.lease
    match step:
        case EndStep.CLOSE:
            return CloseWork(token, holder, term.artifacts)
        case EndStep.RELEASE:
            return Release(token, holder, term.reason, term.handed_back)
        case EndStep.READ:
            return AskIssues(token, (holder.name,))
        case EndStep.FILE:
            return _filing(term, token, policy)
        case EndStep.BLOCK:
            return Amend(token, holder, "blocked", _noted(term, policy))
        case EndStep.NOTE:
            return Amend(token, holder, None, _noted(term, policy))
        case EndStep.STOP:
            raise AssertionError("no request is sent")
        case _:
            assert_never(step)


def _failure(
    event: WorkerExited, classes: tuple[str, ...], end: str, attempt: int, policy: RetryPolicy
) -> FailedAttempt:
    detail = f"{end}: {event.detail}" if event.detail else end
    return FailedAttempt(event.worker, retry_decision(policy, classes, attempt), detail)


def _filing(term: Assignment, token: str, policy: RetryPolicy) -> Discover:
    assert term.failure is not None
    issue_id = term.name
    return Discover(
        token,
        term.lease,
        new_id=escalation.filed_id(issue_id, term.notes),
        title=escalation.title(issue_id, term.failure.decision),
        description=escalation.note(issue_id, term.failure, policy),
        labels=(escalation.LABEL,),
    )


def _noted(term: Assignment, policy: RetryPolicy) -> str | None:
    assert term.failure is not None
    note = escalation.note(term.name, term.failure, policy)
    return escalation.noted(term.notes, note)
