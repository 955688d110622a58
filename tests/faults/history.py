"""Judge what clients heard, without anything of the authority's own code.

A call is a table: `who`, `action`, `payload`, `at` when it was written down, before it was sent,
and maybe the `now` that it brought along; then `answer` and `until`, when that was heard, if it
ever was.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import inf
from typing import Any

from tests.faults.linearize import problem
from tests.faults.register import Heard, Kind, Op, Register, step

_KINDS: dict[str, Kind] = {
    "issue.claim": "claim",
    "issue.lease_renew": "renew",
    "issue.lease_release": "release",
    "issue.update": "update",
    "issue.close": "close",
    "issue.lease_break": "break",
    "issue.show": "show",
}
UNDECIDED = "authority_overloaded"  # refused at the door; it was not decided
Call = Mapping[str, Any]
Told = Callable[[float], float]  # what a client's watch shows, in the authority's milliseconds


def problems(calls: Sequence[Call], told: Told) -> list[str]:
    """Everything that must not have happened."""
    by_issue = history(calls)
    found = [f"{issue}: {words}" for issue, ops in by_issue.items() for words in _judged(ops, told)]
    return found + list(_misplaced(by_issue))


def history(calls: Sequence[Call]) -> dict[str, list[Op]]:
    """What happened to each issue, by those who asked."""
    found: dict[str, list[Op]] = defaultdict(list)
    for call in calls:
        if call.get("answer", {}).get("failureClasses") != [UNDECIDED]:
            found[call["payload"]["id"]].append(_op(call))
    return found


def _op(call: Call) -> Op:
    payload, answer = call["payload"], call.get("answer")
    kind = _KINDS[call["action"]]
    return Op(
        kind,
        payload.get("assignee", call["who"]),
        call["at"],
        call.get("until", inf),
        None if answer is None else _heard(kind, answer),
        payload.get("fence"),
        payload.get("leaseTtlSeconds", 0) * 1000,
        call.get("now", 0),
    )


def _heard(kind: Kind, answer: Mapping[str, Any]) -> Heard:
    failure = answer["failureClasses"][0] if answer["failureClasses"] else None
    at = (answer["stamp"]["wallMs"], answer["stamp"]["counter"])
    lease = answer.get("issue", {}).get("lease")
    if kind == "show":
        return Heard(failure, at, lease and lease["fence"], lease and lease["owner"])
    deadline_ms = lease and round(datetime.fromisoformat(lease["expiresAt"]).timestamp() * 1000)
    return Heard(failure, at, answer["effect"]["fence"], None, deadline_ms)


# --- one issue ------------------------------------------------------------------------------------


def _judged(ops: Sequence[Op], told: Told) -> Iterator[str]:
    words = problem(ops, Register(), step)
    if words is not None:
        yield words
    yield from _shared(ops, told)
    for op in ops:
        if op.answer is not None and op.answer.at[0] > told(op.end):
            yield f"{op}: its answer comes from the future"


def _shared(ops: Sequence[Op], told: Told) -> Iterator[str]:
    """Terms that two holders would both swear by. No time but that of their own watches counts."""
    if any(op.kind == "break" for op in ops):
        return  # an operator tells no holder
    terms: dict[int, tuple[float, float]] = {}
    for op in sorted(ops, key=lambda op: op.end):  # a shorter time may follow a longer one
        answer = op.answer
        if op.kind in {"claim", "renew"} and answer is not None and answer.failure is None:
            since, _ = terms.get(answer.fence or 0, (told(op.end), 0))
            terms[answer.fence or 0] = since, answer.deadline_ms or 0
    for op in ops:
        if op.kind in {"release", "close"} and op.fence in terms:
            since, until = terms[op.fence]
            terms[op.fence] = since, min(until, told(op.start))
    held = sorted((since, until, fence) for fence, (since, until) in terms.items())
    believed = [each for each in held if each[0] <= each[1]]  # some hear when it is over
    for (_, until, fence), (since, _, heir) in pairwise(believed):
        if since <= until or heir < fence:
            yield f"fence {heir} begins at {since:.0f}, fence {fence} ends at {until:.0f}"


# --- all of them ----------------------------------------------------------------------------------


def _misplaced(by_issue: Mapping[str, Sequence[Op]]) -> Iterator[str]:
    """Fences are given out once, and grow from the end of a claim to the start of the next one."""
    claims = [
        (op.start, op.end, op.answer.fence or 0, issue, op.who)
        for issue, ops in by_issue.items()
        for op in ops
        if op.kind == "claim" and op.answer is not None and op.answer.failure is None
    ]
    owners: dict[int, tuple[str, str]] = {}
    first: dict[int, tuple[float, float]] = {}
    for start, end, fence, issue, who in sorted(claims):
        if owners.setdefault(fence, (issue, who)) != (issue, who):
            yield f"fence {fence} is that of {owners[fence]} and of {(issue, who)}"
        first.setdefault(fence, (start, end))  # later ones make the same term longer
    ended = sorted((end, fence) for fence, (_, end) in first.items())
    greatest, index = 0, 0
    for start, fence in sorted((start, fence) for fence, (start, _) in first.items()):
        while index < len(ended) and ended[index][0] < start:
            greatest, index = max(greatest, ended[index][1]), index + 1
        if fence <= greatest:
            yield f"fence {fence} comes after fence {greatest}"
