"""How much of each budget is used, from what `spend.show` answers of everything.

Budgets for an attempt or for one piece of work are about each of them, and have no one number.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_UNITS = ("tokens", "usdMicros", "milliseconds")


class BudgetUse(NamedTuple):
    """A budget, and the part of it that is used; None where it has no one number."""

    scope: str
    per: str
    caps: dict[str, int]
    ratio: float | None


def budget_uses(answer: Mapping[str, Any]) -> Iterator[BudgetUse]:
    """Every budget; of several caps, the one that is used most."""
    tallies = {each["scope"]: each for each in answer.get("tallies", [])}
    today = time.strftime("%Y-%m-%d", time.gmtime())
    for budget in answer.get("budgets", []):
        caps = {unit: budget[f"{unit}Max"] for unit in _UNITS if budget.get(f"{unit}Max")}
        tally = tallies.get(budget["scope"])
        ratio = None
        if budget["per"] == "day":
            spent = tally["today"] if tally and tally["day"] == today else {}
            ratio = _used(caps, spent)
        elif budget["per"] in ("label", "tree"):
            named = [
                each["total"]
                for scope, each in tallies.items()
                if scope == budget["scope"]
                or (budget["scope"] == "*" and scope.startswith(f"{budget['per']}/"))
            ]
            ratio = max((_used(caps, spent) for spent in named), default=0.0)
        yield BudgetUse(budget["scope"], budget["per"], caps, ratio)


def _used(caps: Mapping[str, int], spent: Mapping[str, int]) -> float:
    return max((spent.get(unit, 0) / cap for unit, cap in caps.items()), default=0.0)
