"""Collects the numbers: from the sidecar, the SQL tables, the tree and the files.

It runs in a thread of whoever serves metrics. What cannot be read leaves its metrics out, and says
so in `understudy_sidecar_up` and `understudy_tree_up`; a scrape never fails for it.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from ...actors import tree as trees
from ...authority import TRAJECTORY, Unavailable, open_journal
from ...authority.service import client
from ...authority.views import sql
from ..budget_use import budget_uses
from . import table
from .table import Metric

_SILENCE_SECONDS = 2.0
_QUERY_SECONDS = 2.0
_PARTS = {
    "journal": ("journal.db", "journal.db-wal"),
    "trajectory": (TRAJECTORY,),
    "tables": ("tables.db", "tables.db-wal"),
}


class Sample(NamedTuple):
    """A number of one metric, and the values of its labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


class Histogram(NamedTuple):
    """Counts of values at most each bound, one by one; the last has no bound."""

    metric: Metric
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


Reading = Sample | Histogram


def read_sidecar(counts: Mapping[str, Any]) -> Iterator[Reading]:
    """What a sidecar has counted."""
    yield Sample(table.DECISIONS, (), counts["requests"])
    for name, count in counts["refusals"].items():
        yield Sample(table.REFUSALS, (name,), count)
    yield _histogram(table.SIZES, counts["commitSizes"], 1)
    yield _histogram(table.LATENCY, counts["decisionMicroseconds"], 1_000_000)


def read_all(state_dir: Path) -> list[Reading]:
    """Everything of a state directory."""
    found: list[Reading] = []
    counts = None
    with suppress(Unavailable):
        counts = client.service_counts(state_dir, _SILENCE_SECONDS)
    found.append(Sample(table.UP, (), int(counts is not None)))
    if counts:
        found += read_sidecar(counts)
        with suppress(Unavailable):
            found += _asked(state_dir)
    with suppress(Unavailable, sql.BadQuery, apsw.Error, OSError):
        found += _tables(state_dir)
    return [*found, *_tree(state_dir), *_sizes(state_dir)]


def _histogram(metric: Metric, known: Mapping[str, Any], unit: int) -> Histogram:
    bounds = tuple(each / unit for each in known["bounds"])
    return Histogram(metric, bounds, tuple(known["counts"]), known["sum"] / unit)


def _asked(state_dir: Path) -> Iterator[Reading]:
    with client.Client(
        state_dir, "cli", retry_seconds=0, silence_seconds=_SILENCE_SECONDS
    ) as authority:
        status = authority.ask("issue.backend_status", {})
        spent = authority.ask("spend.show", {})
    if "readyCount" in status:
        yield Sample(table.READY, (), status["readyCount"])
    for use in budget_uses(spent):
        if use.ratio is not None:
            yield Sample(table.BUDGET, (use.scope, use.per), use.ratio)


def _tables(state_dir: Path) -> Iterator[Reading]:
    with closing(sql.reader(state_dir, _QUERY_SECONDS)) as reader:
        for metric, name in ((table.ISSUES, "issue"), (table.JOBS, "job")):
            query = f"SELECT status, count(*) FROM {name} GROUP BY status"
            yield from (Sample(metric, (word,), count) for word, count in reader.ask(query).rows)
            query = f"SELECT coalesce(sum(attempts), 0) FROM {name}"
            ((attempts,),) = reader.ask(query).rows
            yield Sample(table.ATTEMPTS, (name,), int(attempts))
        yield from _leases(reader.ask("SELECT resource, ttl_ms, deadline_ms FROM lease").rows)
        watermark = reader.watermark()
    with open_journal(state_dir, read_only=True) as book:
        head = book.last_seq()
    yield Sample(table.ROWS, (), head)
    yield Sample(table.BEHIND, (), max(0, head - watermark))


def _leases(rows: Iterator[tuple[Any, ...]]) -> Iterator[Reading]:
    now_ms, held, late = time.time_ns() // 1_000_000, dict[str, int](), 0
    for resource, ttl_ms, deadline_ms in rows:
        family = resource.partition("/")[0]
        held[family] = held.get(family, 0) + 1
        late += deadline_ms - now_ms < ttl_ms / 3
    yield from (Sample(table.HELD, (family,), count) for family, count in sorted(held.items()))
    yield Sample(table.LATE, (), late)


def _tree(state_dir: Path) -> Iterator[Reading]:
    try:
        asked = {"ask": "picture"}
        picture = trees.ask(state_dir / trees.RUN_FOLDER, asked, _SILENCE_SECONDS)
    except trees.NoTree:
        yield Sample(table.TREE_UP, (), 0)
        return
    yield Sample(table.TREE_UP, (), 1)
    for child in picture["tree"]:
        yield Sample(table.RESTARTS, (child["id"],), child["restarts"])
    yield Sample(table.RESTARTS, ("sidecar",), picture["authority"].get("restarts", 0))
    loops = [picture["dispatcher"], picture.get("jobs") or {}]
    yield Sample(table.RESTING, (), sum(each.get("resting", 0) for each in loops))
    yield Sample(table.BUSY, (), sum(len(each.get("terms", ())) for each in loops))
    yield Sample(table.SLOTS, (), sum(each.get("slots", 0) for each in loops))


def _sizes(state_dir: Path) -> Iterator[Reading]:
    for part, names in _PARTS.items():
        size = 0
        for name in names:
            with suppress(OSError):
                size += (state_dir / name).stat().st_size
        yield Sample(table.BYTES, (part,), size)
