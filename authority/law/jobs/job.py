"""Who may take a job, and how it moves: scheduled, claimed, given back, expired, completed.

A claim is a lease on `job/<id>`. The holder renews it by claiming again with its fence; anybody
with the right may expire it once its deadline has passed, by naming the very claim.
"""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ....contracts import (
    JOB_TRANSITIONS,
    PRIORITY_DEFAULT,
    SNAPSHOT_TYPE,
    TERMINAL,
    Artifact,
    ClaimJob,
    CompleteJob,
    ExpireJob,
    JobMove,
    JobOrder,
    JobRecord,
    JobState,
    Lease,
    Member,
    Quarantine,
    Reason,
    ScheduleJob,
    YieldJob,
    canonical,
    completed_job,
    completion_of,
    dispatch_resource,
    is_fired,
    is_spent,
    job_resource,
    limits,
    snapshot_id,
)
from ..budget import forbids
from ..lease import excuse, holder_text, is_live
from ..outcome import (
    Accepted,
    Change,
    JobPut,
    JobQuarantined,
    JobsDue,
    LeaseDropped,
    LeasePut,
    MemberPut,
    Outcome,
    Refused,
)
from ..scope import withheld
from ..term import JOB, begin_term, claim_deadline, hold_term, renew_term
from ..turn import Turn
from .job_index import JobIndex
from .kind_limit import draw, hold_back, outlast
from .roster import artifact_view, job_view, order_view
from .routes import (
    admits,
    coordinator,
    hear,
    is_audited,
    is_derivation,
    may,
    operation,
    permits,
    route_of,
)

# --- scheduling ---------------------------------------------------------------------------------


def schedule(turn: Turn, request: ScheduleJob) -> Outcome:
    """A new job. It waits for the operations that it names; scheduled again, it is left alone."""
    lane, job_id = turn.lane, request.job_id
    author = request.author or turn.owner
    denied = may(turn, author, "job.schedule", job_id)
    denied = denied or refuse_kind(turn, request.kind, author, job_id)
    if denied is not None:
        return denied
    waited = {completed_job(op_id) for op_id in request.causal_deps}
    if None in waited or len(waited) < len(request.causal_deps):
        return Refused(Reason.JOB_DEPENDENCY_INVALID, f"job {job_id}", job_id=job_id)
    job = JobRecord(
        job_id=job_id,
        kind=request.kind,
        payload=canonical.encode(request.payload).decode(),
        author=author,
        causal_deps=tuple(sorted(request.causal_deps)),
        scheduled_seq=turn.stamp.seq,
        scheduled_ms=turn.stamp.wall_ms,
        last_op=f"schedule/{job_id}",
    )
    order = _order(turn, request)
    if isinstance(order, Refused):
        return order
    job = job if order is None else replace(job, order=order)
    known = lane.jobs.get(job_id)
    if known is not None:
        if (known.kind, known.payload, known.causal_deps, known.ordered) != (
            job.kind, job.payload, job.causal_deps, job.ordered,
        ):  # fmt: skip
            return Refused(Reason.JOB_EXISTS, f"job {job_id}", job_id=job_id)
        return _leave(turn, known)
    if len(lane.jobs) >= limits.JOBS_MAX:
        return Refused(Reason.JOBS_FULL, f"job {job_id}", job_id=job_id)
    if _closes_a_circle(turn.lane, job):
        return Refused(Reason.JOB_DEPENDENCY_CYCLE, f"job {job_id}", job_id=job_id)
    body = {"jobId": job_id, "kind": job.kind, "payload": request.payload} | order_view(job)
    return _move(turn, job, None, JobMove.SCHEDULE, author, body=body, deps=job.causal_deps)


def _order(turn: Turn, request: ScheduleJob) -> JobOrder | Refused | None:
    """When, before which others and how long at most; None where nothing of it is said.

    A delay counts from when the job was scheduled first.
    """
    job_id, now_ms, name = request.job_id, turn.stamp.wall_ms, f"job {request.job_id}"
    run_at_ms, timeout_ms = request.run_at_ms or 0, request.timeout_ms
    if is_fired(job_id) and turn.door not in ("cli", "coordinator"):
        return Refused(Reason.JOB_ID_RESERVED, name, job_id=job_id)
    if request.delay_ms is not None:
        known = turn.lane.jobs.get(job_id)
        run_at_ms = known.ordered.run_at_ms if known else now_ms + request.delay_ms
    is_twice = request.run_at_ms is not None and request.delay_ms is not None
    if is_twice or run_at_ms - now_ms > limits.JOB_DELAY_MS_MAX:
        return Refused(Reason.JOB_RUN_AT_INVALID, name, job_id=job_id)
    low, high = limits.JOB_TIMEOUT_MS_MIN, limits.JOB_TIMEOUT_MS_MAX
    if timeout_ms is not None and not low <= timeout_ms <= high:
        detail = f"{name}: timeoutMs {timeout_ms} is not within {low} and {high}"
        return Refused(Reason.JOB_LIMIT_INVALID, detail, job_id=job_id)
    priority = PRIORITY_DEFAULT if request.priority is None else request.priority
    order = JobOrder(priority=priority, run_at_ms=run_at_ms, timeout_ms=timeout_ms or 0)
    return None if order == JobOrder() else order


