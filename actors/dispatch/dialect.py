"""How the dispatcher's orders are spelled as host actions, and what the answers mean. Pure.

What all kinds of work have in common is here, in the words of `leasing.work_kind`; `clerk.Issues`
and `jobs.Jobs` have the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ...authority.service import client
from ...contracts import Reason
from ..leasing.outstanding import Answer, class_of, is_decided
from ..leasing.work_kind import HeldLease, WorkKind
from . import orders
from .orders import Ask, Event

Call = client.ClientCall


class Dialect(ABC):
    """One kind of work."""

    kind: ClassVar[WorkKind]
    absent: ClassVar[Reason]  # what a look at work says that does not exist

    def owner(self, worker: str) -> str:
        """The name under which the authority knows a worker of ours."""
        return worker

    # --- how it is spelled ----------------------------------------------------------------------

    def calls_of(self, ask: Ask) -> list[Call]:
        """The host actions that an effect stands for; `requestId` makes a change happen once."""
        kind = self.kind
        match ask:
            case orders.AskIssues(_, names):
                return [Call(*kind.look(each)) for each in names]
            case orders.Claim(token, name, worker, ttl_seconds):
                claim = kind.claim(name, self.owner(worker), ttl_seconds * 1_000)
                # The answer to a claim is short; the worker wants to know all of it.
                return [named(token, *claim), Call(*kind.look(name))]
            case orders.RenewMany(renewals):
                return [
                    named(
                        each.token,
                        *kind.renewal(self.spelled(each.holder), each.ttl_seconds * 1_000),
                    )
                    for each in renewals
                ]
            case orders.CountSpend(token, holder, spent):
                proof = kind.proof(self.spelled(holder))
                return [named(token, "spend.report", proof | dict(spent))]
            case orders.Release(token, holder, reason, handed_back):
                # A run that takes over may see it otherwise: then it is another request.
                token += ".back" if handed_back else ""
                released = kind.release(self.spelled(holder), reason, handed_back=handed_back)
                return [named(token, *released)]
            case _:
                return self._calls_of(ask)

    def spelled(self, holder: HeldLease) -> HeldLease:
        """The lease in the authority's words."""
        return replace(holder, owner=self.owner(holder.owner))

    @abstractmethod
    def _calls_of(self, ask: Ask) -> list[Call]:
        """Of all other effects."""

    # --- what it means --------------------------------------------------------------------------

    def events_of(self, ask: Ask, answers: Sequence[Answer]) -> list[Event]:
        """What the answers to `calls_of` mean."""
        if isinstance(ask, orders.RenewMany):
            return _renewed(ask, answers)
        if isinstance(ask, orders.AskIssues):
            answers = [each for each in answers if class_of(each) != self.absent.wire]
        for answer in answers:
            if class_of(answer) is not None:
                return [_refused(ask.token, answer)]
        if isinstance(ask, orders.CountSpend):
            return [_counted(ask, answers[0])]
        if isinstance(ask, orders.Claim):
            return [self._claimed(ask, *map(self.kind.shown, answers))]
        return [self._event(ask, answers)]

    def _claimed(self, ask: orders.Claim, claim: Answer, show: Answer) -> Event:
        """A claim that is asked again gets its first answer, however old: does the grant stand?"""
        lease = show.get(self.kind.lease, {})
        if lease.get("fence") != claim[self.kind.lease]["fence"]:
            detail = "it was granted, and lost since"
            return orders.RequestRefused(ask.token, Reason.FENCE_STALE.wire, detail)
        holder = replace(self.kind.held(claim), owner=ask.assignee)
        return orders.Claimed(ask.token, holder, claim["attempts"], show)

    def _event(self, ask: Ask, answers: Sequence[Answer]) -> Event:  # noqa: ARG002 - for subclasses
        """Of all other effects, where nothing was refused."""
        changes = orders.CloseWork | orders.Release | orders.Expire | orders.Discover | orders.Amend
        assert isinstance(ask, changes), ask
        return orders.Settled(ask.token)


def named(token: str, action: str, payload: dict[str, Any]) -> Call:
    """A change that is done once, however often it is asked."""
    return Call(action, payload | {"requestId": token})


def tokens_of(ask: Ask) -> list[str]:
    if isinstance(ask, orders.RenewMany):
        return [each.token for each in ask.renewals]
    return [ask.token]


def _counted(ask: orders.CountSpend, answer: Answer) -> Event:
    used = tuple(
        f"{each['percent']} % of {each['scope']} per {each['per']}"
        for each in answer["budgets"]
        if each["state"] != "within"
    )
    return orders.Counted(ask.token, used, is_over=answer["stopped"])


def _refused(token: str, answer: Answer) -> Event:
    """A refusal, or nothing where it was not decided."""
    failure_class = class_of(answer)
    if failure_class is None or not is_decided(answer):
        return orders.Unanswered(token)
    return orders.RequestRefused(token, failure_class, answer["diagnostic"])


def _renewed(ask: orders.RenewMany, answers: Sequence[Answer]) -> list[Event]:
    """All that were, in one event; each other one has its own."""
    events: list[Event] = []
    tokens = []
    for renewal, answer in zip(ask.renewals, answers, strict=True):
        if class_of(answer) is None:
            tokens.append(renewal.token)
        else:
            events.append(_refused(renewal.token, answer))
    return [orders.Renewed(tuple(tokens)), *events] if tokens else events
