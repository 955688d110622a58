"""A disk that fails below a running sidecar: nothing more is acknowledged, and nothing was lost.

The errors come from below the process, through LD_PRELOAD, so that SQLite and Python meet them as
those of a real disk: after a flush that failed the bytes can still be read, and are not there.
"""

import errno
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.faults.served import Callers, Served
from tests.long import few
from tests.surfaces.process import journal_rows
from understudy.authority import TRAJECTORY, create_state_dir, open_journal
from understudy.authority.views.replay import replay
from understudy.authority.views.trajectory import verify

LOG, JOURNAL = "journal.db-wal", "journal.db"
ROUNDS = 10  # of requests of each caller; those that get no answer leave earlier
EIO, ENOSPC = errno.EIO, errno.ENOSPC
Fault = tuple[str, int, int]  # what fails, from which time on, and with which error


def _name(value: Fault | int) -> str:
    return f"{value}" if isinstance(value, int) else "-".join(map(str, value))


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that fails on demand."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler to build tests/faults/preload.c with")
    library = tmp_path_factory.mktemp("preload") / "preload.so"
    source = Path(__file__).with_name("preload.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


class Bench:
    """A state directory on a disk that can be broken."""

    def __init__(self, state_dir: Path, preload: Path) -> None:
        self.state_dir = state_dir
        self.safe_dir = state_dir.with_name(
            "safe"
        )  # what is on the disk when the first error comes
        self.safe_dir.mkdir()
        shutil.copy(state_dir / JOURNAL, self.safe_dir)
        self._preload = preload

    def served(self, file: str, fault: Fault) -> Served:
        changes = {
            "LD_PRELOAD": str(self._preload),
            "FAULTS": ":".join([file, *map(str, fault)]),
            "FAULTS_SAFE": str(self.safe_dir),
        }
        return Served(self.state_dir, env=changes)


@pytest.fixture
def bench(state_dir: Path, preload: Path) -> Bench:
    return Bench(state_dir, preload)


def prove(state_dir: Path, callers: Callers) -> None:
    """What was heard is there; what was not is asked for again, and everything was done once."""
    with Served(state_dir) as running:
        again = {orjson.loads(line)["id"]: line for line in callers.call_again(state_dir)}
        assert running.terminate() == 0, running.complaint()
    for line in callers.heard:
        assert again[orjson.loads(line)["id"]] == line
    rows = journal_rows(state_dir)
    asked = [orjson.loads(row[2])["payload"]["requestId"] for row in rows]
    assert len(set(asked)) == len(asked) == len(again)
    with open_journal(state_dir, read_only=True) as journal:
        assert replay(journal).mismatch is None
        assert verify(state_dir / TRAJECTORY, journal) == (len(rows), None)


# --- the journal ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "window"),
    few(
        [
            (("sync", 1, EIO), 1),
            (("sync", 2, EIO), 8),
            (("sync", 3, EIO), 8),
            (("sync", 9, EIO), 1),
            (("sync", 9, ENOSPC), 8),
            (("write", 1, EIO), 8),
            (("write", 3, ENOSPC), 1),
            (("write", 60, EIO), 8),
            (("short", 2, ENOSPC), 1),
            (("short", 61, ENOSPC), 8),
        ],
        3,
    ),
    ids=_name,
)
def test_after_an_error_in_the_log_a_sidecar_acknowledges_nothing_and_ends(
    bench: Bench, fault: Fault, window: int
) -> None:
    callers = Callers(3, window)
    with bench.served(LOG, fault) as running:
        callers.call(bench.state_dir, ROUNDS)
        assert running.wait() == 1
        assert "Traceback" not in running.complaint(), running.complaint()
        assert running.complaint().startswith("serving ")
        assert "(journal_write_failed)" in running.complaint()
    safe = {b'{"id":%d,' % _mark(row[2]) + row[3][1:] for row in journal_rows(bench.safe_dir)}
    assert set(callers.heard) <= safe
    assert fault[1] < 9 or callers.heard
    prove(bench.state_dir, callers)


def _mark(request: bytes) -> int:
    return int(orjson.loads(request)["payload"]["requestId"].removeprefix("r"))


@pytest.mark.parametrize(
    "fault",
    few([(("sync", 1, EIO),), (("write", 1, EIO),), (("write", 9, ENOSPC),)]),
    ids=_name,
)
def test_an_error_while_the_log_is_folded_ends_the_sidecar_and_takes_no_answer_away(
    bench: Bench, fault: Fault
) -> None:
    """The log keeps what the database did not get."""
    callers = Callers(2, 8, notes=100_000)
    with bench.served(JOURNAL, fault) as running:
        while running.process.poll() is None:
            callers.call(bench.state_dir, ROUNDS)
        assert running.wait() != 0
        assert "(journal_write_failed)" in running.complaint()
        assert "Traceback" not in running.complaint(), running.complaint()
    assert callers.heard
    prove(bench.state_dir, callers)


# --- the evidence ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    few(
        [
            (("sync", 1, EIO),),
            (("sync", 2, EIO),),
            (("write", 1, ENOSPC),),
            (("write", 2, EIO),),
            (("short", 1, ENOSPC),),
        ],
        2,
    ),
    ids=_name,
)
def test_an_error_in_the_trajectory_ends_the_sidecar_and_takes_no_answer_away(
    bench: Bench, fault: Fault
) -> None:
    """It is behind the answers; the journal has their rows."""
    callers = Callers(3, 8)
    with bench.served(TRAJECTORY, fault) as running:
        while running.process.poll() is None:
            callers.call(bench.state_dir, ROUNDS)
        assert running.wait() == 1
        assert "Traceback" not in running.complaint(), running.complaint()
    assert callers.heard
    prove(bench.state_dir, callers)


def test_an_error_in_the_trajectory_is_named(bench: Bench) -> None:
    callers = Callers(1, 1)
    with bench.served(TRAJECTORY, ("sync", 1, EIO)) as running:
        callers.call(bench.state_dir, 1)
        assert running.wait() == 1
        assert TRAJECTORY in running.complaint()


# --- a full disk ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte, if we may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if (
        shutil.which("mount") is None
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_sidecar_on_a_full_disk_ends_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    state_dir = small_disk / "state"
    create_state_dir(state_dir, "local")
    callers = Callers(3, 8)
    with Served(state_dir) as running:
        while running.process.poll() is None:
            callers.call(state_dir, ROUNDS)
        assert running.wait() == 1
        assert "Traceback" not in running.complaint(), running.complaint()
        assert (
            "(journal_write_failed)" in running.complaint()
            or "No space left" in running.complaint()
        )
    assert len(callers.heard) > 50
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    prove(state_dir, callers)


@pytest.mark.parametrize("size", few([150_000, 600_000]))
def test_a_sidecar_whose_files_may_not_grow_ends_and_goes_on_when_they_may(
    state_dir: Path, size: int
) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    callers = Callers(3, 8)
    with Served(state_dir, prepare=limit) as running:
        while running.process.poll() is None:
            callers.call(state_dir, ROUNDS)
        assert running.wait() == 1
        assert "Traceback" not in running.complaint(), running.complaint()
    assert callers.heard
    prove(state_dir, callers)
