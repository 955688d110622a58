"""No process is left, whichever ends first and however."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.actors.otp.carriers.process.cast import Fragile, Scribe, Stubborn
from tests.actors.otp.carriers.process.stage import Stage
from tests.patience import PATIENCE_SECONDS, eventually
from understudy.actors.otp import NORMAL, ExitReason, Start
from understudy.actors.otp.carriers.process import SystemEnded, Troupe, process_id
from understudy.actors.otp.identity import Identity, identity

pytestmark = pytest.mark.timeout(90)

ROOT = Path(__file__).parents[5]


class Program:
    """Another process with a troupe of its own."""

    def __init__(self, run_dir: Path, how: str = "wait", output: int = subprocess.PIPE) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.actors.otp.carriers.process.program", str(run_dir), how],
            stdout=output,
            cwd=ROOT,
        )

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        row: dict[str, Any] = json.loads(self.process.stdout.readline())
        return row

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path / "run")
    yield made
    made.close()


def test_a_stop_ends_first_cells_in_reverse_order(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    stage = Stage(tmp_path / "run")
    with stage.troupe as system:
        for name in "abc":
            system.spawn(Start(Scribe, (str(path), name)))
    starts, stops = (
        [line.split()[1] for line in path.read_text().splitlines() if line.startswith(word)]
        for word in ("start", "stop")
    )
    assert (starts, stops) == (list("abc"), list("cba"))
    assert stage.troupe.wait() == NORMAL
    assert process_id.members(stage.troupe.name) == []


@pytest.mark.parametrize("state", ["stubborn", "hung", "stopped"])
def test_a_stop_leaves_no_process_that_does_not_want_to_end(tmp_path: Path, state: str) -> None:
    stage = Stage(tmp_path / "run")
    system = stage.troupe
    system.start()
    if state == "stubborn":
        ref = system.spawn(Start(Stubborn))
    else:
        ref = system.spawn(Start(Fragile))
        if state == "hung":
            system.send(ref, "hang")
        else:
            os.kill(ref.place.pid, signal.SIGSTOP)
    began = time.monotonic()
    system.stop(300)
    assert time.monotonic() - began < 8
    assert process_id.members(system.name) == []
    assert not ref.place.identity.is_alive


def test_a_stop_leaves_no_process_that_a_cell_has_started_and_forgotten(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "run")
    with stage.troupe:
        cell = stage.puppet()
        pid = stage.tell(cell, "daemon")
        assert isinstance(pid, int)
        who = identity(pid)
        assert who.is_alive
    assert not who.is_alive


def test_all_end_when_the_program_is_killed(program: Program) -> None:
    row = program.read()
    members = process_id.members(row["name"])
    assert {row["backstage"], row["admin"], row["root"], row["parent"], row["child"]} <= {
        each.pid for each in members
    }
    program.process.kill()
    eventually(lambda: process_id.members(row["name"]) == [])


def test_all_end_when_the_program_is_killed_and_the_process_behind_it_is_stopped(
    program: Program,
) -> None:
    row = program.read()
    os.kill(row["backstage"], signal.SIGSTOP)
    program.process.kill()
    eventually(lambda: process_id.members(row["name"]) == [])


def test_a_program_that_forgets_to_stop_leaves_nothing(tmp_path: Path) -> None:
    program = Program(tmp_path / "run", "forget")
    row = program.read()
    program.process.wait(PATIENCE_SECONDS)
    eventually(lambda: process_id.members(row["name"]) == [])
    program.close()


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        ("admin", ExitReason("signal", "Thespian's admin: SIGKILL", 9)),
        ("root", ExitReason("killed", "the root: no last word")),
        ("backstage", ExitReason("signal", "the process behind it was killed", 9)),
    ],
)
def test_the_death_of_a_part_ends_everything_and_is_told(
    tmp_path: Path, who: str, reason: ExitReason
) -> None:
    stage = Stage(tmp_path / "run")
    system = stage.troupe
    system.start()
    cell = stage.puppet()
    stage.child(cell)
    assert system.wait(0) is None
    os.kill(system.pids[who], signal.SIGKILL)
    assert system.wait(20_000) == reason
    assert process_id.members(system.name) == []
    with pytest.raises(SystemEnded, match=reason.kind):
        system.call(cell, ("pid",), 1_000)
    system.stop(1_000)


def test_a_call_in_another_thread_ends_with_the_system(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "run")
    stage.troupe.start()
    cell = stage.puppet()
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            stage.tell(cell, "sleep", 30.0, timeout_ms=60_000)
        except SystemEnded as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    os.kill(stage.troupe.pids["admin"], signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    assert len(caught) == 1
    stage.troupe.stop(1_000)


def test_a_thread_that_starts_a_troupe_may_end_before_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "run")
    thread = threading.Thread(target=stage.troupe.start)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    cell = stage.puppet()
    assert stage.tell(cell, "pid") == cell.place.pid
    stage.troupe.stop(5_000)
    assert process_id.members(stage.troupe.name) == []


def test_the_death_of_thespians_logger_is_survived(stage: Stage) -> None:
    known = {*stage.troupe.pids.values(), *(each.pid for each in _cells(stage))}
    (logger,) = [each for each in stage.troupe.processes() if each.pid not in known]
    assert logger.kill()
    eventually(lambda: not logger.is_alive)
    cell = stage.puppet()
    assert stage.tell(cell, "pid") == cell.place.pid
    assert stage.troupe.wait(0) is None


def _cells(stage: Stage) -> list[Identity]:
    folder = stage.troupe.run_dir / "live" / "cells"
    rows = [json.loads(path.read_text()) for path in folder.iterdir()]
    return [Identity(row["place"]["pid"], row["place"]["ticks"]) for row in rows]


def test_who_reads_the_output_of_a_program_is_done_when_that_is(tmp_path: Path) -> None:
    """As in `program | cat`, also where the program is killed before it can clean up."""
    read, write = os.pipe()
    program = Program(tmp_path / "run", "wait", write)
    os.close(write)
    with os.fdopen(read, "rb") as output:
        row = json.loads(output.readline())
        os.kill(row["backstage"], signal.SIGSTOP)  # nothing of it ends now
        os.kill(row["admin"], signal.SIGSTOP)
        holders = [each for each in process_id.members(row["name"]) if _holds(each, output)]
        assert holders == []
        program.process.kill()
        assert output.read() == b""
    program.close()
    eventually(lambda: process_id.members(row["name"]) == [])


def _holds(who: Identity, output: IO[bytes]) -> bool:
    pipe = Path(f"/proc/self/fd/{output.fileno()}").readlink()
    folder = Path(f"/proc/{who.pid}/fd")
    return any(fd.readlink() == pipe for fd in folder.iterdir() if fd.is_symlink())


def test_a_stopped_program_ends_by_itself(tmp_path: Path) -> None:
    program = Program(tmp_path / "run", "stop")
    row = program.read()
    assert program.process.wait(PATIENCE_SECONDS) == 0
    assert process_id.members(row["name"]) == []
    program.close()


def test_a_fork_of_the_program_does_not_stop_its_troupe(stage: Stage) -> None:
    cell = stage.puppet()
    pid = os.fork()
    if pid == 0:
        stage.troupe.stop(1_000)
        os._exit(0)
    os.waitpid(pid, 0)
    assert stage.tell(cell, "pid") == cell.place.pid


def test_a_troupe_is_started_once(stage: Stage) -> None:
    with pytest.raises(Exception, match="started once"):
        stage.troupe.start()
    assert isinstance(stage.troupe, Troupe)
