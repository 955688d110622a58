"""Bursts between cells: in order, complete, and without the cliffs that Thespian has."""

import os
import signal
import time

import pytest

from tests.actors.otp.carriers.process.stage import Stage
from tests.patience import eventually
from understudy.actors.otp import CallFailed, Ref
from understudy.actors.otp.carriers.process.mailbox import LANE_MAX

pytestmark = pytest.mark.timeout(90)

BURST = 5_000


def test_a_burst_arrives_whole_and_in_order_without_a_stall(stage: Stage) -> None:
    sender, receiver = stage.puppet(), stage.puppet()
    began = time.monotonic()
    stage.tell(sender, "burst", receiver, BURST)
    eventually(lambda: stage.tell(receiver, "count") == BURST)
    assert time.monotonic() - began < 10  # Thespian alone: 7.6 s for 3,000, more not at all
    assert stage.tell(receiver, "numbers") == list(range(BURST))
    assert _longest_gap_ms(stage, receiver) < 2_000
    assert "tx-only" not in _thespian_log(stage)


def test_bursts_in_both_directions_do_not_block_each_other(stage: Stage) -> None:
    one, other = stage.puppet(), stage.puppet()
    for _ in range(5):
        stage.tell(one, "burst", other, BURST // 5)
        stage.tell(other, "burst", one, BURST // 5)
    for cell in (one, other):
        _arrives(stage, cell, BURST)
        assert stage.tell(cell, "numbers") == list(range(BURST // 5)) * 5
        assert _longest_gap_ms(stage, cell) < 2_000
    assert "tx-only" not in _thespian_log(stage)


def test_cells_that_write_to_each_other_at_the_same_moment_are_not_held_up(stage: Stage) -> None:
    """Their connections cross, and are closed from both sides; Thespian waits for 35 seconds."""
    cells = [stage.puppet() for _ in range(6)]
    due_ms = time.monotonic_ns() // 1_000_000 + 200
    for cell in cells:
        stage.tell(cell, "burst_at", due_ms, cells, 5)
    for cell in cells:
        _arrives(stage, cell, 25)
        numbers = stage.tell(cell, "numbers")
        assert isinstance(numbers, list)
        assert sorted(numbers) == sorted(list(range(5)) * 5)
    assert time.monotonic() - due_ms / 1000 < 10


def test_many_receivers_at_once_are_served_in_turns(stage: Stage) -> None:
    sender = stage.puppet()
    receivers = [stage.child(sender) for _ in range(30)]
    for _ in range(3):
        for receiver in receivers:
            stage.tell(sender, "burst", receiver, 40)
    for receiver in receivers:
        _arrives(stage, receiver, 120)
        assert stage.tell(receiver, "numbers") == list(range(40)) * 3
    assert "tx-only" not in _thespian_log(stage)


def test_a_stopped_receiver_fills_a_lane_and_delays_no_other(stage: Stage) -> None:
    sender, stopped, other = stage.puppet(), stage.puppet(), stage.puppet()
    stage.tell(sender, "burst", stopped, 1)
    eventually(lambda: stage.tell(stopped, "count") == 1)
    os.kill(stopped.place.pid, signal.SIGSTOP)
    taken = stage.tell(sender, "overload", stopped)
    assert isinstance(taken, int)
    assert LANE_MAX <= taken <= LANE_MAX + 512
    began = time.monotonic()
    stage.tell(sender, "burst", other, 100)
    eventually(lambda: stage.tell(other, "count") == 100)
    assert time.monotonic() - began < 5
    os.kill(stopped.place.pid, signal.SIGCONT)
    eventually(lambda: stage.tell(stopped, "count") == taken + 1)
    assert stage.tell(stopped, "numbers") == [0, *range(taken)]


def test_an_order_to_end_overtakes_a_full_mailbox(stage: Stage) -> None:
    slow = stage.puppet(traps=False)
    for _ in range(100):
        stage.troupe.cast(slow, "slowly")
    with pytest.raises(CallFailed):
        stage.tell(slow, "leave", timeout_ms=50)
    began = time.monotonic()
    os.kill(slow.place.pid, signal.SIGTERM)
    eventually(lambda: not slow.place.identity.is_alive)
    assert time.monotonic() - began < 2  # the mailbox would take five seconds


def _arrives(stage: Stage, receiver: Ref, count: int) -> None:
    eventually(lambda: stage.tell(receiver, "count") == count)


def _longest_gap_ms(stage: Stage, receiver: Ref) -> int:
    gap_ms = stage.tell(receiver, "longest_gap_ms")
    assert isinstance(gap_ms, int)
    return gap_ms


def _thespian_log(stage: Stage) -> str:
    path = stage.troupe.run_dir / "thespian.log"
    return path.read_text() if path.exists() else ""
