"""Processes of the command line, forked from one that has imported it already.

A fresh interpreter takes a sixth of a second to import what a command needs, and the tests start
a thousand of them. A fork is a process like any other, with a pid, files, signals and an end of its
own; only /proc shows the words and the environment of the nursery that it came from. What depends
on how an interpreter starts is executed instead, and `make long` executes everything.

    a test --- words, environment, files ---> nursery --- fork ---> command
      ^------------- pid, then its end ----------'
"""

import atexit
import gc
import importlib
import os
import pickle
import pkgutil
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import IO, Any

# Words, folder, environment, and how many files it may have open.
Order = tuple[list[str], str, dict[str, str], tuple[int, int]]
Words = Sequence[str | bytes | os.PathLike[str]]
_NUMBER = struct.Struct("!q")
_OURS = (
    "UNDERSTUDY_",
    "PYTHONDONTWRITEBYTECODE",
)  # what a test may set is handed over with each order
_FILES = 4  # its standard streams, and where its end is told


class Forked:
    """A command that runs, with as much of `subprocess.Popen` as tests use."""

    def __init__(
        self,
        words: Words,
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        cwd: str,
        env: Mapping[str, str],
    ) -> None:
        self.args = [os.fsdecode(each) for each in words]
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self._end, told = os.pipe()
        lent = [told]
        if stdin == subprocess.DEVNULL:
            stdin = os.open(os.devnull, os.O_RDONLY)
            lent.append(stdin)
        elif stdin == subprocess.PIPE:
            stdin, ours = os.pipe()
            self.stdin = os.fdopen(ours, "wb")
            lent.append(stdin)
        if stdout == subprocess.PIPE:
            ours, stdout = os.pipe()
            self.stdout = os.fdopen(ours, "rb")
            lent.append(stdout)
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
        order = (self.args, cwd, dict(env), allowed)
        nursery = _nursery("mcp" if "gateway" in self.args[1:2] else "cli")
        self.pid = nursery.start(order, [stdin, stdout, stderr, told])
        for number in lent:
            os.close(number)

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], seconds)[0]:
            said = os.read(self._end, _NUMBER.size)
            os.close(self._end)
            (self.returncode,) = _NUMBER.unpack(said) if said else (-signal.SIGKILL,)
        return self.returncode


class Nursery:
    """The process that forks, as a test sees it; it ends when the test's process does."""

    def __init__(self, room: str) -> None:
        self._line, theirs = socket.socketpair()
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), room],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={name: value for name, value in os.environ.items() if not name.startswith(_OURS)},
            start_new_session=True,  # a Ctrl-C at the terminal is for the tests
        )
        theirs.close()
        atexit.register(self._close)

    def start(self, order: Order, files: Sequence[int]) -> int:
        data = pickle.dumps(order)
        with self._turn:
            socket.send_fds(self._line, [_NUMBER.pack(len(data))], files)
            self._line.sendall(data)
            (pid,) = _NUMBER.unpack(_received(self._line, _NUMBER.size))
        return int(pid)

    def _close(self) -> None:
        self._line.close()
        self._process.wait()


@cache
def _nursery(room: str) -> Nursery:
    return Nursery(room)


# --- the other side -------------------------------------------------------------------------------


def main(line: socket.socket, room: str) -> None:
    """Fork what is asked for, and tell how it ended, until the pipe closes."""
    command = _imported({"cli", room})
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    ends: dict[int, int] = {}
    while True:
        ready = select.select([line.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _tell(ends)
        if line.fileno() in ready:
            head, files, *_ = socket.recv_fds(line, _NUMBER.size, _FILES)
            if not head:
                return
            order: Order = pickle.loads(_received(line, *_NUMBER.unpack(head)))
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _become(order, files, [line.detach(), woken, waker, *ends.values()])
                _run(command)
            ends[pid] = files.pop()
            for number in files:
                os.close(number)
            line.sendall(_NUMBER.pack(pid))


def _tell(ends: dict[int, int]) -> None:
    for pid in [*ends]:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            os.write(ends[pid], _NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os.close(ends.pop(pid))


def _become(order: Order, files: Sequence[int], others: Sequence[int]) -> None:
    words, folder, environment, allowed = order
    os.setpgid(0, 0)
    for target, number in enumerate(files[:3]):
        os.dup2(number, target)
    for number in (*files, *others):
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words


def _run(command: Any) -> None:  # `main` of the command line
    """As an interpreter would, but for taking itself apart at the end."""
    code: Any = 0
    try:
        command()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - what an interpreter does with it
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _imported(rooms: Collection[str]) -> Any:  # `main` of the command line
    """Everything that a command in these rooms may need."""
    from understudy.contracts import startup_check
    from understudy.surfaces.cli.entry import main as command

    for name in [f"surfaces.{each}" for each in rooms] + ["authority"]:
        room = importlib.import_module(f"understudy.{name}")
        for each in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(each.name)
    startup_check()
    gc.collect()
    gc.freeze()
    return command


def _received(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += line.recv(size - len(data))
    return data


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
