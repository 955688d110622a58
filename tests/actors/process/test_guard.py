"""Nothing survives: not the helpers of a command when one is killed, not a command its owner."""

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.actors.litter import TROUBLE, Mark
from tests.actors.litter import mark as mark  # noqa: PLC0414 - a fixture
from tests.actors.process.groups import KINDS, OWNER, PATIENCE_MS, ended, helpers, made, troubled
from tests.patience import PATIENCE_SECONDS, eventually
from understudy.actors.otp.cell import NORMAL
from understudy.actors.process.guard import descendants
from understudy.actors.process.port import Command, Ended, Keeper, ProcessGroup, keeper

ROUNDS = int(os.environ.get("UNDERSTUDY_PORT_ROUNDS", "12"))

pytestmark = pytest.mark.skipif(not descendants.LINUX, reason="elsewhere there is the group alone")


# --- helpers that die -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_survives_a_killed_warden(mark: Mark, tmp_path: Path, kind: str) -> None:
    group = troubled(mark, kind, tmp_path / "log")
    os.kill(helpers(group)[0], signal.SIGKILL)
    end = ended(group)
    assert (end.reason.kind, end.reason.code) == ("signal", signal.SIGKILL)
    assert mark.alive() == []
    assert ended(made(mark, "true")).reason == NORMAL, "the keeper goes on"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_survives_a_killed_keeper(mark: Mark, tmp_path: Path, kind: str) -> None:
    group = troubled(mark, kind, tmp_path / "log", grace_ms=100)
    keeper().kill()
    ended(group)
    assert mark.alive() == []
    assert ended(made(mark, "true")).reason == NORMAL, "there is a new one"


def test_a_helper_that_is_stopped_holds_nothing_up(mark: Mark, tmp_path: Path) -> None:
    group = troubled(mark, "daemons", tmp_path / "log")
    for pid in helpers(group):
        os.kill(pid, signal.SIGSTOP)
    group.terminate(grace_ms=100)
    ended(group)
    assert mark.alive() == []


def test_a_helper_that_is_told_to_end_takes_its_command_along(mark: Mark, tmp_path: Path) -> None:
    for place in (0, 1):
        group = troubled(mark, "sleep", tmp_path / f"log{place}")
        os.kill(helpers(group)[place], signal.SIGTERM)
        assert ended(group).reason.code == signal.SIGTERM
    assert ended(made(mark, "true")).reason == NORMAL


def test_helpers_of_one_command_know_nothing_of_another(mark: Mark, tmp_path: Path) -> None:
    first = troubled(mark, "daemons", tmp_path / "first", grace_ms=100)
    second = troubled(mark, "sleep", tmp_path / "second")
    first.terminate()
    ended(first)
    assert first._channel.fileno() == -1
    assert second.poll() is None
    second.terminate()
    assert ended(second).reason.code == signal.SIGTERM


def test_threads_share_a_keeper(mark: Mark) -> None:
    ends: list[Ended] = []

    def run(code: int) -> None:
        ends.append(ended(made(mark, "sh", "-c", f"exit {code}")))

    threads = [threading.Thread(target=run, args=(code,)) for code in range(1, 9)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(end.code for end in ends) == list(range(1, 9))


def test_a_keeper_that_is_let_go_of_stays_for_its_groups(mark: Mark) -> None:
    own = Keeper()
    group = ProcessGroup(Command(["sleep", "1000"], env=mark.env, grace_ms=0), own)
    assert group.wait_begun(PATIENCE_MS)
    process = own._process
    assert process is not None
    assert own._control is not None
    own._control.close()
    assert group.wait(300) is None, "it runs on"
    assert process.poll() is None
    group.terminate()
    ended(group)
    assert process.wait(PATIENCE_SECONDS) == 0
    own.close()


def test_a_keeper_leaves_with_its_last_group(mark: Mark) -> None:
    own = Keeper()
    with ProcessGroup(Command(["sleep", "1000"], env=mark.env), own) as group:
        assert group.wait_begun()
        pid = own.pid
        assert pid is not None
        group.terminate(0)
        assert group.wait(PATIENCE_MS)
    own.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    own.close()


# --- owners that die ------------------------------------------------------------------------------


def owner(mark: Mark, folder: Path, *kinds: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, TROUBLE, folder, *kinds],
        env=mark.env,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_nothing_survives_its_owner(mark: Mark, tmp_path: Path, number: signal.Signals) -> None:
    with owner(mark, tmp_path, *KINDS) as process:
        eventually(lambda: all((tmp_path / kind).exists() for kind in KINDS))
        eventually(lambda: all((tmp_path / kind).read_bytes() for kind in KINDS))
        process.send_signal(number)
        assert process.wait() == -number
        mark.gone()


@pytest.mark.timeout(300)
def test_nothing_survives_an_owner_that_is_killed_at_any_moment(mark: Mark, tmp_path: Path) -> None:
    """Also in the middle of a start, when half of the helpers are there."""
    dice = random.Random(4)
    pause = threading.Event()
    for turn in range(ROUNDS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with owner(mark, folder, "daemons", "tree") as process:
            assert process.stdout is not None
            if turn % 3:
                process.stdout.readline()
            pause.wait(dice.uniform(0, 0.08))
            process.kill()
            process.wait()
            mark.gone()


@pytest.mark.timeout(300)
def test_nothing_survives_when_any_one_process_is_killed(mark: Mark, tmp_path: Path) -> None:
    """Owner, keeper, wardens or commands: the rest ends, or goes on in its owner's hands."""
    dice = random.Random(5)
    pause = threading.Event()
    for turn in range(ROUNDS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with owner(mark, folder, "daemons", "tree") as process:
            pause.wait(dice.uniform(0.03, 0.2))
            victim = dice.choice(mark.alive() or [process.pid])
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            pause.wait(dice.uniform(0, 0.05))
            process.kill()
            process.wait()
            mark.gone()


def test_a_fork_of_the_owner_does_not_keep_its_commands_alive(mark: Mark, tmp_path: Path) -> None:
    """It holds every descriptor that its parent had, and is none of the helpers' business."""
    words = OWNER.replace('print("owner"', 'import os, time\nchild = os.fork()\n'
                          'if child == 0:\n    time.sleep(1000)\nprint("owner"')  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", words, TROUBLE, tmp_path, "sleep"],
        env=mark.env, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        eventually(lambda: (tmp_path / "sleep").exists() and (tmp_path / "sleep").read_bytes())
        process.kill()
        process.wait()
        eventually(lambda: len(mark.alive()) == 1)  # the fork itself
        os.kill(mark.alive()[0], signal.SIGKILL)
        mark.gone()  # init reaps it, in time
