"""Time for the journal: stamps that grow, and a physical clock that cannot jump."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.desk import START_MS, Desk, Time, asked
from tests.together import together
from understudy.authority.journal.clock import HybridClock, SteadyClock
from understudy.contracts import limits
from understudy.contracts.records.records import Stamp
from understudy.contracts.requests.shapes import CallerStamp

DRIFT_MS = limits.CLOCK_DRIFT_MS_MAX


# --- the physical clock ---------------------------------------------------------------------------


def test_it_starts_with_the_wall_clock_and_goes_on_with_the_steady_one() -> None:
    time = Time()
    clock = time.clock()
    assert clock() == START_MS
    time.passes(1_234)
    assert clock() == START_MS + 1_234


@pytest.mark.parametrize("jump_ms", [-3_600_000, -1_000, 1_000, 3_600_000])
def test_a_wall_clock_that_is_set_is_not_followed(jump_ms: int) -> None:
    time = Time()
    clock = time.clock()
    time.wall_ms += jump_ms
    time.passes(10_000)
    assert clock() == START_MS + 10_000


@pytest.mark.parametrize(("off_ms", "sign"), [(999, 1), (-999, -1)])
def test_a_wall_clock_that_drifts_is_followed_slowly(off_ms: int, sign: int) -> None:
    time = Time()
    clock = time.clock()
    time.wall_ms += off_ms
    time.passes(100_000)
    assert clock() == START_MS + 100_000 + sign * 50  # 500 in a million


def test_a_small_drift_is_followed_to_its_end_and_no_further() -> None:
    time = Time()
    clock = time.clock()
    time.wall_ms += 10
    for _ in range(100):
        time.passes(1_000)
        clock()
    assert clock() == time.wall_ms == START_MS + 100_010


def test_without_arguments_it_shows_the_time_of_this_machine() -> None:
    clock = SteadyClock()
    first = clock()
    assert first > START_MS - 10**12
    assert clock() >= first


# --- the hybrid clock -----------------------------------------------------------------------------


def caller(wall_ms: int, counter: int = 0) -> CallerStamp:
    return CallerStamp(wall_ms=wall_ms, counter=counter, node="far")


PROPOSALS = [
    # physical, last wall, last counter, caller -> wall, counter
    (100, 50, 7, None, (100, 0)),
    (100, 100, 7, None, (100, 8)),
    (50, 100, 7, None, (100, 8)),
    (100, 50, 7, caller(90, 9), (100, 0)),
    (100, 50, 7, caller(100, 9), (100, 10)),
    (100, 100, 20, caller(100, 9), (100, 21)),
    (100, 50, 7, caller(200, 9), (200, 10)),
    (100, 50, 7, caller(100 + DRIFT_MS, 9), (100 + DRIFT_MS, 10)),
    (100, 50, 7, caller(101 + DRIFT_MS, 9), (100, 0)),
    (100, 50, 7, caller(200, limits.COUNTER_MAX), (201, 0)),
    (100, 100, limits.COUNTER_MAX, None, (101, 0)),
]


@together(("physical_ms", "wall_ms", "counter", "other", "found"), PROPOSALS)
def test_a_stamp_is_the_latest_of_what_is_known(
    physical_ms: int,
    wall_ms: int,
    counter: int,
    other: CallerStamp | None,
    found: tuple[int, int],
) -> None:
    clock = HybridClock("n", lambda: physical_ms, wall_ms, counter)
    assert clock.next_stamp(3, caller=other) == Stamp(3, *found, "n")


def test_a_frozen_moment_stands_in_for_the_clock_and_a_timeless_row_reads_none() -> None:
    clock = HybridClock("n", lambda: pytest.fail("the clock was read"), 50, 7)
    assert clock.next_stamp(1, now_ms=70) == Stamp(1, 70, 0, "n")
    assert clock.next_stamp(1, now_ms=30) == Stamp(1, 50, 8, "n")
    assert clock.next_stamp(1, timeless=True) == Stamp(1, 50, 8, "n")
    assert clock.next_stamp(1, timeless=True, now_ms=70) == Stamp(1, 50, 8, "n")


def test_a_proposal_moves_nothing_until_it_is_accepted() -> None:
    clock = HybridClock("n", lambda: 100)
    assert clock.next_stamp(1) == clock.next_stamp(1)
    clock.advance(clock.next_stamp(1))
    assert clock.next_stamp(2) == Stamp(2, 100, 1, "n")
    with pytest.raises(AssertionError, match="I1"):
        clock.advance(Stamp(2, 100, 0, "n"))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2_000),
            st.none() | st.builds(caller, st.integers(0, 3_000), st.integers(0, 65_535)),
            st.booleans(),
        )
    )
)
def test_stamps_strictly_grow_whatever_the_clocks_say(
    readings: list[tuple[int, CallerStamp | None, bool]],
) -> None:
    physical_ms = 0
    clock = HybridClock("n", lambda: physical_ms)
    last = (0, 0)
    for seq, (physical_ms, other, timeless) in enumerate(readings, 1):  # noqa: B007 - the clock reads it
        stamp = clock.next_stamp(seq, caller=other, timeless=timeless)
        assert (stamp.wall_ms, stamp.counter) > last
        assert stamp.counter <= limits.COUNTER_MAX
        last = (stamp.wall_ms, stamp.counter)
        clock.advance(stamp)


# --- in the authority -----------------------------------------------------------------------------


def test_stamps_grow_over_a_restart_with_a_clock_that_was_set_back() -> None:
    desk = Desk()
    before = desk.grant("issue.add", title="t")["stamp"]
    desk.time.wall_ms -= 3_600_000
    desk.restart()
    after = desk.grant("issue.add", title="t")["stamp"]
    assert after == {"wallMs": before["wallMs"], "counter": before["counter"] + 1, "node": "n1"}
    desk.prove()


def test_callers_together_cannot_push_the_clock_beyond_the_drift_bound() -> None:
    """I2: else anybody can talk the clock past another's deadline, half a second at a time."""
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    wall_ms = START_MS
    for _ in range(100):
        stamp = {"wallMs": wall_ms + DRIFT_MS, "counter": 0, "node": "far"}
        request = asked("issue.add", {"title": "t"}, context={"stamp": stamp})
        _, rows = desk.authority.submit([request])
        wall_ms = rows[0].wall_ms
    assert wall_ms <= START_MS + DRIFT_MS
    desk.grant("issue.update", **ann, title="no time has passed")


def test_an_import_may_carry_its_callers_stamp() -> None:
    desk = Desk()
    stamp = {"wallMs": START_MS, "counter": 0, "node": "far"}
    request = asked("policy.set", {}, context={"stamp": stamp}, door="cli")
    answers, _ = desk.authority.submit([request])
    assert b'"result":"accepted"' in answers[0]


def test_the_end_of_time_is_a_refusal_and_not_an_exception() -> None:
    desk = Desk()
    desk.authority.submit([asked("issue.add", {"id": "a", "title": "t"}, now=limits.NOW_MS_MAX)])
    longest = {"id": "a", "assignee": "ann", "leaseTtlSeconds": limits.TTL_SECONDS_MAX}
    stamp = {"wallMs": limits.NOW_MS_MAX + DRIFT_MS, "counter": 0, "node": "far"}
    claim = asked("issue.claim", longest, context={"stamp": stamp}, now=limits.NOW_MS_MAX)
    desk.authority.submit([claim])
