"""The dispatcher finds work: how often it looks, and what it knows of earlier attempts."""

import pytest

from tests.actors.dispatch.stage_hand import (
    TIMING,
    StageHand,
    escalated,
    story,
)
from understudy.actors.dispatch import orders

# --- finding work ---------------------------------------------------------------------------------


def test_nothing_is_looked_for_before_it_is_known_what_an_earlier_run_left() -> None:
    hand = StageHand()
    hand.tell(orders.DispatcherStarted())
    assert hand.one(orders.AskHeld).prefixes == ("tree/",)
    assert hand.passes(60_000) == hand.take(orders.AskHeld), "it asks again, and for nothing else"


def test_dependencies_are_diagnosed_before_the_first_look() -> None:
    hand = StageHand()
    hand.tell(orders.DispatcherStarted())
    effects = hand.tell(orders.Held(hand.one(orders.AskHeld).token, (), is_whole=True))
    assert [type(each) for each in effects] == [orders.AskDiagnostics, orders.AskReady]


def test_unsound_dependencies_are_reported_once_and_not_worked_around() -> None:
    hand = StageHand()
    hand.tell(orders.DispatcherStarted())
    hand.tell(orders.Held(hand.one(orders.AskHeld).token, (), is_whole=True))
    found = ((("a", "b", "a"),), (("c", "nothing"),))
    hand.tell(orders.Diagnosed(hand.one(orders.AskDiagnostics).token, *found))
    said = hand.one(orders.Report).detail
    assert "a -> b -> a" in said
    assert "c waits for nothing" in said
    hand.lists()
    for _ in range(20):  # looks, until it is time for a second opinion
        hand.passes(5_000)
        for look in hand.take(orders.AskReady)[-1:]:
            hand.tell(orders.Listed(look.token, (), (), is_whole=True))
    hand.tell(orders.Diagnosed(hand.take(orders.AskDiagnostics)[-1].token, *found))
    assert hand.take(orders.Report) == []


def test_work_is_claimed_before_a_worker_starts_and_under_a_new_name(hand: StageHand) -> None:
    hand.lists("a", "b", "c")
    first, second = hand.take(orders.Claim)
    assert (first.issue_id, second.issue_id) == ("a", "b"), "as many as there are workers"
    assert first.assignee.startswith("tree/r1/")
    assert first.assignee != second.assignee
    assert hand.take(orders.StartWorker) == []
    holder = hand.grants(first, attempt=2)
    start = hand.one(orders.StartWorker)
    assert (start.holder, start.attempt, start.issue["id"]) == (holder, 2, "a")
    assert start.until_ms == TIMING.until_ms(hand.now_ms)
    assert hand.take(orders.Claim) == []


def test_a_list_is_used_up_before_another_is_asked_for(hand: StageHand) -> None:
    hand.lists(*"abcd")
    claims = hand.take(orders.Claim)
    holders = [hand.grants(each) for each in claims]
    for holder in holders:
        hand.exits(holder, 0)
        hand.tell(orders.Settled(hand.one(orders.CloseWork).token))
    assert [each.issue_id for each in hand.take(orders.Claim)] == ["c", "d"]
    assert hand.take(orders.AskReady) == []


def test_a_reserved_issue_and_an_escalation_are_left_alone(hand: StageHand) -> None:
    token = hand.one(orders.AskReady).token
    reserved = orders.Listing("a", 0, "ann", "task")
    escalated = orders.Listing("b", 0, "", "task", ("escalation",))
    hand.tell(orders.Listed(token, (reserved, escalated), (), is_whole=True))
    assert hand.take(orders.Claim) == []


def test_five_hundred_idle_workers_and_one_job_are_one_claim() -> None:
    hand = StageHand(slots=500).started()
    hand.lists("a")
    claim = hand.one(orders.Claim)
    hand.grants(claim)
    hand.one(orders.StartWorker)
    hand.passes(60)
    hand.lists()
    assert hand.take(orders.Claim) == []


