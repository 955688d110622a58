"""Links, monitors and signals between processes."""

import os
import signal
from pathlib import Path

import pytest

from tests.actors.otp.carriers.process.stage import Stage
from tests.patience import eventually
from understudy.actors.otp import (
    KILL,
    KILLED,
    NOPROC,
    NORMAL,
    SHUTDOWN,
    Down,
    Exited,
    ExitReason,
    Ref,
)

pytestmark = pytest.mark.timeout(60)


def test_a_monitor_hears_of_a_violent_death_with_its_signal(shared: Stage) -> None:
    watcher, parent = shared.puppet(), shared.puppet()
    child = shared.child(parent)
    monitor = shared.tell(watcher, "monitor", child)
    os.kill(child.place.pid, signal.SIGKILL)
    assert _down(shared, watcher) == Down(str(monitor), child, ExitReason("signal", "SIGKILL", 9))


def test_a_monitor_hears_the_reason_that_a_cell_gives(shared: Stage) -> None:
    watcher, target = shared.puppet(), shared.puppet()
    monitor = shared.tell(watcher, "monitor", target)
    shared.tell(target, "leave", ExitReason("crash", "own words"))
    assert _down(shared, watcher) == Down(str(monitor), target, ExitReason("crash", "own words"))


def test_a_monitor_of_a_dead_cell_and_of_no_name_answers_at_once(shared: Stage) -> None:
    watcher, target = shared.puppet(), shared.puppet()
    shared.troupe.signal(target, KILL)
    shared.troupe.join(target)
    monitor = shared.tell(watcher, "monitor", target)
    assert _down(shared, watcher) == Down(str(monitor), target, NOPROC)
    other = shared.puppet()
    monitor = shared.tell(other, "monitor", "nobody of that name")
    assert _down(shared, other) == Down(str(monitor), None, NOPROC)


def test_a_watcher_is_told_when_a_cell_and_its_parent_are_killed_together(shared: Stage) -> None:
    watcher, parent = shared.puppet(), shared.puppet()
    child = shared.child(parent)
    shared.tell(watcher, "monitor", child)
    os.kill(parent.place.pid, signal.SIGKILL)
    down = _down(shared, watcher)
    assert (down.ref, down.reason.kind) == (child, "killed")


def test_a_parent_can_monitor_its_own_child(shared: Stage) -> None:
    parent = shared.puppet()
    child = shared.child(parent)
    monitor = shared.tell(parent, "monitor", child)
    os.kill(child.place.pid, signal.SIGTERM)
    assert _down(shared, parent) == Down(str(monitor), child, SHUTDOWN)
    assert shared.exited(parent, child).reason == SHUTDOWN


def test_a_removed_monitor_is_not_heard(shared: Stage) -> None:
    watcher, target = shared.puppet(), shared.puppet()
    kept = shared.tell(watcher, "monitor", target)
    removed = shared.tell(watcher, "monitor", target)
    shared.tell(watcher, "demonitor", removed)
    shared.tell(target, "leave", NORMAL)
    eventually(lambda: shared.heard(watcher, Down))
    assert shared.heard(watcher, Down) == [Down(str(kept), target, NORMAL)]


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_linked_cells_end_together(shared: Stage, how: str) -> None:
    one, other = shared.puppet(traps=False), shared.puppet(traps=False)
    shared.tell(one, "link", other)
    shared.tell(other, "pid")
    if how == "kill":
        os.kill(other.place.pid, signal.SIGKILL)
        expected = ExitReason("signal", "SIGKILL", 9)
    else:
        shared.tell(other, "leave", ExitReason("crash", "both"))
        expected = ExitReason("crash", "both")
    assert shared.troupe.join(one, 20_000) in (expected, NOPROC)
    _wait_for_report_or_end(shared, one)