def _closes_a_circle(lane: JobIndex, job: JobRecord) -> bool:
    """Whether a new job would wait for itself. Nothing can, while no job waits for it."""
    if not job.causal_deps:
        return False
    if completion_of(job.job_id) in job.causal_deps:
        return True
    if completion_of(job.job_id) not in lane.awaited:
        return False
    seen, ahead = set[str](), list(job.causal_deps)
    while ahead:
        job_id = completed_job(ahead.pop()) or ""
        if job_id == job.job_id:
            return True
        waiting = lane.jobs.get(job_id)
        if waiting is not None and waiting.state is JobState.PENDING and job_id not in seen:
            seen.add(job_id)
            ahead += lane.missing(waiting)
    return False


# --- claims -------------------------------------------------------------------------------------


def claim(turn: Turn, request: ClaimJob) -> Outcome:
    """Grant a pending job to the first who asks; give its live holder more time.

    Who shows a lease asks for more time, and is refused where that lease has ended.
    """
    worker, name = request.worker.strip(), f"job {request.job_id}"
    deadline_ms = claim_deadline(turn, JOB, request, name)
    if isinstance(deadline_ms, Refused):
        return deadline_ms
    job = find(turn, request.job_id)
    if isinstance(job, Refused):
        return job
    denied = _refuse_worker(turn, job, worker, "job.claim") or _refuse_route(turn, job, worker)
    denied = denied or _refuse_second(turn, job)
    if denied is not None:
        return denied
    lease = renew_term(turn, JOB, request, deadline_ms, name) or _obstacle(turn, job, worker)
    if isinstance(lease, Lease):
        lease = outlast(turn, job, lease) or lease
    if isinstance(lease, Refused):
        return lease
    drawn = draw(turn, job.kind) if lease is None else ()
    if lease is None:
        lease = begin_term(turn, JOB, request, deadline_ms)
        job = replace(job, attempts=job.attempts + 1, fence=lease.fence, reason="")
    job = replace(
        job,
        claim=_op_id(turn, JobMove.CLAIM, job),
        claim_stamp=turn.origin.authored,
        claim_digest=turn.origin.digest,
    )
    body = _lease_body(lease)
    return _move(turn, job, lease, JobMove.CLAIM, worker, body=body, drawn=drawn)


def _refuse_route(turn: Turn, job: JobRecord, worker: str) -> Refused | None:
    if admits(turn.lane, job.kind, worker):
        return None
    detail = f"job {job.job_id}: {job.kind} goes to {route_of(turn.lane, job.kind)}"
    return Refused(Reason.JOB_ROUTED, detail, job_id=job.job_id)


def _refuse_second(turn: Turn, job: JobRecord) -> Refused | None:
    """A job is claimed once in a batch: a second claim would have the same operation id."""
    lease = JOB.lease_of(turn, job.job_id)
    if lease is None or job.claim != _op_id(turn, JobMove.CLAIM, job):
        return None
    detail = holder_text(lease, f"job {job.job_id}")
    return Refused(Reason.LEASE_CONTENDED, detail, fence=lease.fence, job_id=job.job_id)


def _obstacle(turn: Turn, job: JobRecord, worker: str) -> Refused | None:
    """Why no new term of a job can begin."""
    name = f"job {job.job_id}"
    if missing := turn.lane.missing(job):
        late = turn.stamp.wall_ms - job.scheduled_ms > limits.JOB_WAIT_MS_MAX
        reason = Reason.JOB_DEPENDENCY_BLOCKED if late else Reason.JOB_WAITING
        return Refused(reason, f"{name}: {', '.join(missing[:3])}", job_id=job.job_id)
    if is_spent(job):
        return Refused(Reason.JOB_ATTEMPTS_SPENT, f"{name}: {job.attempts}", job_id=job.job_id)
    over = forbids(turn.state, job, worker, turn.stamp.wall_ms)
    return withheld(turn.state, job) or over or hold_back(turn, job)


