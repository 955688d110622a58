"""A command and everything that it starts, as one thing: on real processes, with real faults."""

import errno
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.actors.litter import Mark
from tests.patience import PATIENCE_SECONDS, eventually
from understudy.actors.otp.cell import NORMAL, ExitReason
from understudy.actors.process import port
from understudy.actors.process.guard import descendants
from understudy.actors.process.guard.spool import HEAD_BYTES, PIECE_BYTES, PIECES_MAX
from understudy.actors.process.port import Command, Ended, Keeper, ProcessGroup, keeper
from understudy.actors.process.transcript import Gap, Transcript

TROUBLE = Path(__file__).with_name("trouble.py")
KINDS = ("sleep", "deaf", "daemons", "tree", "runner")
PATIENCE_MS = PATIENCE_SECONDS * 1000
ROUNDS = int(os.environ.get("UNDERSTUDY_PORT_ROUNDS", "12"))

pytestmark = pytest.mark.skipif(not descendants.LINUX, reason="elsewhere there is the group alone")


@pytest.fixture
def mark() -> Iterator[Mark]:
    """Whatever a test does, nothing with its mark is left at the end."""
    mark = Mark()
    yield mark
    left = mark.alive()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def made(mark: Mark, *argv: str | Path, **more: object) -> ProcessGroup:
    return ProcessGroup(Command(argv, env=mark.env, **more))  # type: ignore[arg-type]  # members by name


def troubled(mark: Mark, kind: str, log: Path, **more: object) -> ProcessGroup:
    """A troublemaker whose trouble is on its way."""
    group = made(mark, sys.executable, "-I", "-S", TROUBLE, kind, log=log, **more)
    eventually(lambda: log.exists() and b"up" in log.read_bytes())
    return group


def helpers(group: ProcessGroup) -> tuple[int, int]:
    """The warden and the keeper."""
    assert group.wait_begun(PATIENCE_MS)
    assert group.warden_pid is not None
    assert keeper().pid is not None
    return group.warden_pid, keeper().pid or 0


def ended(group: ProcessGroup) -> Ended:
    end = group.wait(PATIENCE_MS)
    assert end is not None, "it should have ended"
    group.close()
    return end


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
def test_a_terminated_command_leaves_nobody_behind(mark: Mark, tmp_path: Path, kind: str) -> None:
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


def test_a_helper_that_is_stopped_holds_nobody_up(mark: Mark, tmp_path: Path) -> None:
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

OWNER = """
import sys
from pathlib import Path
from understudy.actors.process.port import Command, ProcessGroup
groups = [
    ProcessGroup(Command([sys.executable, "-I", "-S", sys.argv[1], kind], grace_ms=100,
                         log=Path(sys.argv[2]) / kind))
    for kind in sys.argv[3:]
]
print("owner", flush=True)
for group in groups:
    group.wait()
"""


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
        mark.gone()  # somebody else reaps it, in time


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


# --- output ---------------------------------------------------------------------------------------


def first_words(follower: Transcript) -> list[bytes | Gap]:
    heard: list[bytes | Gap] = []

    def hear() -> bool:
        heard.extend(follower.read())
        return bool(heard)

    eventually(hear)
    return heard


def kept(path: Path) -> list[bytes | Gap]:
    """The output as a reader gets it, neighbours put together."""
    parts: list[bytes | Gap] = []
    for part in Transcript(path).read():
        if parts and isinstance(part, bytes) and isinstance(parts[-1], bytes):
            parts[-1] += part
        else:
            parts.append(part)
    return parts


