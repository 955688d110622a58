"""Files and folders of a run, which only its user can open, whatever the umask says.

OTP is usable on its own, so that it has these few lines itself (`authority.journal.private`).
"""

import os
from pathlib import Path


def opener(path: str | Path, flags: int) -> int:
    """For `open(..., opener=opener)`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=opener) as file:
        file.write(text)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing."""
    if not path.parent.exists():
        make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)
