"""When leases of clients are renewed, given back and given up, on a clock of our own."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.limits import stands_on
from understudy.actors.agents.holds import AgentHold, AgentHolds, KeepPolicy
from understudy.actors.leasing import renewing
from understudy.actors.leasing.moment import DICE_MAX, Moment
from understudy.actors.leasing.work_kind import HeldLease
from understudy.contracts import limits

TTL_MS = 30_000
LEASE = HeldLease("us-1", "ann", "lease-1", 7)


def _at(ms: int, dice: int = 0) -> Moment:
    return Moment(ms, lambda: dice)


def _holds(**policy: object) -> AgentHolds:
    holds = AgentHolds("a", KeepPolicy(**policy), 0)  # type: ignore[arg-type]  # members by name
    assert holds.keep(LEASE, TTL_MS, 0, None, _at(0))
    return holds


def _due(holds: AgentHolds, now_ms: int, *, is_awake: bool = True) -> list[AgentHold]:
    return renewing.due(holds.renewable(now_ms, is_awake=is_awake), now_ms)


@pytest.mark.parametrize(("dice", "due_ms"), [(0, 10_000), (DICE_MAX, 9_000)])
def test_a_lease_is_due_at_a_third_of_its_time_or_a_little_before(dice: int, due_ms: int) -> None:
    holds = AgentHolds("a", KeepPolicy(), 0)
    hold = holds.keep(LEASE, TTL_MS, 0, None, _at(0, dice))
    assert _due(holds, due_ms - 1) == []
    assert _due(holds, due_ms) == [hold]


def test_a_term_counts_from_when_it_was_asked_for_and_not_from_when_it_was_heard() -> None:
    holds = AgentHolds("a", KeepPolicy(), 0)
    hold = holds.keep(LEASE, TTL_MS, 1_000, None, _at(25_000))
    assert hold is not None
    assert hold.until_ms < 1_000 + TTL_MS
    assert _due(holds, 25_000) == [hold]
    assert holds.lapsed(1_000 + TTL_MS) == [hold]


def test_what_is_on_its_way_is_not_due_until_it_is_known_what_came_of_it() -> None:
    holds = _holds()
    (hold,) = _due(holds, 10_000)
    hold.is_out = True
    assert _due(holds, 20_000) == []
    hold.is_out = False
    hold.put_off(_at(20_000))
    assert _due(holds, 20_001) == []
    assert _due(holds, 20_000 + TTL_MS // 12) == [hold]
    assert hold.extend(21_000, _at(21_000))
    assert _due(holds, 30_999) == []
    assert _due(holds, 31_000) == [hold]


def test_nothing_is_renewed_for_a_client_that_sleeps_or_has_left() -> None:
    holds = _holds()
    assert _due(holds, 10_000, is_awake=False) == []
    holds.leave(10_000)
    assert _due(holds, 10_000) == []
    holds.back(12_000)
    assert len(_due(holds, 12_000)) == 1


def test_nothing_is_renewed_beyond_the_longest_hold() -> None:
    holds = _holds(max_hold_ms=25_000)
    assert len(_due(holds, 10_000)) == 1
    hold = holds.keep(LEASE, TTL_MS, 20_000, None, _at(20_000))  # the client has renewed it too
    assert hold is not None
    assert hold.since_ms == 0, "that is no new hold"
    assert _due(holds, 30_000) == []
    assert holds.lapsed(hold.until_ms) == []  # on the tick itself it still holds
    assert holds.lapsed(hold.until_ms + 1) == [hold]


def test_by_heartbeat_a_lease_is_renewed_only_for_who_says_something() -> None:
    holds = _holds(keep="heartbeat", quiet_ms=9_000)
    assert _due(holds, 10_000) == []
    holds.heard(11_000)
    assert len(_due(holds, 11_000)) == 1


def test_a_stay_is_over_a_while_after_its_client_has_left() -> None:
    holds = _holds(grace_ms=5_000)
    assert not holds.is_over(1_000_000)
    holds.leave(20_000)
    assert not holds.is_over(24_999)
    assert holds.is_over(25_000)
    holds.back(24_999)
    assert not holds.is_over(25_000)


def test_what_another_gateway_kept_is_asked_for_at_once_and_has_its_old_age() -> None:
    holds = AgentHolds("a", KeepPolicy(max_hold_ms=60_000), 100_000)
    holds.resume(LEASE, TTL_MS, 50_000, None, 100_000)
    (hold,) = _due(holds, 100_000)
    hold.extend(100_001, _at(100_001))
    assert _due(holds, 110_001) == []
    liar = HeldLease("us-2", "ann", "lease-2", 8)
    holds.resume(liar, TTL_MS, 10**12, None, 110_000)
    assert [each.since_ms for each in holds] == [50_000, 110_000]


@pytest.mark.parametrize(
    ("owner", "lease_id", "is_dropped"),
    [(None, None, True), ("ann", "lease-1", True), ("bob", None, False), (None, "other", False)],
)
def test_a_refusal_ends_the_lease_that_was_shown_and_no_other(
    owner: str | None, lease_id: str | None, is_dropped: bool
) -> None:
    """A client that shows a wrong owner with the right fence has not lost what it holds."""
    holds = _holds()
    assert holds.drop("issue/us-1", 7, owner, lease_id) == is_dropped
    assert (holds.find(LEASE) is None) == is_dropped


def test_a_client_may_ask_for_less_than_its_operator_allows_and_never_for_more() -> None:
    allowed = KeepPolicy(max_hold_ms=60_000, on_leave="release")
    wish = {"onLeave": "expire", "keep": "heartbeat", "maxHoldSeconds": 10, "quietSeconds": 20}
    assert allowed.narrowed(wish) == KeepPolicy("heartbeat", "expire", 10_000, 20_000)
    greedy = {"maxHoldSeconds": 10**6, "quietSeconds": 10**6, "keep": "alive", "onLeave": "never"}
    strict = KeepPolicy(keep="heartbeat", max_hold_ms=60_000)
    assert strict.narrowed(greedy) == strict
    assert allowed.narrowed({"maxHoldSeconds": True, "quietSeconds": "7", "keep": 3}) == allowed


@given(st.integers(0, 2**32), st.integers(30, 600), st.integers(1, 8))
def test_a_live_client_never_loses_what_an_authority_gives_it(
    seed: int, ttl_seconds: int, count: int
) -> None:
    """Twenty minutes of a client that lives, with an authority that is away now and then."""
    chance = random.Random(seed)
    holds, ttl_ms = AgentHolds("a", KeepPolicy(max_hold_ms=10**9), 0), ttl_seconds * 1000

    def moment(ms: int) -> Moment:
        return Moment(ms, lambda: chance.randrange(DICE_MAX + 1))

    deadlines: dict[int, int] = {}
    for number in range(count):
        held = HeldLease(f"us-{number}", "ann", f"lease-{number}", number)
        holds.keep(held, ttl_ms, 0, None, moment(0))
        deadlines[number] = ttl_ms
    away_until_ms = 0
    for now_ms in range(0, 1_200_000, 1_000):
        if now_ms >= away_until_ms + ttl_ms // 2 and chance.random() < 0.05:
            away_until_ms = now_ms + chance.randrange(ttl_ms // 2)
        for hold in _due(holds, now_ms):
            assert now_ms <= deadlines[hold.lease.fence]
            if now_ms < away_until_ms:
                hold.put_off(moment(now_ms))
            else:
                deadlines[hold.lease.fence] = now_ms + ttl_ms
                hold.extend(now_ms, moment(now_ms))
        assert holds.lapsed(now_ms) == []
    assert len(holds) == count


@stands_on("MCP_HOLDS_MAX")
def test_so_many_leases_are_renewed_for_one_agent() -> None:
    holds = AgentHolds("a", KeepPolicy(), 0)

    def keep(lease: HeldLease) -> bool:
        return holds.keep(lease, 30_000, 0, None, _at(0)) is not None

    for number in range(limits.MCP_HOLDS_MAX):
        assert keep(HeldLease(f"us-{number}", "ann", "lease", number))
    more = HeldLease("more", "ann", "lease", 10_000)
    assert not keep(more)
    holds.resume(more, 30_000, 0, None, 0)
    assert len(holds) == limits.MCP_HOLDS_MAX
    assert keep(HeldLease("us-0", "ann", "lease", 0))
