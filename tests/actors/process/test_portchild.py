"""An operating-system process as a cell: what a supervisor sees of it."""

import pickle
import sys
from pathlib import Path

import pytest

from tests.actors.litter import TROUBLE, Mark
from tests.actors.litter import mark as mark  # noqa: PLC0414 - a fixture
from tests.actors.process.solo import Solo
from tests.patience import PATIENCE_SECONDS
from understudy.actors.otp.cell import NORMAL, SHUTDOWN, Exited, ExitReason, Ref, Start
from understudy.actors.process.port import Command
from understudy.actors.process.portchild import Health, PortChild


def begun(
    mark: Mark, *argv: str | Path, health: Health | None = None, grace_ms: int = 200
) -> tuple[Solo, PortChild]:
    child = PortChild(Command(argv, env=mark.env, grace_ms=grace_ms), health)
    cell = Solo(child)
    cell.begin()
    return cell, child


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("exit 0", NORMAL),
        ("exit 3", ExitReason("exit", "", 3)),
        ("kill -9 $$", ExitReason("signal", "Killed", 9)),
    ],
)
def test_a_cell_ends_as_its_process_does(mark: Mark, words: str, reason: ExitReason) -> None:
    cell, _ = begun(mark, "sh", "-c", words)
    cell.run(PATIENCE_SECONDS)
    assert cell.reason == reason


def test_a_cell_is_ready_when_its_process_has_begun(mark: Mark) -> None:
    cell, child = begun(mark, "sleep", "1000")
    assert not cell.is_ready
    cell.run(PATIENCE_SECONDS, until_ready=True)
    assert cell.is_ready
    assert len(mark.alive()) == 1
    assert child.summary()["pid"] == mark.alive()[0]
    cell.told_to_end(SHUTDOWN)
    cell.run(PATIENCE_SECONDS)


def test_a_command_that_cannot_begin_never_makes_a_cell_ready(mark: Mark) -> None:
    cell, _ = begun(mark, "no-such-command")
    cell.run(PATIENCE_SECONDS)
    assert not cell.is_ready
    assert cell.reason is not None
    assert (cell.reason.kind, cell.reason.code) == ("exit", 127)


@pytest.mark.parametrize("kind", ["sleep", "deaf", "daemons"])
def test_a_cell_that_is_told_to_end_ends_after_its_processes(mark: Mark, kind: str) -> None:
    cell, _ = begun(mark, sys.executable, "-I", "-S", TROUBLE, kind)
    cell.run(PATIENCE_SECONDS, until_ready=True)
    cell.told_to_end(SHUTDOWN)
    cell.run(PATIENCE_SECONDS)
    assert cell.reason == SHUTDOWN, "what it was told, not the signal that was used"
    assert mark.alive() == []


def test_the_end_of_a_stranger_is_ignored_if_it_was_clean(mark: Mark) -> None:
    cell, _ = begun(mark, "sh", "-c", "sleep 0.3; exit 4")
    cell.after(0, Exited(Ref("test", "other"), NORMAL))
    cell.after(0, "hello")
    cell.run(PATIENCE_SECONDS)
    assert cell.reason == ExitReason("exit", "", 4)
    crash = ExitReason("crash", "oops")
    cell, _ = begun(mark, "sleep", "1000")
    cell.after(0, Exited(Ref("test", "other"), crash))
    cell.run(PATIENCE_SECONDS)
    assert cell.reason == crash


def test_a_cell_that_ends_by_other_means_takes_its_process_along(mark: Mark) -> None:
    cell, _ = begun(mark, "sleep", "1000")
    cell.run(PATIENCE_SECONDS, until_ready=True)
    cell.exit(SHUTDOWN)
    cell.run(PATIENCE_SECONDS)
    assert cell.reason == SHUTDOWN
    assert mark.alive() == []


def test_a_cell_that_is_just_forgotten_takes_its_process_along(mark: Mark) -> None:
    cell, child = begun(mark, "sleep", "1000")
    cell.run(PATIENCE_SECONDS, until_ready=True)
    assert child._group is not None
    child._group._channel.close()
    mark.gone()


# --- health ---------------------------------------------------------------------------------------


def test_a_health_check_that_is_good_makes_the_cell_ready(mark: Mark, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    health = Health(["test", "-e", str(ready)], every_ms=20)
    cell, _ = begun(mark, "sh", "-c", f"sleep 0.3; touch {ready}; sleep 1000", health=health)
    cell.run(0.2)
    assert not cell.is_ready
    cell.run(PATIENCE_SECONDS, until_ready=True)
    assert ready.exists()
    ready.unlink()
    cell.run(PATIENCE_SECONDS)
    assert cell.reason == ExitReason("crash", "unhealthy: the check ended with exit 1")
    assert mark.alive() == []


def test_a_check_that_takes_too_long_has_failed(mark: Mark) -> None:
    health = Health(["sleep", "1000"], every_ms=10, timeout_ms=50, failures_max=2, start_ms=0)
    cell, _ = begun(mark, "sleep", "1000", health=health)
    cell.run(PATIENCE_SECONDS)
    assert cell.reason is not None
    assert cell.reason.detail.startswith("unhealthy: the check ended with signal")


def test_a_callable_can_be_asked(mark: Mark) -> None:
    answers = iter([False, True, True, False, True])

    def check() -> bool:
        return next(answers)  # then it raises

    health = Health(check, every_ms=5, failures_max=2)
    cell, child = begun(mark, "sleep", "1000", health=health)
    cell.run(PATIENCE_SECONDS, until_ready=True)
    cell.run(PATIENCE_SECONDS)
    assert cell.reason is not None
    assert "StopIteration" in cell.reason.detail
    assert child.summary()["failedChecks"] == 2


def test_a_child_can_be_made_in_another_process() -> None:
    start = Start(PortChild, (Command(["true"]), Health(["true"])), "port")
    assert pickle.loads(pickle.dumps(start)) == start