def test_looks_that_find_nothing_come_less_and_less_often(hand: StageHand) -> None:
    hand.permille = 500
    moments = []
    for _ in range(12):
        hand.lists()
        before_ms, token = hand.now_ms, hand.look()
        moments.append(hand.now_ms - before_ms)
        hand.effects.append(orders.AskReady(token))
    assert moments[:3] == [75, 150, 300]
    assert moments[-1] == 3_750, "five seconds, less a quarter"


def test_news_makes_it_look_soon_and_not_all_at_once() -> None:
    waits = []
    for permille in (0, 300, 1_000):
        hand = StageHand(permille=permille).started()
        for _ in range(8):
            hand.lists()
        hand.passes(100)
        woken_ms = hand.now_ms
        hand.tell(orders.Wake())
        hand.look()
        waits.append(hand.now_ms - woken_ms)
    assert waits == [0, 30, 100]


def test_a_dispatcher_that_meets_others_waits_and_looks_further_down_the_list() -> None:
    hand = StageHand(slots=1, permille=600).started()
    hand.lists(*"abcdefgh")
    claim = hand.one(orders.Claim)
    assert claim.issue_id == "a"
    hand.tell(orders.RequestRefused(claim.token, "lease_contention_active", "issue a: bob"))
    assert hand.take(orders.AskReady) == []
    hand.passes(60)
    hand.lists(*"bcdefgh")
    assert hand.one(orders.Claim).issue_id == "b", "one of the first two; the dice chose"
    assert hand.dispatcher._polling.spread == 2


def test_an_old_list_is_thrown_away(hand: StageHand) -> None:
    hand.lists(*"abc")
    for claim in hand.take(orders.Claim):
        hand.tell(orders.Unanswered(claim.token))
    hand.passes(25_000)
    late = hand.take(orders.Claim)
    hand.tell(orders.RequestRefused(late[-1].token, "lease_contention_active", ""))
    hand.passes(1_000)
    assert hand.take(orders.AskReady), "c was listed too long ago"


# --- what was tried before ------------------------------------------------------------------------


@pytest.mark.parametrize(("quiet_ms", "wait_ms"), [(0, 2_000), (1_500, 500), (9_000, 0)])
def test_an_issue_that_an_earlier_run_tried_rests_as_its_record_tells(
    hand: StageHand, quiet_ms: int, wait_ms: int
) -> None:
    hand.lists("a", attempts=1)
    asked = hand.one(orders.AskIssues)
    assert asked.issue_ids == ("a",)
    hand.tell(orders.Shown(asked.token, (story(quiet_ms=quiet_ms),)))
    if wait_ms:
        hand.passes(wait_ms - 1)
        assert hand.take(orders.Claim) == []
        hand.passes(1)
    assert hand.one(orders.Claim).issue_id == "a"


def test_a_lapsed_issue_is_tried_again_and_an_exhausted_one_only_escalated(
    hand: StageHand,
) -> None:
    hand.lists(lapsed=("a", "b"))
    lapsed = {"status": "in_progress", "is_lapsed": True, "quiet_ms": 60_000}
    stories = (story("a", attempts=2, **lapsed), story("b", attempts=3, **lapsed))
    hand.tell(orders.Shown(hand.one(orders.AskIssues).token, stories))
    first, second = hand.take(orders.Claim)
    hand.grants(first, attempt=3)
    assert hand.one(orders.StartWorker).attempt == 3
    holder = hand.grants(second, attempt=4)
    assert hand.take(orders.StartWorker) == []
    assert escalated(hand, holder) == "blocked"


def test_an_exhausted_issue_that_another_had_in_between_is_given_back(hand: StageHand) -> None:
    hand.lists(lapsed=("b",))
    exhausted = story("b", attempts=3, status="in_progress", is_lapsed=True, quiet_ms=60_000)
    hand.tell(orders.Shown(hand.one(orders.AskIssues).token, (exhausted,)))
    hand.grants(hand.one(orders.Claim), attempt=5)
    hand.one(orders.Release)
