"""Payloads about what work costs, and what it may cost."""

from typing import Literal

from .atoms import Id, Integer, JobId, Mutation, Name, Natural, OperationName, Scope, Shape

BudgetPer = Literal["attempt", "work", "label", "tree", "day"]


class ReportSpend(Mutation, frozen=True, kw_only=True):
    """The holder of an issue (`id`, `assignee`) or a job (`job_id`, `worker`) says what it cost
    since it said so last."""

    id: Id | None = None
    job_id: JobId | None = None
    assignee: Name | None = None
    worker: Name | None = None
    lease_id: OperationName | None = None
    fence: Natural | None = None
    tokens: Integer = 0
    usd_micros: Integer = 0
    milliseconds: Integer = 0


class ShowSpend(Shape, frozen=True, kw_only=True):
    """What one issue or job has cost; with neither, what everything has."""

    id: Id | None = None
    job_id: JobId | None = None


class SetBudget(Mutation, frozen=True, kw_only=True):
    """What is left out has no cap."""

    scope: Scope
    per: BudgetPer
    tokens_max: Integer | None = None
    usd_micros_max: Integer | None = None
    milliseconds_max: Integer | None = None


class ClearBudget(Mutation, frozen=True, kw_only=True):
    """Without `per`, all budgets of the scope."""

    scope: Scope
    per: BudgetPer | None = None