def reclaim(turn: Turn, job: JobRecord) -> Outcome:
    """A claim comes under the stamp of the claim in force: the same again, or a fault of its node.

    After a fault neither claim holds, and the node is not listened to until its owner says so.
    """
    if job.claim_digest == turn.origin.digest or job.state is not JobState.CLAIMED:
        return _leave(turn, job)
    node = job.claim_stamp.node if job.claim_stamp else turn.owner
    member = turn.lane.members.get(node) or Member(node=node)
    body = {"jobId": job.job_id, "node": node, "fence": job.fence}
    faulty = replace(job, reason="integrity_fault")
    ended = _move(turn, faulty, None, JobMove.FAULT, turn.owner, body=body)
    quarantined = MemberPut(replace(member, quarantined=True))
    refused = {"failureClasses": [Reason.OPERATION_STAMP_CONFLICT.wire]}
    changes = (*ended.changes, quarantined)
    return Accepted(changes, ended.body | refused, fence=job.fence, job_id=job.job_id)


def repeat(turn: Turn, job_id: str) -> Outcome:
    """An operation that was admitted before comes again: it has happened."""
    job = turn.lane.jobs.get(job_id)
    return Accepted(body={"changed": False}) if job is None else _leave(turn, job)


def expire(turn: Turn, request: ExpireJob) -> Outcome:
    """Free a job whose claim has lapsed. A claim that is no longer the current one stays ended."""
    job_id, worker = request.job_id, request.worker.strip()
    name = f"job {job_id}"
    job = turn.lane.jobs.get(job_id)
    if job is None:
        return Refused(Reason.LEASE_NOT_FOUND, name, job_id=job_id)
    if not worker:
        return Refused(Reason.ASSIGNEE_INVALID, name, job_id=job_id)
    denied = may(turn, worker, "job.complete", job_id)
    if denied is not None:
        return denied
    if request.fence > job.fence:
        detail = f"{name}: fence {request.fence}, current {job.fence}"
        return Refused(Reason.FENCE_UNKNOWN, detail, fence=job.fence, job_id=job_id)
    lease = JOB.lease_of(turn, job_id)
    if lease is None or (request.claim, request.fence) != (job.claim, lease.fence):
        return _leave(turn, job)
    if is_live(lease, turn.stamp):
        detail = holder_text(lease, name)
        return Refused(Reason.JOB_CLAIM_LIVE, detail, fence=lease.fence, job_id=job_id)
    body = {"jobId": job_id, "claim": request.claim, "fence": lease.fence}
    job = replace(job, reason="deadline_passed")
    return _move(turn, job, None, JobMove.EXPIRE, worker, body=body)


# --- the holder's own moves ---------------------------------------------------------------------


def complete(turn: Turn, request: CompleteJob) -> Outcome:
    """The job is done, once and for all. A result after the deadline is refused, and kept."""
    job = find(turn, request.job_id)
    if isinstance(job, Refused):
        return job
    worker = (request.worker or "").strip()
    denied = _refuse_worker(turn, job, worker, "job.complete")
    if denied is not None:
        return denied
    lease = hold_term(turn, JOB, request, f"job {job.job_id}")
    if isinstance(lease, Refused):
        return _quarantine(turn, job, request, lease)
    artifacts = request.output_artifacts
    if request.adopt:
        if job.quarantine is None:
            name = f"job {job.job_id}"
            return Refused(
                Reason.JOB_NOTHING_QUARANTINED, name, fence=lease.fence, job_id=job.job_id
            )
        artifacts += job.quarantine.artifacts
    problem = _artifact_problem(turn, job, artifacts, lease)
    if problem is not None:
        return problem
    job = replace(
        job,
        completed_ms=turn.stamp.wall_ms,
        completed_by=lease.owner,
        artifacts=artifacts,
        quarantine=None,
    )
    body = _held_body(job, lease) | {"artifacts": [artifact_view(each) for each in artifacts]}
    return _move(turn, job, None, JobMove.COMPLETE, worker, body=body)


