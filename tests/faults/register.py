"""A lease as clients see it: one register for each issue, written from the rules alone.

It holds who has the issue, under which fence and until when. Answers carry the authority's time,
so deadlines can be told; a call without an answer happened at some time, which narrows down
with what is heard later.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, NamedTuple

Kind = Literal["claim", "renew", "release", "update", "close", "break", "show"]
HELD: frozenset[Kind] = frozenset({"renew", "release", "update", "close"})


class Heard(NamedTuple):
    """What an answer says."""

    failure: str | None
    at: tuple[int, int]  # the authority's time: milliseconds, and a counter within them
    fence: int | None = None  # of the lease that was given, met or seen
    owner: str | None = None  # of the lease that was seen
    deadline_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """What one client saw: it asked at `start`, and heard at `end`, if ever, how it went."""

    kind: Kind
    who: str
    start: float
    end: float = inf
    answer: Heard | None = None
    fence: int | None = None  # that the caller showed
    ttl_ms: int = 0
    now_ms: int = 0  # that the caller brought along

    @property
    def heard(self) -> bool:
        return self.answer is not None

    @property
    def likely(self) -> tuple[int, int]:
        return self.answer.at if self.answer else (1 << 62, 0)


@dataclass(frozen=True, slots=True)
class Term:
    """A caller's hold on the issue."""

    owner: str
    fence: int | None  # None: it was not heard; it is `Register.fence` or more
    earliest_ms: float  # the deadline lies from here
    latest_ms: float  # to here
    ttl_ms: int | None = None  # set: it began before the next call, so it ends so long after


@dataclass(frozen=True, slots=True)
class Register:
    """The issue between two calls."""

    clock_ms: int = 0
    fence: int = 0  # the greatest one so far
    closed: bool = False
    term: Term | None = None


class _View(NamedTuple):
    """What a call meets: the time, the term, and whether that holds."""

    at_ms: int
    term: Term | None
    live: bool


def step(register: Register, op: Op) -> Iterator[Register]:
    """Every register that the call may leave behind; none where it cannot have happened here."""
    if op.kind == "show":
        yield from _seen(register, op)
        return
    for view in _views(register, op):
        failure = _failure(register, view, op)
        if op.answer is None and failure is None:
            yield _changed(register, view, op)
        elif op.answer is not None and op.answer.failure == failure:
            met = register if failure is None else _met(register, view.term, op.answer)
            if met is not None:
                yield from _taken(met, view, op, op.answer)


def _views(register: Register, op: Op) -> Iterator[_View]:
    term = register.term
    if op.answer is None:
        at_ms = max(register.clock_ms, op.now_ms)
    else:
        at_ms = op.answer.at[0]
        if at_ms < max(register.clock_ms, op.now_ms):
            return  # time does not go back
        if term is not None and term.ttl_ms is not None:
            term = replace(term, latest_ms=at_ms + term.ttl_ms, ttl_ms=None)
    if term is None:
        yield _View(at_ms, None, live=False)
        return
    if at_ms <= term.latest_ms:  # on the tick itself it still holds
        yield _View(at_ms, replace(term, earliest_ms=max(term.earliest_ms, at_ms)), live=True)
    if op.answer is None:
        at_ms = max(at_ms, int(term.earliest_ms) + 1)  # it may have come late enough
    if at_ms > term.earliest_ms:
        yield _View(at_ms, replace(term, latest_ms=min(term.latest_ms, at_ms - 1)), live=False)


def _failure(register: Register, view: _View, op: Op) -> str | None:
    """What must become of the call, by the first rule that refuses it."""
    term = view.term
    if register.closed:
        return "lease_issue_closed"
    if op.kind == "claim":
        held = term is not None and view.live and term.owner != op.who
        return "lease_contention_active" if held else None
    if term is None:
        return "lease_missing"
    if op.kind == "break":
        return None
    shown, current = op.fence or 0, term.fence or register.fence
    if shown > current:
        return "lease_fence_unknown"
    if shown < current or term.fence is None:  # a holder that was not told a fence cannot show it
        return "lease_fence_stale"
    if not view.live:
        return "lease_stale"
    return None if term.owner == op.who else "lease_owner_mismatch"


def _taken(register: Register, view: _View, op: Op, answer: Heard) -> Iterator[Register]:
    """The register after a call that was answered, if the answer fits what it did."""
    if answer.failure is not None:
        yield replace(register, clock_ms=view.at_ms)
        return
    after = _changed(register, view, op)
    fence = answer.fence or 0
    if op.kind in HELD and (view.term is None or view.term.fence != fence):
        return
    if op.kind in {"claim", "renew"}:
        assert after.term is not None
        if after.term.fence is None and fence < register.fence + (not view.live):
            return  # a new term has a greater fence than any before
        if after.term.fence not in (None, fence) or answer.deadline_ms != after.term.earliest_ms:
            return
        after = replace(after, term=replace(after.term, fence=fence))
    yield replace(after, fence=max(after.fence, fence))


def _changed(register: Register, view: _View, op: Op) -> Register:
    """What an accepted call leaves behind, as far as its caller can know."""
    term, fence = view.term, register.fence
    deadline_ms: float = view.at_ms + op.ttl_ms
    open_ttl_ms = op.ttl_ms if op.answer is None else None
    latest_ms = inf if op.answer is None else deadline_ms
    match op.kind:
        case "claim" if not (term is not None and view.live):
            term = Term(op.who, None, deadline_ms, latest_ms, open_ttl_ms)
            fence += op.answer is None
        case "claim" | "renew":
            assert term is not None
            term = Term(op.who, term.fence, deadline_ms, latest_ms, open_ttl_ms)
        case "release" | "break" | "close":
            term = None
        case _:
            pass
    closed = register.closed or op.kind == "close"
    return Register(view.at_ms, fence, closed, term)


def _seen(register: Register, op: Op) -> Iterator[Register]:
    """A look changes nothing; nor does it move the authority's time."""
    if op.answer is None:
        return
    if register.term is None or op.answer.owner is None:
        if register.term is None and op.answer.owner is None:
            yield register
        return
    if register.term.owner == op.answer.owner:
        met = _met(register, register.term, op.answer)
        if met is not None:
            yield met


def _met(register: Register, term: Term | None, answer: Heard) -> Register | None:
    """The register, where the fence that was met can be that of its term; it is known from now."""
    if term is None or answer.fence is None:
        return replace(register, term=term) if term is None and answer.fence is None else None
    if term.fence is None and answer.fence >= register.fence:
        term = replace(term, fence=answer.fence)
    if term.fence != answer.fence:
        return None
    return replace(register, term=term, fence=max(register.fence, answer.fence))
