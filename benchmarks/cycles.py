"""Durable cycles a second, and how long a cycle takes at half of the most: us and every peer found.

Rounds are interleaved: each round measures every system once in every shape, and begins with
another system than the round before, so that noise hits all alike and none always comes after
the same neighbour. The first, short round only warms up, and learns how many items are needed.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks.load import Broken, Pace, RanDry, Shape, cycles_per_second, latencies
from benchmarks.progress import Progress
from benchmarks.systems import nats, postgres, procrastinate, redis, sqlite, understudy
from benchmarks.systems.system import Maker, System
from tests.services.server import Missing

ONE, EIGHT, MANY = Shape("1", 1, 1), Shape("8", 8, 1), Shape("64", 64, 1)
IN_FLIGHT = Shape("256 in flight", 4, 64)
SHAPES = (ONE, EIGHT, MANY, IN_FLIGHT)
SHAPES_BY_KEY = {"1": ONE, "8": EIGHT, "64": MANY, "256": IN_FLIGHT}
OURS, SHARED = "understudy", "understudy-postgres"
_Found = TypeVar("_Found")
_ITEMS_MIN, _ITEMS_MAX = 4_096, 1_048_576


class Entry(NamedTuple):
    """A system of the table. One that does not do the same work is shown, and never a bar."""

    make: Maker
    shapes: tuple[Shape, ...] = SHAPES
    same_work: bool = True


CATALOGUE: dict[str, Entry] = {
    OURS: Entry(understudy.Sidecar),
    SHARED: Entry(understudy.Shared),
    "sqlite": Entry(sqlite.Table),
    "sqlite-audit": Entry(lambda folder: sqlite.Table(folder, noted=True)),
    "sqlite-window": Entry(
        lambda folder: sqlite.Table(folder, together=True), (IN_FLIGHT,), same_work=False
    ),
    "postgres": Entry(postgres.Rows),
    "postgres-audit": Entry(lambda folder: postgres.Rows(folder, noted=True)),
    "procrastinate": Entry(procrastinate.Jobs, (ONE, EIGHT, MANY), same_work=False),
    "redis": Entry(redis.Scripts),
    "nats": Entry(nats.Bucket),
}


_FIRST = Pace(0.2, 0.1)


@dataclass(slots=True)
class Figures:
    """What was measured of one system, a figure a round."""

    name: str
    evidence: str
    same_work: bool
    rates: dict[str, list[float]] = field(default_factory=dict)
    latency: "Latency | None" = None
    failure: str | None = None

    def rate(self, shape: Shape) -> float | None:
        """The median; None where nothing was measured."""
        found = self.rates.get(shape.name)
        return statistics.median(found) if found else None


@dataclass(slots=True)
class Latency:
    """At this rate, in the shape that reached the most."""

    shape: Shape
    rate: float
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


class Contest:
    """All systems that were found, in one private folder."""

    def __init__(self, folder: Path, wanted: Sequence[str], shapes: Sequence[Shape]) -> None:
        self.figures: dict[str, Figures] = {}
        self.missing: dict[str, str] = {}
        self._folder, self._wanted, self._shapes = folder, wanted, shapes
        self._systems: dict[str, System] = {}
        self._items: dict[tuple[str, str], int] = {}

    def open(self, progress: Progress) -> None:
        """Start every server; what is not found is noted as missing."""
        for key in self._wanted:
            progress.say(f"starting {key}")
            try:
                system = CATALOGUE[key].make(self._folder / key)
            except Missing as error:
                self.missing[key] = str(error)
                continue
            self._systems[key] = system
            same_work = CATALOGUE[key].same_work
            self.figures[key] = Figures(system.name, system.evidence, same_work)

    def close(self) -> None:
        for system in self._systems.values():
            system.stop()

    def measure_rates(self, pace: Pace, rounds: int, progress: Progress) -> None:
        """Fill in `rates`."""
        for key, shape in self._order(0) if rounds > 1 else ():
            progress.say(f"warm-up: {self.figures[key].name}, {shape.name}")
            self._attempt(key, self._rate, shape, _FIRST)
        for number in range(rounds):
            for key, shape in self._order(number):
                figures = self.figures[key]
                at = f"round {number + 1} of {rounds}"
                progress.say(f"cycles, {at}: {figures.name}, {shape.name}")
                rate = self._attempt(key, self._rate, shape, pace)
                if rate is not None:
                    figures.rates.setdefault(shape.name, []).append(rate)

    def measure_latencies(self, pace: Pace, rounds: int, progress: Progress) -> None:
        """Fill in `latency`, from the rates."""
        for figures in self.figures.values():
            rates = {shape: figures.rate(shape) or 0.0 for shape in SHAPES}
            best = max(SHAPES, key=lambda shape: rates[shape])
            if rates[best] and figures.same_work:
                figures.latency = Latency(best, rates[best] / 2)
        for number in range(rounds):
            for key in _rotated(list(self._systems), number):
                latency = self.figures[key].latency
                if latency is None:
                    continue
                at = f"round {number + 1} of {rounds}"
                progress.say(f"latency, {at}: {self.figures[key].name}, {latency.rate:.0f}/s")
                found = self._attempt(key, self._latencies, latency.shape, pace)
                if found:
                    latency.p50_ms.append(1000 * found[len(found) // 2])
                    latency.p99_ms.append(1000 * found[len(found) * 99 // 100])

    def _order(self, number: int) -> Iterator[tuple[str, Shape]]:
        for shape in self._shapes:
            for key in _rotated(list(self._systems), number):
                if shape in CATALOGUE[key].shapes:
                    yield key, shape

    def _attempt(
        self, key: str, measure: Callable[[str, Shape, Pace], _Found], shape: Shape, pace: Pace
    ) -> _Found | None:
        """A system that fails once is out, and the table says why."""
        if self.figures[key].failure is not None:
            return None
        try:
            return measure(key, shape, pace)
        except Broken as error:
            self.figures[key].failure = f"{shape.name}: {error}"
            return None

    def _rate(self, key: str, shape: Shape, pace: Pace) -> float:
        while True:
            items = self._items.setdefault((key, shape.name), _ITEMS_MIN)
            try:
                rate, used = cycles_per_second(self._systems[key], shape, items, pace)
            except RanDry:
                self._more(key, shape, items * 4)
                continue
            self._more(key, shape, used * 3 // 2)
            return rate

    def _latencies(self, key: str, shape: Shape, pace: Pace) -> list[float]:
        latency = self.figures[key].latency
        assert latency is not None
        pace = pace._replace(cycles_per_second=latency.rate)
        needed = latency.rate * (pace.seconds + pace.warm_up_seconds)
        items = _rounded(int(needed * 1.1) + shape.clients * shape.window)
        return latencies(self._systems[key], shape, items, pace)

    def _more(self, key: str, shape: Shape, needed: int) -> None:
        """Never fewer items than before, and only a few different numbers of them."""
        if needed > _ITEMS_MAX:
            raise Broken(f"{needed} items are not enough")
        before = self._items[key, shape.name]
        self._items[key, shape.name] = max(before, _rounded(needed))


def _rounded(count: int) -> int:
    return max(_ITEMS_MIN, 1 << (count - 1).bit_length())


def _rotated(keys: list[str], by: int) -> list[str]:
    by %= len(keys) or 1
    return keys[by:] + keys[:by]
