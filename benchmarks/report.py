"""What was measured, as JSON for programs and as a table for people.

Ratios are the claim. Absolute numbers belong to the machine and to its mood, and are context.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks import descent_worktrees
from benchmarks.bars import REFERENCE, Bar, bars, ratio
from benchmarks.cycles import OURS, SHAPES, Figures
from benchmarks.load import Shape
from benchmarks.mcp import FLEETS
from benchmarks.mcp import Found as Agents
from benchmarks.results import Results
from benchmarks.stage import SYSTEMS, summary


def as_json(results: Results) -> dict[str, Any]:
    value = asdict(results)
    value["bars"] = [bar.as_json() for bar in bars(results)]
    return {"schema": 1} | value


def as_text(results: Results) -> str:
    parts = [_head(results)]
    if results.kernel:
        parts.append(_kernel(results))
    if results.systems or results.missing:
        parts.append(_cycles(results))
    if any(each.latency for each in results.systems.values()):
        parts.append(_latency(results))
    if results.restarts:
        parts.append(_restarts(results))
    if results.growth:
        parts.append(_growth(results))
    if results.stage:
        parts.append(_stage(results))
    if results.mcp is not None:
        parts.append(_agents(results.mcp))
    if results.failover:
        parts.append(_failover(results))
    if results.relay:
        parts.append(_relay(results))
    if results.jobs:
        rows = [[name, f"{statistics.median(each):,.1f}"] for name, each in results.jobs.items()]
        parts.append(_table(["10. jobs, in memory", "us"], rows))
    if results.overlaps:
        found = results.overlaps.items()
        rows = [[name, f"{statistics.median(each):,.2f}"] for name, each in found]
        parts.append(_table(["11. overlaps of 100 sections", "s"], rows))
    if results.worktrees:
        head = ["12. a worktree of 10,000 files", "ms", "of ours"]
        parts.append(_table(head, descent_worktrees.as_rows(results.worktrees)))
    if results.glue:
        glued = results.glue.items()
        rows = [[name, f"{statistics.median(each):,.1f}"] for name, each in glued]
        parts.append(_table(["13. glue with checks of 1 s", "s"], rows))
    if results.console:
        rows = [
            [name, *(f"{statistics.median(each):,.0f}" for each in found)]
            for name, found in results.console.items()
        ]
        parts.append(_table(["14. ten pages of the console", "open", "closed"], rows))
    parts.append(_checklist(results))
    return "\n\n".join(parts)


# --- the parts of the table -----------------------------------------------------------------------


def _head(results: Results) -> str:
    at = results.machine
    return (
        f"{at['cores']} cores, {at['system']}, {at['python']}, {at['file_system']};"
        f" a 4 KB fsync takes {at['fsync_ms']:.2f} ms, load average {at['load_average']:.1f}\n"
        f"median of {results.rounds} rounds of {results.seconds:g} s; fsync is on everywhere;"
        " ratios are the claim, all else is context" + _warning(at)
    )


def _warning(at: dict[str, Any]) -> str:
    if at["load_average"] < at["cores"] / 2:
        return ""
    return "\nTHE MACHINE WAS BUSY before the run began; measure again when it is not"


def _kernel(results: Results) -> str:
    rows = []
    reference = statistics.median(results.kernel[REFERENCE])
    for name, found in results.kernel.items():
        figure = statistics.median(found)
        rows.append([name, f"{figure:,.0f}", f"{figure / reference:.1f}"])
    return _table(["1. decisions a second, in memory", "median", "x reference"], rows)


def _cycles(results: Results) -> str:
    heads = ["2. durable cycles a second", *(shape.name for shape in SHAPES), "evidence"]
    rows, notes = [], []
    ours = results.systems.get(OURS)
    for figures in results.systems.values():
        mark = "" if figures.same_work else " *"
        cells = [_cell(figures, shape, ours) for shape in SHAPES]
        rows.append([figures.name + mark, *cells, figures.evidence])
        if mark:
            notes.append("* not the same work, so no bar: one step that fails undoes the others")
        if figures.failure is not None:
            notes.append(f"{figures.name} failed: {figures.failure}")
    notes += [f"{key} was not measured: {reason}" for key, reason in results.missing.items()]
    notes.append(
        "with SQLite nothing is ever in flight: its last column is 4 connections in lockstep"
    )
    notes.append("1, 8 and 64 are connections in lockstep; in brackets: ours against theirs")
    return "\n".join([_table(heads, rows), *(f"   {note}" for note in notes)])


def _cell(figures: Figures, shape: Shape, ours: Figures | None) -> str:
    rate = figures.rate(shape)
    if rate is None:
        return "-"
    if ours is None or figures is ours:
        return f"{rate:,.0f}"
    against = ratio(ours.rate(shape), rate)
    return f"{rate:,.0f}" if against is None else f"{rate:,.0f} ({against:.2f})"


def _latency(results: Results) -> str:
    heads = ["3. a cycle at half the most", "shape", "cycles/s", "p50 ms", "p99 ms"]
    rows = []
    for figures in results.systems.values():
        found = figures.latency
        if found is not None and found.p50_ms:
            p50, p99 = statistics.median(found.p50_ms), statistics.median(found.p99_ms)
            shape = found.shape.name
            rows.append([figures.name, shape, f"{found.rate:,.0f}", f"{p50:.2f}", f"{p99:.2f}"])
    return _table(heads, rows)


def _restarts(results: Results) -> str:
    heads = ["4. restart, rows in the journal", "journal MB", "first answer s", "RSS MB", "peak MB"]
    rows = []
    for each in results.restarts:
        memory = (
            statistics.median(found) / 1e6 for found in (each.resident_bytes, each.peak_bytes)
        )
        seconds = statistics.median(each.seconds)
        rows.append(
            [
                f"{each.rows:,}",
                f"{each.journal_bytes / 1e6:,.0f}",
                f"{seconds:.2f}",
                *(f"{size:,.0f}" for size in memory),
            ]
        )
    return _table(heads, rows)


def _growth(results: Results) -> str:
    counts = sorted({count for found in results.growth.values() for count in found})
    heads = ["5. microseconds a decision, resources", *(f"{count:,}" for count in counts)]
    rows = []
    for name, found in results.growth.items():
        costs = {count: 1e6 / statistics.median(rates) for count, rates in found.items()}
        rows.append([name, *(f"{costs[count]:.2f}" if count in costs else "-" for count in counts)])
    return _table(heads, rows)


def _stage(results: Results) -> str:
    medians = summary(results.stage)
    systems = [each for each in SYSTEMS if any(each in found for found in medians.values())]
    rows = [
        [name, *(f"{found[each]:,.3g}" if each in found else "-" for each in systems)]
        for name, found in medians.items()
    ]
    return _table(["6. supervision, and the whole tree", *systems], rows)


def _agents(found: Agents) -> str:
    heads = ["7. MCP calls, agents at once"]
    heads += [f"{count}, {what}" for count in FLEETS for what in ("calls/s", "CPU us/call")]
    rows = []
    for system, rates in found.rates.items():
        costs = found.costs_us[system]
        cells = [(rates[count], costs[count]) for count in FLEETS]
        figures = [f"{statistics.median(each):,.0f}" for pair in cells for each in pair]
        rows.append([system, *figures])
    launches = [
        f"{name}: {statistics.median(each):.1f}" for name, each in found.launches_ms.items()
    ]
    return "\n".join([_table(heads, rows), f"   {', '.join(launches)}"])


def _failover(results: Results) -> str:
    rows = [
        [way, f"{statistics.median(found):.2f}", f"{min(found):.2f} to {max(found):.2f}"]
        for way, found in results.failover.items()
    ]
    heads = ["8. fail-over on PostgreSQL, the active one was", "first answer s", "in rounds"]
    return _table(heads, rows)


def _relay(results: Results) -> str:
    rows = [
        [what, f"{statistics.median(found):.2f}", f"{min(found):.2f} to {max(found):.2f}"]
        for what, found in results.relay.items()
    ]
    return _table(["9. through a standby on PostgreSQL", "times local", "in rounds"], rows)


def _checklist(results: Results) -> str:
    rows = []
    for bar in bars(results):
        needed = f"{'<=' if bar.at_most else '>='} {bar.needed:g}"
        verdict = {True: "reached", False: "NOT reached", None: "not measured"}[bar.reached]
        rows.append([bar.name, needed, *_measured(bar), verdict, bar.against])
    return _table(["bars", "needed", "measured", "in rounds", "", "against"], rows)


def _measured(bar: Bar) -> tuple[str, str]:
    if bar.measured is None or bar.spread is None:
        return "-", "-"
    low, high = bar.spread
    return f"{bar.measured:.2f}", f"{low:.2f} to {high:.2f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be: the first to the left, figures to the right."""
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)
