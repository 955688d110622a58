"""Calls from outside: matched, bounded in time, and failing at once where there is no cell."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pickle import PicklingError
from threading import Lock

import pytest

from tests.actors.otp.carriers.process.cast import Fragile, Unpicklable
from tests.actors.otp.carriers.process.stage import Stage
from tests.patience import eventually
from understudy.actors.otp import KILL, CallFailed, Ref, Reply, Start
from understudy.actors.otp.carriers.process import Troupe
from understudy.actors.otp.carriers.process.mailbox import Overloaded

pytestmark = pytest.mark.timeout(60)


def test_a_late_reply_is_not_taken_for_the_answer_to_the_next_call(shared: Stage) -> None:
    cell = shared.puppet()
    with pytest.raises(CallFailed) as failed:
        shared.tell(cell, "sleep", 0.3, timeout_ms=50)
    assert failed.value.reason.kind == "timeout"
    assert shared.tell(cell, "pid") == cell.place.pid


def test_a_reply_that_was_not_asked_for_is_dropped(shared: Stage) -> None:
    cell, other = shared.puppet(), shared.puppet()
    root = shared.tell(cell, "parent")
    for number in range(40):
        shared.tell(other, "send", root, Reply(f"0/{number}", "a lie"))
        shared.tell(other, "send", root, Reply(str(number), "a lie"))
    assert shared.tell(cell, "pid") == cell.place.pid
    assert shared.tell(other, "pid") == other.place.pid


def test_mail_for_an_older_incarnation_at_the_same_address_is_dropped(shared: Stage) -> None:
    """Ports are used again, and so the address of the dead may be that of the living."""
    sender, living = shared.puppet(), shared.puppet()
    place = shared.tell(living, "me").place  # type: ignore[attr-defined]  # of this carrier
    shared.tell(sender, "send", Ref(living.system, "0.999999", "", place), "for the dead")
    shared.tell(sender, "send", living, "for the living")
    eventually(lambda: "for the living" in shared.heard(living))
    assert shared.heard(living) == ["for the living"]


def test_a_call_to_a_cell_that_is_not_there_fails_at_once(shared: Stage) -> None:
    cell = shared.puppet()
    shared.troupe.signal(cell, KILL)
    shared.troupe.join(cell)
    for target in (cell, "nobody"):
        began = time.monotonic()
        with pytest.raises(CallFailed) as failed:
            shared.troupe.call(target, ("pid",), 30_000)
        assert failed.value.reason.kind == "noproc"
        assert time.monotonic() - began < 5


def test_a_call_ends_with_the_death_of_who_was_asked(shared: Stage) -> None:
    cell = shared.puppet()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(shared.tell, cell, "sleep", 30.0, timeout_ms=40_000)
        os.kill(cell.place.pid, signal.SIGKILL)
        with pytest.raises(CallFailed) as failed:
            asked.result(20)
    assert failed.value.reason.kind in ("signal", "noproc")


def test_threads_get_each_their_own_answers(shared: Stage) -> None:
    cells = [shared.puppet() for _ in range(3)]

    def ask(thread: int) -> list[object]:
        return [
            shared.troupe.call(cells[number % 3], ("echo", (thread, number)), 20_000)
            for number in range(20)
        ]

    with ThreadPoolExecutor(6) as pool:
        for thread, answers in enumerate(pool.map(ask, range(6))):
            assert answers == [(thread, number) for number in range(20)]


def test_what_cannot_be_sent_fails_where_it_is_sent(shared: Stage) -> None:
    cell = shared.puppet()
    for message in (lambda: None, Lock()):
        with pytest.raises(PicklingError, match=r"^(function|lock) cannot be pickled, so not sent"):
            shared.troupe.send(cell, message)
    assert shared.tell(cell, "pid") == cell.place.pid


def test_a_message_that_cannot_be_opened_is_reported_and_harms_no_cell(shared: Stage) -> None:
    cell = shared.puppet()
    shared.troupe.send(cell, Unpicklable())
    shared.troupe.send(cell, "next")
    eventually(lambda: shared.heard(cell) == ["next"])
    rows = [row for row in shared.reports() if row["kind"] == "unreadable"]
    assert "cannot be opened" in str(rows[-1]["reason"])


def test_an_answer_that_cannot_be_sent_back_is_an_error(shared: Stage) -> None:
    cell = shared.puppet()
    assert shared.tell(cell, "big", 3_000_000) == b"x" * 3_000_000


def test_a_call_to_who_traps_nothing_and_is_busy_waits_its_turn(shared: Stage) -> None:
    cell = shared.puppet()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shared.tell, cell, "sleep", 0.2)
        second = pool.submit(shared.tell, cell, "pid")
        assert first.result(20) == "slept"
        assert second.result(20) == cell.place.pid


def test_a_full_lane_is_said_and_nothing_that_was_taken_is_lost(shared: Stage) -> None:
    cell = shared.puppet()
    os.kill(cell.place.pid, signal.SIGSTOP)
    taken = _filled(shared, cell)
    assert 60 <= taken < 120  # a lane holds 64 MiB, and a parcel or two are outside of it
    os.kill(cell.place.pid, signal.SIGCONT)
    eventually(lambda: shared.tell(cell, "numbers") == list(range(taken)))


def _filled(stage: Stage, cell: Ref) -> int:
    for number in range(200):
        try:
            stage.troupe.cast(cell, (number, b"x" * 1_000_000))
        except Overloaded:
            return number
    raise AssertionError("there is no bound")


def test_a_troupe_that_was_not_started_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    troupe = Troupe(tmp_path_factory.mktemp("idle"))
    with pytest.raises(Exception, match="started before it is used"):
        troupe.spawn(Start(Fragile))
    troupe.stop(1)
