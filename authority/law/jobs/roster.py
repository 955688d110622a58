"""The work roster: where every job stands, what can be claimed, expired, what waits, what is held.

Every query walks one index from a cursor on, and no further than a page; only who asks for what one
worker holds walks past what others do.
"""

import re
from collections.abc import Iterator
from heapq import merge
from typing import Any

import orjson
from msgspec import UNSET
from sortedcontainers import SortedList

from ....contracts import (
    ALL_WORK,
    PRIORITY_DEFAULT,
    TERMINAL,
    Artifact,
    JobRecord,
    JobState,
    Lease,
    ListJobs,
    Reason,
    Roster,
    ShowJob,
    Stamp,
    dispatch_resource,
    excused_of,
    is_spent,
    job_resource,
    limits,
)
from ..budget import forbids, spend_view
from ..outcome import Accepted, Outcome, Refused
from ..scope import approval_of, pause_of, withheld
from ..term import term_view
from ..turn import Turn
from ..view import pause_view, steered_view
from .job_index import JobIndex, PendingPlace, kinds_above, pending_place, plain_kind
from .kind_limit import is_open, opens_ms, timeout_of
from .routes import admits, coordinator_view, handles, route_of

_LAST = 2**63  # greater than any sequence number
_TOP = "\U0010ffff"  # greater than any text of a kind


def show(turn: Turn, request: ShowJob) -> Outcome:
    """One job whole."""
    job = turn.lane.jobs.get(request.job_id)
    if job is None:
        return Refused(Reason.JOB_NOT_FOUND, f"job {request.job_id}", job_id=request.job_id)
    return Accepted(body={"job": whole_view(turn, job)}, job_id=job.job_id)


def roster(turn: Turn, request: Roster) -> Outcome:
    """A page of what can be claimed, expired, or has to wait."""
    state, stamp = turn.state, turn.stamp
    start = _start(state.lane, request)
    if start is None:
        return Refused(Reason.JOB_CURSOR_INVALID, str(request.cursor))
    found: list[JobRecord] = []
    cursor = None
    for job_id, place in _QUERIES[request.query](turn, request, start):
        if len(found) == request.limit:
            break
        found.append(state.lane.jobs[job_id])
        cursor = f"{place[0]}/{place[1]}"
    else:
        cursor = None
    jobs = [job_view(turn, job, state.leases.get(job_resource(job.job_id))) for job in found]
    due = state.lane.delayed.bisect_left((stamp.wall_ms + 1, ""))
    paused = _count_paused(turn)
    body: dict[str, Any] = {
        "jobs": jobs,
        "count": len(jobs),
        "coordinator": coordinator_view(turn),
        "jobCounts": {
            "total": len(state.lane.jobs),
            "pending": len(state.lane.pending) + due - paused,
            "claimed": len(state.lane.deadlines),
            "waiting": len(state.lane.waiting),
            "overdue": state.lane.deadlines.bisect_left((stamp.wall_ms, "")),
        },
    }
    if delayed := len(state.lane.delayed) - due:
        body["jobCounts"]["delayed"] = delayed
    if paused:
        body["jobCounts"]["paused"] = paused
    if request.query == "pending":
        body |= _held_back(turn, request) | steered_view(state, "job", [])
    return Accepted(body=body | ({"cursor": cursor} if cursor else {}))


def _count_paused(turn: Turn) -> int:
    """How many jobs could be claimed if nothing were paused, by kinds and not by jobs."""
    lane, pauses, now_ms = turn.lane, turn.state.pauses, turn.stamp.wall_ms
    if ALL_WORK in pauses:
        return len(lane.pending) + sum(1 for _ in lane.ripe(now_ms))
    named = [scope.partition("/")[::2] for scope in pauses]
    kinds = {name for family, name in named if family == "kind"}
    count = sum(1 for job in lane.ripe(now_ms) if pause_of(turn.state, job))
    for kind in kinds:
        if not kinds.isdisjoint([*kinds_above(kind)][1:]):
            continue  # a wider pause has counted them
        last = kind + _TOP if kind.endswith(".") else kind
        first = lane.pending.bisect_left((kind, -_LAST, -1, ""))
        count += lane.pending.bisect_right((last, _LAST, _LAST, "")) - first
    alone = (lane.jobs[name] for family, name in named if family == "job" and name in lane.jobs)
    others = (job for job in alone if kinds.isdisjoint(kinds_above(job.kind)))
    return count + sum(pending_place(job) in lane.pending for job in others)


