"""Where the output of attempts is kept: `<state directory>/logs/<issue>/<attempt>.log`.

A job is filed as `job/<id>`, which is no id of an issue.

An attempt that is worked on twice (a lease that was taken over) has a second file, `N.2.log`, and
so on. Beside each lies `N.json`, with what is known of its end. Old ones make room for new ones.

I1  Whatever an issue's id is made of, its folder lies in `logs`, and is its own.
I2  Nothing is written through a link that another user has made.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ...authority.journal import private
from ...contracts import limits, regular_file
from ..process.own_folder import refuse_foreign_link
from ..process.transcript import Gap, Transcript

__all__ = [
    "KEPT_MAX",
    "LOGS",
    "Attempt",
    "Gap",
    "Transcript",
    "attempts_of",
    "begun",
    "check_logs",
    "folder_of",
    "write_record",
]

LOGS = "logs"
KEPT_MAX = 32  # outputs of one issue; each has its own bound
_NAME_LENGTH_MAX = 180  # a file system takes 255 bytes, of which some are for what follows
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_SHAPE = re.compile(r"([1-9][0-9]*)(?:\.([1-9][0-9]*))?\.log")


@dataclass(frozen=True, slots=True, order=True)
class Attempt:
    """One output: of which attempt, which run of it, and where."""

    number: int
    run: int
    path: Path

    @property
    def record_path(self) -> Path:
        return self.path.with_suffix(".json")

    def output(self) -> Transcript:
        """What it printed, to be read from the beginning."""
        return Transcript(self.path)

    def record(self) -> dict[str, Any]:
        """What was written down about it; nothing where its writer was killed or is at work."""
        with suppress(OSError, orjson.JSONDecodeError):
            found = orjson.loads(regular_file.read(self.record_path, limits.REQUEST_BYTES_MAX))
            if isinstance(found, dict):
                return found
        return {}


def folder_of(state_dir: Path, issue_id: str) -> Path:
    return state_dir / LOGS / _encoded(issue_id)


def check_logs(state_dir: Path) -> None:
    """Raises `PermissionError` where output would leave the state directory by another's link."""
    refuse_foreign_link(state_dir / LOGS)


def attempts_of(state_dir: Path, issue_id: str) -> list[Attempt]:
    """What is there, oldest first; `PermissionError` where another user has put a link."""
    refuse_foreign_link(folder_of(state_dir, issue_id))
    return sorted(_found(folder_of(state_dir, issue_id)))


@contextmanager
def begun(state_dir: Path, issue_id: str, number: int) -> Iterator[Attempt]:
    """A new output, whose name no other attempt gets; the oldest ones go.

    It counts as being written from here on, so that a follower does not leave too early.
    """
    folder = folder_of(state_dir, issue_id)
    check_logs(state_dir)
    refuse_foreign_link(folder)
    private.make_folder(folder)
    _make_room(folder)
    run = 1
    while True:
        stem = f"{number}" if run == 1 else f"{number}.{run}"
        path = folder / f"{stem}.log"
        try:
            file = private.opener(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            run += 1
        else:
            break
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield Attempt(number, run, path)
    finally:
        os.close(file)


def write_record(attempt: Attempt, record: dict[str, Any]) -> None:
    """Write down what is known of an attempt, whole or not at all."""
    fresh = attempt.record_path.with_suffix(".json.new")
    private.write(fresh, orjson.dumps(record, option=orjson.OPT_SORT_KEYS))
    fresh.replace(attempt.record_path)


def _found(folder: Path) -> Iterator[Attempt]:
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if match := _SHAPE.fullmatch(path.name):
                yield Attempt(int(match[1]), int(match[2] or 1), path)


def _make_room(folder: Path) -> None:
    for old in sorted(_found(folder))[: -KEPT_MAX + 1]:
        if old.output().is_written():
            continue
        for path in (*folder.glob(f"{old.path.name}.*"), old.record_path, old.path):
            path.unlink(missing_ok=True)


def _encoded(issue_id: str) -> str:
    """A file name from an id: plain letters stay, every other byte is `%` and its number (I1)."""
    data = issue_id.encode(errors="surrogatepass")
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > _NAME_LENGTH_MAX:
        name = f"{name[:_NAME_LENGTH_MAX]}~{hashlib.sha256(data).hexdigest()}"
    return name
