"""How the jobs of specs are handed on: one dispatcher at a time holds one, and marks it, once.

The lease on `dispatch/<jobId>` is the dispatcher's; the worker's on `job/<jobId>` is another. Both
may be held at once, since a worker need not wait for the file.
"""

from itertools import islice
from typing import Any

from msgspec.structs import replace

from ....contracts import (
    ClaimDispatch,
    CompleteDispatch,
    Dispatched,
    DispatchRoster,
    HeldDispatch,
    JobRecord,
    JobState,
    Lease,
    Reason,
    ReleaseDispatch,
    is_spent,
    job_resource,
)
from ..outcome import Accepted, JobPut, LeaseDropped, LeasePut, Outcome, Refused
from ..scope import withheld
from ..term import DISPATCH, begin_term, claim_deadline, hold_term, renew_term, term_view
from ..turn import Turn
from . import job as jobs
from .roster import job_view, place_of, whole_view
from .routes import hear, may, permits


def claim(turn: Turn, request: ClaimDispatch) -> Outcome:
    """Grant a job that is free to run to the first who asks; give its live holder more time."""
    job_id, dispatcher = request.job_id, request.dispatcher.strip()
    name = f"job {job_id}"
    deadline_ms = claim_deadline(turn, DISPATCH, request, name)
    if isinstance(deadline_ms, Refused):
        return deadline_ms
    job = find(turn, job_id)
    if isinstance(job, Refused):
        return job
    denied = may(turn, dispatcher, "job.complete", job_id)
    denied = denied or permits(turn, dispatcher, job.kind, job_id)
    if denied is not None:
        return denied
    lease = renew_term(turn, DISPATCH, request, deadline_ms, name)
    if isinstance(lease, Refused):
        return lease
    if lease is None:
        obstacle = _obstacle(turn, job)
        if obstacle is not None:
            detail = f"{name}: {obstacle}"
            return Refused(Reason.JOB_NOT_DISPATCHABLE, detail, job_id=job_id)
        lease = begin_term(turn, DISPATCH, request, deadline_ms)
    body = {"changed": True, "job": _view(turn, job, lease)}
    return DISPATCH.accept(lease, (LeasePut(lease), *hear(turn, dispatcher)), body)


def complete(turn: Turn, request: CompleteDispatch) -> Outcome:
    """The file is written: the job is marked, once, whether a worker has it by now or not."""
    job = turn.lane.jobs.get(request.job_id)
    if job is not None and job.dispatched is not None and _is_same(job.dispatched, request):
        return Accepted(body={"changed": False, "job": _view(turn, job, None)}, job_id=job.job_id)
    held = _hold(turn, request)
    if isinstance(held, Refused):
        return held
    job, lease = held
    mark = Dispatched(
        by=lease.owner,
        fence=lease.fence,
        at_ms=turn.stamp.wall_ms,
        file=request.file,
        digest=request.digest,
    )
    job = replace(job, dispatched=mark)
    changes = (LeaseDropped(lease.resource), JobPut(job), *hear(turn, lease.owner))
    return DISPATCH.accept(lease, changes, {"changed": True, "job": _view(turn, job, None)})


def release(turn: Turn, request: ReleaseDispatch) -> Outcome:
    """The dispatcher gives the job back unmarked; the next one may have it."""
    held = _hold(turn, request)
    if isinstance(held, Refused):
        return held
    job, lease = held
    changes = (LeaseDropped(lease.resource), *hear(turn, lease.owner))
    return DISPATCH.accept(lease, changes, {"changed": True, "job": _view(turn, job, None)})


def roster(turn: Turn, request: DispatchRoster) -> Outcome:
    """A page of the jobs that a claim would grant now, the oldest first."""
    lane = turn.lane
    start = place_of(request.cursor)
    known = None if start is None else lane.jobs.get(start[1])
    if start is None or (request.cursor and (not known or known.scheduled_seq != start[0])):
        return Refused(Reason.JOB_CURSOR_INVALID, str(request.cursor))
    places = lane.dispatches.claimable(turn.stamp.wall_ms, start)
    found = (each for each in places if withheld(turn.state, lane.jobs[each[1]]) is None)
    page = list(islice(found, request.limit + 1))
    views = [job_view(turn, lane.jobs[job_id], None) for _, job_id in page[: request.limit]]
    body: dict[str, Any] = {"jobs": views, "count": len(views)}
    if len(page) > request.limit:
        seq, job_id = page[request.limit - 1]
        body["cursor"] = f"{seq}/{job_id}"
    return Accepted(body=body)


def _obstacle(turn: Turn, job: JobRecord) -> str | None:
    """Why a job is not free to be handed on."""
    if not job.spec_id:
        return "it is of no spec"
    if job.state is JobState.CLAIMED:
        return f"{turn.state.leases[job_resource(job.job_id)].owner} has claimed it"
    if missing := turn.lane.missing(job):
        return f"it waits for {', '.join(missing[:3])}"
    if is_spent(job):
        return f"its {job.attempts} attempts are spent"
    refusal = withheld(turn.state, job)
    return None if refusal is None else refusal.diagnostic


def find(turn: Turn, job_id: str) -> JobRecord | Refused:
    """The job, where it can still be handed on."""
    found = jobs.find(turn, job_id)
    if isinstance(found, Refused) or found.dispatched is None:
        return found
    detail = f"job {job_id}: by {found.dispatched.by}"
    return Refused(Reason.JOB_DISPATCHED, detail, job_id=job_id)  # 2 as well


def _hold(turn: Turn, request: HeldDispatch) -> tuple[JobRecord, Lease] | Refused:
    """The job and its lease, where the request comes from the dispatcher that holds it."""
    job = find(turn, request.job_id)
    if isinstance(job, Refused):
        return job
    denied = may(turn, (request.dispatcher or "").strip(), "job.complete", job.job_id)
    if denied is not None:
        return denied
    lease = hold_term(turn, DISPATCH, request, f"dispatch of {job.job_id}")
    return lease if isinstance(lease, Refused) else (job, lease)


def _is_same(mark: Dispatched, request: CompleteDispatch) -> bool:
    """Whether this is what was said before."""
    by = (request.dispatcher or "").strip()
    shown = (by, request.fence, request.file, request.digest)
    return shown == (mark.by, mark.fence, mark.file, mark.digest)


def _view(turn: Turn, job: JobRecord, lease: Lease | None) -> dict[str, Any]:
    """The job whole, so that the file can be written from the answer."""
    view = whole_view(turn, job)
    view.pop("dispatchLease", None)
    return view if lease is None else view | {"dispatchLease": term_view(lease, turn.stamp)}
