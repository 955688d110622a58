"""The border to C: the only module that imports `._lease`, and no policy of its own.

The library may be missing, where there was no compiler, or old, where it was built from another
header. `available` says whether it may be called; each function here calls C once, and gives what
its namesake in `contracts` gives. Room for C to work in is made per call, so that any number of
threads may call at once. A `Kernel` keeps its room, and has one caller at a time.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import finalize

from ...contracts import canonical as profile
from ..journal.journal import Bytes, Packed

if TYPE_CHECKING:
    from .._lease import CData

ABI = 8  # US_ABI in native/lease.h

try:
    from .._lease import ffi, lib
except ImportError as error:
    _why_not: str | None = f"the C library was not built: {error}"
else:
    _uncleared = ffi.new_allocator(should_clear_after_alloc=False)
    _why_not = None if lib.US_ABI == ABI else f"the C library has ABI {lib.US_ABI}, not {ABI}"


class KernelFlaw(IntEnum):
    """`enum us_flaw`: why bytes were refused; the first that the reader met."""

    NOT_JSON = 1
    NOT_UTF8 = 2
    NOT_INTEGER = 3
    INTEGER_BEYOND = 4
    KEY_TWICE = 5
    KEY_NOT_ASCII = 6
    TEXT_NUL = 7
    TEXT_SURROGATE = 8
    TOO_DEEP = 9
    TOO_LONG = 10
    NODES_FULL = 11
    TEXT_FULL = 12
    OUT_FULL = 13
    MOMENT_INVALID = 14
    IMAGE_DAMAGED = 15
    IMAGE_FOREIGN = 16
    UNSETTLED = 17


class Flawed(profile.NotCanonical):
    """C refused the bytes."""

    def __init__(self, flaw: KernelFlaw) -> None:
        super().__init__(flaw.name.lower().replace("_", " "))
        self.flaw = flaw


def available() -> bool:
    """Whether the functions below may be called."""
    return _why_not is None


def why_not() -> str | None:
    """Why they may not; None where they may."""
    return _why_not


def library_path() -> str:
    """Where the library lies; to SQLite it is an extension."""
    from .. import _lease  # it may be missing

    return str(_lease.__file__)


def canonical(data: bytes, room_size: int | None = None) -> bytes:
    """`encode(decode(data))`; `Flawed` where that refuses, or where the room is too small."""
    room_max = lib.us_canonical_room(len(data))
    if room_size is None:
        room_size = room_max
    room = _room(min(room_size, room_max))
    out = ffi.new("uint8_t[]", len(data) or 1)
    size = lib.us_canonical(data, len(data), room, room_size, out, len(data))
    return ffi.buffer(out)[: _checked(size)]


def sha256(data: bytes, *, portable: bool = False) -> bytes:
    """The 32 bytes of the hash, by the fastest path or by the one that every machine has."""
    digest = ffi.new("uint8_t[]", lib.US_SHA256_SIZE)
    lib.us_sha256(lib.US_SHA256_PORTABLE if portable else _path(), data, len(data), digest)
    return ffi.buffer(digest)[:]


def digest(prefix: str, data: bytes) -> str:
    """`<prefix>_` and the SHA-256 of the data in hex; the prefix is short."""
    out = ffi.new("char[]", lib.US_DIGEST_TEXT_MAX)
    size = lib.us_digest(_path(), prefix.encode(), data, len(data), out, lib.US_DIGEST_TEXT_MAX)
    return _text(out, size)


def answer_text(wall_ms: int) -> str:
    """How answers spell a moment between 1970 and 9999."""
    out = ffi.new("char[]", lib.US_MOMENT_TEXT_MAX)
    return _text(out, lib.us_answer_text(wall_ms, out))


def record_text(wall_ms: int) -> str:
    """How issue records spell a moment between 1970 and 9999."""
    out = ffi.new("char[]", lib.US_MOMENT_TEXT_MAX)
    return _text(out, lib.us_record_text(wall_ms, out))


def parse_ms(text: str) -> int | None:
    """Milliseconds since 1970; None where the text is no RFC 3339 moment."""
    data = text.encode("utf-8", "surrogatepass")
    wall_ms = lib.us_parse_ms(data, len(data))
    return wall_ms if wall_ms >= 0 else None


class KernelStop(IntEnum):
    """`enum us_stop`: why a batch ended. From `LINE` on, the line is for the reference."""

    END = 0
    OUT_FULL = 1
    LINE = 2
    MEMBER = 3
    ACTION = 4
    TEXT = 5
    DOOR = 6
    POLICY = 7
    CLOCK = 8
    REPEAT = 9
    ISSUE = 10
    WAITING = 11
    PROJECTION = 12
    ROOM = 13


class Position(NamedTuple):
    """`us_head`: the journal's end, and where its clock stands."""

    seq: int
    wall_ms: int
    counter: int
    digest: str
    state_digest: str


