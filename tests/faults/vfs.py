"""SQLite's way to its files, with a layer in the middle: to write down what happens, or to fail.

A `Tapped` system is the default of its process while it is installed, so the code under test opens
its files as ever. Shared memory is not passed on: a crash leaves none of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from understudy.authority.journal import sqlite

_BELOW = "unix"  # by name: the default is ours


class Tap:
    """What may be heard, before it happens. Raise, and SQLite meets an error."""

    def opened(self, path: Path, flags: int, *, fresh: bool) -> None:
        """A file was opened; a fresh one was not there before."""

    def write(self, path: Path, data: bytes, offset: int) -> bytes:
        """The bytes that will really be written."""
        return data

    def truncate(self, path: Path, size: int) -> None:
        """The file will be cut or extended."""

    def sync(self, path: Path) -> None:
        """The file will be flushed."""

    def delete(self, path: Path, *, sync_folder: bool) -> None:
        """The file will be removed, and its folder flushed or not."""


class Tapped(apsw.VFS):
    """The system's own files, each with a tap."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        super().__init__("tapped", _BELOW, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if name is None:
            return super().xOpen(name, flags)
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        fresh = not path.exists()
        file = TappedFile(self._tap, path, name, flags)
        self._tap.opened(path, flags[0], fresh=fresh and path.exists())
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._tap.delete(Path(filename), sync_folder=syncdir)
        super().xDelete(filename, syncdir)


class TappedFile(apsw.VFSFile):
    def __init__(
        self, tap: Tap, path: Path, name: str | apsw.URIFilename, flags: list[int]
    ) -> None:
        self._tap, self._path = tap, path
        super().__init__(_BELOW, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        whole = self._tap.write(self._path, bytes(data), offset)
        super().xWrite(whole, offset)

    def xTruncate(self, newsize: int) -> None:
        self._tap.truncate(self._path, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._tap.sync(self._path)
        super().xSync(flags)


@contextmanager
def tapped(tap: Tap, *, log_pages: int | None = None) -> Iterator[None]:
    """All databases of this process, through a tap; logs may be folded more often than usual."""
    system = Tapped(tap)
    with pytest.MonkeyPatch.context() as patch:
        if log_pages is not None:
            patch.setattr(sqlite, "_LOG_PAGES", log_pages)
        yield
    system.unregister()
