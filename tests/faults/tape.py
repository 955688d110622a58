"""A disk on tape: what reached a folder's files, in which order, and what a power cut may leave.

    Tape    writes down what happens to a folder
    Disk    plays a tape up to a place, and keeps what is safe apart from what is not

A write is safe when its file was flushed after it, a name when the folder was. Of the rest any part
may be there: any of the writes, any sectors of a write, and the size without the bytes.
"""

import os
import random
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from tests.faults.vfs import Tap, tapped

SECTOR_BYTES = 512
_UNSAFE = "-shm"  # memory that has a name
_SYNCS_ITS_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL  # when it is new

Image = dict[str, bytes]  # the files of a folder


@dataclass(frozen=True, slots=True)
class Write:
    file: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    file: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    file: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A flush failed: what was not safe can be read until the power is cut, and never gets there.

    So it goes on common systems, where a later flush reports success and writes nothing.
    """

    file: int


@dataclass(frozen=True, slots=True)
class Name:
    """From now on the name leads to this file, or to none."""

    name: str
    file: int | None


@dataclass(frozen=True, slots=True)
class SyncFolder:
    pass


@dataclass(frozen=True, slots=True)
class Heard:
    """No matter of the disk: so many rows have been answered."""

    rows: int


Change = Write | Truncate
Event = Change | Sync | Failed | Name | SyncFolder | Heard


# --- to write it down -----------------------------------------------------------------------------


class Tape(Tap):
    """Records one folder. What SQLite does is heard; other files are looked at, again and again.

    A look does not see that bytes are written over themselves; `os.pwrite` is therefore heard, too.
    """

    def __init__(
        self, folder: Path, *, ignore: Sequence[str] = (), before: Sequence[Event] = ()
    ) -> None:
        self.log: list[Event] = list(before)
        self._folder = folder.resolve()
        self._ignore = ("lock", "evidence.lock", "authority.sock", *ignore)
        self._new_logs: set[int] = set()
        names = [event for event in before if isinstance(event, Name)]
        self._numbers = {each.name: each.file for each in names}
        self._count = 1 + max((each.file for each in names if each.file is not None), default=-1)
        if not before:
            self._take_stock()
        self._looked_at = {path.name: path.read_bytes() for path in self._others()}

    @contextmanager
    def running(self, *, log_pages: int | None = None) -> Iterator[None]:
        """Record everything in this block; nothing may escape us."""
        with pytest.MonkeyPatch.context() as patch, tapped(self, log_pages=log_pages):
            for name in ("fsync", "fdatasync"):
                patch.setattr(os, name, self._flushing(getattr(os, name)))
            patch.setattr(os, "pwrite", self._writing(os.pwrite))
            yield
        self._look()
        found = {path.name: path.read_bytes() for path in self._paths()}
        assert played(self.log).seen() == found, "something was written behind our back"

    def heard(self, rows: int) -> None:
        self._look()
        self.log.append(Heard(rows))

    def opened(self, path: Path, flags: int, *, fresh: bool) -> None:
        # A database is made empty before SQLite opens it.
        is_new = fresh or (path.exists() and self._numbers.get(path.name) is None)
        if is_new and self._ours(path):
            number = self._made(path.name)
            if flags & _SYNCS_ITS_FOLDER:
                self._new_logs.add(number)

    def write(self, path: Path, data: bytes, offset: int) -> bytes:
        if self._ours(path):
            self._add(Write(self._number(path), offset, data))
        return data

    def truncate(self, path: Path, size: int) -> None:
        if self._ours(path):
            self._add(Truncate(self._number(path), size))

    def sync(self, path: Path) -> None:
        if self._ours(path):
            number = self._number(path)
            self._add(Sync(number))
            if number in self._new_logs:
                self._new_logs.remove(number)
                self._add(SyncFolder())

    def delete(self, path: Path, *, sync_folder: bool) -> None:
        if self._ours(path) and path.exists():
            self._add(Name(path.name, None))
            self._numbers[path.name] = None
            if sync_folder:
                self._add(SyncFolder())

    def _take_stock(self) -> None:
        """What is there at the beginning is safe."""
        for path in self._paths():
            number = self._made(path.name)
            self.log += [Write(number, 0, path.read_bytes()), Sync(number), SyncFolder()]

    def _flushing(self, flush: Callable[[int], None]) -> Callable[[int], None]:
        def flushed(handle: int) -> None:
            flush(handle)
            path = _path(handle)
            self._look()
            if path == self._folder:
                self.log.append(SyncFolder())
            elif self._ours(path):
                self.log.append(Sync(self._number(path)))

        return flushed

    def _writing(self, write: Callable[[int, bytes, int], int]) -> Callable[[int, bytes, int], int]:
        def wrote(handle: int, data: bytes, offset: int) -> int:
            count = write(handle, data, offset)
            path = _path(handle)
            if _is_database(path) and self._ours(path):
                if self._numbers.get(path.name) is None:
                    self._made(path.name)
                self._add(Write(self._number(path), offset, bytes(data[:count])))
            return count

        return wrote

    def _add(self, event: Event) -> None:
        self._look()
        self.log.append(event)

    def _look(self) -> None:
        """Find out what became of the files that are not SQLite's."""
        for path in self._others():
            data = path.read_bytes()
            if path.name not in self._looked_at:
                self._made(path.name)
            before = self._looked_at.get(path.name, b"")
            if data != before:
                self.log += _difference(self._number(path), before, data)
            self._looked_at[path.name] = data

    def _made(self, name: str) -> int:
        number, self._count = self._count, self._count + 1
        self._numbers[name] = number
        self.log.append(Name(name, number))
        return number

    def _number(self, path: Path) -> int:
        number = self._numbers[path.name]
        assert number is not None, f"{path.name} was deleted"
        return number

    def _paths(self) -> list[Path]:
        there = self._folder.iterdir() if self._folder.exists() else ()
        return sorted(path for path in there if self._ours(path))

    def _others(self) -> list[Path]:
        return [path for path in self._paths() if not _is_database(path)]

    def _ours(self, path: Path) -> bool:
        ignored = path.name.endswith(_UNSAFE) or path.name.startswith(self._ignore)
        return path.parent.resolve() == self._folder and not ignored