class Decided(NamedTuple):
    """What came of some lines."""

    packed: Packed | None  # their rows, if there are any
    answers: Bytes  # a line each
    ends: list[int]  # of those
    steps: Bytes  # the rows' lines of the trajectory
    answered: bytes  # the changes that remember answers, with commas between
    answered_count: int
    stop: KernelStop


_ROW_WORDS, _ANSWER_END_WORD = 50, 11  # of 32 bits, in `us_row`
_OUT_BYTES = 4 * 1_048_576  # of rows in one call; twice what a full batch has
_STEPS_BYTES = _ANSWERS_BYTES = 2 * 1_048_576
_ANSWERED_BYTES = 524_288
_LENT_BYTES_MIN = 65_536


class Lines:
    """Request lines through one door, laid out for C."""

    def __init__(self, lines: Sequence[bytes], door: int, *, frozen: bool) -> None:
        self._sizes = array("I", map(len, lines))
        self.count = len(lines)
        self.door, self.frozen = door, frozen
        self._data = ffi.from_buffer("uint8_t[]", b"".join(lines))
        self._lens = ffi.from_buffer("uint32_t[]", self._sizes)
        self._start = self._offset = 0

    def behind(self, start: int) -> "tuple[CData, CData]":
        """The lines from this one on, and their lengths; it never goes back."""
        self._offset += sum(self._sizes[self._start : start])
        self._start = start
        return self._data + self._offset, self._lens + start


