"""What was measured, as JSON for programs and as a table for people; and the bars, reached or not.

Ratios are the claim. Absolute numbers belong to the machine and to its mood, and are context.
"""

import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cycles import EIGHT, IN_FLIGHT, OURS, SHAPES, Figures
from benchmarks.load import Shape
from benchmarks.restart import Restart
from tests.services.server import file_system

REFERENCE, BATCH = "reference", "native batch 256"
_FLAT_AT_MOST = 2.0


@dataclass(slots=True)
class Results:
    """Everything of one run; a section that was not asked for stays empty."""

    machine: dict[str, Any]
    rounds: int
    seconds: float
    kernel: dict[str, list[float]] = field(default_factory=dict)
    systems: dict[str, Figures] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    restarts: list[Restart] = field(default_factory=list)
    growth: dict[str, dict[int, list[float]]] = field(default_factory=dict)


class Bar(NamedTuple):
    """A ratio that the project set itself to reach; None where a part of it was not measured."""

    name: str
    needed: float
    measured: float | None
    against: str
    at_most: bool = False

    @property
    def reached(self) -> bool | None:
        if self.measured is None:
            return None
        if self.at_most:
            return self.measured <= self.needed
        return self.measured >= self.needed


def machine(folder: Path) -> dict[str, Any]:
    """Where this was measured."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "fileSystem": file_system(folder),
        "fsyncMs": _fsync_ms(folder),
        "loadAverage": os.getloadavg()[0],
    }


def bars(results: Results) -> list[Bar]:
    """The sentence "to reach" of the contract, item by item."""
    kernel = {name: statistics.median(found) for name, found in results.kernel.items()}
    batch, reference = kernel.get(BATCH), kernel.get(REFERENCE)
    ours = results.systems.get(OURS)
    flood, eight = (ours.rate(shape) if ours else None for shape in (IN_FLIGHT, EIGHT))
    in_lockstep, in_flight = _best_peer(results, EIGHT), _best_peer(results, IN_FLIGHT)
    return [
        Bar("native batches against the reference", 30, _ratio(batch, reference), REFERENCE),
        Bar(
            "256 in flight against the best peer with 8 in lockstep",
            10,
            _ratio(flood, in_lockstep[1]),
            in_lockstep[0],
        ),
        Bar(
            "256 in flight against the best peer with 256 in flight",
            5,
            _ratio(flood, in_flight[1]),
            in_flight[0],
        ),
        Bar(
            "8 in lockstep against the best peer with 8 in lockstep",
            2,
            _ratio(eight, in_lockstep[1]),
            in_lockstep[0],
        ),
        Bar(
            "cost of a decision, most resources against fewest",
            _FLAT_AT_MOST,
            _growth_ratio(results),
            "flat",
            at_most=True,
        ),
    ]


def as_json(results: Results) -> dict[str, Any]:
    value = asdict(results)
    value["bars"] = [bar._asdict() | {"reached": bar.reached} for bar in bars(results)]
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
    parts.append(_checklist(results))
    return "\n\n".join(parts)


# --- the parts of the table -----------------------------------------------------------------------


def _head(results: Results) -> str:
    at = results.machine
    return (
        f"{at['cores']} cores, {at['system']}, {at['python']}, {at['fileSystem']};"
        f" a 4 KB fsync takes {at['fsyncMs']:.2f} ms, load average {at['loadAverage']:.1f}\n"
        f"median of {results.rounds} rounds of {results.seconds:g} s; fsync is on everywhere;"
        " ratios are the claim, all else is context"
    )


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
    ratio = _ratio(ours.rate(shape), rate)
    return f"{rate:,.0f}" if ratio is None else f"{rate:,.0f} ({ratio:.2f})"


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


def _checklist(results: Results) -> str:
    rows = []
    for bar in bars(results):
        measured = "-" if bar.measured is None else f"{bar.measured:.2f}"
        needed = f"{'<=' if bar.at_most else '>='} {bar.needed:g}"
        verdict = {True: "reached", False: "NOT reached", None: "not measured"}[bar.reached]
        rows.append([bar.name, needed, measured, verdict, bar.against])
    return _table(["bars", "needed", "measured", "", "against"], rows)


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


# --- figures --------------------------------------------------------------------------------------


def _best_peer(results: Results, shape: Shape) -> tuple[str, float | None]:
    peers = [
        (figures.name, rate)
        for key, figures in results.systems.items()
        if key != OURS and figures.same_work and (rate := figures.rate(shape)) is not None
    ]
    return max(peers, key=lambda each: each[1], default=("no peer was found", None))


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def _growth_ratio(results: Results) -> float | None:
    found = results.growth.get(BATCH, {})
    if len(found) < 2:
        return None
    return statistics.median(found[min(found)]) / statistics.median(found[max(found)])


def _fsync_ms(folder: Path) -> float:
    """What one durable write costs here at the least."""
    times = []
    path = folder / "probe"
    with path.open("wb", buffering=0) as file:
        for _ in range(50):
            begun = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    path.unlink()
    return 1000 * statistics.median(times)
