"""When leases that clients hold are renewed, given back, or given up: rules on a given clock.

    keep --a third of its time, less some--> due --renewed--> keep
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
from typing import Any, Final, Literal

from ...contracts import limits
from .visit import Held

RENEW_PART: Final = 3  # of a lease's time, after which it is renewed
JITTER_PART: Final = 5  # of that, by which it may be earlier, so that not all come together
RETRY_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Policy:
    """How leases are kept for a client, and what becomes of them when it goes."""

    keep: Literal["alive", "heartbeat"] = "alive"
    on_leave: Literal["release", "expire"] = "release"
    max_hold_ms: int = 4 * 3_600_000
    quiet_ms: int = 300_000  # how long a client may be silent where it is kept by heartbeat
    grace_ms: int = 5_000  # between its leaving and the end of its visit

    def narrowed(self, wish: dict[str, Any]) -> "Policy":
        """With what a client wishes for itself: it may ask for less, never for more."""
        asked = self.set(wish)
        return replace(
            asked,
            keep="heartbeat" if "heartbeat" in (self.keep, asked.keep) else "alive",
            max_hold_ms=min(self.max_hold_ms, asked.max_hold_ms),
            quiet_ms=min(self.quiet_ms, asked.quiet_ms),
        )

    def set(self, wish: dict[str, Any]) -> "Policy":
        """With what an operator says. What is no such setting is left as it is."""
        chosen: dict[str, Any] = {}
        for name, member, known in _CHOICES:
            if wish.get(name) in known:
                chosen[member] = wish[name]
        for name, member in _TIMES:
            seconds = wish.get(name)
            if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0:
                chosen[member] = seconds * 1000
        return replace(self, **chosen)


_CHOICES = (
    ("onLeave", "on_leave", ("release", "expire")),
    ("keep", "keep", ("alive", "heartbeat")),
)
_TIMES = (("maxHoldSeconds", "max_hold_ms"), ("quietSeconds", "quiet_ms"))


@dataclass(slots=True)
class _Hold:
    held: Held
    since_ms: int  # of the claim, for the longest hold
    deadline_ms: int = 0
    due_ms: int = 0
    is_out: bool = False


class Stay:
    """One client's visit: what it holds, when it last spoke, and whether it is here."""

    def __init__(self, policy: Policy, now_ms: int) -> None:
        self.policy = policy
        self._holds: dict[tuple[str, int], _Hold] = {}
        self._heard_ms = now_ms
        self._left_ms: int | None = None

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Held]:
        return iter([each.held for each in self._holds.values()])

    def holds(self, held: Held) -> bool:
        """Whether this very lease is known."""
        known = self._holds.get((held.resource, held.fence))
        return known is not None and known.held == held

    # --- what happens ---------------------------------------------------------------------------

    def heard(self, now_ms: int) -> None:
        self._heard_ms = now_ms

    def leave(self, now_ms: int) -> None:
        self._left_ms = now_ms

    def back(self, now_ms: int) -> None:
        self._left_ms, self._heard_ms = None, now_ms

    def keep(self, held: Held, now_ms: int, dice: float) -> bool:
        """Renew it from now on; False where there are too many. `dice` lies between 0 and 1."""
        key = (held.resource, held.fence)
        before = self._holds.get(key)
        if before is None and len(self._holds) >= limits.MCP_HOLDS_MAX:
            return False
        hold = _Hold(held, now_ms if before is None else before.since_ms)
        _extend(hold, now_ms, dice)
        self._holds[key] = hold
        return True

    def resume(self, held: Held, now_ms: int, since_ms: int) -> None:
        """Go on with what somebody else kept; whether it still holds is asked at once."""
        deadline_ms = now_ms + held.ttl_seconds * 1000
        hold = _Hold(held, min(since_ms, now_ms), deadline_ms, now_ms)
        if len(self._holds) < limits.MCP_HOLDS_MAX:
            self._holds[held.resource, held.fence] = hold

    def drop(self, resource: str, fence: int) -> bool:
        """Renew it no more; whether it was held."""
        return self._holds.pop((resource, fence), None) is not None

    def renewed(self, held: Held, asked_ms: int, dice: float) -> None:
        """It holds for its whole time from when that was asked for."""
        hold = self._holds.get((held.resource, held.fence))
        if hold is not None:
            hold.is_out = False
            _extend(hold, asked_ms, dice)

    def not_now(self, held: Held, now_ms: int) -> None:
        """Nobody could say; it is asked again soon."""
        hold = self._holds.get((held.resource, held.fence))
        if hold is not None:
            hold.is_out, hold.due_ms = False, now_ms + RETRY_MS

    # --- what follows ---------------------------------------------------------------------------

    def since_ms(self, held: Held) -> int:
        return self._holds[held.resource, held.fence].since_ms

    def due(self, now_ms: int, *, is_awake: bool) -> list[Held]:
        """What is to be renewed now; each is on its way until somebody says what came of it."""
        quiet = self.policy.keep == "heartbeat" and now_ms - self._heard_ms > self.policy.quiet_ms
        if self._left_ms is not None or quiet or not is_awake:  # I1
            return []
        found = []
        for hold in self._holds.values():
            within = now_ms < hold.since_ms + self.policy.max_hold_ms  # I2
            if within and not hold.is_out and hold.due_ms <= now_ms < hold.deadline_ms:
                hold.is_out = True  # I3
                found.append(hold.held)
        return found

    def lapsed(self, now_ms: int) -> list[Held]:
        """What ran out unrenewed; it is forgotten here."""
        found = [hold.held for hold in self._holds.values() if now_ms > hold.deadline_ms]
        for held in found:
            self.drop(held.resource, held.fence)
        return found

    def is_over(self, now_ms: int) -> bool:
        """The client left, and did not come back in time."""
        return self._left_ms is not None and now_ms >= self._left_ms + self.policy.grace_ms


def _extend(hold: _Hold, from_ms: int, dice: float) -> None:
    ttl_ms = hold.held.ttl_seconds * 1000
    hold.deadline_ms = from_ms + ttl_ms
    part_ms = ttl_ms // RENEW_PART
    hold.due_ms = from_ms + part_ms - int(dice * part_ms / JITTER_PART)
