"""How a cell can end, and what its parent and the reports say of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.otp.carriers.process.cast import Fragile, Stillborn
from tests.actors.otp.carriers.process.stage import Stage
from tests.patience import eventually
from understudy.actors.otp import KILL, KILLED, NORMAL, ExitReason, Start, StartFailed

pytestmark = pytest.mark.timeout(60)


def test_a_message_is_never_run_twice_after_an_exception(shared: Stage, tmp_path: Path) -> None:
    parent = shared.puppet()
    path = tmp_path / "runs"
    child = shared.fragile(parent, path)
    shared.tell(parent, "send", child, "raise")
    exited = shared.exited(parent, child)
    assert exited.reason == ExitReason("crash", "ValueError: as told")
    assert path.read_text() == "raise\n"


def test_a_crash_report_holds_reason_traceback_message_and_state(
    shared: Stage, tmp_path: Path
) -> None:
    parent = shared.puppet()
    child = shared.fragile(parent, tmp_path / "runs")
    shared.tell(parent, "send", child, "raise")
    shared.exited(parent, child)
    (row,) = [row for row in shared.reports() if _serial(row) == child.serial]
    assert row["kind"] == "crash"
    assert row["reason"] == {"kind": "crash", "detail": "ValueError: as told", "code": None}
    assert 'raise ValueError("as told")' in str(row["traceback"])
    assert row["message"] == "'raise'"
    assert row["state"] == {"path": "runs"}


def test_a_server_that_crashes_is_reported_once(shared: Stage) -> None:
    parent = shared.puppet()
    child = shared.child(parent)
    shared.tell(parent, "send", child, "noise")
    shared.troupe.send(child, "noise")
    with pytest.raises(Exception, match="crash"):
        shared.tell(child, "raise", "once")
    assert shared.exited(parent, child).reason.kind == "crash"
    rows = [row for row in shared.reports() if _serial(row) == child.serial]
    assert [row["kind"] for row in rows] == ["crash"]


@pytest.mark.parametrize(
    ("how", "number"),
    [("segv", signal.SIGSEGV), ("abort", signal.SIGABRT), ("bus", signal.SIGBUS)],
)
def test_a_fault_in_c_ends_the_process_and_leaves_a_stack(
    shared: Stage, tmp_path: Path, how: str, number: signal.Signals
) -> None:
    parent = shared.puppet()
    child = shared.fragile(parent, tmp_path / "runs")
    shared.tell(parent, "send", child, how)
    assert shared.exited(parent, child).reason == ExitReason("signal", number.name, number)
    (row,) = [row for row in shared.reports() if _serial(row) == child.serial]
    assert row["kind"] == "death"
    assert "Fatal Python error" in str(row["traceback"])
    assert f"in _{how}" in str(row["traceback"])


@pytest.mark.parametrize(
    ("how", "expected"),
    [("exit", ExitReason("exit", "", 7)), ("leave", ExitReason("crash", "SystemExit: 3"))],
)
def test_an_exit_of_the_process_carries_its_code(
    shared: Stage, tmp_path: Path, how: str, expected: ExitReason
) -> None:
    parent = shared.puppet()
    child = shared.fragile(parent, tmp_path / "runs")
    shared.tell(parent, "send", child, how)
    assert shared.exited(parent, child).reason == expected


def test_a_kill_from_outside_is_a_signal_and_one_of_ours_is_killed(
    shared: Stage, tmp_path: Path
) -> None:
    parent = shared.puppet()
    one, other = (shared.fragile(parent, tmp_path / "runs") for _ in range(2))
    os.kill(one.place.pid, signal.SIGKILL)
    assert shared.exited(parent, one).reason == ExitReason("signal", "SIGKILL", 9)
    shared.tell(parent, "send", other, "hang")
    shared.tell(parent, "signal", other, KILL)
    assert shared.exited(parent, other).reason == KILLED


def test_a_kill_reaches_a_stopped_process_from_any_cell(shared: Stage, tmp_path: Path) -> None:
    parent, stranger = shared.puppet(), shared.puppet()
    child = shared.fragile(parent, tmp_path / "runs")
    os.kill(child.place.pid, signal.SIGSTOP)
    shared.tell(stranger, "signal", child, KILL)
    assert shared.exited(parent, child).reason == KILLED


def test_a_term_signal_ends_a_cell_in_order(shared: Stage) -> None:
    parent = shared.puppet()
    child = shared.child(parent)
    os.kill(child.place.pid, signal.SIGTERM)
    assert shared.exited(parent, child).reason == ExitReason("shutdown")


def test_a_normal_end_is_heard_once_although_thespian_says_it_twice(shared: Stage) -> None:
    parent = shared.puppet()
    child = shared.child(parent)
    shared.tell(child, "leave", NORMAL)
    assert shared.exited(parent, child).reason == NORMAL


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("make", ExitReason("crash", "ValueError: not even made")),
        ("start", ExitReason("crash", "ValueError: no start")),
        ("exit", ExitReason("exit", "", 9)),
    ],
)
def test_a_start_that_fails_says_why(shared: Stage, where: str, reason: ExitReason) -> None:
    with pytest.raises(StartFailed) as failed:
        shared.troupe.spawn(Start(Stillborn, (where,)))
    assert failed.value.reason == reason


@pytest.mark.parametrize("where", ["never", "hang"])
def test_a_start_that_takes_too_long_is_ended(shared: Stage, where: str) -> None:
    with pytest.raises(StartFailed) as failed:
        shared.troupe.spawn(Start(Stillborn, (where,), "late"), timeout_ms=100)
    assert failed.value.reason.kind == "timeout"


def test_a_child_that_dies_before_thespian_knows_it_is_heard_of(shared: Stage) -> None:
    parent = shared.puppet()
    refs = shared.refs(parent, "spawn", Start(Fragile), 10)
    for ref in refs:
        os.kill(ref.place.pid, signal.SIGKILL)
    for ref in refs:
        assert shared.exited(parent, ref).reason == ExitReason("signal", "SIGKILL", 9)


@pytest.mark.parametrize(
    "use",
    [
        "system.spawn(Start(Mine))",
        "system.spawn(supervise([ChildSpec('mine', Start(Mine))]))",
        "system.spawn(Start(made))",
        "system.call('anybody', Mine(), 1_000)",
        "system.send('anybody', [{'what': Mine}])",
        "system.cast('anybody', Mine())",
    ],
)
def test_what_is_defined_in_the_program_itself_is_refused_before_it_is_sent(
    tmp_path: Path, use: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from pathlib import Path\n"
        "from understudy.actors.otp import ChildSpec, GenServer, Start, supervise\n"
        "from understudy.actors.otp.carriers.process import NotImportable, Troupe\n"
        "class Mine(GenServer): pass\n"
        "def made(): return Mine()\n"
        f"with Troupe(Path({str(tmp_path / 'run')!r})) as system:\n"
        "    try:\n"
        f"        {use}\n"
        "    except NotImportable as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert "is defined in __main__" in done.stdout
    assert "move it into a module, and import it from there" in done.stdout


def test_a_message_may_say_main(shared: Stage) -> None:
    assert shared.tell(shared.puppet(), "echo", "__main__") == "__main__"


def test_a_fault_report_is_not_left_behind(shared: Stage, tmp_path: Path) -> None:
    parent = shared.puppet()
    child = shared.fragile(parent, tmp_path / "runs")
    faults = shared.troupe.run_dir / "live" / "faults"
    assert (faults / child.serial).exists()
    shared.tell(parent, "send", child, "raise")
    shared.exited(parent, child)
    eventually(lambda: not (faults / child.serial).exists())


def _serial(row: dict[str, object]) -> object:
    cell = row["cell"]
    assert isinstance(cell, dict)
    return cell["serial"]
