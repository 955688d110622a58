"""The dispatcher, move by move: what it asks for, when, and what it leaves alone."""

import pytest

from tests.actors.dispatch.stage_hand import (
    TIMING,
    TTL_MS,
    StageHand,
    escalated,
)
from understudy.actors.dispatch import orders
from understudy.actors.dispatch.dispatcher import Dispatcher
from understudy.actors.dispatch.settings import Settings
from understudy.actors.leasing.work_kind import HeldLease
from understudy.contracts import retry_policy

# --- answers --------------------------------------------------------------------------------------


def test_what_is_not_answered_is_asked_again_under_its_own_name(hand: StageHand) -> None:
    hand.lists("a")
    claim = hand.one(orders.Claim)
    hand.passes(5_000)
    assert hand.one(orders.Claim) == claim
    hand.tell(orders.Unanswered(claim.token))
    hand.passes(5_000)
    assert hand.one(orders.Claim) == claim
    asked_ms = hand.now_ms - 10_000
    holder = hand.grants(claim)
    assert hand.one(orders.StartWorker).until_ms == TIMING.until_ms(asked_ms), "from the first time"
    hand.exits(holder, 0)
    close = hand.one(orders.CloseWork)
    hand.tell(orders.Unanswered(close.token))
    hand.passes(250)
    assert hand.one(orders.CloseWork) == close


def test_a_grant_that_comes_too_late_starts_no_worker(hand: StageHand) -> None:
    hand.lists("a")
    claim = hand.one(orders.Claim)
    hand.passes(TIMING.stop_ms(0))
    holder = hand.grants(claim)
    assert hand.take(orders.StartWorker) == []
    assert hand.one(orders.Release).holder == holder


def test_a_second_answer_changes_nothing(hand: StageHand) -> None:
    hand.lists("a")
    claim = hand.one(orders.Claim)
    holder = hand.grants(claim)
    hand.one(orders.StartWorker)
    again = orders.Claimed(claim.token, holder, 1, {"id": "a"})
    hand.tell(again)
    hand.exits(holder, 0)
    close = hand.one(orders.CloseWork)
    hand.tell(orders.Settled(close.token))
    hand.effects.clear()
    for event in (
        again,
        orders.Settled(close.token),
        orders.RequestRefused(close.token, "lease_missing"),
    ):
        assert hand.tell(event) == []


def test_a_claim_of_an_earlier_run_that_is_granted_late_is_laid_down(hand: StageHand) -> None:
    holder = HeldLease("a", "tree/r0/9", "lease9", 9)
    hand.tell(orders.Claimed("tree.r0.claim.9", holder, 1, {"id": "a"}))
    assert hand.one(orders.Release).holder == holder
    late = HeldLease("b", "tree/r0/10", "lease10", 10)
    hand.tell(orders.Claimed("tree.r0.claim.10", late, 3, {"id": "b"}))
    assert escalated(hand, late) == "blocked"


def test_a_dispatcher_that_may_not_even_look_stops_and_says_why(hand: StageHand) -> None:
    token = hand.one(orders.AskReady).token
    hand.tell(
        orders.RequestRefused(token, "control_plane_host_action_transport_forbidden", "issue.ready")
    )
    stopped = hand.one(orders.Stopped)
    assert stopped.is_failure
    assert "transport_forbidden" in stopped.reason


# --- after a restart ------------------------------------------------------------------------------

OLD = HeldLease("a", "tree/r0/4", "lease4", 4)


def resumed(*leases: orders.HeldIssue, is_whole: bool = True) -> StageHand:
    """A dispatcher that was told of one living worker."""
    hand = StageHand()
    hand.tell(orders.DispatcherStarted((OLD,), dead=("ghost/",)))
    ask = hand.one(orders.AskHeld)
    assert ask.prefixes == ("tree/", "ghost/")
    hand.tell(orders.Held(ask.token, leases, is_whole))
    return hand


def test_a_living_worker_is_adopted_and_its_lease_renewed_at_once() -> None:
    hand = resumed(orders.HeldIssue(OLD, 2, 20_000))
    assert hand.one(orders.RenewMany).renewals[0].holder == OLD
    assert not hand.asks(orders.StartWorker, orders.StopWorker)
    assert hand.dispatcher.summary(0)["free"] == 1
    hand.exits(OLD, 1)
    assert "attempt 2 of 3" in hand.take(orders.Report)[-2].detail


def test_how_long_an_adopted_worker_may_go_on_is_what_the_authority_says() -> None:
    hand = resumed(orders.HeldIssue(OLD, 2, 20_000))
    hand.passes(20_000 - TIMING.slack_ms - TIMING.ending_ms - 1)
    assert hand.take(orders.StopWorker) == []
    hand.passes(1)
    hand.one(orders.StopWorker)


