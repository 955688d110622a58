"""Unix sockets: where they lie, who may open them, and who is at the other end."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import contextmanager, suppress

from ..journal import private

TYPE_CHECKING = False  # `asyncio` and `pathlib` are too much for programs that must start fast
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator


def connect(channel: socket.socket, folder: str | os.PathLike[str], name: str) -> None:
    """Reach the socket of this name in a folder that no other user can have put it in."""
    private.refuse_exposed(folder)
    with socket_path(folder, name) as path:
        channel.connect(path)


def bound(path: str) -> socket.socket:
    """A socket that only its owner can open; what lay there was left by a process that is dead."""
    remove(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    return listener


def remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - it is no `Path`


@contextmanager
def socket_path(folder: str | os.PathLike[str], name: str) -> Iterator[str]:
    """A socket's path, short enough for `sun_path` however deep the folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)


def peer_of(transport: asyncio.Transport) -> int | None:
    """The process at the other end of a Unix socket; None where it is another user's."""
    peer = transport.get_extra_info("socket")
    pid, uid, _ = struct.unpack(
        "3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return pid if uid in (os.geteuid(), 0) else None
