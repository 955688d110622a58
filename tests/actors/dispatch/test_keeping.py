"""The dispatcher keeps leases while workers live, and stops workers whose lease is lost."""

import pytest

from tests.actors.dispatch.stage_hand import (
    GRACE_MS,
    LISTED,
    LOST,
    TIMING,
    TTL_MS,
    StageHand,
)
from understudy.actors.dispatch import orders


def test_leases_are_renewed_together_at_a_third(hand: StageHand) -> None:
    hand.lists("a", "b")
    first, second = hand.take(orders.Claim)
    hand.grants(first)
    hand.passes(1_000)
    hand.grants(second)
    hand.take(orders.StartWorker)
    hand.passes(TTL_MS // 3 - 1_001)
    assert hand.take(orders.RenewMany) == []
    hand.passes(1)
    renewals = hand.one(orders.RenewMany).renewals
    assert [each.holder.name for each in renewals] == ["a", "b"]
    assert len({each.token for each in renewals}) == 2
    extended = hand.tell(orders.Renewed(tuple(each.token for each in renewals)))
    until_ms = TIMING.until_ms(hand.now_ms)
    workers = tuple((each.holder.owner, until_ms) for each in renewals)
    assert extended == [orders.ExtendWorkers(workers)]


def test_jitter_makes_renewals_earlier_and_never_later() -> None:
    hand = StageHand(permille=1_000).started()
    hand.running()
    hand.passes(TTL_MS // 3 - TTL_MS // 30)
    hand.one(orders.RenewMany)


def test_a_renewal_counts_from_when_it_was_asked_for(hand: StageHand) -> None:
    holder = hand.running()
    granted_ms = hand.now_ms
    hand.passes(TTL_MS // 3)
    renewal = hand.one(orders.RenewMany).renewals[0]
    asked_ms = hand.now_ms
    hand.passes(9_000)
    hand.tell(orders.Renewed((renewal.token,)))
    hand.tell(orders.Renewed((renewal.token,)))  # an answer that comes twice
    assert hand.one(orders.ExtendWorkers).until_ms == ((holder.owner, TIMING.until_ms(asked_ms)),)
    hand.passes(TIMING.stop_ms(granted_ms) + 1 - hand.now_ms)
    assert hand.take(orders.StopWorker) == [], "by the grant alone it would be over"
    hand.passes(TIMING.stop_ms(asked_ms) - hand.now_ms)
    hand.one(orders.StopWorker)


def test_without_a_confirmed_renewal_the_worker_is_stopped_in_time(hand: StageHand) -> None:
    holder = hand.running()
    hand.passes(TIMING.stop_ms(0) - 1)
    assert hand.take(orders.StopWorker) == []
    assert len(hand.take(orders.RenewMany)) > 3, "it asked again and again"
    hand.passes(1)
    stop = hand.one(orders.StopWorker)
    assert (stop.worker, stop.grace_ms) == (holder.owner, GRACE_MS)
    assert hand.now_ms + stop.grace_ms < TIMING.until_ms(hand.now_ms - TIMING.stop_ms(0))
    hand.exits(holder, 0, was_stopped=True)
    assert hand.one(orders.Release).holder == holder, "it may be ours; the worker is told to end"


def test_a_worker_that_does_not_end_is_told_again(hand: StageHand) -> None:
    hand.running()
    hand.passes(TIMING.stop_ms(0))
    hand.take(orders.StopWorker)
    hand.passes(TIMING.ending_ms)
    assert hand.one(orders.StopWorker).grace_ms == 0


@pytest.mark.parametrize("failure_class", LOST)
@pytest.mark.parametrize("code", [0, 1, 75, None])
def test_a_worker_that_lost_its_lease_is_stopped_and_nothing_is_written_for_it(
    hand: StageHand, failure_class: str, code: int | None
) -> None:
    holder = hand.running()
    hand.passes(TTL_MS // 3)
    token = hand.one(orders.RenewMany).renewals[0].token
    hand.effects.clear()
    hand.tell(orders.RequestRefused(token, failure_class, "somebody newer"))
    assert hand.one(orders.StopWorker).worker == holder.owner
    hand.passes(1_000)
    hand.exits(holder, code, was_stopped=True)
    hand.passes(1_000)
    asked = {type(each) for each in hand.effects if isinstance(each, orders.Ask)}
    assert asked <= {orders.AskReady, orders.AskDiagnostics}
    assert hand.dispatcher.summary(0)["free"] == 2


def test_an_issue_is_not_claimed_again_while_its_old_worker_lives(hand: StageHand) -> None:
    holder = hand.running()
    hand.passes(TTL_MS // 3)
    hand.tell(orders.RequestRefused(hand.one(orders.RenewMany).renewals[0].token, "lease_missing"))
    for look in hand.take(orders.AskReady)[-1:]:
        hand.tell(orders.Listed(look.token, LISTED, (), is_whole=True))
    assert hand.take(orders.Claim) == []
    hand.exits(holder, None, signal=9, was_stopped=True)
    hand.passes(200)
    hand.lists("a")
    assert hand.one(orders.Claim).issue_id == "a"


def test_a_refusal_that_says_nothing_of_the_lease_does_not_stop_the_worker(
    hand: StageHand,
) -> None:
    hand.running()
    hand.passes(TTL_MS // 3)
    token = hand.one(orders.RenewMany).renewals[0].token
    hand.tell(orders.RequestRefused(token, "mutation.use_evidence_missing", "issue.lease_renew"))
    assert hand.take(orders.StopWorker) == []
    hand.passes(TIMING.again_ms)
    hand.one(orders.RenewMany)
