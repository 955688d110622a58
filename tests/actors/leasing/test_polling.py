"""Looking for work: seldom where there is none, and not all at the same piece."""

import pytest

from understudy.actors.leasing import Candidate, Moment, Polling


def at(ms: int, dice: int = 0) -> Moment:
    return Moment(ms, lambda: dice)


def names(found: list[Candidate]) -> list[str]:
    return [each.name for each in found]


def listed(*ids: str, due_ms: int = 0) -> Polling:
    polling = Polling()
    polling.looks(0)
    polling.listed([Candidate(each, due_ms) for each in ids], at(0))
    return polling


def test_looks_that_find_nothing_come_less_and_less_often() -> None:
    polling, now_ms, gaps = Polling(), 0, []
    for _ in range(8):
        assert polling.wants_look(now_ms)
        polling.looks(now_ms)
        polling.listed([], at(now_ms))
        gaps.append(polling.next_ms() - now_ms)
        assert not polling.wants_look(polling.next_ms() - 1)
        now_ms = polling.next_ms()
    assert gaps == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    polling.wake(at(now_ms))
    polling.listed([], at(now_ms, 1_000))
    assert polling.next_ms() == now_ms + 50, "news begins anew; the dice halve it"


def test_a_list_is_used_up_before_the_next_one_is_asked_for() -> None:
    polling = listed(*"abc")
    assert not polling.wants_look(20)
    assert names(polling.pick(2, set(), at(0))) == ["a", "b"]
    assert names(polling.pick(2, {"c"}, at(0))) == [], "it is in our hands"
    assert names(polling.pick(2, set(), at(0))) == ["c"]
    assert (polling.wants_look(19), polling.wants_look(20)) == (False, True)


def test_a_list_that_is_old_is_thrown_away() -> None:
    assert names(listed("a").pick(1, set(), at(19_999))) == ["a"]
    assert names(listed("a").pick(1, set(), at(20_000))) == []


def test_what_has_to_wait_is_picked_when_its_time_comes() -> None:
    polling = listed("a", due_ms=300)
    assert names(polling.pick(1, set(), at(299))) == []
    assert polling.next_ms() == 100, "meanwhile there may be something else"
    assert names(polling.pick(1, set(), at(300))) == ["a"]


def test_where_all_of_a_page_has_to_wait_the_next_one_is_looked_at_soon() -> None:
    polling = Polling()
    polling.listed([Candidate("a", due_ms=900)], at(0), "next")
    assert (polling.cursor, polling.look_ms) == ("next", 20)
    polling.listed([Candidate("b")], at(20), "further")
    assert polling.cursor is None


def test_who_was_slower_waits_and_picks_from_further_down() -> None:
    polling = listed(*"abc")
    polling.contended(at(0, 500))
    polling.contended(at(0, 1_000))
    assert (polling.spread, polling.look_ms) == (2, 50), "once for a list"
    polling.listed([Candidate(each) for each in "abcd"], at(50))
    assert names(polling.pick(1, set(), at(50, 1_000))) == ["a"], "the dice took b out"
    polling.listed([Candidate(each) for each in "abcd"], at(90))
    assert polling.spread == 1
    polling = listed(*"a")
    for _ in range(9):
        polling.contended(at(0))
        polling.listed([], at(0))
    assert polling.spread == 64


def test_news_replaces_a_list_that_is_not_fresh() -> None:
    polling = listed("a")
    polling.stir(999)
    assert not polling.wants_look(999)
    polling.stir(1_000)
    assert polling.wants_look(1_000)


def test_news_makes_no_loop_look_twice_at_once() -> None:
    polling = listed()
    polling.stir(5)
    assert polling.look_ms == 20
    polling = listed()
    polling.wake(at(10, 1_000))
    assert polling.look_ms == 100, "all hear of it together, so each waits for a part"


def test_what_went_wrong_is_left_alone_longer_every_time() -> None:
    polling, pauses = Polling(), []
    for _ in range(8):
        polling.avoid("a", at(0))
        times = (each for each in range(1, 100_000) if _is_listed(polling, "a", each))
        pauses.append(next(times))
    assert pauses[:3] == [1_000, 2_000, 4_000]
    assert pauses[-2:] == [60_000, 60_000]
    assert _is_listed(polling, "b", 1)
    polling.prosper("a")
    assert _is_listed(polling, "a", 1)


def _is_listed(polling: Polling, name: str, ms: int) -> bool:
    polling.listed([Candidate(name)], at(ms))
    return bool(polling.candidates)


def test_where_everything_goes_wrong_everything_is_left_alone() -> None:
    polling = listed("a")
    polling.rest(at(0))
    polling.rest(at(1))  # that is known
    assert polling.next_ms() == 1_000
    assert not polling.wants_look(999)
    polling.listed([Candidate("a")], at(999))
    assert polling.pick(1, set(), at(999)) == []
    assert names(polling.pick(1, set(), at(1_000))) == ["a"]
    polling.rest(at(1_000))
    assert polling.next_ms() == 3_000


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_is_picked_where_nothing_is_wanted(count: int) -> None:
    assert listed("a").pick(count, set(), at(0)) == []


def test_what_is_granted_is_on_no_list() -> None:
    polling = listed(*"ab")
    polling.granted("a")
    assert names(polling.pick(2, set(), at(0))) == ["b"]


def test_a_look_is_taken_again_when_time_alone_makes_more_of_it() -> None:
    polling, moment = Polling(), Moment(10_000, lambda: 0)
    for _ in range(8):
        polling.looks(moment.ms)
        polling.listed([], moment)
    assert polling.next_ms() == moment.ms + 5_000
    polling.look_by(moment.ms + 700)
    assert polling.next_ms() == moment.ms + 700
    polling.look_by(0)
    assert polling.next_ms() == moment.ms + 20, "never at once"
