"""When a schedule is due: at any hour of the year, and at those that come twice or never."""

from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.long import tried
from tests.together import together
from understudy.contracts import Schedule, due, limits

BERLIN = "Europe/Berlin"


def scheduled(
    cron: str = "", timezone: str = "UTC", *, every_ms: int = 0, start_ms: int = 0
) -> Schedule:
    return Schedule(
        schedule_id="s", cron=cron, timezone=timezone, every_ms=every_ms, start_ms=start_ms,
        template="{}", makes="job", last_due_ms=0, set_ms=0,
    )  # fmt: skip


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def coming(schedule: Schedule, after: str, count: int) -> list[str]:
    found = islice(due.due_after(schedule, ms(after)), count)
    return [datetime.fromtimestamp(each / 1_000, UTC).strftime("%m-%dT%H:%M") for each in found]


@together(
    ("cron", "after", "expected"),
    [
        # Local 02:00 to 03:00 is left out on 28 March 2027, which is 01:00 UTC.
        ("30 2 * * *", "2027-03-27T00:00", ["03-27T01:30", "03-28T01:00", "03-29T00:30"]),
        ("*/30 * * * *", "2027-03-28T00:15", ["03-28T00:30", "03-28T01:00", "03-28T01:30"]),
        # And comes twice on 31 October 2027: at 00:00 and at 01:00 UTC.
        ("30 2 * * *", "2027-10-30T12:00", ["10-31T00:30", "11-01T01:30"]),
        ("30 * * * *", "2027-10-30T23:45", ["10-31T00:30", "10-31T01:30", "10-31T02:30"]),
        ("0 3 29 2 *", "2027-01-01T00:00", ["02-29T02:00"]),
    ],
)
def test_an_hour_that_is_left_out_or_comes_twice_is_due_once(
    cron: str, after: str, expected: list[str]
) -> None:
    assert coming(scheduled(cron, BERLIN), after, len(expected)) == expected


@together(
    ("line", "is_sound"),
    [
        ("0 3 * * *", True), ("*/15 9-17 * * MON-FRI", True), ("0 0 29 2 *", True),
        ("0 0 L * *", True), ("0  3 * *  *", True),
        ("", False), ("0 3 * *", False), ("0 0 3 * * *", False), ("60 3 * * *", False),
        ("0 24 * * *", False), ("0 3 30 2 *", False), ("0 3 31 4,6 *", False), ("@daily", False),
        ("a b c d e", False), ("*/0 * * * *", False), ("5-1 * * * *", False),
    ],
)  # fmt: skip
def test_a_cron_line_has_five_fields_that_some_day_meets(line: str, is_sound: bool) -> None:
    assert (due.cron_problem(line) is None) is is_sound


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "Europe", "utc\0", "CEST"])
def test_no_other_zone_is_a_zone(name: str) -> None:
    assert not due.is_zone(name)
    assert due.is_zone(BERLIN)


@tried(60)
@given(
    st.sampled_from(["UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 */5 * * *", "15 1,2,3 * * 0", "0 0 1 * *"]),
    st.integers(0, 4_000_000_000_000),
)
def test_moments_are_later_and_later_whole_minutes(zone: str, cron: str, after_ms: int) -> None:
    found = [*islice(due.due_after(scheduled(cron, zone), after_ms), 8)]
    assert all(one < other for one, other in pairwise([after_ms, *found]))
    assert all(each % 60_000 == 0 for each in found)
    hours = cron.split()[1]
    if hours == "2":  # at a fixed hour, at most an hour off where that is left out
        locally = [datetime.fromtimestamp(each / 1_000, ZoneInfo(zone)) for each in found]
        assert {each.hour for each in locally} <= {2, 3}


@tried(60)
@given(st.integers(0, 10**6), st.integers(1_000, 10**5), st.integers(0, 10**7))
def test_an_interval_is_due_from_its_start_on(start_ms: int, every_ms: int, after_ms: int) -> None:
    schedule = scheduled(every_ms=every_ms, start_ms=start_ms)
    first, second = islice(due.due_after(schedule, after_ms), 2)
    assert first > after_ms
    assert (first - start_ms) % every_ms == 0
    assert first == start_ms or first - every_ms <= after_ms
    assert second == first + every_ms


@tried(40)
@given(st.integers(0, 10**12), st.sampled_from(["* * * * *", "0 3 * * *", "0 0 1 1 *"]))
def test_what_was_missed_is_the_newest_of_all_that_was_due(span_ms: int, cron: str) -> None:
    schedule, until_ms = scheduled(cron, BERLIN), 1_800_000_000_000
    found = due.due_between(schedule, until_ms - span_ms, until_ms)
    assert found == sorted(found)
    assert len(found) <= limits.SCHEDULE_MISSED_MAX
    assert all(until_ms - span_ms < each <= until_ms for each in found)
    if found:
        assert next(due.due_after(schedule, found[-1])) > until_ms, "none is left out at the end"
