"""When leases that clients hold are renewed, given back, or given up: rules on a given clock.

    keep --as `leasing` has it--> due --renewed--> keep
                                   |---not now---> due again, until its deadline
                                   \\--refused----> lost
    leave --a while--> over: released, or left to expire          back before that: as if never gone

    I1  Only what a client holds that is here, and awake, is renewed.
    I2  Nothing is renewed beyond the longest hold.
    I3  What is on its way to be renewed is not due.

Nothing here waits or asks; `keeper` does. Times are milliseconds of one clock that never goes back
and that all processes of the machine share.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...contracts import host_actions, limits
from ..leasing import HeldLease, Holding, Moment, Timing


@dataclass(frozen=True, slots=True)
class KeepPolicy:
    """How leases are kept for a client, and what becomes of them when it goes."""

    keep: Literal["alive", "heartbeat"] = "alive"
    on_leave: Literal["release", "expire"] = "release"
    max_hold_ms: int = 4 * 3_600_000
    quiet_ms: int = 300_000  # how long a client may be silent where it is kept by heartbeat
    grace_ms: int = 5_000  # between its leaving and the end of its stay
    max_held: int | None = None  # pieces of work at once; None where no operator said it
    grants: tuple[str, ...] = ()  # operators' actions that it may ask for
    asks_person: bool = True  # the one at the client, about work that waits for a person

    def narrowed(self, wish: dict[str, Any]) -> "KeepPolicy":
        """With what a client wishes for itself: it may ask for less, never for more."""
        asked = self.set(wish)
        return replace(
            asked,
            keep="heartbeat" if "heartbeat" in (self.keep, asked.keep) else "alive",
            max_hold_ms=min(self.max_hold_ms, asked.max_hold_ms),
            quiet_ms=min(self.quiet_ms, asked.quiet_ms),
            asks_person=self.asks_person and asked.asks_person,
            max_held=asked.max_held if self.max_held is None else min(self.max_held, asked.held),
        )

    @property
    def held(self) -> int:
        return limits.MCP_HELD_DEFAULT if self.max_held is None else self.max_held

    @property
    def terms(self) -> dict[str, Any]:
        """What the authority is told of an agent, as `AgentPass` has it."""
        granted = {"grants": list(self.grants)} if self.grants else {}
        return {"heldMax": self.held} | granted

    def set(self, wish: dict[str, Any]) -> "KeepPolicy":
        """With what an operator says. What is no such setting is left as it is."""
        chosen: dict[str, Any] = {}
        for name, member, known in _CHOICES:
            if wish.get(name) in known:
                chosen[member] = wish[name]
        for name, member in _TIMES:
            seconds = wish.get(name)
            if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0:
                chosen[member] = seconds * 1000
        if wish.get("maxHeld") in range(1, limits.MCP_HOLDS_MAX + 1):
            chosen["max_held"] = wish["maxHeld"]
        if wish.get("allowBreak") is True:
            chosen["grants"] = ("issue.lease_break",)
        if wish.get("asksPerson") is False:
            chosen["asks_person"] = False
        if wish.get("operator") is True:
            actions = host_actions().values()
            granted = [each.action for each in actions if each.is_operators and each.mcp_tool]
            chosen["grants"] = tuple(sorted(granted))
        return replace(self, **chosen)


_CHOICES = (
    ("onLeave", "on_leave", ("release", "expire")),
    ("keep", "keep", ("alive", "heartbeat")),
)
_TIMES = (("maxHoldSeconds", "max_hold_ms"), ("quietSeconds", "quiet_ms"))


@dataclass(slots=True)
class AgentHold(Holding):
    """A lease that an agent claimed, with what its renewal needs beside."""

    agent: str  # the id of its caller
    since_ms: int  # of the claim, for the longest hold
    instruction: str | None = None  # that it was claimed under, where the policy asks for one
    is_out: bool = False  # on its way to be renewed


class AgentHolds:
    """What one client holds, when it last spoke, and whether it is here."""

    def __init__(self, agent: str, policy: KeepPolicy, now_ms: int) -> None:
        self.policy = policy
        self._agent = agent
        self._holds: dict[tuple[str, int], AgentHold] = {}
        self._heard_ms = now_ms
        self._left_ms: int | None = None

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[AgentHold]:
        return iter(list(self._holds.values()))

    def find(self, lease: HeldLease) -> AgentHold | None:
        return self._holds.get((lease.resource, lease.fence))

    # --- what happens ---------------------------------------------------------------------------

    def heard(self, now_ms: int) -> None:
        self._heard_ms = now_ms

    def leave(self, now_ms: int) -> None:
        self._left_ms = now_ms

    def back(self, now_ms: int) -> None:
        self._left_ms, self._heard_ms = None, now_ms

    def keep(
        self, lease: HeldLease, ttl_ms: int, asked_ms: int, instruction: str | None, moment: Moment
    ) -> AgentHold | None:
        """Renew from now on what was granted, or extended by the client; None if it is too much."""
        before = self.find(lease)
        if before is None and len(self) >= limits.MCP_HOLDS_MAX:
            return None
        hold = self._holds[lease.resource, lease.fence] = AgentHold.granted(
            lease,
            Timing(ttl_ms),
            asked_ms,
            moment,
            agent=self._agent,
            since_ms=asked_ms if before is None else before.since_ms,
            instruction=instruction,
        )
        return hold

    def resume(
        self, lease: HeldLease, ttl_ms: int, since_ms: int, instruction: str | None, now_ms: int
    ) -> None:
        """Go on with what another gateway kept; whether it still holds is asked at once."""
        if self.find(lease) is None and len(self) < limits.MCP_HOLDS_MAX:
            known = (self._agent, min(since_ms, now_ms), instruction)
            hold = AgentHold(lease, Timing(ttl_ms), now_ms, now_ms, *known)
            self._holds[lease.resource, lease.fence] = hold

    def drop(
        self, resource: str, fence: int, owner: str | None = None, lease_id: str | None = None
    ) -> bool:
        """Renew it no more; False where it is not held, or another owner or id was shown."""
        hold = self._holds.get((resource, fence))
        if hold is None:
            return False
        if owner not in (None, hold.lease.owner) or lease_id not in (None, hold.lease.lease_id):
            return False
        del self._holds[resource, fence]
        return True

    # --- what follows ---------------------------------------------------------------------------

    def renewable(self, now_ms: int, *, is_awake: bool) -> list[AgentHold]:
        """What may be renewed, when it is due."""
        quiet = self.policy.keep == "heartbeat" and now_ms - self._heard_ms > self.policy.quiet_ms
        if self._left_ms is not None or quiet or not is_awake:  # I1
            return []
        longest_ms = self.policy.max_hold_ms
        return [
            each
            for each in self
            if now_ms < each.since_ms + longest_ms and not each.is_out  # I2, I3
        ]

    def lapsed(self, now_ms: int) -> list[AgentHold]:
        """What ran out unrenewed, by our own clock."""
        return [each for each in self if now_ms > each.until_ms]

    def is_over(self, now_ms: int) -> bool:
        """The client left, and did not come back in time."""
        return self._left_ms is not None and now_ms >= self._left_ms + self.policy.grace_ms
