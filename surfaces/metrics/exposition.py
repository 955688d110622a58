"""Writes what was read as a scrape: by `prometheus_client`, which knows the format."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from .reading import Histogram, Reading, read_all

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_KEPT_SECONDS = 1.0  # many scrapers cost one


class MetricsMissing(Exception):
    """The package is not installed; the text says how it is."""

    def __init__(self) -> None:
        super().__init__("prometheus_client is missing: pip install 'understudy[metrics]'")


def require() -> None:
    """Raise `MetricsMissing` where metrics cannot be written."""
    if find_spec("prometheus_client") is None:
        raise MetricsMissing


def as_text(readings: Sequence[Reading]) -> bytes:
    """A whole scrape."""
    require()
    from prometheus_client import CollectorRegistry, generate_latest  # it may be missing

    class Collector:
        def collect(self) -> Iterator[Any]:
            return _families(readings)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return bytes(generate_latest(registry))


def _families(readings: Iterable[Reading]) -> Iterator[Any]:
    """Every metric with all its samples, in the order in which they were met."""
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
    known: dict[str, Any] = {}
    for each in readings:
        metric = each.metric
        if isinstance(each, Histogram):
            family = HistogramMetricFamily(metric.name, metric.help)
            sums = list(accumulate(each.counts))
            names = [*(f"{bound:g}" for bound in each.bounds), "+Inf"]
            family.add_metric([], list(zip(names, sums, strict=True)), each.sum)
            known[metric.name] = family
            continue
        if metric.name not in known:
            known[metric.name] = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
        known[metric.name].add_metric(each.labels, each.value)
    yield from known.values()


class Scrapes:
    """Scrapes of one state directory; many that come at once are one."""

    def __init__(
        self, state_dir: Path, read: Callable[[Path], Sequence[Reading]] = read_all
    ) -> None:
        self._state_dir, self._read = state_dir, read
        self._made_at, self._making = 0.0, None

    _making: "asyncio.Task[bytes] | None"

    async def text(self) -> bytes:
        """What there is now, or was a second ago."""
        if self._making is None or time.monotonic() > self._made_at + _KEPT_SECONDS:
            self._made_at = time.monotonic()
            self._making = asyncio.create_task(asyncio.to_thread(self._make))
        return await asyncio.shield(self._making)

    def _make(self) -> bytes:
        return as_text(self._read(self._state_dir))
