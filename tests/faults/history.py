"""Judge what clients heard, without knowing anything of the authority."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Op:
    """What one client saw: it asked at `start`, and heard at `end`, if ever, how it went."""

    kind: Literal["claim", "release"]
    start: float
    end: float
    granted: bool | None  # None: nobody heard
    fence: int | None = None


Term = tuple[str, int] | None  # who holds: a fence that is known, or the claim that nobody heard of


def history(calls: Sequence[dict[str, Any]], issue: str) -> list[Op]:
    ops = []
    for call in calls:
        kind = {"issue.claim": "claim", "issue.lease_release": "release"}.get(call["action"])
        if kind is None or call["payload"]["id"] != issue:
            continue
        answer = call.get("answer")
        granted = None if answer is None else answer["result"] == "accepted"
        fence = call["payload"].get("fence")
        if kind == "claim" and granted and answer is not None:
            fence = answer["issue"]["lease"]["fence"]
        op = Op("claim", call["at"], call.get("until", inf), granted, fence)
        ops.append(op if kind == "claim" else replace(op, kind="release"))
    return sorted(ops, key=lambda op: op.start)


def linearizable(ops: Sequence[Op]) -> bool:
    """Wing and Gong's search: some order that real time allows is one of a single register.

    One after the other, claims are granted to nobody's successor alone, with a greater fence than
    any before, and refused while somebody holds. What nobody heard of may have happened or not.
    """
    seen: set[tuple[int, Term, int]] = set()
    stack: list[tuple[int, Term, int]] = [(0, None, 0)]
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        done, term, last = state
        waiting = [place for place in range(len(ops)) if not done >> place & 1]
        if all(ops[place].granted is None for place in waiting):
            return True
        latest = min(ops[place].end for place in waiting)
        for place in waiting:
            if ops[place].start > latest:
                break
            after = _step(ops[place], place, term, last)
            if after is not None:
                stack.append((done | 1 << place, *after))
    return False


def _step(op: Op, place: int, term: Term, last: int) -> tuple[Term, int] | None:
    """Who holds after this, and the greatest fence so far; nothing where it cannot happen now."""
    if op.kind == "release":
        matches = term == ("fence", op.fence)
        if op.granted is False:
            return None if matches else (term, last)
        return (None, last) if matches else None
    if op.granted is False:
        return None if term is None else (term, last)
    if term is not None:
        return None
    if op.fence is None:
        return ("unheard", place), last
    return (("fence", op.fence), op.fence) if op.fence > last else None


def assert_one_holder(ops: Sequence[Op]) -> None:
    """By the holders' own views: terms do not overlap, and a later one has a greater fence."""
    over = {op.fence: op.start for op in ops if op.kind == "release"}
    claims = [op for op in ops if op.kind == "claim" and op.granted]
    terms = sorted((op.end, over.get(op.fence, inf), op.fence or 0) for op in claims)
    for (_, until, fence), (since, _, heir) in pairwise(terms):
        assert until < since, f"{fence} and {heir} hold it at once"
        assert fence < heir