def test_small_output_is_kept_whole(mark: Mark, tmp_path: Path) -> None:
    end = ended(made(mark, "sh", "-c", "echo one; echo two >&2; echo three", log=tmp_path / "log"))
    assert kept(tmp_path / "log") == [b"one\ntwo\nthree\n"]
    assert (end.size, end.dropped) == (14, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("count", [HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + PIECE_BYTES * 3])
def test_output_up_to_the_bound_is_kept_whole(mark: Mark, tmp_path: Path, count: int) -> None:
    end = ended(made(mark, "head", "-c", str(count), "/dev/zero", log=tmp_path / "log"))
    assert kept(tmp_path / "log") == [bytes(count)]
    assert (end.size, end.dropped) == (count, 0)


def test_beyond_the_bound_the_beginning_and_the_end_are_kept(mark: Mark, tmp_path: Path) -> None:
    first, last = 100_000_000, 105_499_999  # ten bytes each: 55 MB
    end = ended(made(mark, "seq", str(first), str(last), log=tmp_path / "log"))
    head, gap, tail = kept(tmp_path / "log")
    assert isinstance(head, bytes)
    assert isinstance(gap, Gap)
    assert isinstance(tail, bytes)
    whole = b"".join(b"%d\n" % n for n in range(first, last + 1))
    assert head == whole[:HEAD_BYTES]
    assert tail == whole[-len(tail) :]
    assert len(tail) > PIECE_BYTES * (PIECES_MAX - 1)
    assert gap.size == end.dropped == len(whole) - len(head) - len(tail)
    assert end.size == len(whole)
    on_disk = sum(each.stat().st_size for each in tmp_path.iterdir())
    assert on_disk <= HEAD_BYTES + PIECE_BYTES * PIECES_MAX


def test_output_can_be_followed_while_it_is_written(mark: Mark, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    os.mkfifo(gate)
    group = made(mark, "sh", "-c", f"echo one; read x < {gate}; echo two", log=log)
    follower = Transcript(log)
    heard = first_words(follower)
    assert heard == [b"one\n"]
    assert follower.is_written()
    gate.write_text("go\n")
    ended(group)
    eventually(lambda: not follower.is_written())
    assert list(follower.read()) == [b"two\n"]


def test_a_follower_that_is_too_slow_hears_how_much_it_missed(mark: Mark, tmp_path: Path) -> None:
    log = tmp_path / "log"
    follower = Transcript(log)
    group = made(mark, "sh", "-c", "echo begin; head -c 20000000 /dev/zero", log=log)
    heard = first_words(follower)
    end = ended(group)
    heard += follower.read()
    missed = sum(each.size for each in heard if isinstance(each, Gap))
    got = sum(len(each) for each in heard if isinstance(each, bytes))
    assert missed + got == end.size == 20_000_006


def test_a_killed_warden_no_longer_writes(mark: Mark, tmp_path: Path) -> None:
    log = tmp_path / "log"
    group = troubled(mark, "sleep", log)
    assert Transcript(log).is_written()
    os.kill(helpers(group)[0], signal.SIGKILL)
    ended(group)
    assert not Transcript(log).is_written()


def test_a_full_disk_loses_output_and_not_the_command(mark: Mark, tmp_path: Path) -> None:
    end = ended(made(mark, "sh", "-c", "seq 1000; exit 5", log=tmp_path / "no" / "folder"))
    assert end.code == 5
    assert end.dropped == end.size > 0
    full = Path("/dev/full")
    link = tmp_path / "log.new"
    link.symlink_to(full)
    end = ended(made(mark, "sh", "-c", "seq 1000; exit 6", log=tmp_path / "log"))
    assert (end.code, end.dropped) == (6, end.size)


def test_output_is_echoed_as_well(mark: Mark, tmp_path: Path) -> None:
    out, out_sink = os.pipe()
    err, err_sink = os.pipe()
    group = made(
        mark, "sh", "-c", "echo one; echo two >&2",
        log=tmp_path / "log", echo=(out_sink, err_sink),
    )  # fmt: skip
    for each in (out_sink, err_sink):
        os.close(each)
    assert group.wait(PATIENCE_MS)
    group.drain(PATIENCE_MS)
    group.close()
    assert (os.read(out, 100), os.read(out, 100)) == (b"one\n", b"")
    assert (os.read(err, 100), os.read(err, 100)) == (b"two\n", b"")
    for each in (out, err):
        os.close(each)
    assert sorted((tmp_path / "log").read_text().split()) == ["one", "two"]


def test_the_order_is_kept_where_both_streams_go_to_one_place(mark: Mark, tmp_path: Path) -> None:
    words = "for n in 1 2 3 4 5 6 7 8 9; do echo out$n; echo err$n >&2; done"
    with (tmp_path / "out").open("wb") as out:
        echo = (out.fileno(), out.fileno())
        ended(made(mark, "sh", "-c", words, log=tmp_path / "log", echo=echo))
    lines = "".join(f"out{n}\nerr{n}\n" for n in range(1, 10))
    assert (tmp_path / "out").read_text() == (tmp_path / "log").read_text() == lines


def test_a_slow_reader_of_the_echo_gets_everything(mark: Mark, tmp_path: Path) -> None:
    out, sink = os.pipe()
    count = 300_000
    group = made(
        mark, "head", "-c", str(count), "/dev/zero", log=tmp_path / "log", echo=(sink, sink)
    )
    os.close(sink)
    got = 0
    while got < count - 10_000:
        got += len(os.read(out, 5_000))
    assert group.wait(PATIENCE_MS), "it has ended, and the rest of its words is on the way"
    while chunk := os.read(out, 5_000):
        got += len(chunk)
    group.drain(PATIENCE_MS)
    group.close()
    os.close(out)
    assert got == count


def test_an_echo_that_nobody_reads_any_more_ends_nothing(mark: Mark, tmp_path: Path) -> None:
    out, sink = os.pipe()
    os.close(out)
    group = made(mark, "sh", "-c", "seq 10000; exit 2", log=tmp_path / "log", echo=(sink, sink))
    os.close(sink)
    assert ended(group).code == 2
    assert (tmp_path / "log").read_text().endswith("\n10000\n")


def test_without_a_log_the_command_writes_straight_to_its_streams(
    mark: Mark, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("wb") as out:
        group = made(mark, "sh", "-c", "echo one; echo two >&2", echo=(out.fileno(), out.fileno()))
        ended(group)
    assert (tmp_path / "out").read_text() == "one\ntwo\n"
