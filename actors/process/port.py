"""An operating-system process, and everything that it starts, as one thing that can be ended.

    group = ProcessGroup(Command(["make", "test"], log=Path("1.log")))
    ended = group.wait()                  # or poll it, or watch `group.fileno()`
    group.terminate(grace_ms=2_000)       # TERM, grace, KILL; `wait` says when nothing is left

Between us and the command stand two helpers, of which `ward.keeper` and `ward.warden` say why there
are two. On Linux the promises are:

I1  `wait` and `poll` give the end after every descendant is gone and reaped: those that left the
    group, the session or their parent as well, and those that ignore SIGTERM.
I2  Nothing survives the owner, however it dies, or the death of any one helper.
I3  A command is ended at `keep_until`, also if the owner is frozen.
I4  Output is kept within bounds (`ward.spool`), and a slow reader does not hold the command up; who
    asks for an echo of it does.

Not promised: what the command had others start (a container, a unit of the system) is none of its
descendants; a descendant that became another user cannot be ended, and is counted in `Ended.left`.
Elsewhere than on Linux there is the process group alone: who left it is not found, and a helper
that is killed takes nothing along.
"""

import errno
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from ..otp.cell import NORMAL, ExitReason
from .guard.descendants import now_ms, watch

GRACE_MS: Final = 5_000
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what a shell says of them

_STUCK_MS = 3_000  # how long a helper may take beyond the grace before it is killed itself
_LEAVE_SECONDS = 5.0
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from guard.keeper import main; main()"


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, and how."""

    argv: Sequence[str | Path]
    env: Mapping[str, str] | None = None  # all of it; ours if there is none
    cwd: Path | None = None
    stdin: bytes | int | None = None  # what it reads, or a descriptor; else nothing
    log: Path | None = None  # where its output is kept, within bounds
    echo: tuple[int, int] | None = None  # descriptors that get its output and its errors as well
    grace_ms: int = GRACE_MS  # between TERM and KILL, however it is ended
    until_ms: int | None = None  # when it is ended in any case, on the clock of `now_ms`

    def __post_init__(self) -> None:
        words = [os.fsencode(word) for word in self.argv]
        if not words or not words[0]:
            raise ValueError("a command has at least one word")
        if any(b"\0" in word for word in words):
            raise ValueError("a command has no NUL in it")


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended. Code 0 is `normal`; 126 and 127 with a detail mean that it never began."""

    reason: ExitReason
    began: bool = True
    late: bool = False  # it was ended at `keep_until`
    left: int = 0  # processes that could not be ended
    size: int = 0  # bytes that it printed into its log
    dropped: int = 0  # of those, bytes that are not kept

    @property
    def code(self) -> int:
        """As a shell shows it: the exit code, or 128 and the signal."""
        if self.reason.kind == "signal":
            return 128 + (self.reason.code or 0)
        return self.reason.code or 0


class Keeper:
    """The helper process of this process; started when it is first needed, and again if it died.

    Threads may share one, and so may any number of groups. A forked child gets its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def warm(self) -> None:
        """Start it now, so that no start waits for it later."""
        with self._lock:
            self._ready()

    def start(self, order: dict[str, object], files: Sequence[int]) -> socket.socket:
        """Have a command started; the channel to its warden."""
        with self._lock, _paper(marshal.dumps(order)) as paper:
            near, far = socket.socketpair()
            with far:
                everything = [far.fileno(), paper.fileno(), *files]
                try:
                    socket.send_fds(self._ready(), [b"+"], everything)
                except (BrokenPipeError, ConnectionResetError):  # it has just died
                    self._forget()
                    socket.send_fds(self._ready(), [b"+"], everything)
        return near

    def wake(self) -> None:
        """Let it go on, if it was stopped."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a say, and so every group below it."""
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                self._process.send_signal(number)

    def close(self) -> None:
        """Let go of it. It leaves when the last group is gone; a while is waited for that."""
        with self._lock:
            self._forget()

    def disown(self) -> None:
        """In a fork: it is our parent's, and so is whatever a thread of our parent did with it."""
        self._lock = threading.Lock()
        self._process = self._control = None

    def _ready(self) -> socket.socket:
        if self._owner != os.getpid():
            self._process = self._control = None
        if self._process is not None and self._process.poll() is not None:
            self._forget()
        if self._control is None:
            self._spawn()
        assert self._control is not None
        return self._control

    def _spawn(self) -> None:
        near, far = socket.socketpair()
        self._owner = os.getpid()
        with far:
            words = [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).parent)]
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*words, str(far.fileno()), str(self._owner)],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a terminal's signals are ours to pass on
            )
        self._control = near

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None and self._owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVE_SECONDS)
        self._process = self._control = None