def give_back(turn: Turn, request: YieldJob) -> Outcome:
    """The holder cannot finish it: the job is pending again, and the reason is remembered."""
    job = find(turn, request.job_id)
    if isinstance(job, Refused):
        return job
    worker = (request.worker or "").strip()
    denied = may(turn, worker, "job.complete", job.job_id)
    if denied is not None:
        return denied
    lease = hold_term(turn, JOB, request, f"job {job.job_id}")
    if isinstance(lease, Refused):
        return lease
    return yield_term(turn, job, lease, request.reason.strip(), excuse(job, request))


def yield_term(
    turn: Turn,
    job: JobRecord,
    lease: Lease,
    reason: str,
    excused: dict[str, Any] | None = None,
) -> Accepted:
    """The end of a term whose job is not done."""
    job = replace(job, reason=reason, **(excused or {}))
    body = _held_body(job, lease) | {"reason": reason} | (excused or {})
    return _move(turn, job, None, JobMove.YIELD, lease.owner, body=body)


def _quarantine(turn: Turn, job: JobRecord, request: CompleteJob, refusal: Refused) -> Refused:
    """Keep what the last holder brings too late, as long as no other worker has the job."""
    lease = JOB.lease_of(turn, job.job_id)
    if lease is None or refusal.reason is not Reason.LEASE_STALE or not request.output_artifacts:
        return refusal
    if ((request.worker or "").strip(), request.lease_id) != (lease.owner, lease.lease_id):
        return refusal
    quarantine = Quarantine(
        worker=lease.owner,
        fence=lease.fence,
        received_ms=turn.stamp.wall_ms,
        artifacts=request.output_artifacts,
    )
    return refusal.about(changes=(JobQuarantined(job.job_id, quarantine),))


def rule(turn: Turn, job: JobRecord, move: JobMove) -> Accepted:
    """What an operator says about a job, as the log has it; a lease that it had ends."""
    body: dict[str, Any] = {"jobId": job.job_id, "fence": job.fence, "reason": job.reason}
    body |= _ruled(job, move)
    ruled = _move(turn, job, None, move, turn.owner, body=body)
    fence = turn.stamp.seq if JOB.lease_of(turn, job.job_id) else None
    return Accepted(ruled.changes, ruled.body, fence=fence, job_id=job.job_id)


def _ruled(job: JobRecord, move: JobMove) -> dict[str, Any]:
    """What the log adds, for a replica that makes the same of it."""
    members = {"byName": job.steered_by, "approval": job.approval, "excused": job.excused}
    wanted = ("excused",) if move is JobMove.YIELD else tuple(members)
    return {name: members[name] for name in wanted if members[name] is not UNSET}


# --- artefacts ----------------------------------------------------------------------------------


def _artifact_problem(
    turn: Turn, job: JobRecord, artifacts: tuple[Artifact, ...], lease: Lease
) -> Refused | None:
    snapshots = [each for each in artifacts if each.artifact_type == SNAPSHOT_TYPE]
    for each in snapshots:
        said = (each.model_id, each.prompt_digest, each.output_digest)
        if not all(said) or each.source_job != job.job_id or each.artifact_id != snapshot_id(each):
            detail = f"job {job.job_id}: {each.artifact_id}"
            return Refused(
                Reason.JOB_ARTIFACT_INVALID, detail, fence=lease.fence, job_id=job.job_id
            )
    if is_audited(turn.lane, job.kind) and not snapshots:
        detail = f"job {job.job_id}: {job.kind}"
        return Refused(Reason.JOB_SNAPSHOT_MISSING, detail, fence=lease.fence, job_id=job.job_id)
    return None


# --- what they share ----------------------------------------------------------------------------


def find(turn: Turn, job_id: str) -> JobRecord | Refused:
    """The job, where something can still become of it."""
    name = f"job {job_id}"
    job = turn.lane.jobs.get(job_id)
    if job is None:  # 1
        return Refused(Reason.LEASE_NOT_FOUND, name, job_id=job_id)
    if job.state is JobState.COMPLETED:  # 2
        return Refused(Reason.JOB_COMPLETED, f"{name}: by {job.completed_by}", job_id=job_id)
    if job.state is JobState.CANCELLED:  # 2 as well
        return Refused(Reason.JOB_CANCELLED, name, job_id=job_id)
    return job


def _refuse_worker(turn: Turn, job: JobRecord, worker: str, capability: str) -> Refused | None:
    denied = may(turn, worker, capability, job.job_id)
    return denied or refuse_kind(turn, job.kind, worker, job.job_id)


def refuse_kind(turn: Turn, kind: str, node: str, job_id: str) -> Refused | None:
    """Why a kind is not for a node: it has others, or only the coordinator derives it."""
    denied = permits(turn, node, kind, job_id)
    return denied or _refuse_derivation(turn, kind, node, job_id)


