"""What work costs, as its holders report it, and the budgets that operators set.

A report is always accepted from a live holder. Where it uses up a budget, the same decision ends
the lease: the issue is blocked, and no later claim gets past the budget (`budget.forbids`).
"""

from dataclasses import replace
from itertools import islice
from typing import Any

from ...contracts import (
    ALL_WORK,
    DAY_MS,
    Amount,
    Budget,
    ClearBudget,
    HeldJob,
    Issue,
    JobRecord,
    JobState,
    Lease,
    Nothing,
    OfHolder,
    Reason,
    ReportSpend,
    SetBudget,
    ShowSpend,
    Tally,
    WorkSpend,
    limits,
)
from .budget import (
    Use,
    amount_view,
    books_of,
    budget_view,
    resource_of,
    spend_view,
    tally_view,
    use_view,
    uses,
)
from .jobs import job
from .jobs.roster import job_view
from .lease import cut_short, hold
from .outcome import (
    Accepted,
    BudgetDropped,
    BudgetPut,
    Change,
    Outcome,
    Refused,
    SpendPut,
    TallyPut,
)
from .scope import plain_scope, scopes_of, trees_of
from .term import JOB, hold_term
from .turn import Turn
from .view import issue_view

_PERS = {  # of which scopes there are sums
    "attempt": (ALL_WORK, "label", "kind", "tree", "issue", "job"),
    "work": (ALL_WORK, "label", "kind", "tree", "issue", "job"),
    "label": (ALL_WORK, "label"),
    "tree": (ALL_WORK, "tree"),
    "day": (ALL_WORK, "label", "kind", "tree"),
}


# --- what was spent -------------------------------------------------------------------------------


def report(turn: Turn, request: ReportSpend) -> Outcome:
    """Count what a live holder has spent; end its term where that uses up a budget."""
    if (request.id is None) is (request.job_id is None):
        return Refused(Reason.SPEND_PAYLOAD_INVALID, "an issue or a job, and not both")
    amount = Amount(request.tokens, request.usd_micros, request.milliseconds)
    parts = (amount.tokens, amount.usd_micros, amount.milliseconds)
    if min(parts) < 0 or not 0 < max(parts) <= limits.SPEND_REPORT_MAX:
        said = f"{amount.tokens} tokens, {amount.usd_micros} usdMicros"
        return _about(request, Reason.SPEND_AMOUNT_INVALID, f"{said}, {parts[2]} milliseconds")
    held = _held(turn, request)
    if isinstance(held, Refused):
        return held
    work, lease = held
    spend, tallies = _added(turn, work, lease, amount)
    known = turn.state.tallies
    if len(known) + sum(each.scope not in known for each in tallies) > limits.TALLIES_MAX:
        return _about(request, Reason.SPENDS_FULL, resource_of(work))
    books = books_of(turn.state).with_more(spend, tallies)
    under = [*uses(turn.state, books, work, lease.owner, turn.stamp.wall_ms)]
    spent: tuple[Change, ...] = (SpendPut(spend), *map(TallyPut, tallies))
    body = {"changed": True, "spend": spend_view(spend), "budgets": [*map(use_view, under)]}
    ended = _ended(turn, work, lease, [each for each in under if each.is_up])
    if ended is not None:
        changes = (*ended.changes, *spent)
        return replace(ended, changes=changes, body=ended.body | body | {"stopped": True})
    shown = _shown(turn, work, lease)
    named: dict[str, Any] = {"issue_id": request.id, "job_id": request.job_id}
    return Accepted(spent, body | shown | {"stopped": False}, fence=lease.fence, **named)


def _about(request: ReportSpend, reason: Reason, detail: str) -> Refused:
    return Refused(reason, detail, request.id, job_id=request.job_id)


