"""Finds what a test has left behind: processes that carry a mark in their environment or words."""

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import eventually

TROUBLE = Path(__file__).with_name("trouble.py")
_NAME = "UNDERSTUDY_TEST_MARK"


class Mark:
    """A mark that no other test has. Processes inherit it, or are given it as a word."""

    def __init__(self) -> None:
        self.word = f"mark-{uuid.uuid4().hex}"

    @property
    def env(self) -> dict[str, str]:
        return dict(os.environ) | {_NAME: self.word}

    def alive(self) -> list[int]:
        """Who carries it, but for the dead that are not reaped."""
        return [pid for pid in _everybody() if self._is_on(pid)]

    def zombies(self) -> list[int]:
        """Our own children that are dead and not reaped."""
        return [pid for pid in _everybody() if _state(pid) == ("Z", os.getpid())]

    def gone(self) -> None:
        """Wait until no process carries it any more."""
        eventually(lambda: not self.alive())

    def _is_on(self, pid: int) -> bool:
        try:
            folder = Path(f"/proc/{pid}")
            said = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except OSError:
            return False
        return self.word.encode() in said


@pytest.fixture
def mark() -> Iterator[Mark]:
    """Whatever a test does, nothing with its mark is left at the end."""
    mark = Mark()
    yield mark
    left = mark.alive()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def _everybody() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]


def _state(pid: int) -> tuple[str, int] | None:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return state, int(parent)
