"""One tool call: from its arguments to the authority's answer, and what the caller learns from it.

    arguments -> + requestId, assignee or worker -> authority -> keep or drop -> answer

I1  The answer is the authority's own, accepted or refused, as its caller may see it.
I2  A lease that a call gained is kept by the caller before the client hears of it; one that a call
    ended, or found lost, is dropped.
    Its worktree, if it has one, is put away then.
I3  A client that cancels a claim does not hold it: what was granted meanwhile is given back.
"""

from collections.abc import Mapping
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from mcp.server.context import ServerRequestContext

from ....actors.agents import AgentCaller, AgentDoor, now_ms
from ....actors.leasing import WORK, WorkKind
from ....contracts import HostAction, ends_lease, host_actions, shapes

Answer = dict[str, Any]
_CLAIMS = (shapes.ClaimIssue, shapes.ClaimNext, shapes.ClaimJob)
_HOLDERS = (shapes.OfHolder, shapes.HeldJob, shapes.ReportSpend)
_JOBS = (shapes.ClaimJob, shapes.HeldJob)
# What names its caller, and is renewed by nobody here.
_NAMED: dict[type[shapes.Shape], str] = {
    shapes.ExpireJob: "worker",
    shapes.ClaimSpec: "runner",
    shapes.MaterializeSpec: "runner",
    shapes.ReleaseSpec: "runner",
    shapes.ClaimDispatch: "dispatcher",
    shapes.CompleteDispatch: "dispatcher",
    shapes.ReleaseDispatch: "dispatcher",
}
_UNHEARD = "the call that claimed it was cancelled"


class ToolCall:
    """A tool call of one client; it may ask the authority several times."""

    def __init__(
        self, door: AgentDoor, caller: AgentCaller, ctx: ServerRequestContext[Any, Any]
    ) -> None:
        assert ctx.request_id is not None, "a notification calls no tool"
        self.door = door
        self._caller = caller
        self.key = caller.request_id(ctx.request_id)
        self.report = ctx.session.report_progress

    async def ask(self, action: str, arguments: Mapping[str, Any], part: str = "") -> Answer:
        """The answer to a host action; `part` tells several of one call apart."""
        shape = shapes.SHAPES[action]
        payload, context = self._completed(host_actions()[action], shape, arguments, part)
        binding = issubclass(shape, (*_HOLDERS, *_CLAIMS))
        asked_ms = now_ms()
        with anyio.CancelScope(shield=binding):
            answer = await self.door.answer(action, payload, context)
            if binding:
                self._note(shape, payload, answer, asked_ms)
        if issubclass(shape, _CLAIMS):
            await self._heard(_kind(shape, payload), answer)
        return answer

    async def hand_on(self, action: str, arguments: Mapping[str, Any], part: str = "") -> Answer:
        """As `ask`, through the coordinator's door: for what this server itself vouches for.

        The evidence says where it came from.
        """
        shape = shapes.SHAPES[action]
        payload, context = self._completed(host_actions()[action], shape, arguments, part)
        binding = issubclass(shape, _HOLDERS)
        asked_ms = now_ms()
        with anyio.CancelScope(shield=binding):
            answer = await self.door.vouch(action, payload, context)
            if binding:
                self._note(shape, payload, answer, asked_ms)
        return answer

    def speaker(self, arguments: Mapping[str, Any]) -> object:
        """Under which name it is asked: a client that has one is heard under no other."""
        given = arguments.get("assignee")
        return self._caller.name if given is None or self._caller.is_named else given

    async def in_person(self, action: str, payload: Answer, context: object) -> Answer:
        """What the person at the client says, in whose name no agent can speak."""
        named = {"byName": f"a person at {self.name}", "requestId": f"{self.key}-person"}
        return await self.door.in_person(action, payload | named, context)

    @property
    def name(self) -> str:
        return self._caller.name

    @property
    def asks_person(self) -> bool:
        return self._caller.asks_person

    def _completed(
        self, host: HostAction, shape: type[shapes.Shape], arguments: Mapping[str, Any], part: str
    ) -> tuple[dict[str, Any], Any]:
        """The payload with what the caller need not say, and the context."""
        payload = {name: value for name, value in arguments.items() if name != "context"}
        if host.mutates:
            given = payload.get("requestId")
            if given is None:
                payload["requestId"] = self.key + part
            elif isinstance(given, str):
                payload["requestId"] = given + part
        proven = payload.get("leaseId") is not None or payload.get("fence") is not None
        speaks = issubclass(shape, _CLAIMS) or (issubclass(shape, _HOLDERS) and proven)
        role = _kind(shape, payload).role if speaks else _NAMED.get(shape)
        if role is not None and payload.get(role) is None:
            payload[role] = self._caller.name
        return payload, arguments.get("context")

    def _note(
        self, shape: type[shapes.Shape], payload: dict[str, Any], answer: Answer, asked_ms: int
    ) -> None:
        """Tell the caller what its client came to hold, or holds no more (I2)."""
        kind, fence = _kind(shape, payload), payload.get("fence")
        record, name, owner = kind.shown(answer), payload.get(kind.subject), payload.get(kind.role)
        resource, lease = f"{kind.family}/{name}", record.get(kind.lease)
        if answer["result"] != "accepted":
            # A sublease that is lost says nothing of the lease, which the same client may hold.
            gone = ends_lease(answer["failureClasses"][0]) and payload.get("subleaseId") is None
            if gone and isinstance(fence, int):
                self._caller.drop(resource, fence, owner, payload.get("leaseId"))
        elif lease is not None and issubclass(shape, (*_CLAIMS, shapes.Renew)):
            if lease["owner"] == payload[kind.role].strip():  # and no sublease's holder
                instruction = answer["effect"]["instructionRef"]
                self._caller.keep(kind.held(record), kind.ttl_ms(answer), asked_ms, instruction)
        elif lease is None and name == record.get(kind.subject) and isinstance(fence, int):
            self._caller.drop(resource, fence)
            self.door.worktrees.end(resource, fence)

    async def _heard(self, kind: WorkKind, answer: Answer) -> None:
        """Give back what was granted to a client that has cancelled the call (I3)."""
        try:
            await checkpoint()
        except anyio.get_cancelled_exc_class():
            record = kind.shown(answer)
            if record.get(kind.lease, {}).get("fence") == answer["seq"]:  # granted, not extended
                with anyio.CancelScope(shield=True):
                    await self.ask(*kind.release(kind.held(record), _UNHEARD), "-unheard")
            raise


def _kind(shape: type[shapes.Shape], payload: Mapping[str, Any]) -> WorkKind:
    """What a call is about; a report of spending names either."""
    is_either = issubclass(shape, shapes.ReportSpend) and payload.get("jobId") is not None
    return WORK["job" if is_either or issubclass(shape, _JOBS) else "issue"]