def _held(turn: Turn, request: ReportSpend) -> tuple[Issue | JobRecord, Lease] | Refused:
    """The work and its lease, where its live holder speaks."""
    proof: dict[str, Any] = {"lease_id": request.lease_id, "fence": request.fence}
    if request.id is not None:
        shown = OfHolder(id=request.id, assignee=request.assignee, **proof)
        lease = hold(turn, shown, "spend.report")
        return lease if isinstance(lease, Refused) else (turn.state.issues[request.id], lease)
    assert request.job_id is not None
    found = job.find(turn, request.job_id)
    if isinstance(found, Refused):
        return found
    held = HeldJob(job_id=request.job_id, worker=request.worker, **proof)
    lease = hold_term(turn, JOB, held, f"job {request.job_id}")
    return lease if isinstance(lease, Refused) else (found, lease)


def _added(
    turn: Turn, work: Issue | JobRecord, lease: Lease, amount: Amount
) -> tuple[WorkSpend, list[Tally]]:
    """What the work, and every scope that it is in, has cost with that."""
    day, resource = turn.stamp.wall_ms // DAY_MS, resource_of(work)
    before = turn.state.spends.get(resource)
    same = before is not None and before.fence == lease.fence
    spend = WorkSpend(
        resource=resource,
        fence=lease.fence,
        attempt=before.attempt.plus(amount) if before and same else amount,
        total=before.total.plus(amount) if before else amount,
        reported_ms=turn.stamp.wall_ms,
    )
    tallies = []
    for scope in (*scopes_of(work)[1:], *trees_of(work, lease.owner)):
        tally = turn.state.tallies.get(scope) or Tally(
            scope=scope, total=Amount(), day=day, today=Amount()
        )
        today = tally.today if tally.day == day else Amount()
        total = tally.total.plus(amount)
        tallies.append(Tally(scope=scope, total=total, day=day, today=today.plus(amount)))
    return spend, tallies


def _ended(
    turn: Turn, work: Issue | JobRecord, lease: Lease, used_up: list[Use]
) -> Accepted | None:
    """The end of the term, where a budget is used up.

    An issue is blocked; for a day's budget alone it stays open, and is free on the next day.
    """
    if not used_up:
        return None
    reason = f"{Reason.BUDGET_EXCEEDED.wire}: {used_up[0].words}"
    if isinstance(work, JobRecord):
        ended = job.yield_term(turn, work, lease, reason[: limits.REASON_LENGTH_MAX])
        shown = ended.body["job"] | {"state": JobState.BLOCKED.value}
        return replace(ended, body=ended.body | {"job": shown})
    is_day = all(each.budget.per == "day" for each in used_up)
    return cut_short(turn, work, lease, "open" if is_day else "blocked")


def _shown(turn: Turn, work: Issue | JobRecord, lease: Lease) -> dict[str, Any]:
    if isinstance(work, JobRecord):
        return {"job": job_view(turn, work, lease)}
    return {"issue": issue_view(work, lease, turn.stamp.wall_ms)}


def show(turn: Turn, request: ShowSpend) -> Outcome:
    """What one piece of work has cost, or all; and how much of the budgets over it is left."""
    state, now_ms = turn.state, turn.stamp.wall_ms
    if request.id is None and request.job_id is None:
        return _summed(turn)
    if request.id is not None and request.job_id is not None:
        return Refused(Reason.SPEND_PAYLOAD_INVALID, "an issue or a job, and not both")
    work: Issue | JobRecord | None
    if request.id is not None:
        work = state.issues.get(request.id)
        absent = Refused(Reason.ISSUE_NOT_FOUND, f"issue {request.id}", request.id)
    else:
        work = turn.lane.jobs.get(request.job_id or "")
        absent = Refused(Reason.JOB_NOT_FOUND, f"job {request.job_id}", job_id=request.job_id)
    if work is None:
        return absent
    lease = state.leases.get(resource_of(work))
    owner = lease.owner if lease else None
    under = uses(state, books_of(state), work, owner, now_ms)
    spend = state.spends.get(resource_of(work))
    body: dict[str, Any] = {"budgets": [*map(use_view, under)]}
    body |= {"spend": spend_view(spend)} if spend else {}
    return Accepted(body=body, issue_id=request.id, job_id=request.job_id)


