"""Requests are asked again under their own names until they are answered, each once."""

from understudy.actors.leasing import Moment, OpenRequest, Outstanding
from understudy.actors.leasing.outstanding import UNDECIDED, class_of, is_decided
from understudy.contracts import FAILURES


def at(ms: int, dice: int = 0) -> Moment:
    return Moment(ms, lambda: dice)


def test_what_has_no_answer_is_asked_again_later_and_later() -> None:
    open_ones, request = Outstanding[OpenRequest](), OpenRequest(0)
    now_ms, gaps = 0, []
    open_ones.add("t", request)
    for _ in range(6):
        assert open_ones.due(now_ms) == [("t", request)]
        assert open_ones.send("t", request, now_ms) is request
        assert open_ones.due(request.again_ms - 1) == []
        gaps.append(request.again_ms - now_ms)
        now_ms = request.again_ms
    assert gaps == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]
    assert request.asked_ms == 0, "it counts from the first time"


def test_who_could_not_be_asked_is_asked_again_soon() -> None:
    open_ones, request = Outstanding[OpenRequest](), OpenRequest(0)
    pauses = []
    for _ in range(7):
        open_ones.send("t", request, 0)
        open_ones.put_off("t", at(0))
        pauses.append(request.again_ms)
        open_ones.put_off("t", at(0, 1_000))
        assert request.again_ms == pauses[-1] // 2
    assert pauses == [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]
    open_ones.hurry()
    assert open_ones.due(0) == [("t", request)]


def test_only_the_first_answer_finds_its_request() -> None:
    open_ones, request = Outstanding[OpenRequest](), OpenRequest(0)
    open_ones.send("t", request, 0)
    assert "t" in open_ones
    assert open_ones.answered("t") is request
    assert open_ones.answered("t") is None
    open_ones.put_off("t", at(1))
    assert (list(open_ones), len(open_ones)) == ([], 0)


def test_what_is_not_waited_for_is_dropped_and_the_rest_keeps_its_order() -> None:
    open_ones = Outstanding[OpenRequest]()
    for number in range(4):
        open_ones.add(f"t{number}", OpenRequest(number))
    open_ones.drop(lambda each: each.asked_ms == 1)
    assert [token for token, _ in open_ones.due(0)] == ["t0", "t2", "t3"]


def test_what_was_not_decided_may_be_asked_again_and_ends_no_lease() -> None:
    for reason, failure in FAILURES.items():
        answer = {"failureClasses": [failure.wire]}
        assert class_of(answer) == failure.wire
        assert is_decided(answer) is (reason not in UNDECIDED)
        assert is_decided(answer) or (failure.retry == "later" and not failure.ends_lease)


def test_a_grant_is_decided() -> None:
    assert is_decided({"failureClasses": []})
