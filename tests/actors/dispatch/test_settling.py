"""What becomes of an issue when its worker has ended."""

from typing import Any

import pytest

from tests.actors.dispatch.stage_hand import (
    LOST,
    StageHand,
    escalated,
    story,
)
from understudy.actors.dispatch import orders


def test_a_worker_that_ends_well_closes_its_issue(hand: StageHand) -> None:
    holder = hand.running()
    hand.exits(holder, 0)
    close = hand.one(orders.CloseWork)
    assert (close.holder, close.token) == (holder, f"tree.close.a.{holder.fence}")
    assert hand.dispatcher.summary(0)["free"] == 1, "until it is answered"
    hand.tell(orders.Settled(close.token))
    assert hand.dispatcher.summary(0)["free"] == 2


def test_what_was_claimed_and_done_is_told_once_with_how_long_it_ran(hand: StageHand) -> None:
    holder = hand.running()
    [claimed] = hand.take(orders.Report)
    assert (claimed.what, claimed.more["worker"]) == ("claimed", holder.owner)
    hand.passes(1_250)
    hand.exits(holder, 0)
    assert not hand.asks(orders.Report), "the authority has not heard of it"
    hand.tell(orders.Settled(hand.one(orders.CloseWork).token))
    done = hand.one(orders.Report)
    assert (done.what, done.detail, done.issue_id) == ("done", "attempt 1, after 1.2 s", "a")
    assert done.more == {"attempt": 1, "ranMs": 1_250}
    assert hand.dispatcher.summary(0)["tally"] == {"done": 1, "attempts": 1}


def test_a_worker_whose_lease_was_lost_has_done_nothing(hand: StageHand) -> None:
    holder = hand.running()
    hand.passes(11_000)
    hand.effects.clear()
    hand.tell(orders.Doubt("a"))
    [renewal] = hand.one(orders.RenewMany).renewals
    hand.tell(orders.RequestRefused(renewal.token, "lease_missing", "it was cancelled"))
    hand.exits(holder, 0)
    assert [each.what for each in hand.take(orders.Report)] == ["lease lost", "ended"]
    assert hand.dispatcher.summary(0)["tally"] == {"attempts": 1}


def test_an_issue_that_was_handed_back_rests_and_is_no_failure(hand: StageHand) -> None:
    holder = hand.running(attempt=7)
    hand.effects.clear()
    hand.exits(holder, 75)
    hand.tell(orders.Settled(hand.one(orders.Release).token))
    told, retry = hand.take(orders.Report)
    assert (told.what, told.detail, told.issue_id) == (
        "handed back",
        "handed back, after 0.0 s",
        "a",
    )
    assert (retry.what, retry.more) == ("retry", {"retryMs": 120_000})
    rested_ms = hand.now_ms + 120_000  # as long as the policy lets anybody wait
    while not hand.asks(orders.Claim):
        hand.lists("a", attempts=7, excused=1)
    assert rested_ms <= hand.now_ms <= rested_ms + 5_000


BAD_ENDS: list[tuple[dict[str, Any], str]] = [
    ({"code": 1}, "job_failed"),
    ({"signal": 9}, "job_worker_lost"),
    ({}, "job_worker_lost"),
    ({"failure_classes": ("executor_unavailable",)}, "executor_unavailable"),
    ({"code": 1, "failure_classes": ("no_such_class", "flaky_io")}, "flaky_io"),
]


@pytest.mark.parametrize(("end", "failure_class"), BAD_ENDS)
def test_a_failed_attempt_is_released_until_the_last_which_is_escalated_once(
    hand: StageHand, end: dict[str, Any], failure_class: str
) -> None:
    for attempt in (1, 2):
        holder = hand.running(attempt=attempt)
        hand.effects.clear()
        hand.exits(holder, **end)
        failed, retry = hand.take(orders.Report)
        assert failure_class in failed.detail
        assert {"attempt": attempt, "attemptsMax": 3, "ranMs": 0}.items() <= failed.more.items()
        assert (failed.what, retry.what) == ("attempt failed", "retry")
        hand.tell(orders.Settled(hand.one(orders.Release).token))
    holder = hand.running(attempt=3)
    hand.effects.clear()
    hand.exits(holder, **end)
    assert escalated(hand, holder) == "blocked"
    assert [each.what for each in hand.take(orders.Report)] == ["attempt failed", "escalated"]
    hand.passes(60_000)
    assert not hand.asks(orders.Discover, orders.Amend)


def test_a_failed_issue_is_not_claimed_before_its_time(hand: StageHand) -> None:
    hand.permille = 500
    holder = hand.running()
    hand.exits(holder, 1)
    hand.tell(orders.Settled(hand.one(orders.Release).token))
    failed_ms = hand.now_ms
    hand.passes(20)
    hand.lists("a", attempts=1)
    assert hand.take(orders.AskIssues) == [], "it knows"
    hand.passes(failed_ms + 1_499 - hand.now_ms)  # two seconds, less a quarter
    assert hand.take(orders.Claim) == []
    hand.passes(1)
    assert hand.one(orders.Claim).issue_id == "a"


def test_a_class_that_allows_no_second_attempt_blocks_at_once(hand: StageHand) -> None:
    holder = hand.running()
    hand.exits(holder, 1, failure_classes=("check_failed",))
    assert escalated(hand, holder, notes="by ann", filed=False) == "blocked"


