"""A running sidecar whose wall clock is set: leases last as long as the steady clock says."""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson
import pytest

from tests.faults.clockwork import Clocks
from tests.faults.served import Caller, Served
from tests.long import few
from understudy.authority import TRAJECTORY, open_journal
from understudy.authority.views.replay import replay
from understudy.authority.views.trajectory import verify
from understudy.contracts import limits

START_MS = 1_800_000_000_000
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
TTL_MS = limits.TTL_SECONDS_MIN * 1000
SLEW_MS = TTL_MS // 2000 + 1  # how much a drifting wall clock may shorten or lengthen a lease
DRIFT_MS = limits.CLOCK_DRIFT_MS_MAX
JUMPS_MS = (HOUR_MS, -HOUR_MS, 10 * MINUTE_MS, -10 * MINUTE_MS, 24 * HOUR_MS)
SEEDS = range(2)
CONTENTION = "lease_contention_active"


@pytest.fixture
def clocks(tmp_path: Path) -> Clocks:
    return Clocks(tmp_path / "clocks", START_MS)


@pytest.fixture(autouse=True)
def _in_the_end(state_dir: Path) -> Iterator[None]:
    """Whatever the clocks did: stamps grow, and the journal replays."""
    yield
    with open_journal(state_dir, read_only=True) as journal:
        stamps = [(row.wall_ms, row.counter) for row in journal.read()]
        assert stamps == sorted(set(stamps))
        assert len(stamps) > 2
        assert replay(journal).mismatch is None
        assert verify(state_dir / TRAJECTORY, journal) == (len(stamps), None)


class Desk:
    """A sidecar with these clocks, and a caller that asks it."""

    def __init__(self, state_dir: Path, clocks: Clocks) -> None:
        self._served = Served(
            state_dir, program=(sys.executable, "-m", "tests.faults.clockwork", clocks.path)
        )

    def __enter__(self) -> Self:
        self._served.__enter__()
        self._caller = Caller(self._served.state_dir)
        return self

    def __exit__(self, *error: object) -> None:
        self._caller.__exit__(None, None, None)
        code = self._served.terminate()
        said = self._served.complaint()
        self._served.__exit__(None, None, None)
        assert code == 0, said

    def ask(self, action: str, /, **payload: object) -> dict[str, Any]:
        return self._caller.ask(action, **payload)

    def stamped(self, wall_ms: int) -> dict[str, Any]:
        """A request with a stamp of its caller's."""
        context = {"stamp": {"wallMs": wall_ms, "counter": 0, "node": "far"}}
        request = {"action": "issue.add", "payload": {"title": "t"}, "context": context}
        self._caller.send(request)
        answer: dict[str, Any] = orjson.loads(self._caller.line())
        return answer

    def claim(self, assignee: str, issue: str = "w") -> dict[str, Any]:
        ttl = limits.TTL_SECONDS_MIN
        return self.ask("issue.claim", id=issue, assignee=assignee, leaseTtlSeconds=ttl)

    def renew(self, claim: dict[str, Any]) -> dict[str, Any]:
        lease, ttl = claim["issue"]["lease"], limits.TTL_SECONDS_MIN
        holder = {"assignee": claim["issue"]["assignee"], "leaseId": lease["leaseId"]}
        issue, fence = claim["issue"]["id"], lease["fence"]
        return self.ask("issue.lease_renew", id=issue, fence=fence, leaseTtlSeconds=ttl, **holder)


def refusal(answer: dict[str, Any]) -> str | None:
    return answer["failureClasses"][0] if answer["failureClasses"] else None


def fence_of(claim: dict[str, Any]) -> int:
    assert refusal(claim) is None, claim["diagnostic"]
    return int(claim["issue"]["lease"]["fence"])


# --- set while it runs ----------------------------------------------------------------------------


def test_a_wall_clock_that_is_set_ends_no_lease_early_and_keeps_none_longer(
    state_dir: Path, clocks: Clocks
) -> None:
    with Desk(state_dir, clocks) as desk:
        for place, jump_ms in enumerate(JUMPS_MS):
            issue = f"w{place}"
            desk.ask("issue.add", id=issue, title="work")
            first = desk.claim("ada", issue)
            clocks.set_wall(jump_ms)
            assert refusal(desk.claim("bob", issue)) == CONTENTION
            clocks.passes(TTL_MS)
            assert refusal(desk.claim("bob", issue)) == CONTENTION, "on the tick it still holds"
            clocks.passes(1)
            assert fence_of(desk.claim("bob", issue)) > fence_of(first)
            assert refusal(desk.renew(first)) == "lease_fence_stale"


