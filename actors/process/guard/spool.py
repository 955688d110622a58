"""What a command prints, kept within bounds: the beginning and the end, however much it is.

    NAME           the first `HEAD_BYTES`
    NAME.OFFSET    pieces of the rest, each named by where it begins; only the last few stay

I1  A byte's place in the output is its offset in `NAME`, or in a piece after the piece's own.
I2  While it is written, `NAME` is locked (flock), however the writer ends.
I3  No more than `HEAD_BYTES` + `PIECES_MAX` * `PIECE_BYTES` is kept, and none of it in memory.
I4  A writer never waits for the reader, and a full disk loses output, not the command.
"""

import fcntl
import os

HEAD_BYTES = 1_048_576
PIECE_BYTES = 524_288
PIECES_MAX = 3  # so at least 1 MiB of the end is there


class Spool:
    """Writes one file and its pieces. Several threads may write; a call is written as a whole."""

    def __init__(self, path: str) -> None:
        self._path = path
        _forget_pieces(path)
        self._file: int | None = _locked(path)  # held to the end, for the lock
        self._into: int | None = self._file
        self._room = HEAD_BYTES
        self._pieces: list[str] = []
        self.size = 0  # bytes that came
        self.lost = 0  # bytes that the disk did not take

    @property
    def dropped(self) -> int:
        """Bytes that came and are not kept."""
        first = int(self._pieces[0].rpartition(".")[2]) if self._pieces else HEAD_BYTES
        return max(0, min(first, self.size) - HEAD_BYTES) + self.lost

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._room == 0:
                self._next_piece()
            part = view[: self._room]
            self._put(part)
            self.size += len(part)
            self._room -= len(part)
            view = view[len(part) :]

    def close(self) -> None:
        for file in {self._file, self._into} - {None}:
            os.close(file)  # type: ignore[arg-type]  # just taken out
        self._file = self._into = None

    def _put(self, part: memoryview) -> None:
        done = 0
        try:
            while self._into is not None and done < len(part):
                done += os.write(self._into, part[done:])
        except OSError:  # what is lost is a hole, so that the rest stays at its place
            if self._into is not None:
                _skip(self._into, len(part) - done)
        self.lost += len(part) - done

    def _next_piece(self) -> None:
        if self._into not in (None, self._file):
            os.close(self._into)
        self._room = PIECE_BYTES
        name = f"{self._path}.{self.size}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._into = os.open(name, flags, 0o600)
        except OSError:
            self._into = None
            return
        self._pieces.append(name)
        while len(self._pieces) > PIECES_MAX:
            os.unlink(self._pieces.pop(0))


def _forget_pieces(path: str) -> None:
    """Of an older output with the same name."""
    folder, name = os.path.split(path)
    try:
        for each in os.listdir(folder):
            if each.startswith(f"{name}.") and each.removeprefix(f"{name}.").isdecimal():
                os.unlink(os.path.join(folder, each))
    except OSError:
        return


def _skip(file: int, count: int) -> None:
    try:
        os.ftruncate(file, os.lseek(file, count, os.SEEK_CUR))
    except OSError:
        return


def _locked(path: str) -> int | None:
    """A new file in place of an old one, locked before anybody can find it (I2)."""
    fresh = f"{path}.new"
    file = None
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        file = os.open(fresh, flags, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        os.rename(fresh, path)
    except OSError:
        if file is not None:
            os.close(file)
        return None
    return file
