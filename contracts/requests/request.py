"""From bytes to a request: strict, total, and without any effect on state.

What comes out is either a `Request`, whose payload has the shape of its action, or a `Garbage`,
which says why the bytes never became one. Garbage is answered and counted, never journaled.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from .. import canonical, due, limits
from ..reason import FAILURES, Reason
from .host_actions import (
    DISPATCH_KIND,
    PROFILE_ID,
    HostAction,
    contract_digest,
    host_actions,
    semantic_digest,
)
from .shapes import SHAPES, STRENGTH, Context, Mutation, SetSchedule, Shape, Transport

_MEMBERS = frozenset({"id", "action", "payload", "context", "now"})


@dataclass(frozen=True, slots=True)
class Door:
    """Where a request comes in: the transport that it is stamped with, and who keeps the time."""

    transport: Transport
    frozen_clock: bool = False
    policy: str = ""  # the contract's digest; only a replay names another than the one in force


@dataclass(frozen=True, slots=True)
class Request:
    """A well-formed request. `args` are the canonical bytes of its payload."""

    action: HostAction
    payload: Shape
    context: Context
    door: Transport
    policy: str  # the digest of the contract in force when the request came in
    args: bytes
    id: str | int | None = None  # the caller's own mark, given back with the answer
    now_ms: int | None = None  # a frozen clock, where the door allows it

    @property
    def transport(self) -> Transport:
        return self.context.transport or self.door

    @property
    def args_digest(self) -> str:
        return canonical.digest("he1", self.args)

    @property
    def request_id(self) -> str | None:
        return self.payload.request_id if isinstance(self.payload, Mutation) else None

    @property
    def policy_digest(self) -> str:
        """The policy that the evidence of a request is bound to."""
        return (self.context.policy_digest or "").strip() or self.policy

    @property
    def instruction_ref(self) -> str | None:
        """The instruction behind a request; a blank one is none."""
        return (self.context.instruction_ref or "").strip() or None


@dataclass(frozen=True, slots=True)
class Garbage:
    """What was sent instead of a request."""

    reason: Reason
    detail: str
    action: str | None = None
    id: str | int | None = None


# A door that reads as it comes knows that a line is too long, and not how long it would be.
TOO_LONG = Garbage(Reason.REQUEST_TOO_LARGE, f"a line of over {limits.REQUEST_BYTES_MAX} bytes")


def parse(data: bytes, door: Door) -> Request | Garbage:
    """One line from a door, made into a request."""
    if len(data) > limits.REQUEST_BYTES_MAX:
        return TOO_LONG
    try:
        value = canonical.decode(data)
    except canonical.NotCanonical as error:
        return Garbage(Reason.REQUEST_INVALID, str(error))
    if not isinstance(value, dict):
        return Garbage(Reason.REQUEST_INVALID, "the line is not an object")
    return build(value, door)


def build(value: dict[str, Any], door: Door) -> Request | Garbage:
    """A request from a decoded object that is inside the canonical profile."""
    mark = value.get("id")
    if isinstance(mark, bool) or not isinstance(mark, str | int | None):
        return Garbage(Reason.REQUEST_INVALID, "`id` is neither text nor a number")
    if isinstance(mark, str) and len(mark) > limits.NAME_LENGTH_MAX:
        return Garbage(Reason.REQUEST_INVALID, "`id` is too long")
    name = value.get("action")
    if not isinstance(name, str) or not name.strip():
        return Garbage(Reason.REQUEST_INVALID, "`action` is missing", id=mark)
    if unknown := sorted(value.keys() - _MEMBERS):
        return Garbage(Reason.REQUEST_INVALID, f"unknown member `{unknown[0]}`", name, mark)
    now_ms = value.get("now")
    if now_ms is not None:
        if isinstance(now_ms, bool) or not isinstance(now_ms, int):
            return Garbage(Reason.REQUEST_INVALID, "`now` is not in milliseconds", name, mark)
        if not door.frozen_clock:
            return Garbage(Reason.CLOCK_NOT_FROZEN, f"now {now_ms}", name, mark)
        if not 0 <= now_ms <= limits.NOW_MS_MAX:
            return Garbage(Reason.REQUEST_INVALID, "`now` is out of range", name, mark)
    action = host_actions().get(name)
    if action is None:
        return Garbage(Reason.ACTION_UNKNOWN, name[: limits.NAME_LENGTH_MAX], name, mark)
    return _typed(action, value, door, mark, now_ms)


def journaled(request: Request) -> bytes:
    """The canonical bytes that a journal keeps of a request; `restore` reads them."""
    head: dict[str, Any] = {"action": request.action.action, "context": _plain(request.context)}
    if request.now_ms is not None:
        head["now"] = request.now_ms
    data = canonical.encode(head | {"door": request.door})
    # Members are sorted: `payload` and `policy` come last.
    return data[:-1] + b',"payload":' + request.args + b',"policy":"%b"}' % request.policy.encode()


def restore(data: bytes) -> Request | Garbage:
    """The request that `journaled` wrote; `ValueError` for bytes that it did not write."""
    value = canonical.decode(data)
    if not isinstance(value, dict) or value.get("door") not in STRENGTH or "policy" not in value:
        raise ValueError("it was not written by an authority")
    door = Door(value.pop("door"), frozen_clock=True, policy=value.pop("policy"))
    return build(value, door)


def refuse_garbage(garbage: Garbage, seq: int) -> bytes:
    """The answer to what never became a request. It is no host action, and has no evidence."""
    action = host_actions().get(garbage.action or "")
    name = "transport.dispatch" if garbage.action is None else garbage.action
    name = name[: limits.NAME_LENGTH_MAX]
    pseudo = "invalid_request" if garbage.action is None else "unknown"
    action_id = action.action_id if action else f"transport.action.{pseudo}"
    failure = FAILURES[garbage.reason]
    response = {
        "schema": 1,
        "dispatchKind": DISPATCH_KIND,
        "profileId": PROFILE_ID,
        "action": name,
        "actionId": action_id,
        "semanticDigest": semantic_digest(name, action_id),
        "result": "rejected",
        "failureClasses": [failure.wire],
        "diagnostic": f"{garbage.detail}: {failure.meaning}; {failure.remedy}",
        "seq": seq,
    }
    return with_mark(canonical.encode(response), garbage.id)


def with_mark(response: bytes, mark: str | int | None) -> bytes:
    """The answer as the caller gets it: its own `id` in front."""
    if mark is None:
        return response
    return b'{"id":' + canonical.encode(mark) + b"," + response[1:]


def _typed(
    action: HostAction,
    value: dict[str, Any],
    door: Door,
    mark: str | int | None,
    now_ms: int | None,
) -> Request | Garbage:
    payload = _given(value, "payload")
    try:
        context = msgspec.convert(_given(value, "context"), Context)
    except msgspec.ValidationError as error:
        return Garbage(Reason.REQUEST_INVALID, f"context: {error}", action.action, mark)
    try:
        shape = msgspec.convert(payload, SHAPES[action.action])
    except msgspec.ValidationError as error:
        return Garbage(_payload_reason(action.action), str(error), action.action, mark)
    if isinstance(shape, SetSchedule) and not door.policy and (flaw := _calendar_flaw(shape)):
        return Garbage(*flaw, action.action, mark)
    return Request(
        action=action,
        payload=shape,
        context=context,
        door=door.transport,
        policy=door.policy or contract_digest(),
        args=canonical.encode(payload),
        id=mark,
        now_ms=now_ms,
    )


def _given(value: dict[str, Any], name: str) -> Any:
    """A member that may be left out or null."""
    given = value.get(name)
    return {} if given is None else given


def _calendar_flaw(asked: SetSchedule) -> tuple[Reason, str] | None:
    """Why no calendar has such moments. A replay does not ask: calendars change."""
    if asked.cron is not None and (problem := due.cron_problem(asked.cron)):
        return Reason.SCHEDULE_CRON_INVALID, f"{asked.cron!r}: {problem}"
    if not due.is_zone(asked.timezone):
        return Reason.SCHEDULE_ZONE_UNKNOWN, asked.timezone
    return None


def _payload_reason(action: str) -> Reason:
    family, _, verb = action.partition(".")
    if family == "dep":
        return Reason.DEPENDENCY_PAYLOAD_INVALID
    if family == "fiber":
        return Reason.FIBER_PAYLOAD_INVALID
    if family in ("harness", "observe"):
        return Reason.HARNESS_PAYLOAD_INVALID
    if family == "instruction":
        return Reason.INSTRUCTION_SHAPE
    if family in ("required", "coherence"):
        return Reason.CHECK_PAYLOAD_INVALID
    if family == "spec":
        return Reason.SPEC_PAYLOAD_INVALID
    if family == "schedule":
        return Reason.SCHEDULE_PAYLOAD_INVALID
    if family in ("descent", "glue"):
        return Reason.DESCENT_PAYLOAD_INVALID
    if family in ("spend", "budget"):
        return Reason.SPEND_PAYLOAD_INVALID
    if family in ("job", "route", "coordinator", "node", "limit", "dispatch"):
        return Reason.JOB_PAYLOAD_INVALID
    if family in ("sublease", "instance") or verb.startswith(("lease", "claim")):
        return Reason.LEASE_PAYLOAD_INVALID
    return Reason.ISSUE_PAYLOAD_INVALID


def _plain(context: Context) -> dict[str, Any]:
    """What the context says, without what it leaves out."""
    members = msgspec.to_builtins(context)
    return {name: value for name, value in members.items() if value not in (None, (), [])}
