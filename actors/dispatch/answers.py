"""What all answers of the authority have in common, whichever lane they are about."""

from collections.abc import Sequence
from typing import Any

from ...authority.service import client
from ...contracts import BY_WIRE, Reason
from . import orders
from .orders import Ask, Event

Answer = dict[str, Any]
Call = client.Call

# Nothing was decided, or nobody knows: to be asked again, under the same name.
UNDECIDED = frozenset(
    {
        Reason.AUTHORITY_BUSY,
        Reason.AUTHORITY_OVERLOADED,
        Reason.AUTHORITY_STANDBY,
        Reason.JOURNAL_DEPOSED,
        Reason.JOURNAL_UNREACHABLE,
        Reason.JOURNAL_WRITE_FAILED,
        Reason.SIDECAR_UNREACHABLE,
    }
)


def class_of(answer: Answer) -> str | None:
    """The failure class of a refusal."""
    classes: list[str] = answer["failureClasses"]
    return classes[0] if classes else None


def failed(token: str, failure_class: str, answer: Answer) -> Event:
    """A refusal, or nothing where nobody has decided."""
    if BY_WIRE.get(failure_class) in UNDECIDED:
        return orders.Unanswered(token)
    return orders.Refused(token, failure_class, answer["diagnostic"])


def refusal(token: str, answers: Sequence[Answer]) -> Event | None:
    """The first of the answers that is no grant, if one is none."""
    for answer in answers:
        failure_class = class_of(answer)
        if failure_class is not None:
            return failed(token, failure_class, answer)
    return None


def renewed(ask: orders.RenewMany, answers: Sequence[Answer]) -> list[Event]:
    """All that were, in one event; each other one has its own."""
    events: list[Event] = []
    tokens = []
    for renewal, answer in zip(ask.renewals, answers, strict=True):
        failure_class = class_of(answer)
        if failure_class is None:
            tokens.append(renewal.token)
        else:
            events.append(failed(renewal.token, failure_class, answer))
    return [orders.Renewed(tuple(tokens)), *events] if tokens else events


def tokens_of(ask: Ask) -> list[str]:
    if isinstance(ask, orders.RenewMany):
        return [each.token for each in ask.renewals]
    return [ask.token]
