"""One tool call: from its arguments to the authority's answer, and what the visit learns from it.

    arguments -> + requestId, assignee or worker -> authority -> keep or drop -> answer

I1  The answer is the authority's own, whole, accepted or refused.
I2  A lease that a call gained is kept by the visit before the client hears of it; one that a call
    ended, or found lost, is dropped.
I3  A client that cancels a claim does not hold it: what was granted meanwhile is given back.
"""

from collections.abc import Mapping
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from mcp.server.context import ServerRequestContext

from ....actors.leasing import WORK, Family
from ....authority import Unavailable
from ....contracts import BY_WIRE, FAILURES, HostAction, Reason, host_actions, shapes
from ..desk import Desk
from ..visit import Held, Visit

Answer = dict[str, Any]
_CLAIMS = (shapes.Claim, shapes.ClaimNext, shapes.ClaimJob)
_HOLDERS = (shapes.Held, shapes.HeldJob)
_JOBS = (shapes.ClaimJob, shapes.HeldJob)
_ENDED = WORK["issue"].settled | WORK["job"].settled
_UNHEARD = "the call that claimed it was cancelled"


class Call:
    """A tool call of one client; it may ask the authority several times."""

    def __init__(self, desk: Desk, visit: Visit, ctx: ServerRequestContext[Any, Any]) -> None:
        assert ctx.request_id is not None, "a notification calls no tool"
        self.desk = desk
        self._visit = visit
        self._key = visit.request_id(ctx.request_id)
        self.report = ctx.session.report_progress

    async def ask(self, action: str, arguments: Mapping[str, Any], part: str = "") -> Answer:
        """The answer to a host action; `part` tells several of one call apart."""
        shape = shapes.SHAPES[action]
        payload, context = self._completed(host_actions()[action], shape, arguments, part)
        binding = issubclass(shape, (*_HOLDERS, *_CLAIMS))
        try:
            with anyio.CancelScope(shield=binding):
                answer = await self.desk.ask(action, payload, context)
                if binding:
                    self._note(shape, payload, answer)
        except Unavailable as error:
            return refusal(action, error.reason, str(error))
        except ValueError as error:
            return refusal(action, Reason.REQUEST_INVALID, str(error))
        if issubclass(shape, _CLAIMS):
            await self._heard(_family(shape), answer)
        return answer

    async def hand_on(self, action: str, arguments: Mapping[str, Any]) -> Answer:
        """As `ask`, through the coordinator's door: for what this server itself vouches for.

        The evidence says where it came from.
        """
        shape = shapes.SHAPES[action]
        payload, context = self._completed(host_actions()[action], shape, arguments, "")
        desk = Desk(self.desk.state_dir, "coordinator")
        try:
            return await desk.ask(action, payload, (context or {}) | {"escalatedFrom": "mcp"})
        except Unavailable as error:
            return refusal(action, error.reason, str(error))
        finally:
            await desk.close()

    def _completed(
        self, host: HostAction, shape: type[shapes.Shape], arguments: Mapping[str, Any], part: str
    ) -> tuple[dict[str, Any], Any]:
        """The payload with what the caller need not say, and the context."""
        payload = {name: value for name, value in arguments.items() if name != "context"}
        if host.mutates:
            given = payload.get("requestId")
            if given is None:
                payload["requestId"] = self._key + part
            elif isinstance(given, str):
                payload["requestId"] = given + part
        proven = payload.get("leaseId") is not None or payload.get("fence") is not None
        speaks = issubclass(shape, _CLAIMS) or (issubclass(shape, _HOLDERS) and proven)
        if speaks and payload.get(_owner(shape)) is None:
            payload[_owner(shape)] = self._visit.name
        return payload, arguments.get("context")

    def _note(self, shape: type[shapes.Shape], payload: dict[str, Any], answer: Answer) -> None:
        """Tell the visit what its client came to hold, or holds no more (I2)."""
        family, fence = _family(shape), payload.get("fence")
        record, name = answer.get(family, {}), payload.get("jobId" if family == "job" else "id")
        lease = record.get("lease")
        if answer["result"] != "accepted":
            # A sublease that is lost says nothing of the lease, which the same client may hold.
            gone = is_lost(answer) and payload.get("subleaseId") is None
        elif lease is not None and issubclass(shape, (*_CLAIMS, shapes.Renew)):
            if lease["owner"] == payload[_owner(shape)].strip():  # and no sublease's holder
                self._visit.keep(_held(family, answer))
            return
        else:
            gone = lease is None and name in (record.get("id"), record.get("jobId"))
        if gone and isinstance(fence, int):
            self._visit.drop(f"{family}/{name}", fence)

    async def _heard(self, family: Family, answer: Answer) -> None:
        """Give back what was granted to a client that has cancelled the call (I3)."""
        try:
            await checkpoint()
        except anyio.get_cancelled_exc_class():
            lease = answer.get(family, {}).get("lease")
            if lease is not None and lease["fence"] == answer["seq"]:  # granted, not extended
                with anyio.CancelScope(shield=True):
                    lease = _held(family, answer).lease
                    await self.ask(*WORK[family].release(lease, _UNHEARD), "-unheard")
            raise


def proof(answer: Answer) -> dict[str, Any]:
    """What shows that one holds the lease in an answer."""
    lease = answer["issue"]["lease"]
    return {
        "id": answer["issue"]["id"],
        "assignee": lease["owner"],
        "leaseId": lease["leaseId"],
        "fence": lease["fence"],
    }


def refusal(action: str, reason: Reason, diagnostic: str) -> Answer:
    """What is said where no authority could say it."""
    return {
        "action": action,
        "result": "rejected",
        "failureClasses": [reason.wire],
        "diagnostic": diagnostic,
    }


def is_lost(answer: Answer) -> bool:
    """Whether a refusal says that the lease in the request is no more."""
    wires = answer["failureClasses"]
    return any(wire in _ENDED or FAILURES[BY_WIRE[wire]].retry == "reclaim" for wire in wires)


def _family(shape: type[shapes.Shape]) -> Family:
    return "job" if issubclass(shape, _JOBS) else "issue"


def _owner(shape: type[shapes.Shape]) -> str:
    return "worker" if issubclass(shape, _JOBS) else "assignee"


def _held(family: Family, answer: Answer) -> Held:
    kind = WORK[family]
    lease, ttl_ms = kind.held(kind.shown(answer)), kind.ttl_ms(answer)
    return Held(
        lease.name,
        lease.owner,
        lease.lease_id,
        lease.fence,
        max(1, round(ttl_ms / 1000)),
        answer["effect"]["instructionRef"],
        family,
    )
