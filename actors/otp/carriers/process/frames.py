"""Pickled objects on a stream socket between two processes that trust each other."""

import io
import pickle
import struct
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from ...cell import OtpError

FRAME_BYTES_MAX = 134_217_728
_HEAD = struct.Struct(">I")


class FrameTooLong(OtpError):
    """More than one message may be."""


class NotImportable(OtpError):
    """A class or function of the program itself, which other processes cannot import."""


class _Checking(pickle.Pickler):
    """Finds what is pickled as a name in `__main__`."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, type | FunctionType) and value.__module__ == "__main__":
            raise NotImportable(
                f"{value.__qualname__} is defined in __main__, which no other process can import: "
                "move it into a module, and import it from there"
            )
        return NotImplemented


def pickled(value: object) -> bytes:
    """The value for another process. CPython words and types a failure by version; we do not."""
    try:
        data = pickle.dumps(value)
    except Exception as error:  # whatever a value does when it is pickled
        kind = type(value).__qualname__
        raise pickle.PicklingError(f"{kind} cannot be pickled, so not sent: {error}") from error
    if b"__main__" in data:  # at least as a word
        _Checking(io.BytesIO()).dump(value)
    return _bounded(data)


def encoded(value: object) -> bytes:
    data = _bounded(pickle.dumps(value))
    return _HEAD.pack(len(data)) + data


def _bounded(data: bytes) -> bytes:
    if len(data) > FRAME_BYTES_MAX:
        raise FrameTooLong(f"{len(data):,} bytes, at most {FRAME_BYTES_MAX:,}")
    return data


class Frames:
    """Bytes as they come in, objects as they are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[object]:
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer)
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield pickle.loads(body)  # noqa: S301 - the socket is a pair, ours alone


class Sealed:
    """A pickled object that is passed on unopened: pickled once more, it becomes what it holds."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> tuple[object, ...]:
        return pickle.loads, (self.data,)
