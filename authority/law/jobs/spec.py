"""How a spec becomes jobs: submitted once, held by one runner at a time, made a job a step, once.

A runner makes the jobs under its lease, in as many rows as it likes. A step that has its job keeps
it, for every caller; in the row that makes the last one the lease ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import orjson
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ....contracts import (
    PRIORITY_DEFAULT,
    SPEC_TRANSITIONS,
    Approval,
    ClaimSpec,
    HeldSpec,
    JobMove,
    JobOrder,
    JobRecord,
    Lease,
    ListSpecs,
    MaterializeSpec,
    Reason,
    ReleaseSpec,
    ShowSpec,
    Spec,
    SpecMove,
    SpecState,
    SpecStep,
    Step,
    SubmitSpec,
    canonical,
    completion_of,
    limits,
    step_job,
)
from ..outcome import (
    Accepted,
    Change,
    JobPut,
    LeaseDropped,
    LeasePut,
    Outcome,
    Refused,
    SpecMoved,
    SpecPut,
)
from ..term import SPEC, begin_term, claim_deadline, hold_term, renew_term, term_view
from ..turn import Origin, Turn
from .job import refuse_kind
from .roster import order_view, place_of, visible_state
from .routes import hear, may, operation

# --- submission ---------------------------------------------------------------------------------


def submit(turn: Turn, request: SubmitSpec) -> Outcome:
    """A new spec. Submitted again it is left alone; another document needs another id."""
    lane, spec_id = turn.lane, request.spec_id
    author = request.author or turn.owner
    denied = may(turn, author, "job.schedule", None) or _flaw(spec_id, request.steps)
    if denied is not None:
        return denied.about(spec_id=spec_id)
    document = _document(request)
    digest = canonical.digest("spec1", canonical.encode(document))
    known = lane.specs.get(spec_id)
    if known is not None:
        if known.digest != digest:
            return Refused(Reason.SPEC_EXISTS, f"spec {spec_id}", spec_id=spec_id)
        body = {"changed": False, "spec": spec_view(turn, known, SPEC.lease_of(turn, spec_id))}
        return Accepted(body=body, spec_id=spec_id)
    if len(lane.specs) >= limits.SPECS_MAX:
        return Refused(Reason.SPECS_FULL, f"spec {spec_id}", spec_id=spec_id)
    spec = Spec(
        spec_id=spec_id,
        title=(request.title or "").strip(),
        author=author,
        digest=digest,
        steps=tuple(_step(each) for each in request.steps),
        state=SPEC_TRANSITIONS[SpecState.UNSUBMITTED, SpecMove.SUBMIT],
        submitted_seq=turn.stamp.seq,
        submitted_ms=turn.stamp.wall_ms,
    )
    admitted = operation(turn, "SubmitSpec", f"submit/{spec_id}", author, document)
    changes: tuple[Change, ...] = (SpecPut(spec), admitted, *hear(turn, author))
    body = {"changed": True, "spec": spec_view(turn, spec, None)}
    return Accepted(changes, body, spec_id=spec_id)


def _document(request: SubmitSpec) -> dict[str, Any]:
    """What was submitted, as the log keeps it: the payload that submits it again."""
    steps = [
        {
            "stepKey": each.step_key,
            "kind": each.kind,
            "inputs": each.inputs,
            "dependsOn": sorted(each.depends_on),
        }
        | ({"approve": True} if each.approve else {})
        | ({} if _priority(each) is UNSET else {"priority": each.priority})
        for each in request.steps
    ]
    title = (request.title or "").strip()
    return {"specId": request.spec_id, "steps": steps} | ({"title": title} if title else {})


def _step(asked_for: SpecStep) -> Step:
    return Step(
        step_key=asked_for.step_key,
        kind=asked_for.kind,
        inputs=canonical.encode(asked_for.inputs).decode(),
        depends_on=tuple(sorted(asked_for.depends_on)),
        approve=asked_for.approve or UNSET,
        priority=_priority(asked_for),
    )


def _priority(step: SpecStep) -> int | UnsetType:
    """The one that was said, where it is another than all have."""
    return UNSET if step.priority == PRIORITY_DEFAULT else step.priority


def _flaw(spec_id: str, steps: Sequence[SpecStep]) -> Refused | None:
    """Why these steps are no spec, by the names of the steps."""
    known: dict[str, SpecStep] = {}
    for step in steps:
        if step.step_key in known:
            return Refused(Reason.SPEC_STEP_DUPLICATE, f"spec {spec_id}: {step.step_key}")
        known[step.step_key] = step
    for step in steps:
        needed = step.depends_on
        wrong = next((key for key in needed if key not in known or needed.count(key) > 1), None)
        if wrong is None and step.step_key in needed:
            wrong = step.step_key
        if wrong is not None:
            detail = f"spec {spec_id}: {step.step_key} depends on {wrong}"
            return Refused(Reason.SPEC_STEP_DEPENDENCY, detail)
    circle = _circle({key: step.depends_on for key, step in known.items()})
    if circle:
        more = ["..."] * (len(circle) > 8)
        detail = f"spec {spec_id}: {' -> '.join([*circle[:8], *more, circle[0]])}"
        return Refused(Reason.SPEC_STEP_CYCLE, detail)
    return None


def _circle(needed: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Steps that wait for each other, each for the next; none, where some order does for all."""
    waits = {key: set(keys) for key, keys in needed.items()}
    awaited: dict[str, list[str]] = {}
    for key, keys in needed.items():
        for each in keys:
            awaited.setdefault(each, []).append(key)
    free = [key for key, keys in waits.items() if not keys]
    while free:
        done = free.pop()
        del waits[done]
        for key in awaited.get(done, ()):
            waits[key].discard(done)
            if not waits[key]:
                free.append(key)
    path: dict[str, None] = {}
    key = min(waits, default="")
    while key and key not in path:
        path[key] = None
        key = min(waits[key])
    walked = list(path)
    return walked[walked.index(key) :] if key else []


