"""What wakes a cell besides its mail: the ends of processes, descriptors, and itself.

One epoll holds them all, so that Thespian has one descriptor to look at, however many children
there are. The kernel says when a process ends; no signal is needed that could be lost.
"""

import os
import select
from contextlib import suppress
from typing import Literal

from ...identity import Identity

Event = tuple[Literal["process", "file", "self"], int]  # and its pid, its descriptor, or nothing


class Vigil:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._pids: dict[int, int] = {}  # by descriptor
        self._pidfds: dict[int, int] = {}  # by pid

    def fileno(self) -> int:
        return self._epoll.fileno()

    def ring(self) -> None:
        """Wake up once more, soon; also from a signal handler."""
        with suppress(BlockingIOError):  # it rings already
            os.eventfd_write(self._bell, 1)

    def watch_process(self, who: Identity) -> bool:
        """Hear when a process ends; False where it has ended."""
        if who.pid in self._pidfds:
            return who.is_alive
        try:
            fd = os.pidfd_open(who.pid)
        except ProcessLookupError:
            return False
        if not who.is_alive:
            os.close(fd)
            return False
        self._pids[fd] = who.pid
        self._pidfds[who.pid] = fd
        self._epoll.register(fd, select.EPOLLIN)
        return True

    def forget_process(self, pid: int) -> None:
        fd = self._pidfds.pop(pid, None)
        if fd is not None:
            del self._pids[fd]
            self._epoll.unregister(fd)
            os.close(fd)

    def watch_file(self, fd: int) -> None:
        """Hear once when a descriptor can be read; again after another call."""
        try:
            self._epoll.register(fd, select.EPOLLIN | select.EPOLLONESHOT)
        except FileExistsError:
            self._epoll.modify(fd, select.EPOLLIN | select.EPOLLONESHOT)

    def forget_file(self, fd: int) -> None:
        with suppress(OSError):  # closed by its owner
            self._epoll.unregister(fd)

    def events(self) -> list[Event]:
        found: list[Event] = []
        for fd, _ in self._epoll.poll(0):
            if fd == self._bell:
                os.eventfd_read(fd)
                found.append(("self", 0))
            elif fd in self._pids:
                found.append(("process", self._pids[fd]))
            else:
                found.append(("file", fd))
        return found
