"""Reads what `ward.spool` keeps of a command's output: the beginning, a gap, and the end.

It may be read while it is written. Pieces that go while they are read become part of the gap.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 262_144


@dataclass(frozen=True, slots=True)
class Gap:
    """So many bytes were not kept."""

    size: int


class Transcript:
    """One output, read from its beginning on. `read` goes on where it stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0

    def read(self) -> Iterator[bytes | Gap]:
        """What has come since, as far as it is kept."""
        while True:
            found = self._here()
            if found is None:
                return
            start, path = found
            if start > self.offset:
                yield Gap(start - self.offset)
                self.offset = start
            yield from self._rest_of(path, start)

    def extent(self) -> tuple[int, int]:
        """How many bytes were printed so far, and how many of them are not kept."""
        parts = list(_parts(self.path))
        if not parts:
            return 0, 0
        start, size, _ = parts[-1]
        return start + size, start + size - sum(size for _, size, _ in parts)

    def is_written(self) -> bool:
        """Whether it is still written. What was read after a no is all there is."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def _here(self) -> tuple[int, Path] | None:
        """The file that has the byte at our offset, or the next one that is kept."""
        for start, size, path in _parts(self.path):
            if start + size > self.offset:
                return start, path
        return None

    def _rest_of(self, path: Path, start: int) -> Iterator[bytes]:
        with suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(self.offset - start)
            while data := file.read(_READ_BYTES):
                self.offset += len(data)
                yield data


def _parts(path: Path) -> Iterator[tuple[int, int, Path]]:
    """Where each file begins, its size, and its path; in order."""
    pieces = []
    with suppress(FileNotFoundError):
        for each in path.parent.iterdir():
            start = each.name.removeprefix(f"{path.name}.")
            if start != each.name and start.isdecimal():
                pieces.append((int(start), each))
    for offset, each in ((0, path), *sorted(pieces)):
        with suppress(FileNotFoundError):
            found = each.stat()
            if stat.S_ISREG(found.st_mode):  # a pipe would hold its reader up
                yield offset, found.st_size, each