# --- the runner's lease -------------------------------------------------------------------------


def claim(turn: Turn, request: ClaimSpec) -> Outcome:
    """Grant a spec that lacks jobs to the first who asks; give its live holder more time."""
    spec_id, runner = request.spec_id, request.runner.strip()
    name = f"spec {spec_id}"
    deadline_ms = claim_deadline(turn, SPEC, request, name)
    if isinstance(deadline_ms, Refused):
        return deadline_ms
    spec = find(turn, spec_id)
    if isinstance(spec, Refused):
        return spec
    denied = may(turn, runner, "job.schedule", None)
    if denied is not None:
        return denied.about(spec_id=spec_id)
    lease = renew_term(turn, SPEC, request, deadline_ms, name)
    if isinstance(lease, Refused):
        return lease
    if lease is None:
        lease = begin_term(turn, SPEC, request, deadline_ms)
        spec = replace(spec, attempts=spec.attempts + 1, fence=lease.fence, reason="")
    spec = replace(spec, state=SPEC_TRANSITIONS[spec.state, SpecMove.CLAIM])
    changes = (_change(spec), LeasePut(lease), *hear(turn, runner))
    body = {"changed": True, "spec": spec_view(turn, spec, lease) | _steps(turn, spec)}
    return SPEC.accept(lease, changes, body)


def release(turn: Turn, request: ReleaseSpec) -> Outcome:
    """The runner gives the spec back, with the jobs that it has made."""
    held = _hold(turn, request)
    if isinstance(held, Refused):
        return held
    spec, lease = held
    spec = replace(
        spec,
        state=SPEC_TRANSITIONS[spec.state, SpecMove.RELEASE],
        reason=request.reason.strip(),
    )
    changes = (LeaseDropped(lease.resource), _change(spec), *hear(turn, lease.owner))
    body = {"changed": True, "spec": spec_view(turn, spec, None)}
    return SPEC.accept(lease, changes, body)


def materialize(turn: Turn, request: MaterializeSpec) -> Outcome:
    """Make the jobs of these steps, each one once; with the last one the spec is done."""
    held = _hold(turn, request)
    if isinstance(held, Refused):
        return held
    spec, lease = held
    steps = {each.step_key: each for each in spec.steps}
    wanted = list(dict.fromkeys(request.step_keys))
    if unknown := [key for key in wanted if key not in steps]:
        detail = f"spec {spec.spec_id}: {', '.join(unknown[:3])}"
        refusal = Refused(Reason.SPEC_STEP_UNKNOWN, detail, fence=lease.fence)
        return SPEC.refuse(refusal, spec.spec_id)
    fresh = [steps[key] for key in wanted if step_job(spec.spec_id, key) not in turn.lane.jobs]
    obstacle = _obstacle(turn, spec, fresh, lease)
    if obstacle is not None:
        return SPEC.refuse(obstacle, spec.spec_id)
    made = [_job(turn, spec, step, lease.owner) for step in fresh]
    spec, is_last = _count_in(turn, spec, len(made))
    changes: list[Change] = [LeaseDropped(lease.resource)] if is_last else []
    changes += [JobPut(job) for job in made]
    if made:
        changes += [_change(spec), *_schedules(turn, made), *hear(turn, lease.owner)]
    created = {job.job_id for job in made}
    existing = (step_job(spec.spec_id, key) for key in wanted)
    body = {
        "changed": bool(made),
        "created": [job.job_id for job in made],
        "existing": [job_id for job_id in existing if job_id not in created],
        "spec": spec_view(turn, spec, None if is_last else lease, created),
    }
    return SPEC.accept(lease, tuple(changes), body)