def _held_back(turn: Turn, request: Roster) -> dict[str, Any]:
    """Kinds of which there are jobs, and of which no more can be claimed at this moment; some.

    With them, from when on something more can be claimed, as far as time alone makes it so.
    """
    lane, now_ms, limited, moments = turn.lane, turn.stamp.wall_ms, list[str](), list[int]()
    wanted = plain_kind(request.kind or "")
    for kind in _kinds(lane, wanted, now_ms) if lane.limits else ():
        if not is_open(lane, kind, now_ms) and len(limited) < limits.PROJECTION_IDS_MAX:
            limited.append(kind)
            moments.append(opens_ms(lane, kind, now_ms))
    late = next(lane.delayed.irange((now_ms + 1, ""), None), None)
    if late is not None and wanted in ("", *kinds_above(lane.jobs[late[1]].kind)):
        moments.append(late[0])
    body: dict[str, Any] = {"limited": limited} if limited else {}
    coming = [each for each in moments if each]
    return body | ({"claimableMs": min(coming)} if coming else {})


def _kinds(lane: JobIndex, wanted: str, now_ms: int) -> list[str]:
    """The kinds of jobs whose time has come, of one kind, below a prefix or all."""
    found = {job.kind for job in lane.ripe(now_ms)}
    place: PendingPlace | None = (wanted, -_LAST, -1, "")
    while place is not None:
        place = _first(lane.pending, place)
        if place is None or wanted not in ("", *kinds_above(place[0])):
            break
        found.add(place[0])
        place = (place[0], _LAST, _LAST, "")
    return sorted(each for each in found if wanted in ("", *kinds_above(each)))


def _start(lane: JobIndex, request: Roster) -> tuple[int, str] | None:
    """Where a page begins: behind the number and the job of the cursor."""
    place = place_of(request.cursor)
    if place is None or (request.cursor is not None and place[1] not in lane.jobs):
        return None
    return place


def place_of(cursor: str | None) -> tuple[int, str] | None:
    """The number and the id of a cursor; before all others where there is none."""
    if cursor is None:
        return (-1, "")
    number, _, key = cursor.partition("/")
    return (int(number), key) if re.fullmatch(r"[0-9]{1,16}", number) else None


Found = Iterator[tuple[str, tuple[int, str]]]


def _pending(turn: Turn, request: Roster, start: tuple[int, str]) -> Found:
    """Pending jobs of a kind, of a prefix or of all; for a worker, of kinds that it may claim.

    Kinds whose limits let no more be claimed at this moment are passed over.
    """
    lane, now_ms = turn.lane, turn.stamp.wall_ms
    kind = plain_kind(request.kind or "")
    exact = bool(kind) and not kind.endswith(".")
    last = (kind if exact else kind + _TOP, _LAST, _LAST, "")
    place: PendingPlace = (kind, -_LAST, -1, "")
    if request.cursor is not None:
        shown = lane.jobs[start[1]]
        place = (shown.kind, shown.ordered.priority, start[0], start[1] + "\0")
    ripe = SortedList(
        each for job in lane.ripe(now_ms) if place <= (each := pending_place(job)) <= last
    )
    while True:
        at = [found for found in (_first(lane.pending, place), _first(ripe, place)) if found]
        if not at or min(at) > last:
            return
        found, worker = min(at)[0], request.worker
        end = (found, _LAST, _LAST, "")
        if is_open(lane, found, now_ms) and (
            worker is None or (admits(lane, found, worker) and handles(lane, found, worker))
        ):
            for each in merge(lane.pending.irange(place, end), ripe.irange(place, end)):
                if not _is_withheld(turn, lane.jobs[each[3]], worker):
                    yield each[3], (each[2], each[3])
        place = end  # past all of that kind at once


