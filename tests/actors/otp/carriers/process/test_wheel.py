"""Timers, without a clock."""

from hypothesis import given
from hypothesis import strategies as st

from understudy.actors.otp.carriers.process.wheel import Wheel


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=200))
def test_timers_come_by_time_then_by_setting_and_cancelled_ones_not(
    wanted: list[tuple[int, bool]],
) -> None:
    wheel = Wheel()
    timers = [wheel.set(due_ms, number) for number, (due_ms, _) in enumerate(wanted)]
    for timer, (_, is_cancelled) in zip(timers, wanted, strict=True):
        if is_cancelled:
            wheel.cancel(timer)
    came = []
    for now_ms in range(21):
        assert (wheel.next_due_ms() or 0) >= 0
        came += [found[0] for timer in wheel.due(now_ms) if (found := wheel.take(timer))]
    kept = [(due_ms, number) for number, (due_ms, off) in enumerate(wanted) if not off]
    assert came == [number for _, number in sorted(kept)]
    assert len(wheel) == 0


def test_a_timer_can_be_cancelled_when_it_is_due_already() -> None:
    wheel = Wheel()
    timer = wheel.set(5, "late")
    assert list(wheel.due(4)) == []
    assert list(wheel.due(5)) == [timer]
    wheel.cancel(timer)
    assert wheel.take(timer) is None


def test_cancelled_timers_are_not_kept_for_ever() -> None:
    wheel = Wheel()
    for _ in range(10_000):
        wheel.cancel(wheel.set(1_000_000, None))
    assert len(wheel._heap) < 200
