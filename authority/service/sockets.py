"""Unix sockets: where they lie, who may open them, and who is at the other end."""

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def peer_of(transport: asyncio.Transport) -> int | None:
    """The process at the other end of a Unix socket; None where it is another user's."""
    peer = transport.get_extra_info("socket")
    pid, uid, _ = struct.unpack(
        "3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return pid if uid in (os.geteuid(), 0) else None


def bound(path: Path) -> socket.socket:
    """A socket that only its owner can open."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    return listener


@contextmanager
def socket_path(state_dir: Path, name: str) -> Iterator[Path]:
    """A socket's path, short enough for `sun_path` however deep the directory is."""
    folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{folder}") / name
    finally:
        os.close(folder)
