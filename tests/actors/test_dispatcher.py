"""The dispatcher, move by move: what it asks for, when, and what it leaves alone."""

from typing import Any

import pytest

from tests.actors.stage_hand import GRACE_MS, TTL_SECONDS, StageHand
from understudy.actors.dispatch import orders
from understudy.actors.dispatch.dispatcher import Dispatcher
from understudy.actors.dispatch.settings import SLOTS_MAX, Settings
from understudy.actors.leasing.holding import Timing
from understudy.actors.leasing.work_kind import HeldLease
from understudy.contracts import FAILURES, limits, retry_policy

TTL_MS = TTL_SECONDS * 1_000
TIMING = Timing(TTL_MS, GRACE_MS)
LISTED = (orders.Listing("a", 0, "", "task"),)
LOST = [each.wire for each in FAILURES.values() if each.ends_lease]


@pytest.fixture
def hand() -> StageHand:
    return StageHand().started()


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "a/b"}, {"name": "x" * 65}, {"name": "tree\n"}, {"run": ""},
        {"slots": 0}, {"slots": SLOTS_MAX + 1},
        {"ttl_seconds": limits.TTL_SECONDS_MIN - 1}, {"ttl_seconds": limits.TTL_SECONDS_MAX + 1},
        {"grace_ms": -1}, {"grace_ms": 20_001}, {"job_ms": 0},
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    right: dict[str, object] = {"name": "tree", "run": "r1", "slots": 1}
    Settings(**right)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        Settings(**right | wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("ttl_seconds", [30, 60, 3_600, 86_400])
@pytest.mark.parametrize("share", [0, 3])
def test_a_worker_is_gone_before_its_lease_however_fast_the_other_clock(
    ttl_seconds: int, share: int
) -> None:
    ttl_ms = ttl_seconds * 1_000
    timing = Timing(ttl_ms, ttl_ms // share if share else 0)
    asked_ms = 7
    renewals = [timing.renew_ms(asked_ms, permille) for permille in (0, 1_000)]
    assert asked_ms < min(renewals) < max(renewals) == asked_ms + ttl_ms // 3
    assert max(renewals) + timing.again_ms < timing.stop_ms(asked_ms), "there is a second chance"
    assert timing.stop_ms(asked_ms) + timing.grace_ms < timing.until_ms(asked_ms)
    fast_ms = ttl_ms - ttl_ms // 2_000 - limits.CLOCK_DRIFT_MS_MAX  # 500 ppm, and merged stamps
    assert timing.until_ms(asked_ms) < asked_ms + fast_ms


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


def test_whoever_meets_others_waits_and_looks_further_down_the_list() -> None:
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


def story(issue: str = "a", **members: object) -> orders.Story:
    usual = {"status": "open", "attempts": 1, "quiet_ms": 0, "is_lapsed": False}
    return orders.Story(issue, **usual | members)  # type: ignore[arg-type]


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


def test_an_exhausted_issue_that_somebody_had_in_between_is_given_back(hand: StageHand) -> None:
    hand.lists(lapsed=("b",))
    exhausted = story("b", attempts=3, status="in_progress", is_lapsed=True, quiet_ms=60_000)
    hand.tell(orders.Shown(hand.one(orders.AskIssues).token, (exhausted,)))
    hand.grants(hand.one(orders.Claim), attempt=5)
    hand.one(orders.Release)


# --- keeping --------------------------------------------------------------------------------------


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
    assert hand.one(orders.Release).holder == holder, "it may be ours; whoever is told to end"


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


# --- ending ---------------------------------------------------------------------------------------


def test_a_worker_that_ends_well_closes_its_issue(hand: StageHand) -> None:
    holder = hand.running()
    hand.exits(holder, 0)
    close = hand.one(orders.CloseWork)
    assert (close.holder, close.token) == (holder, f"tree.close.a.{holder.fence}")
    assert hand.dispatcher.summary(0)["free"] == 1, "until it is answered"
    hand.tell(orders.Settled(close.token))
    assert hand.dispatcher.summary(0)["free"] == 2


def test_an_issue_that_was_handed_back_rests_and_is_no_failure(hand: StageHand) -> None:
    holder = hand.running(attempt=7)
    hand.effects.clear()
    hand.exits(holder, 75)
    hand.tell(orders.Settled(hand.one(orders.Release).token))
    assert not hand.asks(orders.Report)
    rested_ms = hand.now_ms + 120_000  # as long as the policy lets anybody wait
    while not hand.asks(orders.Claim):
        hand.lists("a", attempts=7, excused=1)
    assert rested_ms <= hand.now_ms <= rested_ms + 5_000


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


def escalated(
    hand: StageHand, holder: HeldLease, notes: str = "", filed: bool = True
) -> str | None:
    """Answer the steps of an escalation; the status that the issue gets."""
    read = hand.one(orders.AskIssues)
    shown = story(holder.name, status="in_progress", notes=notes)
    hand.tell(orders.Shown(read.token, (shown,)))
    if filed:
        discover = hand.one(orders.Discover)
        assert discover.new_id == f"{holder.name}.escalation-1"
        assert "escalation" in discover.labels
        hand.tell(orders.Settled(discover.token))
    amend = hand.one(orders.Amend)
    assert amend.holder == holder
    assert amend.notes is not None
    assert "[harness-escalation]" in amend.notes
    hand.tell(orders.Settled(amend.token))
    return amend.status


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
        assert failure_class in hand.one(orders.Report).detail
        hand.tell(orders.Settled(hand.one(orders.Release).token))
    holder = hand.running(attempt=3)
    hand.effects.clear()
    hand.exits(holder, **end)
    assert escalated(hand, holder) == "blocked"
    assert hand.one(orders.Report).what == "issue_discover"
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
    assert "job_timeout" in hand.one(orders.Report).detail
    hand.one(orders.Release)


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


def test_a_grant_that_comes_too_late_starts_nobody(hand: StageHand) -> None:
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


def test_whoever_may_not_even_look_stops_and_says_why(hand: StageHand) -> None:
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
    assert "attempt 2 of 3" in hand.take(orders.Report)[-1].detail


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


def test_the_end_of_a_worker_that_nobody_heard_is_heard_after_the_restart() -> None:
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
