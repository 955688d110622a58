"""The border to C: the only module that imports `._lease`, and no policy of its own.

The library may be missing, where there was no compiler, or old, where it was built from another
header. `available` says whether it may be called; each function here calls C once, and gives what
its namesake in `contracts` gives. Room for C to work in is made per call, so that any number of
threads may call at once.
"""

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

from ..contracts.canonical import NotCanonical

if TYPE_CHECKING:
    from ._lease import CData

ABI = 1  # US_ABI in native/lease.h

try:
    from ._lease import ffi, lib
except ImportError as error:
    _why_not: str | None = f"the C library was not built: {error}"
else:
    _why_not = None if lib.US_ABI == ABI else f"the C library has ABI {lib.US_ABI}, not {ABI}"


class Flaw(IntEnum):
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


class Flawed(NotCanonical):
    """C refused the bytes."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.name.lower().replace("_", " "))
        self.flaw = flaw


def available() -> bool:
    """Whether the functions below may be called."""
    return _why_not is None


def why_not() -> str | None:
    """Why they may not; None where they may."""
    return _why_not


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
        raise Flawed(Flaw(-size))
    return size
