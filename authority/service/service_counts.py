"""What a sidecar counts of its own work, for who watches it: plain numbers, kept in its event loop.

A commit costs a few additions. Answers are looked through for one word, and only a refusal is read.
"""

import re
from bisect import bisect_left
from collections import Counter
from typing import Any

_REFUSED = b'"result":"rejected"'
_CLASS = re.compile(rb'"failureClasses":\["([a-z0-9_.]+)"[^}]*?"result":"rejected"')
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MICROSECONDS = (
    *(500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000),
)


class CountedValues:
    """How often a value was at most each bound, how many there were, and their sum."""

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0

    def add(self, value: int) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def as_json(self) -> dict[str, Any]:
        return {"bounds": list(self._bounds), "counts": list(self._counts), "sum": self._sum}


class ServiceCounts:
    """Since the sidecar began."""

    def __init__(self) -> None:
        self._requests = 0
        self._refusals: Counter[str] = Counter()
        self._sizes, self._times = CountedValues(SIZES), CountedValues(MICROSECONDS)

    def committed(self, requests: int, seconds: float) -> None:
        """So many were decided and committed together, in this time."""
        self._requests += requests
        self._sizes.add(requests)
        self._times.add(round(1_000_000 * seconds))

    def answered(self, lines: bytes) -> None:
        """Lines that go out."""
        if _REFUSED in lines:
            self._refusals.update(found.decode() for found in _CLASS.findall(lines))

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self._requests,
            "refusals": dict(self._refusals),
            "commitSizes": self._sizes.as_json(),
            "decisionMicroseconds": self._times.as_json(),
        }
