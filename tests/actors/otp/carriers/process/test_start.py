"""How a troupe starts: where it listens, what it inherits, and what it finds from before."""

import json
import os
import pickle
import socket
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.actors.otp.carriers.process.stage import Stage
from tests.actors.otp.carriers.process.stranger import listeners, say
from tests.actors.otp.carriers.process.test_ends import Program
from tests.patience import eventually
from understudy.actors.otp import Ref
from understudy.actors.otp.carriers.process import (
    AlreadyRunning,
    StartupFailed,
    Troupe,
    process_id,
)

pytestmark = pytest.mark.timeout(90)


def test_every_process_is_reached_on_a_socket_of_its_own_and_none_over_a_network(
    stage: Stage,
) -> None:
    parent = stage.puppet()
    stage.child(parent)
    found = listeners(stage.troupe.processes(), stage.troupe.sockets)
    # Backstage, admin, logger, root and two cells.
    assert len(set(found)) == 6
    assert {Path(str(each)).parent for each in found} == {stage.troupe.sockets}
    assert stat.S_IMODE(stage.troupe.sockets.stat().st_mode) == 0o700


def test_no_address_outside_is_connected_to_or_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thespian asks the network for a way to 8.8.8.8 to learn its own address."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        f"log = {str(tmp_path / 'connects')!r}\n"
        "def hook(event, args):\n"
        "    if event in ('socket.connect', 'socket.sendto', 'socket.bind'):\n"
        "        with open(log, 'a') as file:\n"
        "            file.write(f'{event} {args[-1]}\\n')\n"
        "sys.addaudithook(hook)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    stage = Stage(tmp_path / "run")
    with stage.troupe:
        stage.child(stage.puppet())
    lines = (tmp_path / "connects").read_text().splitlines()
    assert len(lines) > 10
    assert [line for line in lines if " /proc/self/fd/" not in line] == []


class Intruder:
    """Writes to a file where it is opened."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self._path}",)


def test_mail_of_a_stranger_is_not_opened(stage: Stage, tmp_path: Path) -> None:
    cell = stage.puppet()
    me = stage.tell(cell, "me")
    assert isinstance(me, Ref)
    data = pickle.dumps(Intruder(tmp_path / "opened"))
    pickle.loads(data)
    assert (tmp_path / "opened").exists()  # where it is opened
    (tmp_path / "opened").unlink()
    for port in (stage.troupe.port, me.place.port):
        assert say(str(stage.troupe.sockets / str(port)), b"%d>%s" % (len(data), data)) == b""
    assert stage.tell(cell, "pid") == cell.place.pid
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("length", [15, 65])
def test_a_secret_that_is_too_short_or_too_long_is_refused(tmp_path: Path, length: int) -> None:
    with pytest.raises(ValueError, match=f"secret: {length} bytes"):
        Troupe(tmp_path, secret=b"x" * length)


def test_a_run_directory_has_one_system(stage: Stage) -> None:
    with pytest.raises(AlreadyRunning, match=f"process {os.getpid()}, with the same code"):
        Troupe(stage.troupe.run_dir).start()
    path = stage.troupe.run_dir / "run.json"
    row = json.loads(path.read_text())
    assert row["port"] == stage.troupe.port
    path.write_text(json.dumps({**row, "build": "an older one"}))
    with pytest.raises(AlreadyRunning, match="other code than ours"):
        Troupe(stage.troupe.run_dir).start()
    cell = stage.puppet()
    assert stage.tell(cell, "pid") == cell.place.pid


def test_a_system_of_a_killed_program_is_not_used_again(tmp_path: Path) -> None:
    program = Program(tmp_path / "run")
    old = program.read()
    program.process.kill()
    stage = Stage(tmp_path / "run")
    with stage.troupe:
        assert process_id.members(old["name"]) == []
        cell = stage.puppet()
        assert stage.tell(cell, "pid") == cell.place.pid
        assert stage.troupe.pids["admin"] != old["admin"]
    program.close()


def test_processes_that_an_older_system_left_are_swept(tmp_path: Path) -> None:
    """Such as one that was started by a cell, and was not ended by the death of its parent."""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    leftover = subprocess.Popen(["sleep", "600"], env={process_id.MARK: "tgone"})
    gone = {"pid": 1, "ticks": 0}
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    row = {"system": "tgone", "build": "", "port": 1, "boot": boot, "program": gone}
    (run_dir / "run.json").write_text(json.dumps(row))
    with Troupe(run_dir):
        assert leftover.wait(10) == -9


def test_a_link_in_the_place_of_its_files_is_not_followed(tmp_path: Path) -> None:
    run_dir, outside = tmp_path / "run", tmp_path / "outside"
    run_dir.mkdir()
    outside.mkdir()
    (run_dir / "live").symlink_to(outside)
    with Troupe(run_dir):
        assert list(outside.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file"):
        Troupe(tmp_path / "file" / "run").start()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("import importlib.metadata as m; m.version = lambda name: '9.9'", "thespian 9.9"),
        (
            "import thespian.system.transport.TCPTransport as t; del t.LISTEN_DEPTH",
            "no thespian.system.transport.TCPTransport.LISTEN_DEPTH",
        ),
        (
            "from thespian.system import multiprocCommon as m; m.startChild = lambda *args: None",
            "startChild takes no childRequirements",
        ),
    ],
)
def test_a_thespian_without_our_hooks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, message: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(change)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    troupe = Troupe(tmp_path / "run")
    with pytest.raises(StartupFailed, match=message):
        troupe.start()
    assert process_id.members(troupe.name) == []


def test_thespian_is_the_release_that_is_pinned() -> None:
    from understudy.actors.otp.carriers.process import hooks  # loads Thespian

    assert metadata.version("thespian") == hooks.RELEASE
    hooks.check()


def test_a_program_that_starts_a_troupe_does_not_load_thespian() -> None:
    code = "import sys, understudy.actors.otp.carriers.process; print('thespian' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


def test_a_child_has_none_of_its_parents_files(stage: Stage, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("for the parent")
    parent = stage.puppet()
    stage.tell(parent, "open", str(secret))
    fds = stage.tell(parent, "fds")
    assert isinstance(fds, list)
    assert str(secret) in fds
    children = [stage.child(parent) for _ in range(10)]
    counts = []
    for child in children:
        fds = stage.tell(child, "fds")
        assert isinstance(fds, list)
        assert str(secret) not in fds
        counts.append(len(fds))
    assert max(counts) <= min(counts) + 2  # Thespian: two more for every sibling
    assert max(counts) < 16


def test_output_of_cells_goes_to_the_log(stage: Stage) -> None:
    cell = stage.puppet()
    stage.tell(cell, "print", "to be or not")
    stage.tell(cell, "log", "that is the question")
    log = stage.troupe.run_dir / "troupe.log"
    eventually(lambda: "that is the question" in log.read_text())
    stage.tell(cell, "leave")
    eventually(lambda: "to be or not" in log.read_text())


def test_a_process_that_ends_before_it_reads_what_it_was_told_has_ended(tmp_path: Path) -> None:
    system = Troupe(tmp_path / "run")
    system._said = bytearray()
    system._control, theirs = socket.socketpair()
    with system._control:
        system._control.sendall(b"stop\n")
        theirs.close()
        assert system._read_word(None) is None