def _refuse_derivation(turn: Turn, kind: str, node: str, job_id: str) -> Refused | None:
    """Why a node may not derive what only the coordinator may."""
    if not is_derivation(turn.lane, kind) or node == coordinator(turn):
        return None
    detail = f"job {job_id}: {kind} is for {coordinator(turn)}"
    return Refused(Reason.JOB_COORDINATOR_REQUIRED, detail, job_id=job_id)


def _move(
    turn: Turn,
    job: JobRecord,
    lease: Lease | None,
    move: JobMove,
    author: str,
    *,
    body: dict[str, Any],
    deps: tuple[str, ...] = (),
    drawn: tuple[Change, ...] = (),
) -> Accepted:
    """The job after a move, its lease if it has one, and the operation that says so."""
    known = turn.lane.jobs.get(job.job_id)
    before = known.state if known else JobState.UNSCHEDULED
    op_id = _op_id(turn, move, job)
    if known is not None:
        deps = (*deps, known.last_op)
    admitted = operation(turn, move.value, op_id, author, body, causal_deps=deps)
    job = replace(job, state=JOB_TRANSITIONS[before, move], last_op=op_id)
    changes: list[Change] = [JobPut(job)]
    if lease is not None:
        changes.append(LeasePut(lease))
    elif before is JobState.CLAIMED:
        changes.insert(0, LeaseDropped(job_resource(job.job_id)))
    dispatch = dispatch_resource(job.job_id)
    if job.state in TERMINAL and turn.state.leases.get(dispatch) is not None:
        changes.insert(0, LeaseDropped(dispatch))  # there is nothing left to hand on
    changes += [admitted, *hear(turn, author)]
    if turn.lane.delayed and next(turn.lane.ripe(turn.stamp.wall_ms), None) is not None:
        changes.append(JobsDue(turn.stamp.wall_ms))
    changes += drawn
    answer = {"changed": True, "opId": op_id, "job": job_view(turn, job, lease)}
    if move is JobMove.COMPLETE and (freed := _waiting_only_for(turn, job)):
        answer["freed"] = freed
    fence = job.fence or None
    return Accepted(tuple(changes), answer, fence=fence, job_id=job.job_id)


_VERBS = {
    JobMove.YIELD: "yield",
    JobMove.EXPIRE: "expire",
    JobMove.FAULT: "fault",
    JobMove.RETRY: "retry",
    JobMove.RULE: "rule",
}


def _op_id(turn: Turn, move: JobMove, job: JobRecord) -> str:
    """Once in the life of a job, or once in a term; a claim is named after its row."""
    match move:
        case JobMove.CLAIM:
            return f"claim/{job.job_id}/{turn.stamp.seq}"
        case JobMove.SCHEDULE:
            return f"schedule/{job.job_id}"
        case JobMove.COMPLETE:
            return completion_of(job.job_id)
        case JobMove.CANCEL:
            return f"cancel/{job.job_id}"
        case JobMove.RETRY | JobMove.RULE:
            return f"{_VERBS[move]}/{job.job_id}/{turn.stamp.seq}"
        case _:
            return f"{_VERBS[move]}/{job.job_id}/{job.fence}"


def _waiting_only_for(turn: Turn, job: JobRecord) -> list[str]:
    """Jobs that waited for nothing but this one; the first of them, if they are many."""
    op_id = completion_of(job.job_id)
    waiting = sorted(turn.lane.awaited.get(op_id, ()))[: limits.ROSTER_PAGE_MAX]
    return [each for each in waiting if turn.lane.missing(turn.lane.jobs[each]) == [op_id]]


def _leave(turn: Turn, job: JobRecord) -> Accepted:
    """What was asked has happened before."""
    lease = JOB.lease_of(turn, job.job_id)
    body = {"changed": False, "job": job_view(turn, job, lease)}
    return Accepted(body=body, fence=lease.fence if lease else None, job_id=job.job_id)


def _lease_body(lease: Lease) -> dict[str, Any]:
    return {
        "jobId": lease.resource.removeprefix("job/"),
        "worker": lease.owner,
        "leaseId": lease.lease_id,
        "fence": lease.fence,
        "deadlineMs": lease.deadline_ms,
    }


def _held_body(job: JobRecord, lease: Lease) -> dict[str, Any]:
    return {"jobId": job.job_id, "worker": lease.owner, "fence": lease.fence}
