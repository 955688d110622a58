"""Which budgets a piece of work is under, how much of each is used up, and what that forbids.

A budget is used up at 100 %. Then nothing in its reach is claimed any more: a work's own is about
that work, one of a label, a tree or a day about all work that it counts.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...contracts import (
    ALL_WORK,
    DAY_MS,
    Amount,
    Budget,
    Issue,
    JobRecord,
    Reason,
    Tally,
    WorkSpend,
    issue_resource,
    job_resource,
    limits,
    rfc3339,
)
from .outcome import Refused
from .scope import scopes_of, trees_of
from .state import State

_NOTHING = Amount()


class Books(NamedTuple):
    """What was spent, with what a decision is about to add."""

    spends: Mapping[str, WorkSpend]
    tallies: Mapping[str, Tally]

    def with_more(self, spend: WorkSpend, tallies: list[Tally]) -> "Books":
        added = {each.scope: each for each in tallies}
        return Books(
            ChainMap({spend.resource: spend}, dict_of(self.spends)),
            ChainMap(added, dict_of(self.tallies)),
        )


def dict_of(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A state's own dictionary, which a layer above it leaves alone."""
    assert isinstance(mapping, dict)
    return mapping


class Use(NamedTuple):
    """One budget that a piece of work is under, and what was spent of it."""

    budget: Budget
    spent: Amount

    @property
    def percent(self) -> int:
        return self.budget.percent(self.spent)

    @property
    def is_up(self) -> bool:
        return self.budget.is_up(self.spent)

    @property
    def words(self) -> str:
        return f"{self.budget.name}: {self.percent} %"


def books_of(state: State) -> Books:
    return Books(state.spends, state.tallies)


def uses(
    state: State, books: Books, work: Issue | JobRecord, owner: str | None, wall_ms: int
) -> Iterator[Use]:
    """All budgets over a piece of work that this owner holds, or wants to hold."""
    if not state.budgets:
        return
    scopes = scopes_of(work) + trees_of(work, owner)
    spend = books.spends.get(scopes[0])
    for scope in scopes:
        if scope in state.budgets:
            for _, budget in sorted(state.budgets[scope].items()):
                for spent in _spent(budget, books, scopes, spend, wall_ms):
                    yield Use(budget, spent)


def _spent(
    budget: Budget, books: Books, scopes: tuple[str, ...], spend: WorkSpend | None, wall_ms: int
) -> Sequence[Amount]:
    """What was spent of a budget; one about labels has a sum for each."""
    if budget.per == "attempt":
        return (spend.attempt if spend else _NOTHING,)
    if budget.per == "work":
        return (spend.total if spend else _NOTHING,)
    if budget.per == "day":
        tally = books.tallies.get(budget.scope)
        return (tally.today if tally and tally.day == wall_ms // DAY_MS else _NOTHING,)
    tallies = [each for scope in scopes if (each := books.tallies.get(scope))]
    found = [_counted(budget, each, wall_ms) for each in tallies]
    return [each for each in found if each is not None] or (_NOTHING,)


def _counted(budget: Budget, tally: Tally, wall_ms: int) -> Amount | None:
    """What of a tally is held against a budget; None where the two are about different things."""
    if budget.per == "day":
        is_today = tally.day == wall_ms // DAY_MS
        return tally.today if is_today and tally.scope == budget.scope else None
    is_named = budget.scope in (ALL_WORK, tally.scope) and tally.scope.startswith(f"{budget.per}/")
    return tally.total if is_named else None


def forbids(
    state: State, work: Issue | JobRecord, owner: str | None, wall_ms: int
) -> Refused | None:
    """Why a new term on the work cannot begin: a budget is used up.

    An issue whose attempt cost too much is blocked, and free when a person says so. A job has no
    such state, so it is free when the budget is.
    """
    if not state.budgets:
        return None
    is_tried_anew = isinstance(work, Issue)
    for use in uses(state, books_of(state), work, owner, wall_ms):
        if use.is_up and not (is_tried_anew and use.budget.per == "attempt"):
            return _refuse(work, use)
    return None


def _refuse(work: Issue | JobRecord, use: Use) -> Refused:
    if isinstance(work, JobRecord):
        detail = f"job {work.job_id}: {use.words}"
        return Refused(Reason.BUDGET_EXCEEDED, detail, job_id=work.job_id)
    return Refused(Reason.BUDGET_EXCEEDED, f"issue {work.id}: {use.words}", work.id)


def may_forbid(state: State, issue: Issue) -> bool:
    """Whether some claim of the issue may be refused for a budget; never False where one is."""
    if not state.budgets:
        return False
    everything = state.tallies.get(ALL_WORK)
    last_ms = everything.day * DAY_MS if everything else 0
    trees = [f"{scope[5:]}/" for scope in state.budgets if scope.startswith("tree/")]
    return _is_some_tree_over(state) or any(
        forbids(state, issue, owner, last_ms) for owner in (None, *trees)
    )


def _is_some_tree_over(state: State) -> bool:
    """Whether the budget that every tree has is used up by any."""
    budget = state.budgets.get(ALL_WORK, {}).get("tree")
    return budget is not None and any(
        Use(budget, each.total).is_up
        for each in state.tallies.values()
        if each.scope.startswith("tree/")
    )


def has_run_out(state: State, tally: Tally) -> bool:
    """Whether a budget that is about more than one piece of work is used up in this tally."""
    for scope in {tally.scope, ALL_WORK}:
        for budget in state.budgets.get(scope, {}).values():
            spent = _counted(budget, tally, tally.day * DAY_MS)
            if spent is not None and Use(budget, spent).is_up:
                return True
    return False


def resource_of(work: Issue | JobRecord) -> str:
    return job_resource(work.job_id) if isinstance(work, JobRecord) else issue_resource(work.id)


# --- views --------------------------------------------------------------------------------------


def use_view(use: Use) -> dict[str, Any]:
    state = "exceeded" if use.is_up else "within"
    if not use.is_up and use.percent >= limits.BUDGET_WARNING_PERCENT:
        state = "warning"
    return budget_view(use.budget) | {
        "spent": amount_view(use.spent),
        "percent": use.percent,
        "state": state,
    }


def budget_view(budget: Budget) -> dict[str, Any]:
    most = budget.most
    caps = {
        "tokensMax": most.tokens,
        "usdMicrosMax": most.usd_micros,
        "millisecondsMax": most.milliseconds,
    }
    given = {name: cap for name, cap in caps.items() if cap}
    return {"scope": budget.scope, "per": budget.per} | given


def amount_view(amount: Amount) -> dict[str, Any]:
    return {
        "tokens": amount.tokens,
        "usdMicros": amount.usd_micros,
        "milliseconds": amount.milliseconds,
    }


def spend_view(spend: WorkSpend) -> dict[str, Any]:
    return {
        "resource": spend.resource,
        "fence": spend.fence,
        "attempt": amount_view(spend.attempt),
        "total": amount_view(spend.total),
        "reportedAt": rfc3339.answer_text(spend.reported_ms),
    }


def tally_view(tally: Tally) -> dict[str, Any]:
    return {
        "scope": tally.scope,
        "total": amount_view(tally.total),
        "day": rfc3339.answer_text(tally.day * DAY_MS)[:10],
        "today": amount_view(tally.today),
    }
