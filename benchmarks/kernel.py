"""Decisions in memory: request lines in, rows and answers out, and nothing is written anywhere.

Reference and kernel get the same lines (claims, renewals and closes, each with a request id) on the
same state. Both do all that an authority does before the commit: decode, decide, digest, encode.
The state for a million resources is put together from changes, without requests; the decisions
that are measured on it are whole, of items spread over all of it at random.
"""

import gc
import random
import time
from collections.abc import Callable, Sequence
from itertools import islice

import orjson

from benchmarks.systems.system import TTL_SECONDS, Refused, names
from tests.fakes.journal import MemoryJournal
from understudy.authority.engine import ffi
from understudy.authority.engine.answers import Answers
from understudy.authority.engine.engine import Authority, Proposal
from understudy.authority.engine.native_engine import NativeAuthority
from understudy.authority.journal.journal import Entry
from understudy.authority.law.outcome import IssueAdded
from understudy.authority.law.state import apply
from understudy.contracts import Door, Issue, parse

BATCHES = (16, 256, 512)
_DOOR = Door("mcp")
_OWNER = "worker"
_WINDOW = 512  # cycles that are under way at the same time
_BORN = "2026-01-01T00:00:00Z"


class Nowhere(MemoryJournal):
    """A journal that takes rows and keeps none."""

    def append(self, entries: Sequence[Entry], expected_seq: int, epoch: int) -> None: ...


def decisions_per_second(kind: str, resources: int, cycles: int) -> float:
    """In one of the `WAYS`, on so many resources."""
    try:
        return WAYS[kind](resources, cycles)
    finally:
        gc.unfreeze()


def _reference(resources: int, cycles: int) -> float:
    authority = Authority(Nowhere())
    _fill(authority, resources)
    lines = _lines(resources, cycles)
    return _rate(authority, lines, 1, lambda some: authority.propose([parse(some[0], _DOOR)]))


def _native(batch: int) -> Callable[[int, int], float]:
    def measure(resources: int, cycles: int) -> float:
        authority = NativeAuthority(Nowhere())
        _fill(authority, resources)
        authority.learn()
        lines = _lines(resources, cycles)
        return _rate(authority, lines, batch, lambda some: authority.propose_lines([(_DOOR, some)]))

    return measure


WAYS: dict[str, Callable[[int, int], float]] = {"reference": _reference}
if ffi.available():
    WAYS["native single"] = _native(1)
    WAYS |= {f"native batch {size}": _native(size) for size in BATCHES}


def _fill(authority: Authority, resources: int) -> None:
    added = (
        IssueAdded(Issue(id=key, title="work", created_at=_BORN, updated_at=_BORN))
        for key in names(resources)
    )
    apply(authority.state, list(added))
    gc.collect()
    gc.freeze()  # as a sidecar does: a large state is no garbage


def _lines(resources: int, cycles: int) -> list[bytes]:
    """Cycles of different resources, some in step. Line N is row N, so fences are known."""
    chosen = iter(random.Random(1).sample(names(resources), cycles))
    lines: list[bytes] = []
    while window := list(islice(chosen, _WINDOW)):
        first = len(lines) + 1
        lines += [_line("issue.claim", _claim(key), first + at) for at, key in enumerate(window)]
        for action in ("issue.lease_renew", "issue.close"):
            for at, key in enumerate(window):
                held = _claim(key) | {"fence": first + at}
                if action == "issue.close":
                    del held["leaseTtlSeconds"]
                lines.append(_line(action, held, len(lines) + 1))
    return lines


def _claim(key: str) -> dict[str, object]:
    lease = f"lease-{key}"
    return {"id": key, "assignee": _OWNER, "leaseId": lease, "leaseTtlSeconds": TTL_SECONDS}


def _line(action: str, payload: dict[str, object], number: int) -> bytes:
    payload = payload | {"requestId": f"request-{number}"}
    return orjson.dumps({"id": number, "action": action, "payload": payload})


def _rate(
    authority: Authority,
    lines: list[bytes],
    batch: int,
    propose: Callable[[list[bytes]], Proposal],
) -> float:
    """Lines a second. Answers are let go: a sidecar sends them.

    The first answers of each kind are read, between two times; of all others it is known in the
    end, as only who holds an issue can close it. To read all would measure a cold cache.
    """
    passed = 0.0
    for start in range(0, len(lines), batch):
        some = lines[start : start + batch]
        begun = time.perf_counter()
        proposal = propose(some)
        authority.commit(proposal)
        passed += time.perf_counter() - begun
        if start < 3 * _WINDOW:
            _check(proposal.answers)
    closed = sum(issue.status == "closed" for issue in authority.state.issues.values())
    if closed != len(lines) // 3:
        raise Refused(f"{closed} of {len(lines) // 3} issues were closed")
    return len(lines) / passed


def _check(answers: Answers) -> None:
    if answers.run(0, len(answers)).count(b'"result":"accepted"') != len(answers):
        raise Refused(b"\n".join(answers.lines()).decode())
