"""Schedules: when a job, or a spec, is made by itself.

A scheduler proposes each firing by the schedule and the moment at which it was due. The rule asks
no calendar: the moment must have come, and be later than the one before. So however many schedulers
there are, and whatever they know of time zones, a moment makes one job.
"""

from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from ....contracts import (
    ClearSchedule,
    FireSchedule,
    JobTemplate,
    Nothing,
    Reason,
    Schedule,
    ScheduleJob,
    SetSchedule,
    SpecTemplate,
    SubmitSpec,
    canonical,
    fired_id,
    fired_spec,
    limits,
)
from ..outcome import Accepted, Outcome, Refused, ScheduleDropped, SchedulePut
from ..turn import Turn
from . import job, spec

_SHAPES: dict[str, type[ScheduleJob | SubmitSpec]] = {"job": ScheduleJob, "spec": SubmitSpec}


def set_schedule(turn: Turn, request: SetSchedule) -> Outcome:
    """Make a schedule, or change one: it then goes on after the moment that it fired for last."""
    schedule_id, now_ms = request.schedule_id, turn.stamp.wall_ms
    name = f"schedule {schedule_id}"
    every_ms = request.every_ms
    low, high = limits.SCHEDULE_EVERY_MS_MIN, limits.JOB_DELAY_MS_MAX
    if (request.cron is None) is (every_ms is None):
        return Refused(Reason.SCHEDULE_TIMES_INVALID, name)
    if every_ms is not None and not low <= every_ms <= high:
        return Refused(Reason.SCHEDULE_TIMES_INVALID, f"{name}: every {every_ms} ms")
    template = request.job or request.spec
    if template is None or (request.job is not None and request.spec is not None):
        return Refused(Reason.SCHEDULE_TEMPLATE_INVALID, name)
    before = turn.lane.schedules.get(schedule_id)
    if before is None and len(turn.lane.schedules) >= limits.SCHEDULES_MAX:
        return Refused(Reason.SCHEDULES_FULL, name)
    start_ms = now_ms if request.start_ms is None else request.start_ms
    last_ms = start_ms if request.start_ms is None else max(0, start_ms - 1)
    schedule = Schedule(
        schedule_id=schedule_id,
        cron=" ".join((request.cron or "").split()),
        every_ms=every_ms or 0,
        timezone=request.timezone,
        start_ms=start_ms,
        missed=request.missed,
        template=canonical.encode(_members(template)).decode(),
        makes="job" if request.job is not None else "spec",
        last_due_ms=max(last_ms, before.last_due_ms) if before else last_ms,
        fired=before.fired if before else 0,
        set_ms=now_ms,
    )
    # Whoever sets it, schedulers fire it through the coordinator's door.
    made = _make(replace(turn, door="coordinator"), schedule, limits.INTEGER_MAX)
    if isinstance(made, Refused):
        return made.about(detail=f"{name}: {made.detail}", job_id=None, spec_id=None)
    body = {"changed": True, "schedule": schedule_view(schedule)}
    return Accepted((SchedulePut(schedule),), body)


def clear_schedule(turn: Turn, request: ClearSchedule) -> Outcome:
    """Forget a schedule. What it has made stays."""
    schedule = turn.lane.schedules.get(request.schedule_id)
    if schedule is None:
        return _unknown(request.schedule_id)
    body = {"changed": True, "schedule": schedule_view(schedule)}
    return Accepted((ScheduleDropped(schedule.schedule_id),), body)


def fire(turn: Turn, request: FireSchedule) -> Outcome:
    """Make the job of one moment, in the very row that says that the schedule has fired for it."""
    due_ms, now_ms = request.due_ms, turn.stamp.wall_ms
    schedule = turn.lane.schedules.get(request.schedule_id)
    if schedule is None:
        return _unknown(request.schedule_id)
    name = f"schedule {schedule.schedule_id}: {due_ms}"
    is_off = schedule.every_ms and (due_ms - schedule.start_ms) % schedule.every_ms
    if due_ms > now_ms or is_off:
        return Refused(Reason.SCHEDULE_NOT_DUE, name)
    if due_ms <= schedule.last_due_ms:
        return Refused(Reason.SCHEDULE_FIRED, f"{name} is not after {schedule.last_due_ms}")
    if schedule.missed == "skip" and now_ms - due_ms > limits.SCHEDULE_GRACE_MS:
        return Refused(Reason.SCHEDULE_MISSED, name)
    made = _make(turn, schedule, due_ms)
    if not isinstance(made, Accepted):
        return made
    schedule = replace(schedule, last_due_ms=due_ms, fired=schedule.fired + 1)
    changes = (SchedulePut(schedule), *made.changes)
    body = made.body | {"changed": True, "schedule": schedule_view(schedule)}
    return Accepted(changes, body, job_id=made.job_id, spec_id=made.spec_id)


def _make(turn: Turn, schedule: Schedule, due_ms: int) -> Outcome:
    """What the rules of jobs and specs say to what a schedule makes."""
    named = {
        "job": {"jobId": fired_id(schedule.schedule_id, due_ms)},
        "spec": {"specId": fired_spec(schedule.schedule_id, due_ms)},
    }[schedule.makes]
    members = orjson.loads(schedule.template)
    request = msgspec.convert(members | named, _SHAPES[schedule.makes])
    if isinstance(request, ScheduleJob):
        return job.schedule(turn, request)
    return spec.submit(turn, request)


def _members(template: JobTemplate | SpecTemplate) -> dict[str, Any]:
    """What was said, and no more."""
    members: dict[str, Any] = msgspec.to_builtins(template)
    return {name: value for name, value in members.items() if value is not None}


def _unknown(schedule_id: str) -> Refused:
    return Refused(Reason.SCHEDULE_NOT_FOUND, f"schedule {schedule_id}")


def list_schedules(turn: Turn, request: Nothing) -> Outcome:  # noqa: ARG001 - called as its table is
    """All schedules, by name."""
    schedules = turn.lane.schedules
    found = [schedule_view(schedules[key]) for key in sorted(schedules)]
    return Accepted(body={"schedules": found, "count": len(found)})


def schedule_view(schedule: Schedule) -> dict[str, Any]:
    return {
        "scheduleId": schedule.schedule_id,
        "cron": schedule.cron or None,
        "everyMs": schedule.every_ms or None,
        "timezone": schedule.timezone,
        "startMs": schedule.start_ms,
        "missed": schedule.missed,
        schedule.makes: orjson.Fragment(schedule.template),
        "lastDueMs": schedule.last_due_ms,
        "fired": schedule.fired,
        "setMs": schedule.set_ms,
    }
