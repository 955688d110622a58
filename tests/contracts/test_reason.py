"""The table of failure classes: whole, unambiguous, and fit to be read by a stranger."""

import re

import pytest

from tests.together import together
from understudy.contracts.reason import (
    BY_WIRE,
    FAILURES,
    Blame,
    Exit,
    Reason,
    Retry,
    ends_lease,
)

LADDER = {
    1: {"lease_not_found"},
    2: {"lease_issue_closed"},
    3: {"lease_missing"},
    4: {"lease_fence_missing"},
    5: {"lease_fence_unknown"},
    6: {"lease_fence_stale"},
    7: {"lease_stale"},
    8: {"lease_owner_mismatch"},
    9: {"lease_id_mismatch"},
    10: {"lease_capability_missing"},
}


def test_every_reason_has_one_row_and_every_row_a_reason() -> None:
    assert list(FAILURES) == sorted(Reason), "rows stand in the order of their numbers"


def test_no_two_reasons_share_a_number_or_a_name() -> None:
    numbers = [int(reason) for reason in Reason.__members__.values()]
    assert len(set(numbers)) == len(numbers) == len(Reason)
    assert len({failure.wire for failure in FAILURES.values()}) == len(FAILURES)


@together("reason", Reason, ids=lambda reason: reason.name.lower())
def test_a_class_has_a_wire_name_a_meaning_and_a_next_step(reason: Reason) -> None:
    failure = FAILURES[reason]
    assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*", failure.wire)
    assert reason.wire == failure.wire
    assert BY_WIRE[failure.wire] is reason
    assert isinstance(failure.blame, Blame)
    assert isinstance(failure.retry, Retry)
    assert failure.exit is not Exit.OK
    for text in (failure.meaning, failure.remedy):
        assert text == text.strip()
        assert text
        assert text[0].islower() or text[0] == "`" or text.startswith("leaseExpiresAt")
        assert not text.endswith(".")


def test_the_ladder_has_ten_guards_and_each_its_class() -> None:
    found: dict[int, set[str]] = {}
    for failure in FAILURES.values():
        if failure.guard is not None:
            found.setdefault(failure.guard, set()).add(failure.wire)
    assert found == LADDER


def test_the_guards_stand_in_the_order_of_their_numbers() -> None:
    guards = [failure.guard for failure in FAILURES.values() if failure.guard is not None]
    assert guards == sorted(guards)


def test_a_holder_who_must_stop_is_told_so_by_the_exit_code() -> None:
    for failure in FAILURES.values():
        if failure.retry is Retry.RECLAIM:
            assert failure.exit is Exit.LEASE_LOST


# After which refusal of a request that shows its lease the lease is over. Every class chooses: what
# is not named here leaves the lease as it is, until its deadline.
ENDS_LEASE = {
    "lease_not_found": "there is nothing to hold",
    "lease_issue_closed": "the work is done",
    "job_completed": "the work is done",
    "spec_materialized": "the work is done",
    "job_dispatched": "the work is done",
    "issue_cancelled": "the work is not wanted any more",
    "job_cancelled": "the work is not wanted any more",
    "lease_missing": "it was released, broken or expired",
    "lease_fence_unknown": "the authority has never granted it: its past is another one",
    "lease_fence_stale": "there is a newer holder",
    "lease_stale": "its time is over",
    "job_timed_out": "it was held for as long as may be",
    "job_claim_lapsed": "its time is over; so it is said to a claim that was to extend it",
    "lease_contention_active": "there is another holder; so it is said to such a claim",
    "lease_owner_mismatch": "the term with this fence is another's",
    "lease_id_mismatch": "the term with this fence is another lease",
}
# Near misses, and why they are none.
LEAVES_LEASE = {
    "lease_fence_missing": "it shows no lease, so the refusal says nothing of one",
    "lease_capability_missing": "only the sublease lacks something",
    "lease_sublease_missing": "only the sublease is gone",
    "lease_issue_blocked": "it is said to a first claim",
    "job_routed_elsewhere": "it is not extended, and still ours until its deadline",
    "job_node_quarantined": "it is not extended, and still ours until its deadline",
    "job_not_dispatchable": "it is said to a first claim",
    "issue_close_unattested": "it is ours, and cannot be closed yet",
    "fiber_scope_open": "it is ours, and cannot be closed yet",
    "authority_busy": "nothing was decided",
    "journal_deposed": "nothing was decided",
    "clock_drift_exceeded": "nothing was decided",
    "request_id_conflict": "nothing was decided",
}


def test_a_class_says_whether_a_holder_that_hears_it_must_stop() -> None:
    found = {each.wire for each in FAILURES.values() if each.ends_lease}
    assert found == set(ENDS_LEASE)
    assert {wire for wire in BY_WIRE if ends_lease(wire)} == found


def test_what_says_that_work_must_be_claimed_again_ends_the_lease() -> None:
    assert all(each.ends_lease for each in FAILURES.values() if each.retry is Retry.RECLAIM)
    assert set(LEAVES_LEASE) <= BY_WIRE.keys() - set(ENDS_LEASE)


@pytest.mark.parametrize("failure_class", [None, "", "from_a_later_version"])
def test_what_is_no_class_that_we_know_ends_no_lease(failure_class: str | None) -> None:
    assert not ends_lease(failure_class)
