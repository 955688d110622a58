"""A command and everything that it starts, as one thing: on real processes, with real faults."""

import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.litter import TROUBLE, Mark
from tests.actors.litter import mark as mark  # noqa: PLC0414 - a fixture
from tests.actors.process.groups import KINDS, OWNER, PATIENCE_MS, ended, made, troubled
from tests.patience import eventually
from understudy.actors.otp.cell import NORMAL, ExitReason
from understudy.actors.process import port
from understudy.actors.process.guard import descendants
from understudy.actors.process.port import Command, Keeper, ProcessGroup

pytestmark = pytest.mark.skipif(not descendants.LINUX, reason="elsewhere there is the group alone")


# --- how it ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [
        ("exit 0", NORMAL, 0),
        ("exit 3", ExitReason("exit", "", 3), 3),
        ("exit 75", ExitReason("exit", "", 75), 75),
        ("kill -9 $$", ExitReason("signal", "Killed", 9), 137),
        ("kill -TERM $$", ExitReason("signal", "Terminated", 15), 143),
    ],
)
def test_an_end_is_told_with_its_code_or_signal(
    mark: Mark, words: str, reason: ExitReason, code: int
) -> None:
    end = ended(made(mark, "sh", "-c", words))
    assert (end.reason, end.code, end.began, end.left) == (reason, code, True, 0)


@pytest.mark.parametrize(
    ("argv", "cwd", "code", "number"),
    [
        (["no-such-command"], None, 127, errno.ENOENT),
        (["/no/such/file"], None, 127, errno.ENOENT),
        (["/etc/passwd"], None, 126, errno.EACCES),
        (["true"], Path("/no/such/folder"), 126, errno.ENOENT),
        (["true", "x" * 1_000_000], None, 126, errno.E2BIG),
    ],
)
def test_what_cannot_begin_says_why(
    mark: Mark, argv: list[str], cwd: Path | None, code: int, number: int
) -> None:
    end = ended(made(mark, *argv, cwd=cwd))
    assert (end.began, end.code) == (False, code)
    assert os.strerror(number) in end.reason.detail


@pytest.mark.parametrize("argv", [[], [""], ["tr\0ue"]])
def test_words_that_are_no_command_are_refused_at_once(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="a command has"):
        Command(argv)


def test_a_command_leads_a_group_and_a_session_of_its_own(mark: Mark, tmp_path: Path) -> None:
    group = troubled(mark, "sleep", tmp_path / "log")
    pid = group.wait_begun(PATIENCE_MS)
    assert pid is not None
    assert os.getpgid(pid) == os.getsid(pid) == pid
    group.send(signal.SIGUSR1)
    assert ended(group).reason.code == signal.SIGUSR1


def test_a_command_gets_its_input_environment_and_folder(mark: Mark, tmp_path: Path) -> None:
    log = tmp_path / "log"
    group = ProcessGroup(
        Command(
            ["sh", "-c", "cat; echo $COLOUR; pwd; echo aside >&2; ls -l /proc/self/fd | wc -l"],
            env={"COLOUR": "red", "PATH": os.environ["PATH"]},
            cwd=tmp_path,
            stdin=b"line\n" * 100_000,
            log=log,
        )
    )
    assert ended(group).reason == NORMAL
    lines = log.read_text().splitlines()
    assert lines[:100_000] == ["line"] * 100_000
    # Its three streams, the folder that `ls` reads, and the line of the total.
    assert lines[100_000:] == ["red", str(tmp_path), "aside", "5"]


def test_signals_that_we_ignore_are_not_ignored_by_the_command(mark: Mark) -> None:
    end = ended(made(mark, "sh", "-c", "kill -PIPE $$"))
    assert end.reason.code == signal.SIGPIPE


def test_an_end_can_be_watched_as_a_descriptor(mark: Mark) -> None:
    group = made(mark, "sh", "-c", "exit 4")
    inbox = select.poll()
    inbox.register(group, select.POLLIN)
    while (end := group.poll()) is None:
        assert inbox.poll(PATIENCE_MS)
    assert end.reason.code == 4
    group.close()


# --- the end of everything ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_terminated_command_leaves_no_process_behind(
    mark: Mark, tmp_path: Path, kind: str
) -> None:
    group = troubled(mark, kind, tmp_path / "log")
    group.terminate(grace_ms=200)
    end = ended(group)
    assert (end.left, end.late) == (0, False)
    assert mark.alive() == [], "at the very moment that the end is told"


