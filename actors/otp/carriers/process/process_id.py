"""How a process of the stage is tied to the one that made it, and to nothing else.

I1  A tied process is ended by the kernel when its parent ends, however that happens.
I2  It keeps the descriptors that are its own, and no other.
I3  A fault in C code ends it: no handler in Python stands in the way and runs it again.
"""

import ctypes
import faulthandler
import gc
import logging
import multiprocessing
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from ...identity import Identity, identity
from . import run_file

MARK = "UNDERSTUDY_TROUPE"  # in the environment of every process of a system: which one it is of

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_STDIO = (0, 1, 2)
_UNTOUCHED = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1)
_SWEEP_SECONDS = 10.0  # a killed process that waits for a disk goes when the disk answers
_LOOK_SECONDS = 0.005

_libc = ctypes.CDLL(None, use_errno=True)


# --- ties -----------------------------------------------------------------------------------------


def tie_to_parent(parent_pid: int | None = None) -> None:
    """End when the parent ends (I1), also if it ended just now."""
    if parent_pid is None:
        parent = multiprocessing.parent_process()
        assert parent is not None  # whom Thespian starts is a child of multiprocessing
        assert parent.pid is not None
        parent_pid = parent.pid
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends: the last to be swept."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")


def keep_only(fds: Collection[int]) -> None:
    """Close what was inherited (I2).

    Objects of the parent that still think they own a descriptor are frozen: collected here, they
    would close a number that is another's by then.
    """
    gc.freeze()
    kept = {*_STDIO, *fds}
    for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if fd not in kept:
            with suppress(OSError):  # the one that listed the folder
                os.close(fd)


def allow_many_files() -> None:
    """A parent holds four descriptors a child; the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def take_signals(on_term: Callable[[], None]) -> None:
    """Let signals end the process again, after Thespian has put a handler on each (I3)."""
    faulthandler.disable()  # inherited, it would believe that its handlers are still there
    for number in signal.valid_signals():
        if number not in _UNTOUCHED:
            with suppress(OSError):
                signal.signal(number, signal.SIG_DFL)
    # Who pressed the key decides what it means for the cells.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: on_term())


def log_faults(path: Path) -> None:
    """Where the stack is written if a fault in C code ends the process."""
    file = open(path, "wb", opener=run_file.opener)  # noqa: SIM115 - its opener
    # It stays open as long as the process is there.
    faulthandler.enable(file=file.fileno(), all_threads=True)
    _kept.append(file)


_kept: list[object] = []


def log_to_stderr() -> None:
    """Undo what Thespian does to logging: there, every record is a message to another process."""
    root = logging.RootLogger(logging.WARNING)
    logging.root = root
    logging.Logger.root = root
    logging.Logger.manager = logging.Manager(root)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"%(asctime)s {os.getpid()} %(name)s: %(message)s"))
    root.addHandler(handler)
    logging.raiseExceptions = False  # a log that cannot be written to ends no cell


# --- a whole system -------------------------------------------------------------------------------


def members(system: str) -> list[Identity]:
    """Every living process that carries the mark of a system, but for this one."""
    return list(_members(f"{MARK}={system}".encode()))


def _members(mark: bytes) -> Iterator[Identity]:
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        # Gone by now, or another's: neither is ours.
        with suppress(OSError):
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found = identity(int(path.name))
                if found.is_alive:
                    yield found


def sweep(system: str) -> list[Identity]:
    """Kill what is left of a system until nothing is; who had to be killed."""
    killed: dict[Identity, None] = {}
    deadline = time.monotonic() + _SWEEP_SECONDS
    while left := members(system):
        for each in left:
            if each.kill():
                killed[each] = None
        if time.monotonic() > deadline:
            raise TimeoutError(f"still there: {[each.pid for each in left]}")
        select.select([], [], [], _LOOK_SECONDS)
    return list(killed)
