"""A desk to ask from: an authority over a fake journal, with time in the test's own hands."""

from typing import Any

import orjson

from understudy.authority.engine.engine import Authority, recover
from understudy.authority.journal.clock import SteadyClock
from understudy.authority.journal.journal import Journal
from understudy.authority.law.image import dump
from understudy.authority.law.state import State
from understudy.authority.views.replay import replay
from understudy.contracts import canonical
from understudy.contracts.requests.request import Door, Garbage, Request, parse
from understudy.contracts.requests.shapes import Transport

from .journal import MemoryJournal

START_MS = 1_800_000_000_000  # 2027-01-15T08:00:00Z


class Time:
    """Two clocks of one machine: the wall clock can be set, the steady one only passes."""

    def __init__(self, wall_ms: int = START_MS) -> None:
        self.wall_ms = wall_ms
        self.steady_ms = 0

    def passes(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_ms += ms

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall_ms * 1_000_000, lambda: self.steady_ms * 1_000_000)


def asked(
    action: str,
    payload: dict[str, Any] | None = None,
    *,
    context: dict[str, Any] | None = None,
    door: Transport = "mcp",
    now: int | None = None,
    mark: str | int | None = None,
) -> Request | Garbage:
    """A request as it comes out of a door, through the bytes that a caller would send."""
    value: dict[str, Any] = {"action": action, "payload": payload or {}}
    if context is not None:
        value["context"] = context
    if now is not None:
        value["now"] = now
    if mark is not None:
        value["id"] = mark
    return parse(canonical.encode(value), Door(door, frozen_clock=now is not None))


def fits(action: str, payload: dict[str, Any], context: dict[str, Any] | None = None) -> bool:
    """Whether the shapes take it; a refusal of a shape names the payload or the request."""
    request = asked(action, payload, context=context)
    if isinstance(request, Garbage):
        endings = ("_invalid_payload", "_invalid_request", "_invalid_shape")
        assert request.reason.wire.endswith(endings)
        return False
    return True


def records(state: State) -> dict[str, Any]:
    """All that a state remembers but the ids of requests."""
    members: dict[str, Any] = orjson.loads(dump(state))
    del members["answers"]
    return members


class Desk:
    """Ask, and read the answer; everything is one request, one commit."""

    def __init__(self, journal: Journal | None = None, time: Time | None = None) -> None:
        self.journal: Journal = MemoryJournal() if journal is None else journal
        self.time = time or Time()
        self.authority = Authority(self.journal, self.time.clock())

    def restart(self) -> None:
        self.authority = Authority(self.journal, self.time.clock())

    def raw(self, action: str, door: Transport = "mcp", /, **payload: object) -> bytes:
        answers, _ = self.authority.submit([asked(action, payload, door=door)])
        return answers[0]

    def ask(self, action: str, door: Transport = "mcp", /, **payload: object) -> dict[str, Any]:
        answer: dict[str, Any] = orjson.loads(self.raw(action, door, **payload))
        return answer

    def grant(self, action: str, door: Transport = "mcp", /, **payload: object) -> dict[str, Any]:
        """As `ask`, for what must be accepted."""
        answer = self.ask(action, door, **payload)
        assert answer["result"] == "accepted", answer["diagnostic"]
        return answer

    def refusal(self, action: str, door: Transport = "mcp", /, **payload: object) -> str | None:
        """The failure class of the answer; None where there is none."""
        classes = self.ask(action, door, **payload)["failureClasses"]
        return classes[0] if classes else None

    def claim(self, issue_id: str, assignee: str, **payload: object) -> dict[str, Any]:
        """Claim, and give back what the holder must show from now on."""
        answer = self.grant("issue.claim", id=issue_id, assignee=assignee, **payload)
        lease = answer["issue"]["lease"]
        return {
            "id": issue_id,
            "assignee": assignee,
            "leaseId": lease["leaseId"],
            "fence": lease["fence"],
        }

    def prove(self) -> None:
        """Replay agrees, and a start from the journal gives the same state, byte for byte."""
        assert replay(self.journal).mismatch is None
        state, head, _ = recover(self.journal)
        assert dump(state) == dump(self.authority.state)
        assert head == self.authority.head
