"""Keeps the leases of those who are here: renews them in bulk, and lays them down when they go.

Renewal is never the model's burden. A lease that was claimed through a live connection is renewed
while its client lives: while the connection is open and the processes at its other end, the pump
and the agent that launched it, are neither stopped nor dead. The rules are in `holds`.

A gateway that is started again knows nothing; its clients' pumps do, since they were told of every
lease before the answer to its claim, and say it again when they come back.
"""

import asyncio
import itertools
import logging
import random
import secrets
from collections.abc import Coroutine
from typing import Any, Final, Protocol

import msgspec

from ...contracts import Reason, contract_digest, ends_lease, host_actions, limits
from ..leasing import DICE_MAX, WORK, Ask, HeldLease, Moment, due
from ..otp.identity import Identity
from ..process.guard.descendants import now_ms
from .authority_link import AuthorityLink
from .holds import AgentHold, AgentHolds, KeepPolicy

TICK_SECONDS: Final = 1.0  # what falls due within it is renewed together
_LOOK_TICKS = 15  # between two looks whether worktrees are still held
_NAME_MAX = 64  # of what a client calls itself; the rest makes it the only one of that name
_LEFT = "the agent that held it has left"

_log = logging.getLogger(__name__)


class Notebook(Protocol):
    """What outlives this gateway and remembers leases for the next one: the client's pump."""

    def remember(self, fence: int, note: bytes) -> None: ...

    def forget(self, fence: int) -> None: ...


