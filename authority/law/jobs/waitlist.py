"""What can be claimed, oldest first, where a lapsed lease is simply taken over.

    free      offered and not leased, by age
    leased    offered and leased, by deadline: once it has passed, as good as free

No page looks at what is leased and live, nor at more than so many lapsed leases.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from sortedcontainers import SortedList

from ....contracts import limits

Place = tuple[int, str]  # the row that brought it, and its id


class Waitlist:
    """An index over what is offered, whose leases are granted and end elsewhere."""

    __slots__ = ("_deadlines", "_free", "_leased", "_offers")

    def __init__(self) -> None:
        self._free: SortedList[Place] = SortedList()
        self._leased: SortedList[tuple[int, int, str]] = SortedList()
        self._offers: dict[str, int] = {}
        self._deadlines: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._offers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Waitlist):
            return NotImplemented
        return (self._free, self._leased, self._offers, self._deadlines) == (
            other._free, other._leased, other._offers, other._deadlines,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def leased(self) -> int:
        """How many of those that are offered have a lease, live or lapsed."""
        return len(self._leased)

    def offer(self, key: str, seq: int | None) -> None:
        """It can be claimed, and came with this row; None: it cannot."""
        self._take_out(key)
        if seq is None:
            self._offers.pop(key, None)
        else:
            self._offers[key] = seq
        self._put_in(key)

    def lease(self, key: str, deadline_ms: int | None) -> None:
        """It is leased until this moment; None: it is not."""
        self._take_out(key)
        if deadline_ms is None:
            self._deadlines.pop(key, None)
        else:
            self._deadlines[key] = deadline_ms
        self._put_in(key)

    def claimable(self, wall_ms: int, after: Place) -> Iterator[Place]:
        """What a claim would get at this moment, oldest first, behind a place."""
        lapsed = self._leased.irange(None, (wall_ms, -1, ""), (True, False))
        some = islice(lapsed, limits.LAPSED_SCAN_MAX)
        places = sorted((seq, key) for _, seq, key in some if (seq, key) > after)
        return merge(self._free.irange(after, None, (False, True)), places)

    def _take_out(self, key: str) -> None:
        seq = self._offers.get(key)
        if seq is None:
            return
        if key in self._deadlines:
            self._leased.remove((self._deadlines[key], seq, key))
        else:
            self._free.remove((seq, key))

    def _put_in(self, key: str) -> None:
        seq = self._offers.get(key)
        if seq is None:
            return
        if key in self._deadlines:
            self._leased.add((self._deadlines[key], seq, key))
        else:
            self._free.add((seq, key))