_ours: Final = Keeper()
os.register_at_fork(after_in_child=_ours.disown)


def keeper() -> Keeper:
    """The one that groups use unless they are given another."""
    return _ours


class ProcessGroup:
    """One command under a warden. For one thread at a time."""

    def __init__(self, command: Command, under: Keeper | None = None) -> None:
        """Have it started, and come back at once; `wait_begun` waits, `poll` looks."""
        self.command = command
        self.pid: int | None = None  # of the command, which is also its group and session
        self.warden_pid: int | None = None
        self.ended: Ended | None = None
        self._keeper = under or keeper()
        self._heard = b""
        self._warden: int | None = None  # descriptor of the warden, for a signal to it alone
        self._hurry_at_ms: int | None = None
        self._hung_up = False
        self._channel = _started(command, self._keeper)
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)

    def fileno(self) -> int:
        """Readable when `poll` has something to look at."""
        return self._channel.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- looking --------------------------------------------------------------------------------

    def poll(self) -> Ended | None:
        """How it ended, if it has. Does not wait."""
        while not self._hung_up and self._poll.poll(0):
            self._listen()
        self._hurry()
        return self.ended

    def wait_begun(self, timeout_ms: int | None = None) -> int | None:
        """The command's pid; None if it could not be started, or not in that time."""
        self._wait(lambda: self.pid is not None or self.ended is not None, timeout_ms)
        return self.pid

    def wait(self, timeout_ms: int | None = None) -> Ended | None:
        """How it ended; None if it has not in that time."""
        self._wait(lambda: self.ended is not None, timeout_ms)
        return self.ended

    # --- acting ---------------------------------------------------------------------------------

    def send(self, number: int) -> None:
        """To every process of the group, and to none that left it."""
        self._say(f"sig {number:d}")

    def terminate(self, grace_ms: int | None = None, number: int = signal.SIGTERM) -> None:
        """Begin to end it and all its descendants: the signal, the grace, KILL. Does not wait."""
        grace_ms = self.command.grace_ms if grace_ms is None else grace_ms
        if self.ended is None:  # who stopped a helper does not stop us
            self._keeper.wake()
            if self._warden is not None:
                with suppress(OSError):
                    signal.pidfd_send_signal(self._warden, signal.SIGCONT)
        self._say(f"term {grace_ms:d} {number:d}")
        hurry_at_ms = now_ms() + grace_ms + _STUCK_MS
        self._hurry_at_ms = min(self._hurry_at_ms or hurry_at_ms, hurry_at_ms)

    def keep_until(self, until_ms: int) -> None:
        """End it then, on the clock of `now_ms`, unless another time is set before (I3)."""
        self._say(f"until {until_ms:d}")

    def drain(self, timeout_ms: int | None = None) -> bool:
        """After the end: wait until the reader of the echo has it all; whether it has."""
        self._wait(lambda: self._hung_up, timeout_ms)
        return self._hung_up

    def close(self) -> None:
        """End it at once if it has not ended, and let go of it."""
        if self.ended is None and self._channel.fileno() >= 0:
            self.terminate(0)
            self.wait(2 * _STUCK_MS)
        self._channel.close()
        if self._warden is not None:
            os.close(self._warden)
            self._warden = None

    # --- inside ---------------------------------------------------------------------------------

    def _wait(self, done: Callable[[], bool], timeout_ms: int | None) -> None:
        give_up_ms = None if timeout_ms is None else now_ms() + timeout_ms
        while not done():
            times_ms = [each for each in (give_up_ms, self._hurry_at_ms) if each is not None]
            pause_ms = max(0, min(times_ms) - now_ms()) if times_ms else None
            if self._poll.poll(pause_ms):
                self._listen()
            self._hurry()
            if give_up_ms is not None and now_ms() >= give_up_ms:
                return

    def _listen(self) -> None:
        try:
            data = self._channel.recv(4096)
        except ConnectionResetError:
            data = b""
        if not data:
            self._poll.unregister(self._channel)
            self._hung_up = True
            if self.ended is None:
                self._lose("its helpers were killed", signal.SIGKILL)
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._take(line.decode().split())

    def _take(self, words: list[str]) -> None:
        match words:
            case ["pid", pid, warden_pid]:
                self.pid, self.warden_pid = int(pid), int(warden_pid)
                self._warden = watch(self.warden_pid)
            case ["no", number, where]:
                self._end(Ended(_not_begun(self.command, int(number), where), began=False))
            case ["end", status, *rest]:
                late, left, size, dropped = map(int, rest)
                ended = Ended(
                    _reason(int(status)), late=bool(late), left=left, size=size, dropped=dropped
                )
                self._end(ended)
            case ["lost", status, left]:
                code = os.WTERMSIG(int(status)) or signal.SIGKILL
                self._lose("its warden was killed", code, int(left))
            case _:
                raise AssertionError(f"a warden said {words}")

    def _lose(self, detail: str, code: int, left: int = 0) -> None:
        reason = ExitReason("signal", detail, code)
        self._end(Ended(reason, began=self.pid is not None, left=left))

    def _end(self, ended: Ended) -> None:
        self.ended = self.ended or ended
        self._hurry_at_ms = None

    def _hurry(self) -> None:
        """A helper that does not do what it was told is killed; the other one does it then."""
        if self._hurry_at_ms is None or now_ms() < self._hurry_at_ms:
            return
        self._hurry_at_ms = now_ms() + _STUCK_MS
        if self._warden is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._warden, signal.SIGKILL)
            os.close(self._warden)
            self._warden = None
        else:
            self._keeper.kill()

    def _say(self, line: str) -> None:
        if self.ended is None:
            with suppress(OSError):  # it has just ended, and `poll` will say so
                self._channel.sendall(line.encode() + b"\n")