def _obstacle(turn: Turn, spec: Spec, steps: Iterable[Step], lease: Lease) -> Refused | None:
    """Why the runner may not make one of these jobs, or the authority cannot hold them."""
    count = 0
    for count, step in enumerate(steps, 1):  # noqa: B007 - how many there were
        denied = refuse_kind(turn, step.kind, lease.owner, step_job(spec.spec_id, step.step_key))
        if denied is not None:
            return denied.about(fence=lease.fence, job_id=None)
    if len(turn.lane.jobs) + count > limits.JOBS_MAX:
        return Refused(Reason.JOBS_FULL, f"spec {spec.spec_id}", fence=lease.fence)
    return None


def _job(turn: Turn, spec: Spec, step: Step, runner: str) -> JobRecord:
    job_id = step_job(spec.spec_id, step.step_key)
    payload = {
        "specId": spec.spec_id,
        "stepKey": step.step_key,
        "inputs": orjson.loads(step.inputs),
    }
    deps = (completion_of(step_job(spec.spec_id, key)) for key in step.depends_on)
    return JobRecord(
        job_id=job_id,
        kind=step.kind,
        payload=canonical.encode(payload).decode(),
        author=runner,
        causal_deps=tuple(sorted(deps)),
        scheduled_seq=turn.stamp.seq,
        scheduled_ms=turn.stamp.wall_ms,
        last_op=f"schedule/{job_id}",
        spec_id=spec.spec_id,
        step_key=step.step_key,
        approval=Approval.WAITING.value if step.approve else UNSET,
        order=UNSET if step.priority is UNSET else JobOrder(priority=step.priority),
    )


def _count_in(turn: Turn, spec: Spec, count: int) -> tuple[Spec, bool]:
    """The spec with so many more jobs, and whether these were the last."""
    if count == 0:
        return spec, False
    created = spec.created + count
    is_last = created == len(spec.steps)
    move = SpecMove.FINISH if is_last else SpecMove.MATERIALIZE
    spec = replace(
        spec,
        state=SPEC_TRANSITIONS[spec.state, move],
        created=created,
        materialized_ms=turn.stamp.wall_ms if is_last else None,
    )
    return spec, is_last


def _schedules(turn: Turn, made: Iterable[JobRecord]) -> Iterator[Change]:
    """What the log says of each: an ordinary job was scheduled."""
    for index, job in enumerate(made):
        body = {"jobId": job.job_id, "kind": job.kind, "payload": orjson.loads(job.payload)}
        body |= order_view(job)
        placed = replace(turn, origin=Origin(index=index))
        move = JobMove.SCHEDULE.value
        yield operation(placed, move, job.last_op, job.author, body, causal_deps=job.causal_deps)


# --- reads --------------------------------------------------------------------------------------


def show(turn: Turn, request: ShowSpec) -> Outcome:
    """One spec whole, with the state of the job of every step."""
    spec = turn.lane.specs.get(request.spec_id)
    if spec is None:
        detail = f"spec {request.spec_id}"
        return Refused(Reason.SPEC_NOT_FOUND, detail, spec_id=request.spec_id)
    view = spec_view(turn, spec, SPEC.lease_of(turn, spec.spec_id)) | _steps(turn, spec)
    for step, shown in zip(spec.steps, view["steps"], strict=True):
        shown["inputs"] = orjson.Fragment(step.inputs)
    return Accepted(body={"spec": view}, spec_id=spec.spec_id)


