"""The work roster: where every job stands, what can be claimed, expired, what waits, what is held.

Every query walks one index from a cursor on, and no further than a page; only who asks for what one
worker holds walks past what others do.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from ....contracts import (
    Artifact,
    JobRecord,
    JobState,
    Lease,
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
from ..term import term_view
from ..turn import Turn
from .job_index import JobIndex
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
    body: dict[str, Any] = {
        "jobs": jobs,
        "count": len(jobs),
        "coordinator": coordinator_view(turn),
        "jobCounts": {
            "total": len(state.lane.jobs),
            "pending": len(state.lane.pending),
            "claimed": len(state.lane.deadlines),
            "waiting": len(state.lane.waiting),
            "overdue": state.lane.deadlines.bisect_left((stamp.wall_ms, "")),
        },
    }
    return Accepted(body=body | ({"cursor": cursor} if cursor else {}))


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
    """Pending jobs of a kind, of a prefix or of all; for a worker, of kinds that it may claim."""
    lane = turn.lane
    kind = request.kind or ""
    prefix = kind.removesuffix("*") if kind.endswith(".*") else kind
    exact = bool(kind) and not prefix.endswith(".")
    last = (prefix if exact else prefix + _TOP, _LAST, "")
    place = (prefix, -1, "")
    if request.cursor is not None:
        place = (lane.jobs[start[1]].kind, start[0], start[1] + "\0")
    while True:
        at = lane.pending.bisect_left(place)
        if at == len(lane.pending) or lane.pending[at] > last:
            return
        found = lane.pending[at][0]
        worker = request.worker
        if worker is not None and not (
            admits(lane, found, worker) and handles(lane, found, worker)
        ):
            place = (found, _LAST, "")  # past all of that kind at once
            continue
        for each in lane.pending.irange(max(place, (found, -1, "")), (found, _LAST, "")):
            if not forbids(turn.state, lane.jobs[each[2]], worker, turn.stamp.wall_ms):
                yield each[2], (each[1], each[2])
        place = (found, _LAST, "")


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


_QUERIES = {"pending": _pending, "overdue": _overdue, "waiting": _waiting, "claimed": _claimed}


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
    if job.spec_id:
        view |= {"specId": job.spec_id, "stepKey": job.step_key} | _dispatch_view(turn, job)
    if excused := excused_of(job):
        view["excused"] = excused
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
    if lease is None or job.state is JobState.COMPLETED:
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
    spent = job.state is JobState.PENDING and is_spent(job)
    return JobState.BLOCKED if spent else job.state
