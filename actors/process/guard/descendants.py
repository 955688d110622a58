"""Parents and children of processes, as far as the system lets us arrange them.

Linux lets a process adopt the orphans below it, so that one without children has no descendants
either, and be killed with its parent. Elsewhere there are process groups only.

A process ends none but its own children. They are not reaped by anybody else, so that a number
never means a stranger; and when they are gone, their children are ours.
"""

import ctypes
import os
import sys
import time

LINUX = sys.platform == "linux"

_SET_PDEATHSIG, _SET_NAME, _SET_CHILD_SUBREAPER = 1, 15, 36
_WAIT_ALL = 0x40000000  # __WALL: children that were cloned with another signal too

if LINUX:
    _libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """From now on, every orphan below us becomes our child."""
    _prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))


def die_with_parent(signal_number: int, parent: int) -> None:
    """Get a signal when the parent's thread that made us ends; at once if it has."""
    _prctl(_SET_PDEATHSIG, ctypes.c_ulong(signal_number))
    if os.getppid() != parent:
        os._exit(70)


def set_name(name: str) -> None:
    """What `ps` and `top` show; fifteen letters."""
    _prctl(_SET_NAME, ctypes.c_char_p(name.encode()))


def watch(pid: int) -> int | None:
    """A descriptor that can be read once the process is gone, where the system has such."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


def children() -> list[int]:
    """Our children, adopted ones among them. Some may be left out while others come and go."""
    found: list[int] = []
    try:
        for task in os.listdir("/proc/self/task"):
            found += map(int, _read(f"/proc/self/task/{task}/children").split())
    except OSError:  # a kernel without that file
        return [pid for pid in _everybody() if _parent_of(pid) == os.getpid()]
    return found


def reap() -> tuple[list[tuple[int, int]], bool]:
    """Children that have ended, with their statuses, and whether there is none left at all."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | (_WAIT_ALL if LINUX else 0))
        except ChildProcessError:
            return found, True
        if pid == 0:
            return found, False
        found.append((pid, status))


def send(pid: int, number: int) -> None:
    """A signal to a child; one that has just gone, or has become another user, does not get it."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def send_group(group: int, number: int) -> bool:
    """A signal to a process group; False where it is empty."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def now_ms() -> int:
    """A clock that never goes back, and counts the time that the machine sleeps."""
    clock = time.CLOCK_BOOTTIME if LINUX else time.CLOCK_MONOTONIC
    return time.clock_gettime_ns(clock) // 1_000_000


def _prctl(option: int, value: object) -> None:
    if LINUX:
        _libc.prctl(option, value, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _everybody() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _parent_of(pid: int) -> int | None:
    try:
        return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except OSError:
        return None


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, 65_536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)
