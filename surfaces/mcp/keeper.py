"""Keeps the leases of those who are here: renews them in bulk, and lays them down when they go.

Renewal is never the model's burden. A lease that was claimed through a live connection is renewed
while its client lives: while the connection is open and the processes at its other end, the pump
and the agent that launched it, are neither stopped nor dead. The rules are in `holds`.

A gateway that is started again knows nothing; its clients' pumps do, since they were told of every
lease before the answer to its claim, and say it again when they come back.
"""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from ...actors.leasing import WORK
from ...authority import Unavailable
from ...contracts import Reason, contract_digest, ends_lease, host_actions, limits
from . import wire
from .desk import Desk
from .holds import Policy, Stay
from .visit import Held

TICK_SECONDS: Final = 1.0  # what falls due within it is renewed together
_NAME_MAX = 64  # of what a client calls itself; the rest makes it the only one of that name
_ASLEEP = b"TZXx"  # states of a process: stopped, and gone
_LEFT = "the agent that held it has left"

Lost = Callable[[Held, str], None]  # what was lost, and its failure class
Tell = Callable[[bytes], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """A process that cannot be mistaken for a later one of the same number."""

    pid: int
    started: bytes

    @classmethod
    def find(cls, pid: int) -> Self | None:
        facts = _facts(pid)
        return None if facts is None else cls(pid, facts[19])

    @property
    def parent(self) -> Self | None:
        facts = _facts(self.pid)
        return None if facts is None or int(facts[1]) <= 1 else self.find(int(facts[1]))

    @property
    def is_awake(self) -> bool:
        facts = _facts(self.pid)
        return facts is not None and facts[19] == self.started and facts[0] not in _ASLEEP


class Hold(msgspec.Struct, frozen=True, rename="camel"):
    """A lease as a pump remembers it, on an issue or on a job."""

    owner: str
    lease_id: str
    fence: int
    ttl_seconds: int
    since_ms: int
    instruction: str | None = None
    issue: str | None = None
    job: str | None = None

    @classmethod
    def of(cls, held: Held, since_ms: int) -> Self:
        proof = (held.owner, held.lease_id, held.fence, held.ttl_seconds)
        names = (held.name, None) if held.family == "issue" else (None, held.name)
        return cls(*proof, since_ms, held.instruction, *names)

    def held(self) -> Held | None:
        """None where it names neither, or both."""
        if (self.issue is None) == (self.job is None):
            return None
        proof = (self.owner, self.lease_id, self.fence, self.ttl_seconds, self.instruction)
        return Held(self.issue or self.job or "", *proof, "issue" if self.job is None else "job")


class Caller:
    """One client, as the server sees it (a `Visit`), on one connection after another."""

    def __init__(self, visit_id: str, name: str, stay: Stay) -> None:
        self.id = visit_id
        self.name = f"{name[:_NAME_MAX]}-{visit_id[:8]}"
        self.stay = stay
        self.processes: list[Process] = []
        self.numbers: dict[str | int, int] = {}  # of requests that are not answered, by their ids
        self.on_lost: list[Lost] = []  # called for a lease that the client thinks it holds
        self.connection: object | None = None
        self._tell: Tell | None = None

    def request_id(self, rpc_id: str | int) -> str:
        """Of the visit and the request's number in it: the same when the request comes again."""
        number = self.numbers.get(rpc_id)
        # Who asks in the name of no request does so for the first time.
        return f"mcp-{self.id}-{number}" if number else f"mcp-{self.id}-{secrets.token_hex(8)}"

    def keep(self, held: Held) -> None:
        was_known = self.stay.holds(held)
        if self.stay.keep(held, now_ms(), random.random()):  # noqa: S311 - it spreads the load
            if not was_known:
                self._remember(held)
        else:
            _log.warning("%s holds too much: %s is left to expire", self.name, held.resource)

    def drop(self, resource: str, fence: int) -> None:
        if self.stay.drop(resource, fence) and self._tell is not None:
            self._tell(b"%s %d" % (wire.DROP, fence))

    def take_over(self, line: bytes) -> None:
        """What a gateway before this one kept, in the words of the pump."""
        try:
            hold = msgspec.json.decode(line, type=Hold)
        except msgspec.MsgspecError:
            return  # it expires
        held = hold.held()
        if held is None or not 0 < hold.ttl_seconds <= limits.TTL_SECONDS_MAX:
            return
        if not self.stay.holds(held):
            self.stay.resume(held, now_ms(), hold.since_ms)

    def carried_by(self, connection: object, tell: Tell | None) -> None:
        """From now on it is this connection that the client is on."""
        self.connection, self._tell = connection, tell
        self.numbers.clear()
        self.on_lost.clear()

    def lose(self, held: Held, failure: str) -> None:
        """The client is told, by whoever has asked to be."""
        _log.warning("%s lost %s, fence %d: %s", self.name, held.resource, held.fence, failure)
        self.stay.drop(held.resource, held.fence)
        if self._tell is not None:
            self._tell(b"%s %d" % (wire.DROP, held.fence))
        for each in self.on_lost:
            each(held, failure)

    @property
    def is_awake(self) -> bool:
        return all(each.is_awake for each in self.processes)

    def _remember(self, held: Held) -> None:
        if self._tell is not None:
            hold = Hold.of(held, self.stay.since_ms(held))
            self._tell(b"%s %d %s" % (wire.KEEP, held.fence, msgspec.json.encode(hold)))


class Keeper:
    """All visits of a gateway. `run` is a task; `arrive` and `leave` are called beside it."""

    def __init__(self, desk: Desk, policy: Policy) -> None:
        self.visits: dict[str, Caller] = {}
        self._desk, self._policy = desk, policy
        self._errands: set[asyncio.Task[None]] = set()

    @property
    def holds(self) -> int:
        return sum(len(each.stay) for each in self.visits.values())

    def arrive(self, visit_id: str, name: str, wish: dict[str, Any]) -> Caller:
        """A client that comes, or comes back."""
        caller = self.visits.get(visit_id)
        if caller is None:
            stay = Stay(self._policy.narrowed(wish), now_ms())
            caller = self.visits[visit_id] = Caller(visit_id, name, stay)
        caller.stay.back(now_ms())
        return caller

    def leave(self, caller: Caller, connection: object) -> None:
        """Its connection is lost, unless it is on another one by now."""
        if caller.connection is connection:
            caller.carried_by(None, None)
            caller.stay.leave(now_ms())
            if not len(caller.stay):
                self.visits.pop(caller.id, None)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.tick(now_ms())

    def tick(self, now: int) -> None:
        """Do what is due by then."""
        for caller in list(self.visits.values()):
            for held in caller.stay.lapsed(now):
                caller.lose(held, Reason.LEASE_STALE.wire)
            if caller.stay.is_over(now):
                del self.visits[caller.id]
                if caller.stay.policy.on_leave == "release":
                    self._do(self._release(caller))
            elif len(caller.stay):
                for held in caller.stay.due(now, is_awake=caller.is_awake):
                    self._do(self._renew(caller, held))

    def _do(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _renew(self, caller: Caller, held: Held) -> None:
        """All that are asked for in one turn are in one commit of the authority."""
        asked_ms = now_ms()
        ttl_seconds = max(limits.TTL_SECONDS_MIN, held.ttl_seconds)
        try:
            renewal = WORK[held.family].renewal(held.lease, ttl_seconds * 1_000)
            answer = await self._ask(*renewal, held)
        except Unavailable as error:
            _log.warning("%s: %s is not renewed: %s", caller.name, held.resource, error)
            caller.stay.not_now(held, now_ms())
            return
        if answer["result"] == "accepted":
            caller.stay.renewed(held, asked_ms, random.random())  # noqa: S311
        elif ends_lease(answer["failureClasses"][0]):
            caller.lose(held, answer["failureClasses"][0])
        else:
            _log.warning(
                "%s: %s is not renewed: %s", caller.name, held.resource, answer["diagnostic"]
            )
            caller.stay.not_now(held, now_ms())

    async def _release(self, caller: Caller) -> None:
        for held in caller.stay:
            try:
                answer = await self._ask(*WORK[held.family].release(held.lease, _LEFT), held)
            except Unavailable as error:
                _log.warning("%s: %s is left to expire: %s", caller.name, held.resource, error)
                continue
            _log.info("%s left; %s: %s", caller.name, held.resource, answer["result"])

    async def _ask(self, action: str, payload: dict[str, Any], held: Held) -> dict[str, Any]:
        """In the client's stead, and so under the instruction that it claimed under."""
        context = None
        if held.instruction is not None:
            context = {
                "policyDigest": contract_digest(),
                "instructionRef": held.instruction,
                "capabilityClaims": [host_actions()[action].capability],
            }
        return await self._desk.ask(action, payload, context)

    async def settle(self) -> None:
        """Wait for what is on its way."""
        await asyncio.gather(*self._errands)


def now_ms() -> int:
    """The monotonic clock, which all processes of the machine share."""
    return time.monotonic_ns() // 1_000_000


def _facts(pid: int) -> list[bytes] | None:
    """From the state on, as in proc(5): the parent is next, the start time 19 further."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return text.rpartition(b")")[2].split()
