"""Who serves agents in a state directory: one gateway, by a lock that ends with it."""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from ...authority import held

_LEAVE_MS: Final = 30_000  # for what was taken in to be answered, and for a sidecar to end


def take(path: Path, *, by_force: bool) -> AbstractContextManager[None]:
    """Be the gateway; by force, another one is told to make room first.

    The one that leaves answers first what it was asked, and its clients come to us. `Unavailable`
    is raised where another gateway has the lock.
    """
    if by_force:
        dismiss(path)
    return held(path, _LEAVE_MS if by_force else 0)


@contextmanager
def inherit(handle: int) -> Iterator[None]:
    """Be the gateway, by the lock that the pump which started us has taken for us."""
    os.set_inheritable(handle, False)  # noqa: FBT003 - its own signature
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    try:
        yield
    finally:
        os.close(handle)


def clear(path: Path) -> bool:
    """Have the gateway that serves here leave, with the sidecar that it may own; False if none."""
    if dismiss(path) is None:
        return False
    with held(path, _LEAVE_MS):
        return True


def dismiss(path: Path) -> int | None:
    """Tell the gateway that serves here to leave; its process, if there is one."""
    text = _holder(path)
    if not text.isdecimal():
        return None  # there is none, or it is about to begin, or to end
    for number in (signal.SIGTERM, signal.SIGCONT):
        with suppress(ProcessLookupError):
            os.kill(int(text), number)
    return int(text)


def _holder(path: Path) -> str:
    """What the holder of the lock has written; nothing if no process holds it.

    The lock is shared here: one that took it to look would be taken for a gateway by the next.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(handle, 32, 0).decode(errors="replace").strip()
    finally:
        os.close(handle)
    return ""
