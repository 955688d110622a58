"""When it is the tree that is at fault, and not the work."""

import pytest

from understudy.actors.dispatch.breaker import Breaker
from understudy.actors.dispatch.orders import WorkerExited
from understudy.actors.dispatch.verdict import judge
from understudy.actors.leasing.work_kind import HeldLease
from understudy.contracts import retry_policy


def trips(breaker: Breaker, name: str, code: int | None, kind: str = "") -> bool:
    event = WorkerExited("w", code, None if code is not None else 9)
    lease = HeldLease(name, "w", "l", 1, kind=kind)
    if code == 0:
        breaker.works(lease)
    return breaker.trips(lease, judge(None, event, 1, (), retry_policy()).failure, code)


@pytest.mark.parametrize("code", [126, 127])
def test_what_never_ran_is_a_fault_at_the_first(code: int) -> None:
    breaker = Breaker(stop_after=0)
    assert trips(breaker, "a", code)
    assert breaker.fault is not None
    assert (breaker.fault["cannotRun"], breaker.fault["name"]) == (True, "a")
    assert trips(breaker, "b", code), "what runs beside it is handed back as well"


def test_what_has_worked_before_may_fail_as_any_other() -> None:
    breaker = Breaker(stop_after=0)
    assert not trips(breaker, "a", 0, "k")
    assert not trips(breaker, "b", 127, "k")
    assert trips(breaker, "c", 127, "other"), "that kind has not worked yet"


def test_a_row_is_of_different_work_in_one_way_without_a_success() -> None:
    breaker = Breaker(stop_after=2)
    assert not trips(breaker, "a", 1)
    assert not trips(breaker, "a", 1), "the same again"
    assert not trips(breaker, "b", 2), "in another way"
    assert not trips(breaker, "a", 0)
    assert not trips(breaker, "c", 2), "something was done in between"
    assert not trips(breaker, "d", None), "a lost worker may be the work's doing"
    assert not trips(breaker, "d", 75), "a hand-back is no failure"
    assert breaker.fault is None
    assert trips(breaker, "d", 2)
    assert breaker.fault is not None
    assert (breaker.fault["cannotRun"], breaker.fault["failed"]) == (False, 2)


def test_any_number_may_fail_where_that_was_asked_for() -> None:
    breaker = Breaker(stop_after=0)
    assert not any(trips(breaker, f"i{number}", 1) for number in range(100))