def test_a_wall_clock_that_is_set_and_set_right_again_is_as_if_nothing_was(
    state_dir: Path, clocks: Clocks
) -> None:
    with Desk(state_dir, clocks) as desk:
        for place, jump_ms in enumerate(JUMPS_MS):
            issue = f"w{place}"
            desk.ask("issue.add", id=issue, title="work")
            first = desk.claim("ada", issue)
            clocks.set_wall(jump_ms)
            clocks.passes(TTL_MS // 2)
            assert refusal(desk.renew(first)) is None
            clocks.set_wall(-jump_ms)
            clocks.passes(TTL_MS)
            assert refusal(desk.claim("bob", issue)) == CONTENTION, "it was renewed"
            clocks.passes(1)
            answer = desk.claim("bob", issue)
            assert fence_of(answer) > fence_of(first)
            assert answer["stamp"]["wallMs"] == clocks.wall_ms


def test_a_wall_clock_that_stands_still_ends_no_lease_early_and_none_too_late(
    state_dir: Path, clocks: Clocks
) -> None:
    with Desk(state_dir, clocks) as desk:
        desk.ask("issue.add", id="w", title="work")
        first = desk.claim("ada")
        for _ in range(TTL_MS // 100):
            clocks.passes(100)
            clocks.set_wall(-100)
            assert refusal(desk.claim("bob")) == CONTENTION
        clocks.passes(SLEW_MS)
        assert fence_of(desk.claim("bob")) > fence_of(first)


def test_a_wall_clock_that_trembles_is_not_followed_at_every_turn(
    state_dir: Path, clocks: Clocks
) -> None:
    chance = random.Random(7)
    with Desk(state_dir, clocks) as desk:
        desk.ask("issue.add", id="w", title="work")
        desk.claim("ada")
        for _ in range(TTL_MS // 100 - 1):
            clocks.passes(100)
            clocks.set_wall(START_MS + clocks.steady_ms - clocks.wall_ms)
            clocks.set_wall(chance.choice((-1, 1)) * chance.choice((3, 400, 999, 5_000)))
            answer = desk.claim("bob")
            assert refusal(answer) == CONTENTION
            off_ms = answer["stamp"]["wallMs"] - START_MS - clocks.steady_ms
            assert abs(off_ms) <= SLEW_MS
        clocks.passes(100 + SLEW_MS)
        assert refusal(desk.claim("bob")) is None


# --- set at any time ------------------------------------------------------------------------------


@dataclass
class Term:
    """Who holds an issue since when, by the steady clock."""

    claim: dict[str, Any]
    since_ms: int


@pytest.mark.parametrize("seed", few(SEEDS))
def test_no_lease_is_given_twice_however_the_wall_clock_is_set(
    state_dir: Path, clocks: Clocks, seed: int
) -> None:
    chance = random.Random(seed)
    terms: dict[str, Term] = {}
    fences: list[int] = []
    with Desk(state_dir, clocks) as desk:
        for issue in "xyz":
            desk.ask("issue.add", id=issue, title="work")
        for _ in range(400):
            if chance.random() < 0.3:
                clocks.set_wall(chance.choice(JUMPS_MS) // chance.choice((1, 7, 5_000)))
            clocks.passes(chance.choice((0, 1, 500, 4_000, 11_000)))
            issue = chance.choice("xyz")
            term = terms.get(issue)
            if term is not None and chance.random() < 0.3:
                answer = desk.renew(term.claim)
                lives = refusal(answer) is None
            else:
                answer = desk.claim(chance.choice(("ada", "bob", "cyd")), issue)
                lives = refusal(answer) is not None or _is_same(answer, term)
                fences += [] if lives else [fence_of(answer)]
            _judge(term, clocks.steady_ms, lives=lives)
            if refusal(answer) is None:
                terms[issue] = Term(answer, clocks.steady_ms)
    assert fences == sorted(set(fences))
    assert len(fences) > 20


def _is_same(answer: dict[str, Any], term: Term | None) -> bool:
    return term is not None and fence_of(answer) == fence_of(term.claim)


def _judge(term: Term | None, steady_ms: int, *, lives: bool) -> None:
    if term is None:
        assert not lives
    elif lives:
        assert steady_ms - term.since_ms <= TTL_MS + SLEW_MS, "it should have lapsed"
    else:
        assert steady_ms - term.since_ms > TTL_MS - SLEW_MS, "it lapsed too early"


# --- set while nothing runs -----------------------------------------------------------------------


def test_after_a_start_with_a_clock_that_was_set_back_time_stands_still_until_it_has_caught_up(
    state_dir: Path, clocks: Clocks
) -> None:
    with Desk(state_dir, clocks) as desk:
        desk.ask("issue.add", id="w", title="work")
        first = desk.claim("ada")
    clocks.set_wall(-HOUR_MS)
    with Desk(state_dir, clocks) as desk:
        for ms in (0, MINUTE_MS, HOUR_MS - MINUTE_MS):
            clocks.passes(ms)
            answer = desk.claim("bob")
            assert refusal(answer) == CONTENTION
            assert answer["stamp"]["wallMs"] == START_MS, "it waits"
            assert refusal(desk.renew(first)) is None
        clocks.passes(TTL_MS)
        assert refusal(desk.claim("bob")) == CONTENTION, "on the tick it still holds"
        clocks.passes(1)
        assert fence_of(desk.claim("bob")) > fence_of(first)
        assert refusal(desk.renew(first)) == "lease_fence_stale"


def test_after_a_start_with_a_clock_that_was_set_forward_leases_lapse_and_the_fence_keeps_them_out(
    state_dir: Path, clocks: Clocks
) -> None:
    with Desk(state_dir, clocks) as desk:
        desk.ask("issue.add", id="w", title="work")
        first = desk.claim("ada")
    clocks.set_wall(HOUR_MS)
    with Desk(state_dir, clocks) as desk:
        assert refusal(desk.renew(first)) == "lease_stale"
        second = desk.claim("bob")
        assert fence_of(second) > fence_of(first)
        assert second["stamp"]["wallMs"] == START_MS + HOUR_MS
        assert refusal(desk.renew(first)) == "lease_fence_stale"
    clocks.set_wall(-HOUR_MS)
    with Desk(state_dir, clocks) as desk:
        assert refusal(desk.renew(first)) == "lease_fence_stale", "it is not set back"
        assert desk.renew(second)["stamp"]["wallMs"] == START_MS + HOUR_MS


@pytest.mark.parametrize("seed", few(SEEDS))
def test_stamps_and_fences_grow_over_starts_at_any_time(
    state_dir: Path, clocks: Clocks, seed: int
) -> None:
    chance = random.Random(seed)
    fences = []
    for place in range(4):
        clocks.set_wall(chance.choice(JUMPS_MS))
        with Desk(state_dir, clocks) as desk:
            desk.ask("issue.add", id=f"i{place}", title="work")
            clocks.set_wall(chance.choice(JUMPS_MS))
            fences.append(fence_of(desk.claim("ada", f"i{place}")))
    assert fences == sorted(set(fences))


# --- a caller with another clock ------------------------------------------------------------------


def test_a_caller_that_is_too_far_ahead_is_refused_before_it_moves_the_clock(
    state_dir: Path, clocks: Clocks
) -> None:
    with Desk(state_dir, clocks) as desk:
        desk.ask("issue.add", id="w", title="work")
        desk.claim("ada")
        for ahead_ms in (DRIFT_MS + 1, 10 * MINUTE_MS, HOUR_MS):
            answer = desk.stamped(START_MS + ahead_ms)
            assert refusal(answer) == "clock_drift_exceeded"
            assert answer["stamp"]["wallMs"] == START_MS
        assert desk.claim("bob")["stamp"]["wallMs"] == START_MS


def test_many_callers_within_the_bound_lead_the_clock_no_further_than_the_bound(
    state_dir: Path, clocks: Clocks
) -> None:
    with Desk(state_dir, clocks) as desk:
        desk.ask("issue.add", id="w", title="work")
        desk.claim("ada")
        for _ in range(50):
            wall_ms = desk.claim("bob")["stamp"]["wallMs"]
            answer = desk.stamped(wall_ms + DRIFT_MS)
            assert answer["stamp"]["wallMs"] <= START_MS + DRIFT_MS
        clocks.passes(TTL_MS - DRIFT_MS)
        assert refusal(desk.claim("bob")) == CONTENTION


def test_a_wall_clock_that_is_set_does_not_move_the_bound(state_dir: Path, clocks: Clocks) -> None:
    with Desk(state_dir, clocks) as desk:
        desk.ask("issue.add", id="w", title="work")
        clocks.set_wall(HOUR_MS)
        assert refusal(desk.stamped(clocks.wall_ms)) == "clock_drift_exceeded"
        assert refusal(desk.stamped(START_MS + DRIFT_MS)) is None