def _is_database(path: Path) -> bool:
    return path.suffix.startswith(".db")  # or one of its logs


def _path(handle: int) -> Path:
    return Path(f"/proc/self/fd/{handle}").readlink()


def _difference(file: int, before: bytes, after: bytes) -> list[Event]:
    """What may have been done to a file between two looks at it."""
    same = min(len(before), len(after))
    if before[:same] != after[:same]:
        same = next(place for place in range(same) if before[place] != after[place])
    cut: list[Event] = [Truncate(file, same)] if same < len(before) else []
    return cut + ([Write(file, same, after[same:])] if same < len(after) else [])


# --- to play it -----------------------------------------------------------------------------------


@dataclass
class File:
    """What is safe, and what came later."""

    safe: bytes = b""
    later: list[Change] = field(default_factory=list)
    cached: bytes | None = None  # where a flush failed

    @property
    def kept(self) -> bytes:
        return _written(self.safe, self.later)

    @property
    def seen(self) -> bytes:
        return self.kept if self.cached is None else self.cached


class Disk:
    """The state of the disk after some events."""

    def __init__(self) -> None:
        self.rows_heard = 0
        self._files: dict[int, File] = {}
        self._names: dict[str, int | None] = {}  # safe ones
        self._moves: list[Name] = []  # later ones

    def play(self, event: Event) -> None:
        match event:
            case Write(file=number) | Truncate(file=number):
                file = self._files[number]
                file.later.append(event)
                if file.cached is not None:
                    file.cached = _written(file.cached, [event])
            case Sync(number):
                file = self._files[number]
                file.safe, file.later = file.kept, []
            case Failed(number):
                file = self._files[number]
                file.cached, file.later = file.seen, []
            case Name(_, number):
                if number is not None:
                    self._files.setdefault(number, File())
                self._moves.append(event)
            case SyncFolder():
                self._names, self._moves = self._latest(), []
            case Heard(rows):
                self.rows_heard = rows

    def seen(self) -> Image:
        """What everybody reads, as long as there is power."""
        return {name: file.seen for name, file in self._named(self._latest()).items()}

    def kept(self) -> Image:
        """Everything got there."""
        return {name: file.kept for name, file in self._named(self._latest()).items()}

    def dropped(self) -> Image:
        """Nothing did that was not safe."""
        return {name: file.safe for name, file in self._named(self._names).items()}

    def scattered(self, chance: random.Random, *, orderly: Container[str] = ()) -> Image:
        """Any part of it did; of orderly files the first part."""
        names = dict(self._names)
        for name in sorted({move.name for move in self._moves}):
            moves = [move for move in self._moves if move.name == name]
            for move in moves[: chance.randrange(len(moves) + 1)]:
                names[name] = move.file
        files = self._named(names)
        return {
            name: _torn(file, chance) if name in orderly else _scattered(file, chance)
            for name, file in files.items()
        }

    def _latest(self) -> dict[str, int | None]:
        return self._names | {move.name: move.file for move in self._moves}

    def _named(self, names: dict[str, int | None]) -> dict[str, File]:
        found = sorted(names.items())
        return {name: self._files[number] for name, number in found if number is not None}


def played(log: Sequence[Event]) -> Disk:
    disk = Disk()
    for event in log:
        disk.play(event)
    return disk


def _written(data: bytes, changes: Sequence[Change]) -> bytes:
    if not changes:
        return data
    content = bytearray(data)
    for change in changes:
        size = change.size if isinstance(change, Truncate) else change.offset
        content.extend(bytes(max(0, size - len(content))))
        if isinstance(change, Truncate):
            del content[size:]
        else:
            content[size : size + len(change.data)] = change.data
    return bytes(content)


def _scattered(file: File, chance: random.Random) -> bytes:
    if not file.later:
        return file.safe
    way = chance.choice((_some, _first, _sectors))
    data = _written(file.safe, way(file.later, chance))
    missing = len(file.kept) - len(data)
    if missing > 0 and chance.random() < 0.5:
        data += bytes(missing)  # the size got there before the bytes
    return data


def _torn(file: File, chance: random.Random) -> bytes:
    return _written(file.safe, _first(file.later, chance)) if file.later else file.safe


def _some(changes: Sequence[Change], chance: random.Random) -> list[Change]:
    """Whole writes, in no order."""
    return [change for change in changes if chance.random() < 0.5]


def _first(changes: Sequence[Change], chance: random.Random) -> list[Change]:
    """In order, and the last one torn."""
    count = chance.randrange(len(changes))
    parts = _parts(changes[count])
    return [*changes[:count], *parts[: chance.randrange(len(parts) + 1)]]


def _sectors(changes: Sequence[Change], chance: random.Random) -> list[Change]:
    """Sectors of writes, in no order."""
    share = chance.choice((0.1, 0.5, 0.9))
    return [part for each in changes for part in _parts(each) if chance.random() < share]


def _parts(change: Change) -> list[Change]:
    """A write, cut where sectors end."""
    if isinstance(change, Truncate):
        return [change]
    first = SECTOR_BYTES - change.offset % SECTOR_BYTES
    cuts = [0, *range(first, len(change.data), SECTOR_BYTES), len(change.data)]
    return [
        Write(change.file, change.offset + start, change.data[start:end])
        for start, end in pairwise(cuts)
    ]