def _is_withheld(turn: Turn, job: JobRecord, worker: str | None) -> bool:
    """Whether a budget keeps it from all, or people from this worker."""
    over = forbids(turn.state, job, worker, turn.stamp.wall_ms)
    return bool(over or (worker is not None and withheld(turn.state, job)))


def _first(places: SortedList[PendingPlace], start: PendingPlace) -> PendingPlace | None:
    return next(places.irange(start, None), None)


def _delayed(turn: Turn, request: Roster, start: tuple[int, str]) -> Found:  # noqa: ARG001 - called as its table is
    """Jobs whose time is to come, the soonest first."""
    now = (turn.stamp.wall_ms + 1, "")
    for run_at_ms, job_id in turn.lane.delayed.irange(max(start, now), None, (False, False)):
        yield job_id, (run_at_ms, job_id)


def _overdue(turn: Turn, request: Roster, start: tuple[int, str]) -> Found:  # noqa: ARG001 - called as its table is
    """Claimed jobs past their deadline, the longest first."""
    now = (turn.stamp.wall_ms, "")
    for deadline_ms, job_id in turn.lane.deadlines.irange(start, now, (False, False)):
        yield job_id, (deadline_ms, job_id)


def _waiting(turn: Turn, request: Roster, start: tuple[int, str]) -> Found:  # noqa: ARG001 - called as its table is
    """Jobs that cannot be claimed yet, the oldest first."""
    for since_ms, job_id in turn.lane.waiting.irange(start, None, (False, False)):
        yield job_id, (since_ms, job_id)


def _claimed(turn: Turn, request: Roster, start: tuple[int, str]) -> Found:
    """Claimed jobs, of one worker or of all; whose deadline comes first is first."""
    for deadline_ms, job_id in turn.lane.deadlines.irange(start, None, (False, False)):
        owner = turn.state.leases[job_resource(job_id)].owner
        if request.worker in (None, owner):
            yield job_id, (deadline_ms, job_id)


_QUERIES = {
    "pending": _pending,
    "overdue": _overdue,
    "waiting": _waiting,
    "claimed": _claimed,
    "delayed": _delayed,
}


def list_jobs(turn: Turn, request: ListJobs) -> Outcome:
    """A page of all jobs, of one kind or in one state, in the order of scheduling.

    It looks at so many jobs and no more; where none of them is one, the page is empty, and has a
    cursor to go on from.
    """
    lane, start = turn.lane, place_of(request.cursor)
    if start is None:
        return Refused(Reason.JOB_CURSOR_INVALID, str(request.cursor))
    kind = plain_kind(request.kind or "")
    found: list[JobRecord] = []
    cursor = None
    for looked, place in enumerate(lane.scheduled.irange(start, None, (False, False)), 1):
        if len(found) == request.limit or looked > limits.JOB_SCAN_MAX:
            break
        job, cursor = lane.jobs[place[1]], f"{place[0]}/{place[1]}"
        is_wanted = kind in ("", *kinds_above(job.kind))
        if is_wanted and request.state in (None, visible_state(turn, job).value):
            found.append(job)
    else:
        cursor = None
    jobs = [job_view(turn, job, turn.state.leases.get(job_resource(job.job_id))) for job in found]
    body: dict[str, Any] = {"jobs": jobs, "count": len(jobs)}
    return Accepted(body=body | ({"cursor": cursor} if cursor else {}))


# --- views --------------------------------------------------------------------------------------


def whole_view(turn: Turn, job: JobRecord) -> dict[str, Any]:
    """A job with everything that is known of it."""
    resource = job_resource(job.job_id)
    spend = turn.state.spends.get(resource)
    cost = {"spend": spend_view(spend)} if spend else {}
    return (
        job_view(turn, job, turn.state.leases.get(resource))
        | cost
        | {
            "author": job.author,
            "payload": orjson.Fragment(job.payload),
            "causalDeps": list(job.causal_deps),
            "route": route_of(turn.lane, job.kind) or None,
            "artifacts": [artifact_view(each) for each in job.artifacts],
        }
    )