def test_until_the_authority_answers_an_adopted_worker_has_little_time() -> None:
    hand = StageHand()
    hand.tell(orders.DispatcherStarted((OLD,)))
    hand.passes(TTL_MS // 6 - 1)
    assert hand.take(orders.StopWorker) == []
    hand.passes(1)
    hand.one(orders.StopWorker)


def test_a_living_worker_without_a_lease_is_stopped() -> None:
    hand = resumed(orders.HeldIssue(HeldLease("a", "other/r1/1", "lease9", 9), 2, 20_000))
    assert hand.one(orders.StopWorker).worker == OLD.owner


def test_a_list_that_is_cut_off_proves_nothing() -> None:
    hand = resumed(is_whole=False)
    assert not hand.asks(orders.StopWorker)
    hand.exits(OLD, 1)
    assert hand.one(orders.Release).holder == OLD
    hand = StageHand()
    hand.tell(orders.DispatcherStarted((OLD,)))
    hand.exits(OLD, 1)
    hand.tell(orders.Held(hand.one(orders.AskHeld).token, (), is_whole=False))
    assert hand.one(orders.Release).holder == OLD


def test_a_lease_without_a_worker_is_a_failed_attempt_once_and_for_all() -> None:
    orphan, last = HeldLease("b", "tree/r0/5", "l5", 5), HeldLease("c", "ghost/r7/6", "l6", 6)
    hand = resumed(
        orders.HeldIssue(OLD, 1, 20_000),
        orders.HeldIssue(orphan, 1, 20_000),
        orders.HeldIssue(last, 3, 20_000),
    )
    assert hand.one(orders.Release).holder == orphan
    assert escalated(hand, last) == "blocked"


def test_a_lapsed_lease_of_an_earlier_run_is_found_as_such() -> None:
    hand = resumed(orders.HeldIssue(HeldLease("b", "tree/r0/5", "l5", 5), 1, -1))
    assert hand.take(orders.Release) == []


def test_the_unheard_end_of_a_worker_is_heard_after_the_restart() -> None:
    hand = StageHand()
    hand.tell(orders.DispatcherStarted((OLD,)))
    hand.exits(OLD, 0)
    assert hand.one(orders.CloseWork).holder == OLD


def test_a_failure_waits_until_it_is_known_how_often_it_was_tried() -> None:
    hand = StageHand()
    hand.tell(orders.DispatcherStarted((OLD,)))
    hand.exits(OLD, 1)
    hand.passes(60_000)
    assert not hand.asks(orders.Release, orders.StopWorker)
    token = hand.take(orders.AskHeld)[0].token
    hand.tell(orders.Held(token, (orders.HeldIssue(OLD, 3, 9),), is_whole=True))
    assert escalated(hand, OLD) == "blocked"


def test_a_worker_that_an_earlier_run_told_to_end_has_not_succeeded() -> None:
    hand = resumed(orders.HeldIssue(OLD, 2, 20_000))
    hand.exits(OLD, 0, was_stopped=True)
    hand.one(orders.Release)


# --- stopping -------------------------------------------------------------------------------------


def test_a_stop_ends_workers_gives_leases_back_and_says_so() -> None:
    hand = StageHand().started()
    holder = hand.running()
    hand.tell(orders.StopDispatcher())
    hand.one(orders.StopWorker)
    assert hand.take(orders.Stopped) == []
    hand.exits(holder, 0, was_stopped=True)
    release = hand.one(orders.Release)
    hand.passes(1_000)
    assert hand.take(orders.Stopped) == []
    hand.tell(orders.Settled(release.token))
    assert hand.one(orders.Stopped) == orders.Stopped("asked to stop", is_failure=False)


def test_a_stop_that_drains_lets_workers_end_and_claims_nothing() -> None:
    hand = StageHand().started()
    holder = hand.running()
    hand.tell(orders.StopDispatcher(drain_ms=3_000, reason="down"))
    hand.take(orders.AskReady)
    hand.passes(2_999)
    assert not hand.asks(orders.StopWorker, orders.Claim)
    hand.exits(holder, 0)
    hand.tell(orders.Settled(hand.one(orders.CloseWork).token))
    assert hand.one(orders.Stopped).reason == "down"


def test_a_drain_has_an_end_and_a_second_stop_can_make_it_shorter() -> None:
    hand = StageHand().started()
    hand.running()
    hand.tell(orders.StopDispatcher(drain_ms=None))
    hand.passes(1_000)
    assert hand.take(orders.StopWorker) == []
    hand.tell(orders.StopDispatcher(drain_ms=500))
    hand.passes(499)
    assert hand.take(orders.StopWorker) == []
    hand.passes(1)
    hand.one(orders.StopWorker)


def test_a_claim_that_is_granted_during_a_stop_is_given_back() -> None:
    hand = StageHand().started()
    hand.lists("a")
    claim = hand.one(orders.Claim)
    hand.tell(orders.StopDispatcher())
    assert hand.take(orders.Stopped) == [], "it may be ours already"
    hand.grants(claim)
    assert hand.take(orders.StartWorker) == []
    hand.tell(orders.Settled(hand.one(orders.Release).token))
    hand.one(orders.Stopped)


def test_a_stop_does_not_wait_for_ever_for_an_authority_that_is_away() -> None:
    hand = StageHand().started()
    holder = hand.running()
    hand.tell(orders.StopDispatcher())
    hand.exits(holder, None, signal=15, was_stopped=True)
    hand.passes(9_999)
    assert hand.take(orders.Stopped) == []
    hand.passes(1)
    assert hand.one(orders.Stopped).abandoned == ("a",)


def test_time_that_goes_back_is_our_own_mistake() -> None:
    dispatcher = Dispatcher(Settings("tree", "r1", 1), retry_policy())
    dispatcher.step(orders.DispatcherStarted(), 10, lambda: 0)
    with pytest.raises(AssertionError):
        dispatcher.step(orders.Tick(), 9, lambda: 0)


def test_a_lease_that_is_in_doubt_is_asked_for_at_once(hand: StageHand) -> None:
    hand.lists("a")
    hand.grants(hand.one(orders.Claim))
    hand.tell(orders.Doubt("b"))
    assert hand.take(orders.RenewMany) == []
    hand.tell(orders.Doubt("a"))
    (renewal,) = hand.one(orders.RenewMany).renewals
    assert renewal.holder.name == "a"