def _summed(turn: Turn) -> Accepted:
    """What was spent in every scope, and what the budgets are; the costliest work first."""
    state, most = turn.state, limits.SPEND_SHOWN_MAX
    tallies = [tally_view(state.tallies[key]) for key in islice(sorted(state.tallies), most)]
    costly = sorted(state.spends.values(), key=_costliest)
    everything = state.tallies.get(ALL_WORK)
    body = {
        "total": amount_view(everything.total if everything else Amount()),
        "tallies": tallies,
        "spends": [spend_view(each) for each in costly[:most]],
        "truncated": len(state.tallies) > most or len(costly) > most,
    }
    return Accepted(body=body | _listed(turn))


def _costliest(spend: WorkSpend) -> tuple[int, int, int, str]:
    total = spend.total
    return (-total.usd_micros, -total.tokens, -total.milliseconds, spend.resource)


# --- what may be spent ----------------------------------------------------------------------------


def set_budget(turn: Turn, request: SetBudget) -> Outcome:
    """A budget, or another cap for one. What was spent before counts."""
    caps = (request.tokens_max, request.usd_micros_max, request.milliseconds_max)
    given = [cap for cap in caps if cap is not None]
    scope, name = _scope(request.scope), f"{request.scope} per {request.per}"
    if scope is None or scope.partition("/")[0] not in _PERS[request.per]:
        return Refused(Reason.BUDGET_INVALID, name)
    if not given or min(given) <= 0:
        return Refused(Reason.BUDGET_INVALID, f"{name}: {', '.join(map(str, given)) or 'no cap'}")
    refusal = _missing(turn, scope)
    if refusal is not None:
        return refusal
    known = turn.state.budgets
    count = sum(map(len, known.values()))
    if request.per not in known.get(scope, {}) and count >= limits.BUDGETS_MAX:
        return Refused(Reason.BUDGETS_FULL, name)
    most = Amount(*(cap or 0 for cap in caps))
    budget = Budget(scope=scope, per=request.per, most=most, set_ms=turn.stamp.wall_ms)
    body = {"changed": True, "budgets": [budget_view(budget)]}
    return Accepted((BudgetPut(budget),), body)


def _scope(text: str) -> str | None:
    """The scope of a budget in its one spelling; a tree has some, and no pause."""
    family, _, name = text.partition("/")
    return text if family == "tree" and name.strip() else plain_scope(text)


def _missing(turn: Turn, scope: str) -> Refused | None:
    """A budget of one piece of work is about work that is there."""
    family, _, name = scope.partition("/")
    if family == "issue" and name not in turn.state.issues:
        return Refused(Reason.ISSUE_NOT_FOUND, scope)
    if family == "job" and name not in turn.lane.jobs:
        return Refused(Reason.JOB_NOT_FOUND, scope)
    return None


def clear_budget(turn: Turn, request: ClearBudget) -> Outcome:
    """Take a budget away, or all of a scope; what was spent stays counted."""
    known = turn.state.budgets.get(_scope(request.scope) or "", {})
    found = [known[per] for per in sorted(known) if request.per in (None, per)]
    if not found:
        name = request.scope if request.per is None else f"{request.scope} per {request.per}"
        return Refused(Reason.BUDGET_NOT_FOUND, name)
    changes: tuple[Change, ...] = tuple(BudgetDropped(each.scope, each.per) for each in found)
    return Accepted(changes, {"changed": True, "budgets": [*map(budget_view, found)]})


def list_budgets(turn: Turn, request: Nothing) -> Outcome:  # noqa: ARG001 - called as its table is
    return Accepted(body=_listed(turn))


def _listed(turn: Turn) -> dict[str, Any]:
    """All budgets, by scope."""
    budgets = turn.state.budgets
    rows = [budgets[scope][per] for scope in sorted(budgets) for per in sorted(budgets[scope])]
    return {"budgets": [budget_view(each) for each in rows], "count": len(rows)}
