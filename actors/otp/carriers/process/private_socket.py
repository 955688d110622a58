"""Ports of a system as Unix sockets in a folder that only its user may enter.

Thespian numbers ports, and means TCP, which every user of the machine can reach. Here a number is a
file: who may not enter the folder cannot connect, and so costs nothing.

I1  The folder belongs to this user, and has no bits for others; otherwise nothing is opened there.
I2  A number is one process's: making its file takes it, and the roll frees it after that process.
I3  What can be connected to is listened on: a socket gets its number when it listens.
I4  The kernel says who connects; a process of another user is hung up on before it is read.
"""

import errno
import os
import random
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from ...cell import OtpError

HOST: Final = "127.0.0.1"  # part of Thespian's addresses, and listened on by none of them
_NUMBERS: Final = range(1_024, 65_536)
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid and gid


class NotPrivate(OtpError):
    """Other users could enter the folder of the sockets, or it is theirs."""


def prepare(folder: Path) -> None:
    """Make the folder, or see that it is ours alone (I1)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise NotPrivate(f"{folder} must be a folder of user {os.geteuid()}, with mode 700")


def take_number(folder: Path) -> int:
    """A number that no process of the folder has (I2)."""
    for _ in _NUMBERS:
        number = random.choice(_NUMBERS)  # noqa: S311 - it is no secret
        with suppress(FileExistsError):
            (folder / str(number)).touch(mode=0o600, exist_ok=False)
            return number
    raise OSError(errno.EADDRNOTAVAIL, "every number is taken", str(folder))


class PrivateSocket(socket.socket):
    """What Thespian takes for a TCP socket."""

    def __init__(self, folder: Path, fd: int | None = None) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
        self._folder = folder
        self._number = 0
        self._awaited: int | None = None  # the number whose backlog was full

    def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]  # as Thespian calls it
        _, number = address
        if number and (self._folder / str(number)).is_socket():
            raise OSError(errno.EADDRINUSE, "the number is taken", str(number))
        self._number = number or take_number(self._folder)

    def listen(self, backlog: int = 0) -> None:
        draft = f".{self._number}"
        with _path(self._folder, draft) as path:
            super().bind(path)
        super().listen(backlog)
        (self._folder / draft).rename(self._folder / str(self._number))  # I3

    def accept(self) -> tuple[Self, tuple[str, int]]:
        """The next connection; `ConnectionAbortedError` where another user made it (I4)."""
        found = type(self)(self._folder, super().accept()[0].detach())
        credentials = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(credentials)
        if uid != os.geteuid():
            found.close()
            raise ConnectionAbortedError(errno.ECONNABORTED, f"from user {uid}")
        return found, (HOST, 0)

    def connect(self, address: tuple[str, int]) -> None:  # type: ignore[override]  # as Thespian calls it
        """Raises what TCP raises: a file without a listener, and no file, are refusals."""
        _, number = address
        try:
            with _path(self._folder, str(number)) as path:
                super().connect(path)
        except BlockingIOError as error:
            self._awaited = number
            raise OSError(errno.EINPROGRESS, "its backlog is full") from error
        except FileNotFoundError as error:
            raise ConnectionRefusedError(errno.ECONNREFUSED, error.strerror) from error
        self._awaited = None

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]  # as Thespian calls it
        if self._awaited is not None:
            self.connect((HOST, self._awaited))
        try:
            return super().send(data, flags)
        except BrokenPipeError as error:
            # It has closed this connection, and may take another: that is no refusal.
            raise ConnectionResetError(errno.ECONNRESET, error.strerror) from error

    def getsockname(self) -> tuple[str, int]:
        return HOST, self._number

    def setsockopt(self, level: int, *option: int) -> None:  # type: ignore[override]  # as Thespian calls it
        if level == socket.SOL_SOCKET:
            super().setsockopt(level, *option)  # others are those of TCP


@contextmanager
def _path(folder: Path, name: str) -> Iterator[str]:
    """Short enough for the kernel, however deep the folder is."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)