def test_a_link_works_in_both_directions_and_is_trapped(shared: Stage) -> None:
    trapping, plain = shared.puppet(), shared.puppet(traps=False)
    shared.tell(plain, "link", trapping)
    _hears_from(shared, trapping, plain)
    os.kill(plain.place.pid, signal.SIGKILL)
    assert shared.exited(trapping, plain).reason == ExitReason("signal", "SIGKILL", 9)


def test_the_normal_end_of_a_linked_cell_harms_no_other(shared: Stage) -> None:
    one, other = shared.puppet(traps=False), shared.puppet(traps=False)
    watcher = shared.puppet()
    shared.tell(one, "link", other)
    shared.tell(watcher, "monitor", other)
    shared.tell(other, "leave", NORMAL)
    assert _down(shared, watcher).reason == NORMAL
    assert shared.tell(one, "pid") == one.place.pid


def test_an_unlinked_cell_goes_on(shared: Stage) -> None:
    one, other = shared.puppet(traps=False), shared.puppet()
    shared.tell(one, "link", other)
    shared.tell(one, "unlink", other)
    _hears_from(shared, other, one)
    os.kill(one.place.pid, signal.SIGKILL)
    assert shared.troupe.join(one, 20_000) is not None
    shared.tell(other, "pid")
    assert shared.heard(other, Exited) == []


def test_a_link_to_the_dead_is_noproc(shared: Stage) -> None:
    one, other = shared.puppet(), shared.puppet()
    shared.troupe.signal(other, KILL)
    shared.troupe.join(other)
    shared.tell(one, "link", other)
    assert shared.exited(one, other).reason == NOPROC


def test_a_signal_ends_who_does_not_trap_and_tells_who_does(shared: Stage) -> None:
    sender, plain, trapping = shared.puppet(), shared.puppet(traps=False), shared.puppet()
    shared.tell(sender, "signal", plain, NORMAL)
    assert shared.tell(plain, "pid") == plain.place.pid
    shared.tell(sender, "signal", plain, ExitReason("crash", "told to"))
    assert shared.troupe.join(plain, 20_000) in (ExitReason("crash", "told to"), NOPROC)
    shared.tell(sender, "signal", trapping, ExitReason("crash", "told to"))
    assert shared.exited(trapping, sender).reason == ExitReason("crash", "told to")
    shared.tell(sender, "signal", trapping, NORMAL)
    eventually(lambda: len(shared.heard(trapping, Exited)) == 2)
    shared.tell(sender, "signal", trapping, KILL)
    assert shared.troupe.join(trapping, 20_000) in (KILLED, NOPROC)


def test_children_of_a_cell_that_ends_are_asked_first_and_are_gone_then(
    shared: Stage, tmp_path: Path
) -> None:
    parent = shared.puppet()
    child = shared.child(parent)
    grandchild = shared.child(child)
    shared.tell(parent, "leave", NORMAL)
    assert shared.troupe.join(parent, 20_000) in (NORMAL, NOPROC)
    assert not child.place.identity.is_alive
    assert not grandchild.place.identity.is_alive


def test_the_killed_take_their_descendants_along(shared: Stage) -> None:
    parent = shared.puppet()
    child = shared.child(parent)
    grandchild = shared.child(child)
    os.kill(parent.place.pid, signal.SIGKILL)
    eventually(lambda: not child.place.identity.is_alive)
    eventually(lambda: not grandchild.place.identity.is_alive)


def _hears_from(stage: Stage, receiver: Ref, sender: Ref) -> None:
    """What the sender did before has arrived: its mail keeps its order, that of others need not."""
    stage.tell(sender, "send", receiver, "here")
    eventually(lambda: "here" in stage.heard(receiver))


def _down(stage: Stage, watcher: Ref) -> Down:
    eventually(lambda: stage.heard(watcher, Down))
    (down,) = stage.heard(watcher, Down)
    assert isinstance(down, Down)
    return down


def _wait_for_report_or_end(stage: Stage, ref: Ref) -> None:
    eventually(lambda: not ref.place.identity.is_alive)
