"""The table of failure classes: whole, unambiguous, and fit to be read by a stranger."""

import re

from tests.together import together
from understudy.contracts.reason import BY_WIRE, FAILURES, Blame, Exit, Reason, Retry

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
