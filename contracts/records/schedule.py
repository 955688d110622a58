"""What is said about kinds of jobs, and about when jobs come by themselves: limits and schedules.

A bucket is counted in parts: a claim takes `CLAIM_PARTS`, and every millisecond brings as many as
claims are allowed in a minute. So all of it is whole numbers, and nothing is rounded.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

CLAIM_PARTS = 60_000  # milliseconds of a minute

Missed = Literal["skip", "one", "all"]


class KindLimit(Struct, frozen=True, kw_only=True):
    """How many jobs of a kind are held at once, how often one is claimed, and for how long.

    0 is no limit. A kind with a dot at its end stands for all that begin so.
    """

    kind: str
    concurrency: int = 0
    rate_per_minute: int = 0
    burst: int = 0  # claims at once, after a pause
    timeout_ms: int = 0  # of one term
    parts: int = 0  # that the bucket held at `at_ms`
    at_ms: int = 0


class Schedule(Struct, frozen=True, kw_only=True):
    """When a job, or the jobs of a spec, are made by themselves.

    `last_due_ms` is the moment that it fired for last; before, the last one for which it does not.
    """

    schedule_id: str
    cron: str = ""  # five fields; or else
    every_ms: int = 0  # from `start_ms` on
    timezone: str = "UTC"
    start_ms: int
    missed: Missed = "one"
    template: str  # canonical JSON: the members of a job or of a spec, without its id
    makes: Literal["job", "spec"]
    last_due_ms: int
    fired: int = 0
    set_ms: int


def schedule_of(view: Mapping[str, Any]) -> Schedule:
    """A schedule as an answer shows it, with all that its moments depend on."""
    return Schedule(
        schedule_id=view["scheduleId"],
        cron=view["cron"] or "",
        every_ms=view["everyMs"] or 0,
        timezone=view["timezone"],
        start_ms=view["startMs"],
        missed=view["missed"],
        template="{}",
        makes="job" if "job" in view else "spec",
        last_due_ms=view["lastDueMs"],
        fired=view["fired"],
        set_ms=view["setMs"],
    )


def fired_id(schedule_id: str, due_ms: int) -> str:
    """The id of the job that a schedule makes for a moment."""
    return f"{schedule_id}@{due_ms}"


def is_fired(job_id: str) -> bool:
    return "@" in job_id


def fired_spec(schedule_id: str, due_ms: int) -> str:
    """The id of such a spec, which has no `@` in it."""
    return f"{schedule_id}.{due_ms}"
