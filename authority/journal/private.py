"""Makes files and folders that only their owner can open, whatever the umask says.

Whatever we make below a state directory is made here. What an older version left open to others is
closed to them when it is opened to be written. It imports next to nothing, for who must start fast.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

FILE_MODE, FOLDER_MODE = 0o600, 0o700
OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

TYPE_CHECKING = False  # `pathlib` is too much for some
if TYPE_CHECKING:
    Place = str | os.PathLike[str]


def opener(path: Place, flags: int) -> int:
    """Opens a file as its owner's alone; for `open(..., opener=private.opener)` too."""
    handle = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
    mode = os.fstat(handle).st_mode
    if flags & os.O_CREAT and stat.S_ISREG(mode) and stat.S_IMODE(mode) != FILE_MODE:
        with suppress(PermissionError):  # of another owner; `doctor` says so
            os.fchmod(handle, FILE_MODE)
    return handle


def touch(path: Place) -> None:
    """Make a file, for who opens it by its name only, and says then what is wrong with it."""
    with suppress(OSError):
        os.close(opener(path, os.O_RDWR | os.O_CREAT))


def write(path: Place, data: bytes) -> None:
    """Make a file of these bytes."""
    with open(path, "wb", opener=opener) as file:
        file.write(data)


def make_folder(path: Place) -> None:
    """Make a folder, and those above it that are missing."""
    path = os.fspath(path)
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        make_folder(path)
    except FileExistsError:
        found = os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise
        if found.st_mode & OTHERS and found.st_uid == os.geteuid():
            os.chmod(path, FOLDER_MODE)


def refuse_exposed(folder: Place) -> None:
    """Raise `PermissionError` for a folder in which another user could change what is ours.

    Root is refused as well: what it would leave there its owner could not open.
    """
    found = os.stat(folder)
    path, mode = os.fspath(folder), stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        words = (
            f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}: run as that user"
            f" (`docker run --user {found.st_uid}`), or `chown -R {os.geteuid()} {path}`"
        )
        raise PermissionError(errno.EPERM, words, path)
    if mode & _OTHERS_WRITE:
        words = f"others can write in it (mode {mode:04o}): `chmod 700 {path}`, which "
        words += "`understudy doctor --fix` does too"
        raise PermissionError(errno.EPERM, words, path)
