"""Is there an order in which calls could have happened one by one? It knows no authority.

Wing and Gong's search with Lowe's memory: take any call that may come first, since none of the
others had ended before it began, let the model take it, and go on with the rest. A place that was
reached before with the same calls done is not searched again. A call whose end was not heard
may come at any time after its beginning, or never.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

PLACES_MAX = 1_000_000  # beyond it there is no verdict, and that is a failure too


class Timed(Protocol):
    """What the search has to know of a call."""

    @property
    def start(self) -> float: ...

    @property
    def end(self) -> float:
        """When the answer was heard."""

    @property
    def heard(self) -> bool: ...

    @property
    def likely(self) -> tuple[int, int]:
        """Where to try it first among its neighbours; it saves time, and nothing else."""


Call = TypeVar("Call", bound=Timed)
State = TypeVar("State", bound=Hashable)
Step = Callable[[State, Call], Iterable[State]]


class _Place(NamedTuple, Generic[State]):
    """Where the search stands: all calls before `first` are done, and some behind it."""

    first: int
    done: int  # a bit for each heard call from `first` on
    taken: int  # a bit for each unheard call that has happened
    state: State


def problem(calls: Sequence[Call], state: State, step: Step[State, Call]) -> str | None:
    """None, where some order explains everything; else how far the best one came."""
    by_start = sorted(calls, key=lambda call: call.start)
    heard = [call for call in by_start if call.heard]
    unheard = [call for call in by_start if not call.heard]
    best, stuck = -1, ""
    seen: set[_Place[State]] = set()
    stack = [_Place(0, 0, 0, state)]
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        assert len(seen) < PLACES_MAX, "too wide to judge"
        if place.first == len(heard):
            return None
        nexts = _candidates(heard, unheard, place)
        explained = place.first + place.done.bit_count()
        if explained > best:
            best, stuck = explained, ", ".join(repr(call) for _, call in nexts[:4])
        for index, call in sorted(nexts, key=lambda each: each[1].likely, reverse=True):
            stack += [_moved(place, index, call.heard, after) for after in step(place.state, call)]
    return f"{best} of {len(heard)} calls can be explained, and none of these comes next: {stuck}"


def _candidates(
    heard: Sequence[Call], unheard: Sequence[Call], place: _Place[State]
) -> list[tuple[int, Call]]:
    """Calls that no call still to be explained ended before."""
    latest = float("inf")
    found: list[tuple[int, Call]] = []
    for index in range(place.first, len(heard)):
        call = heard[index]
        if call.start > latest:
            break
        if not place.done >> (index - place.first) & 1:
            latest = min(latest, call.end)
            found.append((index, call))
    for index, call in enumerate(unheard):
        if call.start > latest:
            break
        if not place.taken >> index & 1:
            found.append((index, call))
    return found


def _moved(place: _Place[State], index: int, heard: bool, state: State) -> _Place[State]:
    if not heard:
        return place._replace(taken=place.taken | 1 << index, state=state)
    first, done = place.first, place.done | 1 << (index - place.first)
    while done & 1:
        first, done = first + 1, done >> 1
    return _Place(first, done, place.taken, state)
