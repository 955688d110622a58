"""An authority that says what a test tells it to, and keeps a list of what it was asked."""

from collections.abc import Callable, Sequence
from typing import Any

from understudy.actors.leasing.moment import Moment
from understudy.actors.specs.lease_loop import Rounds
from understudy.authority.service.client import ClientCall
from understudy.contracts import FAILURES

Answer = dict[str, Any]
LOST = [each.wire for each in FAILURES.values() if each.ends_lease]
START_MS = 1_000_000


def granted(**body: Any) -> Answer:
    return {"result": "accepted", "failureClasses": [], "diagnostic": ""} | body


def refused(name: str) -> Answer:
    return {"result": "rejected", "failureClasses": [name], "diagnostic": f"because of {name}"}


def lease(resource: str, fence: int, owner: str = "ada") -> Answer:
    return {"leaseId": f"{resource}/{fence}", "fence": fence, "owner": owner}


class Door:
    """One machine, its time, and the answers of `says` by action; a callable gets the payload."""

    def __init__(self, machine: Rounds[Any], **says: Answer | Callable[[Answer], Answer]) -> None:
        self.machine, self.ms, self.dice = machine, START_MS, 0
        self.says = {name.replace("_", ".", 1): answer for name, answer in says.items()}
        self.asked: list[ClientCall] = []

    @property
    def moment(self) -> Moment:
        return Moment(self.ms, lambda: self.dice)

    def turn(self) -> list[str]:
        """Ask, and answer; the actions that were asked for."""
        calls = self.machine.asks(self.moment)
        self.asked += calls
        if calls:
            self.machine.heard([self._answer(each) for each in calls], self.moment)
        return [each.action for each in calls]

    def turns(self, count: int) -> list[list[str]]:
        """So many turns, as soon as each is due."""
        found = []
        for _ in range(count):
            self.ms = max(self.ms, self.machine.next_ms)
            found.append(self.turn())
        return found

    def lost(self) -> list[ClientCall]:
        """Ask, and hear nothing."""
        calls = self.machine.asks(self.moment)
        self.asked += calls
        self.machine.unheard(self.moment)
        return calls

    def payloads(self, action: str) -> Sequence[Answer]:
        return [each.payload for each in self.asked if each.action == action]

    def _answer(self, call: ClientCall) -> Answer:
        said = self.says[call.action]
        return said(call.payload) if callable(said) else said
