"""Folders that we write to: links that another user has put in their place are not followed."""

import errno
import os
import stat
from pathlib import Path

_ROOT = 0


def refuse_foreign_link(path: Path) -> None:
    """Raises `PermissionError` for a link that is neither ours nor root's; what is missing is fine.

    A link of our own user is a choice, such as to keep logs on another disk.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (os.geteuid(), _ROOT):
        said = f"a link that user {found.st_uid} has made; remove it, or have it made by yours"
        raise PermissionError(errno.EPERM, said, str(path))