class Slabs:
    """Memory for C to write into, lent out, and used again when no view of it is left.

    Fresh memory costs more than a decision does: the system clears every page of it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._free: list[CData] = []
        self.slab = _uncleared("uint8_t[]", size)

    def lend(self, size: int) -> Bytes:
        """What was written. Of a little it gives a copy, and C goes on in the same slab."""
        if size < _LENT_BYTES_MIN:
            return _bytes(self.slab, size)
        lent = ffi.buffer(self.slab, size)
        finalize(lent, self._free.append, self.slab).atexit = False
        self.slab = self._free.pop() if self._free else _uncleared("uint8_t[]", self.size)
        return memoryview(lent)


class Kernel:
    """The hot actions in C, over a state that the caller puts in."""

    def __init__(
        self, setup: Mapping[str, object], texts: Sequence[bytes], node: str, row_max: int
    ) -> None:
        """Raises `MemoryError` where there is none."""
        numbers = ffi.new("us_setup *", {**setup, "lens": [len(text) for text in texts]})
        text = b"".join(texts)
        opened = lib.us_open(numbers, text, len(text))
        if opened == ffi.NULL:
            raise MemoryError("the kernel was not opened")
        self._kernel = ffi.gc(opened, lib.us_close)
        self._record = ffi.new("us_record *")
        self._head = ffi.new("us_head *")
        self._batch = ffi.new("us_batch *")
        self._library = library_path()
        self._node, self._row_max = node, row_max
        self._library = library_path()
        self._rows = ffi.new("us_row[]", row_max)
        self._out, self._steps = Slabs(_OUT_BYTES), Slabs(_STEPS_BYTES)
        self._answers = Slabs(_ANSWERS_BYTES)
        self._answered = ffi.new("uint8_t[]", _ANSWERED_BYTES)
        self._room = ffi.new("us_room *")
        self._row_size = ffi.sizeof("us_row")

    def put_issue(self, numbers: Sequence[int], text: bytes) -> None:
        """What an issue is now; the members of `us_record` in order, and its texts in one."""
        self._record[0] = numbers
        _refuse_flaw(lib.us_put_issue(self._kernel, self._record, text))

    def remember(self, request_id: bytes) -> None:
        lib.us_remember(self._kernel, request_id, len(request_id))

    def set_policy(self, *, is_open: bool) -> None:
        lib.us_set_policy(self._kernel, int(is_open))

    @property
    def head(self) -> Position:
        lib.us_get_head(self._kernel, self._head)
        head, text = self._head, ffi.buffer(self._head)[24:]
        digest, state_digest = text[:69].decode(), text[69 : 69 + 68].decode()
        return Position(head.seq, head.wall_ms, head.counter, digest, state_digest)

    @head.setter
    def head(self, head: Position) -> None:
        digest, state_digest = head.digest.encode(), head.state_digest.encode()
        self._head[0] = [head.seq, head.wall_ms, head.counter, digest, state_digest]
        lib.us_set_head(self._kernel, self._head)

    def dispatch(self, lines: Lines, start: int, physical_ms: int, epoch: int) -> Decided:
        """Decide from line `start` on, until a line is cold or the room is full."""
        batch, count = self._batch, min(lines.count - start, self._row_max)
        _refuse_flaw(lib.us_reserve(self._kernel, count))
        batch[0] = [count, lines.door, int(lines.frozen), 0, physical_ms]
        out, steps, answers = self._out, self._steps, self._answers
        self._room[0] = [
            self._rows,
            *(out.slab, out.size),
            *(steps.slab, steps.size),
            *(answers.slab, answers.size),
            *(self._answered, _ANSWERED_BYTES),
        ]
        handled = lib.us_dispatch(self._kernel, batch, *lines.behind(start), self._room)
        return self._decided(handled, epoch)

    def settle(self) -> Iterator[bytes]:
        """What all rows since the last call changed together, but for what is remembered."""
        while True:
            size = lib.us_settle(self._kernel, self._out.slab, _OUT_BYTES)
            _refuse_flaw(size)
            if size == len(b"[]"):
                return
            yield _bytes(self._out.slab, size)

    def image(self) -> bytes:
        """All that the kernel knows; what was decided must be settled before."""
        size = lib.us_image_size(self._kernel)
        out = ffi.new("uint8_t[]", size)
        return ffi.buffer(out)[: _checked(lib.us_export(self._kernel, out, size))]

    def become(self, image: bytes) -> None:
        """Know what the image says; `Flawed`, and nothing has changed, where it is no good."""
        _checked(lib.us_import(self._kernel, image, len(image)))

    def _decided(self, handled: int, epoch: int) -> Decided:
        """What was written, out of the way of the next call."""
        batch, packed, ends = self._batch, None, list[int]()
        if handled:
            table = _bytes(self._rows, handled * self._row_size)
            first_seq = self._rows[0].seq
            packed = Packed(
                first_seq,
                first_seq + handled - 1,
                epoch,
                self._node,
                table,
                self._out.lend(batch.out_len),
                self._library,
            )
            ends = memoryview(table).cast("I")[_ANSWER_END_WORD::_ROW_WORDS].tolist()
        return Decided(
            packed,
            self._answers.lend(batch.answers_len),
            ends,
            self._steps.lend(batch.steps_len),
            _bytes(self._answered, batch.answered_len),
            batch.answered_count,
            KernelStop(batch.stop),
        )


def _bytes(data: "CData", size: int) -> bytes:
    return ffi.buffer(data, size)[:]


def _refuse_flaw(result: int) -> None:
    if result < 0:
        raise MemoryError(f"the kernel is full: {KernelFlaw(-result).name}")


@cache
def _path() -> int:
    """The answer of the processor, which takes microseconds to ask for."""
    return lib.us_sha256_best()


def _room(size: int) -> "CData":
    return ffi.new("uint64_t[]", size // 8 + 1)


def _text(out: "CData", size: int) -> str:
    return ffi.buffer(out)[: _checked(size)].decode("ascii")


def _checked(size: int) -> int:
    if size < 0:
        raise Flawed(KernelFlaw(-size))
    return size
