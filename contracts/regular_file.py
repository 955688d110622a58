"""Reads a file that a person or a command has named: once, a regular one, and within a bound.

A pipe would hold its reader up, and a device may have no end. A link to a regular file is one.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_READ_BYTES = 1_048_576


def read(path: Path, bytes_max: int) -> bytes:
    """All of it; `OSError` for what cannot be read, is no regular file, or is longer."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return read_stream(file, bytes_max)
    finally:
        os.close(handle)


def read_stream(stream: BinaryIO, bytes_max: int) -> bytes:
    """What is left of a stream; `OSError` where that is longer."""
    parts, left = list[bytes](), bytes_max
    while part := stream.read(_READ_BYTES):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise OSError(errno.EFBIG, f"longer than {bytes_max} bytes")
    return b"".join(parts)