def test_who_heeds_a_signal_gets_the_time_to(mark: Mark, tmp_path: Path) -> None:
    words = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"
    log = tmp_path / "log"
    group = made(mark, "sh", "-c", words, log=log)
    eventually(lambda: log.exists() and log.read_text())
    group.terminate(grace_ms=PATIENCE_MS)
    assert ended(group).reason == ExitReason("exit", "", 7)
    assert log.read_text().endswith("bye\n")


def test_a_stopped_command_can_be_terminated(mark: Mark, tmp_path: Path) -> None:
    group = troubled(mark, "sleep", tmp_path / "log")
    group.send(signal.SIGSTOP)
    group.terminate(grace_ms=PATIENCE_MS)
    assert ended(group).reason.code == signal.SIGTERM


def test_what_a_command_leaves_behind_does_not_outlive_it(mark: Mark, tmp_path: Path) -> None:
    group = troubled(mark, "leaver", tmp_path / "log", grace_ms=100)
    assert ended(group).reason == ExitReason("exit", "", 3), "its own code, not that of the rest"
    assert mark.alive() == []


def test_a_group_that_is_let_go_of_ends(mark: Mark, tmp_path: Path) -> None:
    with troubled(mark, "daemons", tmp_path / "log"):
        pass
    assert mark.alive() == []
    group = troubled(mark, "daemons", tmp_path / "log2", grace_ms=0)
    group._channel.close()  # as if the object had just been forgotten
    mark.gone()


def test_a_command_is_ended_at_the_time_that_was_set(mark: Mark, tmp_path: Path) -> None:
    group = troubled(
        mark, "deaf", tmp_path / "log", grace_ms=100, until_ms=descendants.now_ms() + 600_000
    )
    assert group.poll() is None
    due_ms = descendants.now_ms() + 300
    group.keep_until(due_ms)
    end = ended(group)
    assert (end.reason.code, end.late) == (signal.SIGKILL, True)
    assert due_ms + 100 <= descendants.now_ms() < due_ms + PATIENCE_MS


def test_a_time_can_be_put_off(mark: Mark) -> None:
    group = made(mark, "sleep", "0.5", until_ms=descendants.now_ms() + 250)
    group.keep_until(descendants.now_ms() + PATIENCE_MS)
    assert ended(group).reason == NORMAL


# --- elsewhere ------------------------------------------------------------------------------------


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    """A keeper as it is where there are process groups and nothing else."""
    before, needle = port._BOOT, "from guard.keeper"
    assert needle in before
    elsewhere = (
        "import guard.descendants; guard.descendants.LINUX = False; "
        f"del __import__('os').pidfd_open; {needle}"
    )
    monkeypatch.setattr(port, "_BOOT", before.replace(needle, elsewhere))
    own = Keeper()
    yield own
    own.close()


def test_elsewhere_a_group_is_ended_as_a_whole(mark: Mark, tmp_path: Path, plain: Keeper) -> None:
    log = tmp_path / "log"
    words = "trap '' TERM; (trap '' TERM; sleep 1000) & echo up; sleep 1000"
    command = Command(["sh", "-c", words], env=mark.env, log=log, grace_ms=100)
    group = ProcessGroup(command, plain)
    eventually(lambda: log.exists() and log.read_bytes())
    group.terminate()
    assert ended(group).reason.code == signal.SIGKILL
    assert mark.alive() == []
    left = ProcessGroup(
        Command(["sh", "-c", "sleep 1000 & exit 3"], env=mark.env, grace_ms=100), plain
    )
    assert ended(left).code == 3
    assert mark.alive() == []


def test_elsewhere_a_group_ends_with_its_owner(mark: Mark, tmp_path: Path) -> None:
    needle = "from understudy.actors.process.port import"
    boot = "from guard.keeper"
    elsewhere = (
        "from understudy.actors.process import port\n"
        f"port._BOOT = port._BOOT.replace({boot!r}, "
        "'import guard.descendants; guard.descendants.LINUX = False; '"
        f"\n    'del __import__(\"os\").pidfd_open; {boot}')\n{needle}"
    )
    words = OWNER.replace(needle, elsewhere)
    with subprocess.Popen(
        [sys.executable, "-c", words, TROUBLE, tmp_path, "sleep", "deaf"],
        env=mark.env, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        logs = [tmp_path / kind for kind in ("sleep", "deaf")]
        eventually(lambda: all(log.exists() and log.read_bytes() for log in logs))
        process.kill()
        process.wait()
        mark.gone()