class _Note(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A hold as a notebook has it, on an issue or on a job."""

    owner: str
    lease_id: str
    fence: int
    ttl_seconds: int
    since_ms: int
    instruction: str | None = None
    issue: str | None = None
    job: str | None = None


class KeptCaller:
    """One client, as a door sees it (an `AgentCaller`), on one connection after another."""

    is_named = True

    def __init__(self, caller_id: str, name: str, holds: AgentHolds) -> None:
        self.id = caller_id
        self.name = f"{name[:_NAME_MAX]}-{caller_id[:8]}"
        self.holds = holds
        self.processes: list[Identity] = []
        self.numbers: dict[str | int, int] = {}  # of requests that are not answered, by their ids
        self.connection: object | None = None
        self._notebook: Notebook | None = None

    @property
    def terms(self) -> dict[str, Any]:
        return self.holds.policy.terms

    @property
    def asks_person(self) -> bool:
        return self.holds.policy.asks_person

    def request_id(self, rpc_id: str | int) -> str:
        """Of the caller and the request's number: the same when the request comes again."""
        number = self.numbers.get(rpc_id)
        # Who asks in the name of no request does so for the first time.
        return f"mcp-{self.id}-{number}" if number else f"mcp-{self.id}-{secrets.token_hex(8)}"

    def keep(
        self, lease: HeldLease, ttl_ms: int, asked_ms: int, instruction: str | None = None
    ) -> None:
        ttl_ms = max(1, ttl_ms // 1000) * 1000  # as it is asked for again
        before = self.holds.find(lease)
        hold = self.holds.keep(lease, ttl_ms, asked_ms, instruction, _moment())
        if hold is None:
            words = (self.name, lease.resource)
            _log.warning("%s holds too much: %s is left to expire", *words, extra={"held": lease})
        elif self._notebook is not None and (before is None or _noted(before) != _noted(hold)):
            self._notebook.remember(lease.fence, _noted(hold))

    def drop(
        self, resource: str, fence: int, owner: str | None = None, lease_id: str | None = None
    ) -> None:
        if self.holds.drop(resource, fence, owner, lease_id) and self._notebook is not None:
            self._notebook.forget(fence)

    def take_over(self, line: bytes) -> None:
        """Go on with what a gateway before this one kept; what is no note of ours expires."""
        try:
            note = msgspec.json.decode(line, type=_Note)
        except msgspec.MsgspecError:
            return
        is_either = (note.issue is None) != (note.job is None)
        is_own = note.owner == self.name.strip()  # an agent holds under its own name alone
        if is_either and is_own and 0 < note.ttl_seconds <= limits.TTL_SECONDS_MAX:
            proof = (note.issue or note.job or "", note.owner, note.lease_id, note.fence)
            lease = HeldLease(*proof, family="issue" if note.job is None else "job")
            ttl_ms = note.ttl_seconds * 1000
            self.holds.resume(lease, ttl_ms, note.since_ms, note.instruction, now_ms())

    def carried_by(self, connection: object, notebook: Notebook | None) -> None:
        """From now on it is this connection that the client is on."""
        self.connection, self._notebook = connection, notebook
        self.numbers.clear()

    def lose(self, lease: HeldLease, failure: str) -> None:
        words = (self.name, lease.resource, lease.fence, failure)
        _log.warning("%s lost %s, fence %d: %s", *words, extra={"held": lease})
        self.drop(lease.resource, lease.fence)

    @property
    def is_awake(self) -> bool:
        return all(each.is_awake for each in self.processes)


class LeaseKeeper:
    """All callers of a gateway. `run` is a task; `arrive` and `leave` are called beside it."""

    def __init__(self, link: AuthorityLink, policy: KeepPolicy) -> None:
        self.callers: dict[str, KeptCaller] = {}
        self._link, self._policy = link, policy
        self._errands: set[asyncio.Task[None]] = set()

    @property
    def terms(self) -> dict[str, Any]:
        """Of an agent that says nothing of itself."""
        return self._policy.terms

    @property
    def holds(self) -> int:
        return sum(len(each.holds) for each in self.callers.values())

    def arrive(self, caller_id: str, name: str, wish: dict[str, Any]) -> KeptCaller:
        """A client that comes, or comes back."""
        caller = self.callers.get(caller_id)
        if caller is None:
            holds = AgentHolds(caller_id, self._policy.narrowed(wish), now_ms())
            caller = self.callers[caller_id] = KeptCaller(caller_id, name, holds)
        caller.holds.back(now_ms())
        return caller

    def leave(self, caller: KeptCaller, connection: object) -> None:
        """Its connection is lost, unless it is on another one by now."""
        if caller.connection is connection:
            caller.carried_by(None, None)
            caller.holds.leave(now_ms())
            if not len(caller.holds):
                self.callers.pop(caller.id, None)

    async def run(self) -> None:
        for count in itertools.count(1):
            await asyncio.sleep(TICK_SECONDS)
            self.tick(now_ms())
            if count % _LOOK_TICKS == 0:
                self._do(self.look_after_worktrees())

    def tick(self, now: int) -> None:
        """Do what is due by then."""
        holds: list[AgentHold] = []
        for caller in list(self.callers.values()):
            for hold in caller.holds.lapsed(now):
                self._lose(caller, hold, Reason.LEASE_STALE.wire)
            if caller.holds.is_over(now):
                del self.callers[caller.id]
                if caller.holds.policy.on_leave == "release":
                    self._do(self._release(caller))
            elif len(caller.holds):
                holds += caller.holds.renewable(now, is_awake=caller.is_awake)
        for hold in due(holds, now):  # all in one commit of the authority
            hold.is_out = True
            self._do(self._renew(self.callers[hold.agent], hold))

    async def look_after_worktrees(self) -> None:
        """Put away those whose leases ended where nobody here was told of it."""
        worktrees = self._link.worktrees
        for issue_id, fence in list(worktrees.known):
            shown = await self._link.answer("issue.show", {"id": issue_id})
            lease = shown.get("issue", {}).get("lease", {})
            is_held = lease.get("fence") == fence and lease.get("state") == "active"
            if "issue" in shown and not is_held:
                worktrees.end(f"issue/{issue_id}", fence)

    def _do(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _renew(self, caller: KeptCaller, hold: AgentHold) -> None:
        asked_ms = now_ms()
        ttl_ms = max(limits.TTL_SECONDS_MIN * 1000, hold.timing.ttl_ms)
        answer = await self._ask(hold, WORK[hold.lease.family].renewal(hold.lease, ttl_ms))
        hold.is_out = False
        if answer["result"] == "accepted":
            hold.extend(asked_ms, _moment())
        elif ends_lease(answer["failureClasses"][0]):
            self._lose(caller, hold, answer["failureClasses"][0])
        else:
            words = (caller.name, hold.lease.resource, answer["diagnostic"])
            _log.warning("%s: %s is not renewed: %s", *words, extra={"held": hold.lease})
            hold.put_off(_moment())

    def _lose(self, caller: KeptCaller, hold: AgentHold, failure: str) -> None:
        caller.lose(hold.lease, failure)
        self._link.worktrees.end(hold.lease.resource, hold.lease.fence)

    async def _release(self, caller: KeptCaller) -> None:
        """Worktrees first: the next holder is to find them put away."""
        end = self._link.worktrees.end
        leaving = [end(hold.lease.resource, hold.lease.fence) for hold in caller.holds]
        await asyncio.gather(*filter(None, leaving))
        for hold in caller.holds:
            answer = await self._ask(hold, WORK[hold.lease.family].release(hold.lease, _LEFT))
            said = answer.get("diagnostic", "it is given back")
            words = (caller.name, hold.lease.resource, said)
            _log.info("%s left; %s: %s", *words, extra={"held": hold.lease})

    async def _ask(self, hold: AgentHold, ask: Ask) -> dict[str, Any]:
        """In the client's stead, and so under the instruction that it claimed under."""
        action, payload = ask
        context = None
        if hold.instruction is not None:
            context = {
                "policyDigest": contract_digest(),
                "instructionRef": hold.instruction,
                "capabilityClaims": [host_actions()[action].capability],
            }
        return await self._link.answer(action, payload, context)

    async def settle(self) -> None:
        """Wait for what is on its way."""
        await asyncio.gather(*self._errands)
        await self._link.worktrees.settle()


def _noted(hold: AgentHold) -> bytes:
    lease = hold.lease
    proof = (lease.owner, lease.lease_id, lease.fence, hold.timing.ttl_ms // 1000)
    names = (lease.name, None) if lease.family == "issue" else (None, lease.name)
    return msgspec.json.encode(_Note(*proof, hold.since_ms, hold.instruction, *names))


def _moment() -> Moment:
    return Moment(now_ms(), lambda: random.randrange(DICE_MAX + 1))  # noqa: S311 - spreads the load