def _started(command: Command, under: Keeper) -> socket.socket:
    env = os.environ if command.env is None else command.env
    order: dict[str, object] = {
        "argv": [os.fsencode(word) for word in command.argv],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        "cwd": None if command.cwd is None else os.fsencode(command.cwd),
        "log": None if command.log is None else str(command.log.absolute()),
        "stdin": command.stdin is not None,
        "grace_ms": command.grace_ms,
        "until_ms": command.until_ms,
        "owner": os.getpid(),
    }
    with ExitStack() as opened:
        files = list(dict.fromkeys(command.echo or ()))  # one, where both go to the same
        if isinstance(command.stdin, bytes):
            files.insert(0, opened.enter_context(_paper(command.stdin)).fileno())
        elif command.stdin is not None:
            files.insert(0, command.stdin)
        return under.start(order, files)


def _paper(data: bytes) -> IO[bytes]:
    """A file without a name, to be read from its beginning by its receiver."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = open(os.memfd_create("understudy"), "w+b")  # noqa: SIM115, PTH123 - the caller closes it
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(data)
    file.seek(0)
    return file


def _reason(status: int) -> ExitReason:
    if status < 0:
        return ExitReason("signal", "it cannot be ended", signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return ExitReason(
            "signal", signal.strsignal(os.WTERMSIG(status)) or "", os.WTERMSIG(status)
        )
    code = os.waitstatus_to_exitcode(status)
    return ExitReason("exit", "", code) if code else NORMAL


def _not_begun(command: Command, number: int, where: str) -> ExitReason:
    what = {"cwd": command.cwd, "exec": command.argv[0]}.get(where, "a new process")
    code = NOT_FOUND if (number, where) == (errno.ENOENT, "exec") else NOT_EXECUTABLE
    return ExitReason("exit", f"{what}: {os.strerror(number)}", code)
