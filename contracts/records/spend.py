"""What work has cost, and what it may cost: integers alone, since canonical JSON has no fractions.

A day is one of UTC, counted from 1970. A tally adds up what was spent in one scope: all of it, and
what falls on the last day on which something was spent.
"""

from typing import Literal

from msgspec import Struct

from .. import limits

Per = Literal["attempt", "work", "label", "tree", "day"]

DAY_MS = 86_400_000


class Amount(Struct, frozen=True):
    """Tokens, millionths of a dollar, and milliseconds."""

    tokens: int = 0
    usd_micros: int = 0
    milliseconds: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """The sum; what no reader with doubles reads exactly stays at the last that it does."""
        return Amount(
            min(self.tokens + other.tokens, limits.INTEGER_MAX),
            min(self.usd_micros + other.usd_micros, limits.INTEGER_MAX),
            min(self.milliseconds + other.milliseconds, limits.INTEGER_MAX),
        )


class WorkSpend(Struct, frozen=True, kw_only=True):
    """What one issue or job has cost: its last attempt that reported anything, and all of them."""

    resource: str
    fence: int  # of that attempt
    attempt: Amount
    total: Amount
    reported_ms: int


class Tally(Struct, frozen=True, kw_only=True):
    """What was spent in one scope."""

    scope: str
    total: Amount
    day: int
    today: Amount


class Budget(Struct, frozen=True, kw_only=True):
    """What may be spent in a scope, on each attempt, work, label or tree in it, or in a day."""

    scope: str
    per: Per
    most: Amount  # 0: as much as one likes
    set_ms: int

    @property
    def name(self) -> str:
        """As people are told of it."""
        return f"{self.scope} per {self.per}"

    def percent(self, spent: Amount) -> int:
        """How much of it is used up, by the part that is used up most."""
        pairs = (
            (spent.tokens, self.most.tokens),
            (spent.usd_micros, self.most.usd_micros),
            (spent.milliseconds, self.most.milliseconds),
        )
        return max(used * 100 // most for used, most in pairs if most)
