"""The checker that judges clients' logs is judged itself: by histories whose verdict is known."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from math import inf

import pytest

from tests.faults import linearize
from tests.faults.history import _misplaced, _shared
from tests.faults.register import Heard, Kind, Op, Register, step
from tests.together import together

TTL_MS = 100
BUSY = "lease_contention_active"


def ok(kind: Kind, who: str, start: float, end: float, fence: int, *, at: int | None = None) -> Op:
    """Accepted at `at`, on its `start` unless said, under a fence that was shown or is given."""
    at = int(start) if at is None else at
    timed = kind in {"claim", "renew"}
    heard = Heard(None, (at, 0), fence, None, at + TTL_MS if timed else None)
    return Op(kind, who, start, end, heard, None if kind == "claim" else fence, TTL_MS)


def no(
    kind: Kind, who: str, start: float, end: float, failure: str,
    *, met: int | None = None, shown: int | None = None, at: int | None = None,
) -> Op:  # fmt: skip
    """Refused; `met` is the fence that the refusal names."""
    heard = Heard(failure, (int(start) if at is None else at, 0), met)
    return Op(kind, who, start, end, heard, shown, TTL_MS)


def lost(kind: Kind, who: str, start: float, fence: int | None = None) -> Op:
    """It was not heard what became of it."""
    return Op(kind, who, start, inf, None, fence, TTL_MS)


def look(start: float, end: float, owner: str | None, fence: int | None) -> Op:
    return Op("show", "eye", start, end, Heard(None, (int(start), 0), fence, owner))


def verdict(ops: Sequence[Op]) -> str | None:
    return linearize.problem(ops, Register(), step)


ADA = ok("claim", "ada", 1, 2, 5)
LEFT = ok("release", "ada", 11, 12, 5)
BOB = ok("claim", "bob", 21, 22, 9)

GOOD: dict[str, list[Op]] = {
    "nothing": [],
    "one after the other": [ADA, LEFT, BOB],
    "refused while it is held": [ADA, no("claim", "bob", 5, 6, BUSY, met=5), LEFT],
    "granted during the release": [ADA, LEFT, ok("claim", "bob", 10, 14, 9, at=12)],
    "granted during the claim before it": [
        ok("claim", "ada", 1, 20, 5, at=1), ok("release", "ada", 21, 22, 5),
        no("claim", "bob", 2, 3, BUSY, met=5),
    ],
    "the same holder again": [ADA, ok("claim", "ada", 5, 6, 5), LEFT],
    "renewed": [ADA, ok("renew", "ada", 90, 91, 5), no("claim", "bob", 150, 151, BUSY, met=5)],
    "lapsed": [ADA, ok("claim", "bob", 102, 103, 9), no("renew", "ada", 104, 105,
               "lease_fence_stale", met=9, shown=5)],
    "lapsed, and nobody came": [ADA, no("renew", "ada", 102, 103, "lease_stale", met=5, shown=5)],
    "on the tick it still holds": [ADA, no("claim", "bob", 101, 102, BUSY, met=5)],
    "broken": [ADA, ok("break", "op", 5, 6, 7), no("update", "ada", 7, 8, "lease_missing",
               shown=5), BOB],
    "closed": [ADA, ok("close", "ada", 5, 6, 5), no("claim", "bob", 7, 8, "lease_issue_closed")],
    "seen": [look(0, 1, None, None), ADA, look(5, 6, "ada", 5), LEFT, look(13, 14, None, None)],
    "a fence from nowhere is refused": [ADA, no("renew", "ada", 5, 6, "lease_fence_unknown",
                                        met=5, shown=6)],
    "an unheard claim that happened": [lost("claim", "ada", 1), no("claim", "bob", 5, 6, BUSY,
                                       met=5)],
    "an unheard claim that never happened": [lost("claim", "ada", 1), ok("claim", "bob", 5, 6, 9)],
    "an unheard claim that happened late": [lost("claim", "cyd", 1), ADA, LEFT,
                                            no("claim", "bob", 21, 22, BUSY, met=14)],
    "an unheard claim that lapsed": [lost("claim", "ada", 1), look(2, 3, "ada", 5),
                                     ok("claim", "bob", 102, 103, 9)],
    "an unheard release": [ADA, lost("release", "ada", 11, 5), BOB],
    "an unheard release that never happened": [ADA, lost("release", "ada", 11, 5),
                                               no("claim", "bob", 21, 22, BUSY, met=5)],
    "an unheard renewal": [ADA, lost("renew", "ada", 90, 5), no("claim", "bob", 150, 151, BUSY,
                           met=5)],
    "an unheard renewal that never happened": [ADA, lost("renew", "ada", 90, 5),
                                               ok("claim", "bob", 150, 151, 9)],
    "an unheard break": [ADA, lost("break", "op", 5), ok("claim", "bob", 7, 8, 9)],
}  # fmt: skip

BAD: dict[str, list[Op]] = {
    "two live holders": [ADA, ok("claim", "bob", 5, 6, 9), LEFT],
    "a stale fence is accepted": [ADA, ok("claim", "bob", 102, 103, 9),
                                  ok("update", "ada", 104, 105, 5)],
    "a stale fence closes": [ADA, ok("claim", "bob", 102, 103, 9), ok("close", "ada", 104, 105, 5)],
    "a lapsed lease is renewed": [ADA, ok("renew", "ada", 102, 103, 5)],
    "an acknowledged claim is lost": [ADA, no("renew", "ada", 5, 6, "lease_missing", shown=5)],
    "an acknowledged claim is not seen": [ADA, look(5, 6, None, None)],
    "an acknowledged renewal is lost": [ADA, ok("renew", "ada", 90, 91, 5),
                                        ok("claim", "bob", 150, 151, 9)],
    "an acknowledged release is lost": [ADA, LEFT, no("claim", "bob", 21, 22, BUSY, met=5)],
    "a lease rises from the dead": [ADA, LEFT, ok("renew", "ada", 13, 14, 5)],
    "a lease is seen after its release": [ADA, LEFT, look(13, 14, "ada", 5)],
    "a broken lease is used": [ADA, ok("break", "op", 5, 6, 7), ok("update", "ada", 7, 8, 5)],
    "closed work is handed out": [ADA, ok("close", "ada", 5, 6, 5), ok("claim", "bob", 7, 8, 9)],
    "a fence goes back": [ADA, LEFT, ok("claim", "bob", 21, 22, 4)],
    "a fence is given twice": [ADA, LEFT, ok("claim", "bob", 21, 22, 5)],
    "a longer term has a new fence": [ADA, ok("claim", "ada", 5, 6, 9)],
    "a reclaim keeps the fence": [ADA, ok("claim", "ada", 102, 103, 5)],
    "a lease lapses early": [ADA, ok("claim", "bob", 50, 51, 9)],
    "a lease lapses on the tick": [ADA, ok("claim", "bob", 101, 102, 9)],
    "a lease lasts too long": [ADA, no("claim", "bob", 102, 103, BUSY, met=5)],
    "a lease is called stale too early": [ADA, no("renew", "ada", 50, 51, "lease_stale", met=5,
                                          shown=5)],
    "a free issue is refused": [no("claim", "bob", 1, 2, BUSY, met=5)],
    "a holder is refused": [ADA, no("release", "ada", 5, 6, "lease_fence_stale", met=9, shown=5)],
    "another owner writes": [ADA, ok("update", "bob", 5, 6, 5)],
    "a fence from nowhere is taken for an old one": [
        ADA, no("renew", "ada", 5, 6, "lease_fence_stale", met=5, shown=6)
    ],
    "somebody else is seen with it": [ADA, look(5, 6, "bob", 5)],
    "a refusal names a fence that is over": [
        ADA, LEFT, lost("claim", "cyd", 13), no("claim", "bob", 21, 22, BUSY, met=5)
    ],
    "a refusal names another fence": [ADA, no("claim", "bob", 5, 6, BUSY, met=6)],
    "a deadline is not what was asked for": [
        replace(ADA, answer=Heard(None, (1, 0), 5, None, 999))
    ],
    "time goes back": [ADA, ok("release", "ada", 11, 12, 5, at=0)],
    "time is not what was brought along": [replace(ADA, now_ms=2)],
    "an effect before its call": [no("claim", "bob", 1, 2, BUSY, met=5), replace(ADA, start=3,
                                  end=4)],
    "an unheard release cannot help before it was sent": [
        ADA, ok("claim", "bob", 5, 6, 9), lost("release", "ada", 11, 5)
    ],
    "an unheard claim cannot hold before it was sent": [
        no("claim", "bob", 1, 2, BUSY, met=5), lost("claim", "ada", 5)
    ],
    "an unheard claim does not hold for ever": [
        lost("claim", "ada", 1), look(2, 3, "ada", 5), ok("update", "ada", 3, 4, 5),
        no("claim", "bob", 200, 201, BUSY, met=5),
    ],
    "a fence that was seen is given to another": [
        lost("claim", "ada", 1), look(2, 3, "ada", 5), lost("release", "ada", 4, 5),
        ok("claim", "bob", 6, 7, 5),
    ],
    "what was seen is not there any more": [
        lost("claim", "ada", 1), look(2, 3, "ada", 5), look(4, 5, None, None),
    ],
}  # fmt: skip


@together("name", GOOD)
def test_a_history_that_may_be_is_accepted(name: str) -> None:
    assert verdict(GOOD[name]) is None


@together("name", BAD)
def test_a_history_that_cannot_be_is_refused(name: str) -> None:
    words = verdict(BAD[name])
    assert words is not None
    assert "can be explained" in words


@together("name", BAD)
def test_what_is_wrong_with_it_is_in_the_history_and_not_in_our_way_of_writing_it(
    name: str,
) -> None:
    """Without one of its calls each of them would be sound."""
    ops = BAD[name]
    rests = [[*ops[:place], *ops[place + 1 :]] for place in range(len(ops))]
    assert any(verdict(rest) is None for rest in rests)


# --- the search -----------------------------------------------------------------------------------


def _every_order(ops: Sequence[Op]) -> Iterator[tuple[Op, ...]]:
    heard = [op for op in ops if op.heard]
    unheard = [op for op in ops if not op.heard]
    for size in range(len(unheard) + 1):
        for some in combinations(unheard, size):
            for order in permutations([*heard, *some]):
                if not any(b.end < a.start for a, b in combinations(order, 2)):
                    yield order


def _holds(order: Sequence[Op]) -> bool:
    registers = {Register()}
    for op in order:
        registers = {after for before in registers for after in step(before, op)}
    return bool(registers)


def _anything(chance: random.Random) -> list[Op]:
    """Some calls with some answers, more often plausible than not."""
    ops, fence, holder = [], 1, None
    for start in range(chance.randrange(2, 7)):
        who, length = chance.choice("ab"), chance.choice((0.5, 1.5, 2.5))
        kind: Kind = chance.choice(("claim", "claim", "release", "renew", "show"))
        if chance.random() < 0.15:
            ops.append(lost(kind, who, start, fence))
        elif kind == "show":
            seen = chance.random() < 0.7
            ops.append(
                look(start, start + length, holder if seen else None, fence if seen else None)
            )
        elif chance.random() < 0.3:
            failure = BUSY if kind == "claim" else "lease_missing"
            met = fence if kind == "claim" else None
            ops.append(no(kind, who, start, start + length, failure, met=met, shown=fence))
        else:
            fence += kind == "claim" and chance.random() < 0.9
            holder = who if kind == "claim" else holder
            ops.append(ok(kind, holder or who, start, start + length, fence, at=start))
    return ops


@pytest.mark.parametrize("seed", range(8))
def test_the_search_finds_an_order_where_trying_all_of_them_finds_one(seed: int) -> None:
    chance = random.Random(seed)
    found = {True: 0, False: 0}
    for _ in range(150):
        ops = _anything(chance)
        possible = any(_holds(order) for order in _every_order(ops))
        assert (verdict(ops) is None) is possible, ops
        found[possible] += 1
    assert min(found.values()) > 10, "both verdicts occur"


def test_the_search_keeps_up_with_long_histories() -> None:
    ops: list[Op] = []
    for place in range(1_000):
        at = place * 10
        ops.append(ok("claim", "ada", at, at + 8, place + 1, at=at + 2))
        ops += [
            no("claim", f"w{n}", at, at + 9, BUSY, met=place + 1, at=at + 3 + n % 3)
            for n in range(4)
        ]
        ops.append(ok("release", "ada", at + 8.5, at + 9.5, place + 1, at=at + 9))
    assert verdict(ops) is None
    assert verdict([*ops, ok("update", "ada", 40_000, 40_001, 999)]) is not None


# --- the other checks -----------------------------------------------------------------------------


def test_terms_that_two_holders_swear_by_are_found_by_their_own_watches() -> None:
    assert list(_shared([ADA, LEFT, BOB], float)) == []
    assert list(_shared([ADA, ok("claim", "bob", 102, 103, 9)], float)) == []
    assert list(_shared([ADA, ok("claim", "bob", 100, 101, 9)], float)) != []
    assert list(_shared([ADA, ok("renew", "ada", 50, 51, 5), BOB], float)) != []
    shorter = replace(ok("claim", "ada", 5, 6, 5), answer=Heard(None, (5, 0), 5, None, 20))
    assert list(_shared([ADA, shorter, BOB], float)) == []
    assert list(_shared([replace(ADA, end=130), BOB], float)) == [], "ada hears of it too late"
    assert list(_shared([replace(ADA, end=30), lost("release", "ada", 31, 5), BOB], float)) != []


def test_a_fence_is_given_out_once_and_grows_over_all_issues() -> None:
    other = ok("claim", "bob", 5, 6, 4)
    assert list(_misplaced({"x": [ADA], "y": [replace(other, start=1.5)]})) == [], "at once"
    assert list(_misplaced({"x": [ADA], "y": [other]})) == ["fence 4 comes after fence 5"]
    assert list(_misplaced({"x": [ADA], "y": [ok("claim", "ada", 5, 6, 5)]})) != []
    again = ok("claim", "ada", 8, 9, 5)
    assert list(_misplaced({"x": [ADA, again], "y": [ok("claim", "bob", 5, 6, 7)]})) == []