def test_work_that_is_done_without_its_witness_is_blocked_and_not_begun_again(
    hand: StageHand,
) -> None:
    holder = hand.running()
    hand.exits(holder, 0)
    token = hand.one(orders.CloseWork).token
    hand.tell(orders.RequestRefused(token, "issue_close_unattested", "nothing is decided"))
    assert escalated(hand, holder, filed=False) == "blocked"


def test_a_failed_escalation_is_blocked_and_no_chain_begins(hand: StageHand) -> None:
    holder = hand.running(attempt=3, labels=("escalation",))
    hand.exits(holder, 1)
    assert escalated(hand, holder, filed=False) == "blocked"


def test_a_class_that_says_stop_stops_everything_and_says_why(hand: StageHand) -> None:
    holder = hand.running()
    hand.exits(holder, 1, failure_classes=("contract_drift",))
    read = hand.one(orders.AskIssues)
    hand.tell(orders.Shown(read.token, (story(),)))
    note = hand.one(orders.Amend)
    assert note.status is None
    hand.tell(orders.Settled(note.token))
    hand.tell(orders.Settled(hand.one(orders.Release).token))
    stopped = hand.one(orders.Stopped)
    assert stopped.is_failure
    assert "contract_drift" in stopped.reason
    assert hand.dispatcher.next_ms is None
    assert hand.tell(orders.Tick()) == []


def test_what_an_earlier_run_filed_is_not_filed_again(hand: StageHand) -> None:
    holder = hand.running(attempt=3)
    hand.exits(holder, 1)
    read = hand.one(orders.AskIssues)
    hand.tell(orders.Shown(read.token, (story(),)))
    hand.tell(orders.RequestRefused(hand.one(orders.Discover).token, "issue_id_exists"))
    assert hand.one(orders.Amend).status == "blocked"


@pytest.mark.parametrize("failure_class", LOST)
def test_a_lease_that_is_lost_on_the_way_out_is_let_go_of(
    hand: StageHand, failure_class: str
) -> None:
    holder = hand.running()
    hand.exits(holder, 0)
    hand.effects.clear()
    hand.tell(orders.RequestRefused(f"tree.close.a.{holder.fence}", failure_class))
    assert hand.take(orders.Release) == []
    assert hand.dispatcher.summary(0)["terms"] == []


def test_an_issue_that_cannot_be_closed_is_given_back(hand: StageHand) -> None:
    holder = hand.running()
    hand.exits(holder, 0)
    hand.tell(
        orders.RequestRefused(hand.one(orders.CloseWork).token, "mutation.use_evidence_missing")
    )
    hand.tell(
        orders.RequestRefused(hand.one(orders.Release).token, "mutation.use_evidence_missing")
    )
    assert hand.dispatcher.summary(0)["terms"] == []


def test_a_worker_that_takes_too_long_is_stopped_and_has_failed() -> None:
    hand = StageHand(job_ms=1_000).started()
    holder = hand.running()
    hand.passes(999)
    assert hand.take(orders.StopWorker) == []
    hand.passes(1)
    hand.one(orders.StopWorker)
    hand.effects.clear()
    hand.exits(holder, 0, was_stopped=True)
    assert "job_timeout" in hand.take(orders.Report)[0].detail
    hand.one(orders.Release)


def test_a_person_who_opens_an_issue_afresh_ends_its_rest(hand: StageHand) -> None:
    holder = hand.running(attempt=2)
    hand.exits(holder, 1)
    hand.tell(orders.Settled(hand.one(orders.Release).token))
    (rest,) = hand.dispatcher.summary(hand.now_ms)["rests"]
    assert (rest["issue"], rest["why"]) == ("a", "retry pause")
    assert rest["restMs"] > 0
    hand.lists("a", attempts=2)
    assert not hand.asks(orders.Claim), "it rests"
    hand.tell(orders.Wake())
    hand.lists("a", attempts=2, excused=2)
    assert hand.one(orders.Claim).issue_id == "a"


def test_a_tree_that_is_at_fault_hands_back_and_claims_no_more(hand: StageHand) -> None:
    holder = hand.running()
    hand.effects.clear()
    hand.exits(holder, 127, detail="./agnt.sh: not found")
    release = hand.one(orders.Release)
    assert release.handed_back
    assert not hand.asks(orders.Discover, orders.Amend)
    hand.tell(orders.Settled(release.token))
    hand.passes(60_000)
    assert not hand.asks(orders.AskReady, orders.Claim)
    fault = hand.dispatcher.summary(hand.now_ms)["fault"]
    assert (fault["cannotRun"], fault["name"]) == (True, "a")
    assert "not found" in fault["detail"]


def test_a_close_that_is_refused_for_want_of_proof_counts_as_a_failure_in_one_way(
    hand: StageHand,
) -> None:
    for place, name in enumerate("abcde", start=1):
        holder = hand.running(name)
        hand.exits(holder, 0)
        hand.effects.clear()
        token = f"tree.close.{name}.{holder.fence}"
        hand.tell(orders.RequestRefused(token, "issue_close_unattested"))
        assert (hand.dispatcher.summary(hand.now_ms)["fault"] is not None) == (place == 5)
        if place < 5:
            escalated(hand, holder, filed=hand.asks(orders.Discover))
    assert hand.one(orders.Release).handed_back
