"""When leases of clients are renewed, given back and given up, on a clock of our own."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.surfaces.mcp.holds import RETRY_MS, Policy, Stay
from understudy.surfaces.mcp.visit import Held

TTL = 30
LEASE = Held("us-1", "ann", "lease-1", 7, TTL)


def _stay(**policy: object) -> Stay:
    stay = Stay(Policy(**policy), 0)  # type: ignore[arg-type]
    assert stay.keep(LEASE, 0, dice=0.0)
    return stay


@pytest.mark.parametrize(("dice", "due_ms"), [(0.0, 10_000), (0.5, 9_000), (1.0, 8_000)])
def test_a_lease_is_due_at_a_third_of_its_time_or_a_little_before(dice: float, due_ms: int) -> None:
    stay = Stay(Policy(), 0)
    stay.keep(LEASE, 0, dice)
    assert stay.due(due_ms - 1, is_awake=True) == []
    assert stay.due(due_ms, is_awake=True) == [LEASE]


def test_what_is_on_its_way_is_not_due_until_somebody_says_what_came_of_it() -> None:
    stay = _stay()
    assert stay.due(10_000, is_awake=True) == [LEASE]
    assert stay.due(12_000, is_awake=True) == []
    stay.not_now(LEASE, 12_000)
    assert stay.due(12_000 + RETRY_MS - 1, is_awake=True) == []
    assert stay.due(12_000 + RETRY_MS, is_awake=True) == [LEASE]
    stay.renewed(LEASE, 13_000, dice=0.0)
    assert stay.due(22_999, is_awake=True) == []
    assert stay.due(23_000, is_awake=True) == [LEASE]


def test_nothing_is_renewed_for_a_client_that_sleeps_or_has_left() -> None:
    stay = _stay()
    assert stay.due(10_000, is_awake=False) == []
    stay.leave(10_000)
    assert stay.due(10_000, is_awake=True) == []
    stay.back(12_000)
    assert stay.due(12_000, is_awake=True) == [LEASE]


def test_nothing_is_renewed_beyond_the_longest_hold() -> None:
    stay = _stay(max_hold_ms=25_000)
    assert stay.due(10_000, is_awake=True) == [LEASE]
    stay.renewed(LEASE, 10_000, dice=0.0)
    stay.keep(LEASE, 20_000, dice=0.0)  # the client has renewed it too; that is no new hold
    assert stay.due(30_000, is_awake=True) == []
    assert stay.lapsed(50_000) == []  # on the tick itself it still holds
    assert stay.lapsed(50_001) == [LEASE]
    assert not len(stay)


def test_by_heartbeat_a_lease_is_renewed_only_for_who_says_something() -> None:
    stay = _stay(keep="heartbeat", quiet_ms=9_000)
    assert stay.due(10_000, is_awake=True) == []
    stay.heard(11_000)
    assert stay.due(11_000, is_awake=True) == [LEASE]


def test_a_visit_is_over_a_while_after_its_client_has_left() -> None:
    stay = _stay(grace_ms=5_000)
    assert not stay.is_over(1_000_000)
    stay.leave(20_000)
    assert not stay.is_over(24_999)
    assert stay.is_over(25_000)
    stay.back(24_999)
    assert not stay.is_over(25_000)


def test_what_another_gateway_kept_is_asked_for_at_once_and_has_its_old_age() -> None:
    stay = Stay(Policy(max_hold_ms=60_000), 100_000)
    stay.resume(LEASE, 100_000, since_ms=50_000)
    assert stay.due(100_000, is_awake=True) == [LEASE]
    stay.renewed(LEASE, 100_000, dice=0.0)
    assert stay.due(110_000, is_awake=True) == []
    liar = Held("us-2", "ann", "lease-2", 8, TTL)
    stay.resume(liar, 110_000, since_ms=10**12)
    assert stay.since_ms(liar) == 110_000


def test_a_client_may_ask_for_less_than_its_operator_allows_and_never_for_more() -> None:
    allowed = Policy(max_hold_ms=60_000, on_leave="release")
    wish = {"onLeave": "expire", "keep": "heartbeat", "maxHoldSeconds": 10, "quietSeconds": 20}
    assert allowed.narrowed(wish) == Policy("heartbeat", "expire", 10_000, 20_000)
    greedy = {"maxHoldSeconds": 10**6, "quietSeconds": 10**6, "keep": "alive", "onLeave": "never"}
    strict = Policy(keep="heartbeat", max_hold_ms=60_000)
    assert strict.narrowed(greedy) == strict
    assert allowed.narrowed({"maxHoldSeconds": True, "quietSeconds": "7", "keep": 3}) == allowed


@given(st.integers(0, 2**32), st.integers(30, 600), st.integers(1, 8))
def test_a_live_client_never_loses_what_an_authority_gives_it(
    seed: int, ttl_seconds: int, holds: int
) -> None:
    """Twenty minutes of a client that lives, with an authority that is away now and then."""
    dice = random.Random(seed)
    policy = Policy(max_hold_ms=10**9)
    stay = Stay(policy, 0)
    deadlines: dict[Held, int] = {}
    for number in range(holds):
        held = Held(f"us-{number}", "ann", f"lease-{number}", number, ttl_seconds)
        stay.keep(held, 0, dice.random())
        deadlines[held] = ttl_seconds * 1000
    away_until_ms = 0
    for now_ms in range(0, 1_200_000, 1_000):
        if now_ms >= away_until_ms + 500 * ttl_seconds and dice.random() < 0.05:
            away_until_ms = now_ms + dice.randrange(500 * ttl_seconds)
        for held in stay.due(now_ms, is_awake=True):
            assert now_ms <= deadlines[held]
            if now_ms < away_until_ms:
                stay.not_now(held, now_ms)
            else:
                deadlines[held] = now_ms + ttl_seconds * 1000
                stay.renewed(held, now_ms, dice.random())
        assert stay.lapsed(now_ms) == []
    assert len(stay) == holds