def job_view(turn: Turn, job: JobRecord, lease: Lease | None) -> dict[str, Any]:
    stamp = turn.stamp
    missing = turn.lane.missing(job) if job.state is JobState.PENDING else []
    view: dict[str, Any] = {
        "jobId": job.job_id,
        "kind": job.kind,
        "state": visible_state(turn, job).value,
        "attempts": job.attempts,
        "scheduledMs": job.scheduled_ms,
        "lastOp": job.last_op,
    }
    if lease is not None:
        view["lease"] = term_view(lease, stamp) | {"claim": job.claim}
    if missing:
        view["waitsFor"] = missing
        view["waitedMs"] = stamp.wall_ms - job.scheduled_ms
    view |= order_view(job)
    if timeout_ms := timeout_of(turn.lane, job):
        view["timeoutMs"] = timeout_ms
    if job.spec_id:
        view |= {"specId": job.spec_id, "stepKey": job.step_key} | _dispatch_view(turn, job)
    if excused := excused_of(job):
        view["excused"] = excused
    if (approval := approval_of(turn.state, job)) is not None:
        view["approval"] = approval
    if job.steered_by is not UNSET:
        view["steeredBy"] = job.steered_by
    if job.state is JobState.PENDING and (pause := pause_of(turn.state, job)) is not None:
        view["pause"] = pause_view(pause)
    if job.reason:
        view["reason"] = job.reason
    if job.completed_ms is not None:
        view |= {"completedMs": job.completed_ms, "completedBy": job.completed_by}
    if job.quarantine is not None:
        view["quarantined"] = {
            "worker": job.quarantine.worker,
            "fence": job.quarantine.fence,
            "receivedMs": job.quarantine.received_ms,
            "artifacts": [artifact_view(each) for each in job.quarantine.artifacts],
        }
    return view


def order_view(job: JobRecord) -> dict[str, Any]:
    """What was said of when it is to be done; nothing where nothing was."""
    if job.order is UNSET:
        return {}
    order = job.order
    given = {"priority": order.priority} if order.priority != PRIORITY_DEFAULT else {}
    given |= {"runAtMs": order.run_at_ms} if order.run_at_ms else {}
    return given | ({"timeoutMs": order.timeout_ms} if order.timeout_ms else {})


def _dispatch_view(turn: Turn, job: JobRecord) -> dict[str, Any]:
    """Who hands a job on, or has done so."""
    if job.dispatched is not None:
        mark = job.dispatched
        return {
            "dispatched": {
                "by": mark.by,
                "fence": mark.fence,
                "atMs": mark.at_ms,
                "file": mark.file,
                "digest": mark.digest,
            }
        }
    lease = turn.state.leases.get(dispatch_resource(job.job_id))
    if lease is None or job.state in TERMINAL:
        return {}
    return {"dispatchLease": term_view(lease, turn.stamp)}


def artifact_view(artifact: Artifact) -> dict[str, Any]:
    given = {
        "artifactId": artifact.artifact_id,
        "artifactType": artifact.artifact_type,
        "sourceJob": artifact.source_job,
        "modelId": artifact.model_id,
        "modelVersion": artifact.model_version,
        "promptDigest": artifact.prompt_digest,
        "outputDigest": artifact.output_digest,
    }
    return {name: text for name, text in given.items() if text is not None}


def visible_state(turn: Turn, job: JobRecord) -> JobState:
    """The state of a job as it is seen at this moment."""
    missing = turn.lane.missing(job) if job.state is JobState.PENDING else []
    state = _state_at(job, missing, turn.stamp)
    is_over = state is JobState.PENDING and forbids(turn.state, job, None, turn.stamp.wall_ms)
    return JobState.BLOCKED if is_over else state


def _state_at(job: JobRecord, missing: list[str], stamp: Stamp) -> JobState:
    """The state as it is seen: a pending job may have to wait, and not for ever."""
    if missing:
        late = stamp.wall_ms - job.scheduled_ms > limits.JOB_WAIT_MS_MAX
        return JobState.BLOCKED if late else JobState.WAITING
    if job.state is not JobState.PENDING:
        return job.state
    if is_spent(job):
        return JobState.BLOCKED
    return JobState.WAITING if job.ordered.run_at_ms > stamp.wall_ms else job.state
