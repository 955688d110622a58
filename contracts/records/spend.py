"""What work has cost, and what it may cost: integers alone, since canonical JSON has no fractions.

A day is one of UTC, counted from 1970. A tally adds up what was spent in one scope: all of it, and
what falls on the last day on which something was spent.
"""

import re
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


_DECIMAL = re.compile(r"(-?)([0-9]{1,9})(?:\.([0-9]{1,6}))?")


def usd_micros(text: str) -> int:
    """Dollars as people write them, as millionths, exactly; raise `ValueError` for the rest."""
    return _scaled(text, 6, "dollars such as 0.25")


def milliseconds(text: str) -> int:
    """Seconds as people write them, as milliseconds, exactly; raise `ValueError` for the rest."""
    return _scaled(text, 3, "seconds such as 90 or 1.5")


def _scaled(text: str, digits: int, words: str) -> int:
    found = _DECIMAL.fullmatch(text.strip())
    if found is None or len(found[3] or "") > digits:
        raise ValueError(f"{text!r}: write {words}, with at most {digits} digits behind the point")
    scaled = int(found[2] + (found[3] or "").ljust(digits, "0"))
    return -scaled if found[1] else scaled


def spend_line(line: str) -> Amount:
    """`tokens=1200 usd=0.012 seconds=3.5`: what a command says that it spent, in any order."""
    amounts = {"tokens": 0, "usd": 0, "seconds": 0}
    seen = set[str]()
    for word in line.split():
        unit, is_given, text = word.partition("=")
        if unit not in amounts or not is_given or unit in seen:
            raise ValueError(f"{word!r}: write tokens=N, usd=X or seconds=S, each at most once")
        seen.add(unit)
        if unit == "tokens":
            amounts[unit] = _scaled(text, 0, "tokens such as 1200") if "." not in text else -1
        else:
            amounts[unit] = usd_micros(text) if unit == "usd" else milliseconds(text)
    if min(amounts.values()) < 0 or not any(amounts.values()):
        raise ValueError(f"{line!r}: an amount is none, negative or no whole number of tokens")
    return Amount(*amounts.values())


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

    def is_up(self, spent: Amount) -> bool:
        """Whether it is used up, at 100 % of any part; every claim asks, so without percentages."""
        most = self.most
        return (
            0 < most.tokens <= spent.tokens
            or 0 < most.usd_micros <= spent.usd_micros
            or 0 < most.milliseconds <= spent.milliseconds
        )
