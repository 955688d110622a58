"""Every metric that we export: its name, its kind, what it says, and its labels.

Names follow Prometheus: base units, `_total` for what only grows. No label has values without end,
so no id of work is one.
"""

from typing import Final, Literal, NamedTuple

Kind = Literal["gauge", "counter", "histogram"]


class Metric(NamedTuple):
    """One of them."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def exported(self) -> str:
        """As a scrape names it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


UP: Final = Metric("understudy_sidecar_up", "gauge", "Whether a sidecar answers.")
TREE_UP: Final = Metric("understudy_tree_up", "gauge", "Whether a tree runs.")
DECISIONS: Final = Metric(
    "understudy_requests", "counter", "Requests that the sidecar has decided since it began."
)
REFUSALS: Final = Metric(
    "understudy_refusals",
    "counter",
    "Refusals since the sidecar began, by failure class.",
    ("class",),
)
SIZES: Final = Metric(
    "understudy_commit_requests", "histogram", "Requests that were committed together."
)
LATENCY: Final = Metric(
    "understudy_decision_seconds", "histogram", "From the first decision of a batch to its commit."
)
ISSUES: Final = Metric("understudy_issues", "gauge", "Issues by status.", ("status",))
JOBS: Final = Metric("understudy_jobs", "gauge", "Jobs by status.", ("status",))
READY: Final = Metric("understudy_issues_ready", "gauge", "Issues that could be claimed now.")
HELD: Final = Metric("understudy_leases_held", "gauge", "Leases by what they are on.", ("family",))
LATE: Final = Metric(
    "understudy_renewals_late",
    "gauge",
    "Leases with less than a third of their time left: their renewal is late, or has failed.",
)
RESTING: Final = Metric(
    "understudy_work_resting", "gauge", "Pieces of work that the tree leaves alone before a retry."
)
BUSY: Final = Metric("understudy_workers_busy", "gauge", "Workers of the tree that are at work.")
SLOTS: Final = Metric("understudy_workers", "gauge", "Workers that the tree may have.")
ATTEMPTS: Final = Metric(
    "understudy_attempts", "counter", "Attempts that were counted, of all work.", ("family",)
)
RESTARTS: Final = Metric(
    "understudy_restarts", "counter", "Restarts of a child of the tree since it began.", ("child",)
)
BUDGET: Final = Metric(
    "understudy_budget_used_ratio", "gauge", "Part of a budget that is used.", ("scope", "per")
)
BYTES: Final = Metric(
    "understudy_journal_bytes", "gauge", "Size of what is kept, by what it is.", ("part",)
)
ROWS: Final = Metric("understudy_journal_rows", "counter", "Rows of the journal.")
BEHIND: Final = Metric(
    "understudy_tables_behind_rows", "gauge", "Rows that the SQL tables do not show yet."
)

METRICS: Final = (
    UP, TREE_UP, DECISIONS, REFUSALS, SIZES, LATENCY, ISSUES, JOBS, READY, HELD, LATE, RESTING,
    BUSY, SLOTS, ATTEMPTS, RESTARTS, BUDGET, BYTES, ROWS, BEHIND,
)  # fmt: skip