def list_specs(turn: Turn, request: ListSpecs) -> Outcome:
    """A page of specs, the oldest first: of all, or of those that a runner can claim now."""
    lane = turn.lane
    start = place_of(request.cursor)
    known = None if start is None else lane.specs.get(start[1])
    if start is None or (request.cursor and (not known or known.submitted_seq != start[0])):
        return Refused(Reason.JOB_CURSOR_INVALID, str(request.cursor))
    if request.query == "all":
        found = lane.submitted.irange(start, None, (False, True))
    else:
        found = lane.unfinished.claimable(turn.stamp.wall_ms, start)
    page = list(islice(found, request.limit + 1))
    specs = [lane.specs[spec_id] for _, spec_id in page[: request.limit]]
    body: dict[str, Any] = {
        "specs": [_brief(turn, spec, SPEC.lease_of(turn, spec.spec_id)) for spec in specs],
        "count": len(specs),
        "specCounts": {
            "total": len(lane.specs),
            "materialized": len(lane.specs) - len(lane.unfinished),
            "leased": lane.unfinished.leased,
        },
    }
    if len(page) > request.limit:
        seq, spec_id = page[request.limit - 1]
        body["cursor"] = f"{seq}/{spec_id}"
    return Accepted(body=body)


def spec_view(
    turn: Turn, spec: Spec, lease: Lease | None, created: frozenset[str] | set[str] = frozenset()
) -> dict[str, Any]:
    """A spec, and the first of the steps that have no job: what to materialize next."""
    keys = (
        step.step_key
        for step in spec.steps
        if (job_id := step_job(spec.spec_id, step.step_key)) not in created
        and job_id not in turn.lane.jobs
    )
    return _brief(turn, spec, lease) | {"missing": list(islice(keys, limits.SPEC_BATCH_MAX))}


def _brief(turn: Turn, spec: Spec, lease: Lease | None) -> dict[str, Any]:
    view: dict[str, Any] = {
        "specId": spec.spec_id,
        "state": spec.state.value,
        "author": spec.author,
        "digest": spec.digest,
        "stepCount": len(spec.steps),
        "createdCount": spec.created,
        "attempts": spec.attempts,
        "submittedMs": spec.submitted_ms,
    }
    if spec.title:
        view["title"] = spec.title
    if spec.materialized_ms is not None:
        view["materializedMs"] = spec.materialized_ms
    if spec.reason:
        view["reason"] = spec.reason
    if lease is not None:
        view["lease"] = term_view(lease, turn.stamp)
    return view


def _steps(turn: Turn, spec: Spec) -> dict[str, Any]:
    """Every step, and how its job stands if it has one."""
    views = []
    for step in spec.steps:
        view: dict[str, Any] = {
            "stepKey": step.step_key,
            "kind": step.kind,
            "dependsOn": list(step.depends_on),
        }
        job = turn.lane.jobs.get(step_job(spec.spec_id, step.step_key))
        if job is not None:
            view |= {"jobId": job.job_id, "state": visible_state(turn, job).value}
            if job.dispatched is not None:
                view["dispatched"] = True
        views.append(view)
    return {"steps": views}


# --- what they share ----------------------------------------------------------------------------


def find(turn: Turn, spec_id: str) -> Spec | Refused:
    """The spec, where something can still become of it."""
    name = f"spec {spec_id}"
    spec = turn.lane.specs.get(spec_id)
    if spec is None:  # 1
        return Refused(Reason.LEASE_NOT_FOUND, name, spec_id=spec_id)
    if spec.state is SpecState.MATERIALIZED:  # 2
        return Refused(Reason.SPEC_MATERIALIZED, name, spec_id=spec_id)
    return spec


def _hold(turn: Turn, request: HeldSpec) -> tuple[Spec, Lease] | Refused:
    """The spec and its lease, where the request comes from the runner that holds it."""
    spec = find(turn, request.spec_id)
    if isinstance(spec, Refused):
        return spec
    denied = may(turn, (request.runner or "").strip(), "job.schedule", None)
    if denied is not None:
        return denied.about(spec_id=spec.spec_id)
    lease = hold_term(turn, SPEC, request, f"spec {spec.spec_id}")
    return lease if isinstance(lease, Refused) else (spec, lease)


def _change(spec: Spec) -> SpecMoved:
    """What the journal keeps of a spec that moved."""
    return SpecMoved(
        spec_id=spec.spec_id,
        state=spec.state,
        created=spec.created,
        attempts=spec.attempts,
        fence=spec.fence,
        reason=spec.reason,
        materialized_ms=spec.materialized_ms,
    )
