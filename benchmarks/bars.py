"""The ratios that the project set itself to reach, and whether this run reached them.

A ratio is one of medians, against the best peer that was found and does the same work. Its spread
is that of the ratios within each round, so a noisy machine shows. A missed bar is a fact, never a
failure of the run.
"""

import statistics
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from benchmarks import console, descent_glue, descent_overlaps, descent_worktrees, jobs, mcp
from benchmarks.cycles import EIGHT, IN_FLIGHT, MANY, OURS, SHARED
from benchmarks.load import Shape
from benchmarks.results import Results

REFERENCE, BATCH = "reference", "native batch 256"
_WORKTREE_SECONDS = 0.2
_FLAT_AT_MOST = 2.0  # what caches may cost, where the rule is "flat"


@dataclass(frozen=True, slots=True)
class Bar:
    """Ours against theirs, a figure a round; nothing can be said where a side was not measured."""

    name: str
    needed: float
    ours: list[float]
    theirs: list[float]
    against: str
    at_most: bool = False

    @property
    def measured(self) -> float | None:
        return ratio(_median(self.ours), _median(self.theirs))

    @property
    def spread(self) -> tuple[float, float] | None:
        """The least and the greatest ratio within one round."""
        pairs = zip(self.ours, self.theirs, strict=False)
        ratios = [ours / theirs for ours, theirs in pairs if theirs]
        return (min(ratios), max(ratios)) if ratios else None

    @property
    def reached(self) -> bool | None:
        if self.measured is None:
            return None
        if self.at_most:
            return self.measured <= self.needed
        return self.measured >= self.needed

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "needed": self.needed,
            "is_limit": self.at_most,
            "measured": self.measured,
            "spread": self.spread,
            "reached": self.reached,
            "against": self.against,
        }


def bars(results: Results) -> list[Bar]:
    """What the contract wants reached, item by item."""
    ours = results.systems.get(OURS)
    rates = ours.rates if ours is not None else {}
    flood, eight = rates.get(IN_FLIGHT.name, []), rates.get(EIGHT.name, [])
    slow_name, slow = _best_peer(results, EIGHT)
    fast_name, fast = _best_peer(results, IN_FLIGHT)
    there_name, there = _best_peer(results, MANY, ("postgres", "procrastinate"))
    few, many = _few_and_many(results)
    kernel = results.kernel
    return [
        Bar(
            "native batches against the reference",
            30,
            kernel.get(BATCH, []),
            kernel.get(REFERENCE, []),
            REFERENCE,
        ),
        Bar("256 in flight against the best peer, 8 in lockstep", 10, flood, slow, slow_name),
        Bar("256 in flight against the best peer, 256 in flight", 5, flood, fast, fast_name),
        Bar("8 in lockstep against the best peer, 8 in lockstep", 2, eight, slow, slow_name),
        Bar(
            "64 in lockstep on PostgreSQL against the best peer there",
            5,
            _rates(results, SHARED, MANY),
            there,
            there_name,
        ),
        Bar(
            "cost of a decision, most resources against fewest",
            _FLAT_AT_MOST,
            few,
            many,
            "flat",
            at_most=True,
        ),
        *(_agents(results.mcp) if results.mcp is not None else ()),
        *(_jobs(results.jobs) if results.jobs else ()),
        *(_overlaps(results.overlaps) if results.overlaps else ()),
        *(_worktrees(results.worktrees) if results.worktrees else ()),
        *(_glue(results.glue) if results.glue else ()),
        *(_console(results.console) if results.console else ()),
    ]


def _console(found: dict[str, tuple[list[float], list[float]]]) -> list[Bar]:
    """What is left of the rate while ten pages look on."""
    with_pages, without = found[console.PACED]
    return [Bar("1,000 decisions a second, 10 pages open", 0.95, with_pages, without, "no page")]


def _glue(found: dict[str, list[float]]) -> list[Bar]:
    """How many times as long a queue takes that checks one section after the other."""
    serial, side_by_side = found[descent_glue.SERIAL], found[descent_glue.SPECULATE]
    return [Bar("glue of 50 sections, --speculate 4", 2.5, serial, side_by_side, "one by one")]


def _overlaps(found: dict[str, list[float]]) -> list[Bar]:
    """How many times as long a merge for each pair takes."""
    naive = found[descent_overlaps.NAIVE]
    return [
        Bar(f"overlaps of 100 sections, {name}", 5, naive, found[name], "a git for each pair")
        for name in descent_overlaps.CROWDS
    ]


def _jobs(found: dict[str, list[float]]) -> list[Bar]:
    """What order and limits cost."""
    claims, looks = (found[jobs.LIMITED], found[jobs.PLAIN]), (found[jobs.MANY], found[jobs.FEW])
    return [
        Bar(
            "claim of a job, with priorities, limits and budgets",
            1.3,
            *claims,
            "without",
            at_most=True,
        ),
        Bar("the next of 100,000 pending jobs", 1.5, *looks, "of 1,000", at_most=True),
    ]


def _worktrees(found: dict[str, list[float]]) -> list[Bar]:
    """A worktree for each claim, beside what git itself takes for one."""
    ours, after = descent_worktrees.OURS, descent_worktrees.AFTER
    limit, added = [_WORKTREE_SECONDS] * len(found[ours]), descent_worktrees.ADDED
    again = (found[ours + after], found[added + after])
    return [
        Bar("a worktree of 10,000 files", 1, found[ours], limit, "200 ms", at_most=True),
        Bar("the same", 1.2, found[ours], found[added], added, at_most=True),
        Bar("the same, after a removal", 1.2, *again, added, at_most=True),
    ]


def _agents(found: mcp.Found) -> list[Bar]:
    """Rules and evidence beside the bare SDK, as it comes and on our carrier; and a launch."""
    name = "processor time of an MCP call that writes, {} agents"
    costs = [
        Bar(
            name.format(count),
            1.5,
            found.costs_us[mcp.OURS][count],
            found.costs_us[bare][count],
            bare,
            at_most=True,
        )
        for bare in (mcp.STREAMS, mcp.CARRIED)
        for count in mcp.FLEETS
    ]
    launches = found.launches_ms
    first = Bar(
        "first answer after launch",
        2,
        launches[mcp.LAUNCH],
        launches[mcp.INTERPRETER],
        "python -c pass",
        at_most=True,
    )
    return [*costs, first]


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def _rates(results: Results, key: str, shape: Shape) -> list[float]:
    figures = results.systems.get(key)
    return figures.rates.get(shape.name, []) if figures is not None else []


def _best_peer(
    results: Results, shape: Shape, wanted: Collection[str] | None = None
) -> tuple[str, list[float]]:
    """The fastest of all that do the same work, or of some that are named."""
    peers = [
        (figures.name, figures.rates[shape.name])
        for key, figures in results.systems.items()
        if (key in wanted if wanted else figures.same_work and key not in (OURS, SHARED))
        and figures.rates.get(shape.name)
    ]
    none: tuple[str, list[float]] = ("no peer was found", [])
    return max(peers, key=lambda each: statistics.median(each[1]), default=none)


def _few_and_many(results: Results) -> tuple[list[float], list[float]]:
    """Decisions a second with the fewest resources and with the most."""
    found = results.growth.get(BATCH, {})
    return (found[min(found)], found[max(found)]) if len(found) > 1 else ([], [])


def _median(found: list[float]) -> float | None:
    return statistics.median(found) if found else None
