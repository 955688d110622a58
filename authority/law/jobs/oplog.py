"""The operation log, folded: what its operations come to, in whatever order they arrive.

    1  An operation that came twice counts once; two that share a place or an id count for nothing.
    2  They are taken in the order of the clock, each after everything that it depends on.
    3  What closes a circle of dependencies is left out: the one that stands last in the circle.
    4  What depends on something that is not there waits, and is listed with what it waits for.

The fold is pure, and knows nothing of leases or requests: a replica that has the same operations
has the same roster, and `image` of an authority's state is the fold of its own log.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ....contracts import (
    JOB_TRANSITIONS,
    JobMove,
    JobState,
    Operation,
    canonical,
    job_resource,
    position,
)
from ..state import State


class OplogEntry(Struct, frozen=True, kw_only=True):
    """A job, as the log tells it."""

    job_id: str
    kind: str
    state: JobState = JobState.PENDING
    claimer: str = ""
    fence: int = 0
    deadline_ms: int = 0
    attempts: int = 0


class Folded(Struct, kw_only=True):
    """What a log comes to."""

    entries: dict[str, OplogEntry] = {}
    routes: dict[str, dict[str, Any]] = {}
    specs: dict[str, dict[str, Any]] = {}  # as they were submitted
    coordinator: str = ""
    waiting: dict[str, tuple[str, ...]] = {}  # operation -> what it depends on and is not there
    refused: tuple[str, ...] = ()  # operations that count for nothing

    @property
    def digest(self) -> str:
        """One text for the whole; equal logs give equal ones."""
        return canonical.digest("log1", msgspec.json.encode(self, order="sorted"))


def fold(log: Iterable[Operation]) -> Folded:
    """What the operations come to, whatever their order and however often each was delivered."""
    sound, refused = _sound(log)
    order, waiting = _ordered(sound)
    victims = _last_in_a_circle(sound, waiting)
    while victims:  # a circle is cut where it was closed, and the rest may go on
        refused |= victims
        sound = {op_id: op for op_id, op in sound.items() if op_id not in victims}
        order, waiting = _ordered(sound)
        victims = _last_in_a_circle(sound, waiting)
    folded = Folded(waiting=waiting, refused=tuple(sorted(refused)))
    written: dict[str, tuple[int, int, str]] = {}
    for op in order:
        _take(folded, op, written)
    return folded


def image(state: State) -> dict[str, OplogEntry]:
    """The entries of an authority's own state, to be held against the fold of its log."""
    entries = {}
    for job in state.lane.jobs.values():
        lease = state.leases.get(job_resource(job.job_id))
        entries[job.job_id] = OplogEntry(
            job_id=job.job_id,
            kind=job.kind,
            state=job.state,
            claimer=lease.owner if lease else "",
            fence=job.fence,
            deadline_ms=lease.deadline_ms if lease else 0,
            attempts=job.attempts,
        )
    return entries


# --- order --------------------------------------------------------------------------------------


def _sound(log: Iterable[Operation]) -> tuple[dict[str, Operation], set[str]]:
    """The operations by id, without those that contradict each other."""
    sound: dict[str, Operation] = {}
    places: dict[tuple[int, int, str, int], str] = {}
    refused: set[str] = set()
    for op in log:
        known = sound.setdefault(op.op_id, op)
        holder = places.setdefault(op.place, op.op_id)
        if known != op or holder != op.op_id:
            refused |= {op.op_id, holder}
    return {op_id: op for op_id, op in sound.items() if op_id not in refused}, refused


def _ordered(
    sound: Mapping[str, Operation],
) -> tuple[list[Operation], dict[str, tuple[str, ...]]]:
    """By the clock, but never before a dependency; and what has to wait, with its reasons."""
    missing = {op_id: set(op.causal_deps) for op_id, op in sound.items()}
    awaited: dict[str, list[str]] = {}
    for op_id, deps in missing.items():
        for dep in deps:
            awaited.setdefault(dep, []).append(op_id)
    ready = [(op.place, op_id) for op_id, op in sound.items() if not missing[op_id]]
    heapify(ready)
    order: list[Operation] = []
    while ready:
        _, op_id = heappop(ready)
        order.append(sound[op_id])
        for waiting in awaited.get(op_id, ()):
            missing[waiting].discard(op_id)
            if not missing[waiting]:
                heappush(ready, (sound[waiting].place, waiting))
    left = {op_id: tuple(sorted(deps)) for op_id, deps in sorted(missing.items()) if deps}
    return order, left


def _last_in_a_circle(
    sound: Mapping[str, Operation], waiting: Mapping[str, tuple[str, ...]]
) -> set[str]:
    """Of those that wait, the last one by the clock that waits for itself; none, or just one."""
    by_place = sorted(waiting, key=lambda op_id: sound[op_id].place, reverse=True)
    return {next(filter(lambda op_id: _reaches(op_id, waiting), by_place), "")} - {""}


def _reaches(start: str, waiting: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether an operation that waits waits for itself."""
    seen, ahead = set[str](), list(waiting[start])
    while ahead:
        op_id = ahead.pop()
        if op_id == start:
            return True
        if op_id not in seen:
            seen.add(op_id)
            ahead += waiting.get(op_id, ())
    return False


# --- what an operation does ---------------------------------------------------------------------


def _take(folded: Folded, op: Operation, written: dict[str, tuple[int, int, str]]) -> None:
    match op.kind:
        case "RouteKind":
            if _take_write(op, f"route {op.body['kind']}", written):
                folded.routes[op.body["kind"]] = op.body
        case "DesignateCoordinator":
            if _take_write(op, "coordinator", written):
                folded.coordinator = op.body["node"]
        case "SubmitSpec":
            folded.specs[op.body["specId"]] = op.body
        case "RegisterNode" | "UnregisterNode":
            pass  # who may do what is asked before an operation is admitted
        case _:
            _move(folded, op)


def _take_write(op: Operation, name: str, written: dict[str, tuple[int, int, str]]) -> bool:
    """Note a write; False where a later one was noted before. The author's stamp decides."""
    at = position(op.authored or op.stamp)
    if name in written and written[name] >= at:
        return False
    written[name] = at
    return True


def _move(folded: Folded, op: Operation) -> None:
    job_id, move = op.body["jobId"], JobMove(op.kind)
    before = folded.entries.get(job_id)
    source = before.state if before else JobState.UNSCHEDULED
    if (source, move) not in JOB_TRANSITIONS:
        folded.refused = tuple(sorted({*folded.refused, op.op_id}))
        return
    entry = before or OplogEntry(job_id=job_id, kind=op.body["kind"])
    state = JOB_TRANSITIONS[source, move]
    if move is JobMove.CLAIM:
        fresh = op.body["fence"] != entry.fence
        entry = replace(
            entry,
            claimer=op.body["worker"],
            fence=op.body["fence"],
            deadline_ms=op.body["deadlineMs"],
            attempts=entry.attempts + fresh,
        )
    else:
        entry = replace(entry, claimer="", deadline_ms=0)
    folded.entries[job_id] = replace(entry, state=state)
