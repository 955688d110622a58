"""When a schedule is due: the moments of a cron line in a time zone, or of an interval.

No decision asks this. The cell that proposes firings does, and the doors do before they let a
schedule in, so that a journal replays alike under every version of the time zone database.

A cron line has five fields: minute, hour, day of the month, month, day of the week. Where clocks
are put forward, what was due in the hour that is left out is due right after it; where they are
put back, what is due at a fixed hour is due once, and what is due every hour or minute goes on.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from . import limits
from .records.schedule import Schedule

_FIELDS = 5
_DAY_MS = 86_400_000


def cron_problem(line: str) -> str | None:
    """Why this is no cron line; None where it is one."""
    if len(line.split()) != _FIELDS:
        return f"it has {len(line.split())} fields"
    try:
        next(_moments(line, "UTC", 0))
    except ValueError as error:
        return str(error)
    except StopIteration:
        return "no such day ever comes"
    return None


def is_zone(name: str) -> bool:
    """Whether there is a time zone of this name."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return False
    return True


def due_after(schedule: Schedule, after_ms: int) -> Iterator[int]:
    """Every moment that is due after this one, in order; milliseconds since 1970."""
    start_ms, every_ms = schedule.start_ms, schedule.every_ms
    if schedule.cron:
        after_ms = max(after_ms, start_ms - 1)
        yield from _moments(schedule.cron, schedule.timezone, after_ms)
        return
    turns = max(0, -(-(after_ms + 1 - start_ms) // every_ms))
    yield from range(start_ms + turns * every_ms, limits.NOW_MS_MAX, every_ms)


def due_between(schedule: Schedule, after_ms: int, until_ms: int) -> list[int]:
    """What is due after one moment and until another; the newest, if they are many.

    It looks further and further back, so that a long time does not take long.
    """
    span_ms = _DAY_MS
    while True:
        since_ms = max(after_ms, until_ms - span_ms)
        found = [*takewhile(lambda each: each <= until_ms, due_after(schedule, since_ms))]
        if since_ms == after_ms or len(found) >= limits.SCHEDULE_MISSED_MAX:
            return found[-limits.SCHEDULE_MISSED_MAX :]
        span_ms *= 8


def _moments(cron: str, timezone: str, after_ms: int) -> Iterator[int]:
    from cronsim import CronSim, CronSimError  # milliseconds, and few commands need it

    since = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=after_ms)
    try:
        moments = CronSim(cron, since.astimezone(ZoneInfo(timezone)))
    except CronSimError as error:
        raise ValueError(str(error)) from None
    for each in moments:
        yield int(each.timestamp()) * 1_000
