"""Payloads about schedules, which make jobs and specs by themselves."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ... import limits
from .atoms import Integer, Mark, Mutation, Natural, Priority, ScheduleId, Title
from .job import JobPayload
from .spec import SpecStep


class JobTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A job without its id and its time, which come from the firing."""

    kind: Mark
    payload: JobPayload = field(default_factory=dict)
    priority: Priority | None = None
    timeout_ms: Integer | None = None


class SpecTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A spec without its id, which comes from the firing."""

    title: Title | None = None
    steps: Annotated[tuple[SpecStep, ...], Meta(min_length=1, max_length=limits.SPEC_STEPS_MAX)]


class SetSchedule(Mutation, frozen=True, kw_only=True):
    """A cron line or an interval, and a job or a spec; set again, it goes on from where it was."""

    schedule_id: ScheduleId
    cron: Mark | None = None
    every_ms: Integer | None = None
    timezone: Mark = "UTC"
    start_ms: Natural | None = None
    missed: Literal["skip", "one", "all"] = "one"
    job: JobTemplate | None = None
    spec: SpecTemplate | None = None


class ClearSchedule(Mutation, frozen=True, kw_only=True):
    schedule_id: ScheduleId


class FireSchedule(Mutation, frozen=True, kw_only=True):
    """Make what the schedule makes, for one moment at which it was due."""

    schedule_id: ScheduleId
    due_ms: Natural
