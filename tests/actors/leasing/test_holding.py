"""One lease by its holder's own clock: early, never late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.actors.leasing import HeldLease, Holding, Moment, Timing, due
from understudy.actors.leasing.renewing import Renewals
from understudy.contracts import limits

LEASE = HeldLease("a", "ada", "l", 7)
TIMING = Timing(60_000, 5_000)
TTLS = st.integers(limits.TTL_SECONDS_MIN * 1_000, limits.TTL_SECONDS_MAX * 1_000)
DICE = st.integers(0, 1_000)


def at(ms: int, dice: int = 0) -> Moment:
    return Moment(ms, lambda: dice)


def held(asked_ms: int = 0, heard_ms: int | None = None, timing: Timing = TIMING) -> Holding:
    heard_ms = asked_ms if heard_ms is None else heard_ms
    return Holding.granted(LEASE, timing, asked_ms, at(heard_ms))


@given(TTLS, DICE, st.integers(0, 10**9), st.integers(0, 10**6))
def test_what_is_done_under_a_lease_ends_before_the_authority_thinks_so(
    ttl_ms: int, dice: int, asked_ms: int, late_ms: int
) -> None:
    timing = Timing(ttl_ms, ttl_ms // 3)
    lease = Holding.granted(LEASE, timing, asked_ms, at(asked_ms + late_ms, dice))
    assert asked_ms + ttl_ms * 3 // 10 - 1 <= lease.renew_ms <= asked_ms + ttl_ms // 3
    assert lease.renew_ms < lease.stop_ms < lease.until_ms
    assert lease.until_ms + limits.CLOCK_DRIFT_MS_MAX <= asked_ms + ttl_ms, "I2"
    assert lease.stop_ms + timing.grace_ms < lease.until_ms, "I3"


def test_an_answer_that_was_long_under_way_is_believed_for_no_longer() -> None:
    assert held(1_000, 9_000).until_ms == held(1_000).until_ms
    lease = held()
    assert lease.extend(20_000, at(31_000))
    assert lease.until_ms == TIMING.until_ms(20_000)
    assert lease.renew_ms == 40_000


def test_of_two_extensions_the_one_that_was_asked_for_last_counts() -> None:
    lease = held()
    assert lease.extend(25_000, at(26_000))
    assert not lease.extend(20_000, at(27_000)), "an answer that was overtaken"
    assert lease.asked_ms == 25_000


def test_an_extension_without_an_answer_is_asked_for_again() -> None:
    lease = held()
    lease.asking(20_000)
    assert lease.renew_ms == 20_000 + TIMING.again_ms
    for dice, part in ((0, 2), (1_000, 4)):
        lease.put_off(at(21_000, dice))
        assert lease.renew_ms == 21_000 + TIMING.again_ms // part
    assert lease.until_ms == TIMING.until_ms(0), "and the time that is left is the same"


# --- renewing -------------------------------------------------------------------------------------


def test_nothing_is_asked_for_before_one_is_due_and_then_all_that_are_nearly() -> None:
    first, second, third = held(0), held(4_000), held(30_000)
    assert due([first, second, third], 19_999) == []
    assert due([first, second, third], 20_000) == [first, second]
    for each in (first, second):
        each.asking(20_000)
    assert due([first, second, third], 24_999) == [], "what is on its way is not due"
    assert due([first, second, third], 25_000) == [first, second]


def test_leases_of_all_lengths_and_of_many_callers_go_together() -> None:
    short, long = held(timing=Timing(30_000)), held(timing=Timing(3_600_000))
    long.renew_ms = 100_000
    assert due([long, short], 10_000) == [long, short]


def test_a_renewal_counts_once_and_from_when_it_was_asked_for() -> None:
    renewals, lease = Renewals[Holding](), held()
    renewals.ask("t1", lease, 20_000)
    renewals.ask("t2", lease, 25_000)
    assert renewals.granted(["t2", "t9"], at(26_000)) == [lease]
    assert lease.until_ms == TIMING.until_ms(25_000)
    assert renewals.granted(["t1", "t2"], at(27_000)) == [], "overtaken, and answered before"


@pytest.mark.parametrize("what", ["refused", "put off", "dropped"])
def test_an_answer_that_is_not_waited_for_finds_nothing(what: str) -> None:
    renewals, lease = Renewals[Holding](), held()
    renewals.ask("t", lease, 20_000)
    match what:
        case "refused":
            assert renewals.refused("t") is lease
        case "put off":
            renewals.put_off("t", at(21_000))
            assert lease.renew_ms == 21_000 + TIMING.again_ms // 2
        case _:
            renewals.drop(lease)
    assert renewals.refused("t") is None
    assert renewals.granted(["t"], at(22_000)) == []
    renewals.put_off("t", at(23_000))
    assert lease.asked_ms == 0
