"""Mail that only a process with the secret of the system can write; other mail is not opened.

    <length> > <mark of the length> <mark of the pickle> <pickle>

I1  What a pickle does when it is opened happens only if its mark is right.
I2  No more is kept of a frame than its head until the mark of its length is right, and no frame is
    longer than `MAIL_BYTES_MAX`.
"""

import hashlib
import hmac
import pickle
from typing import Final

from thespian.system.transport.streamBuffer import ReceiveBuffer, ackDataErrPacket, ackPacket

from .frames import FRAME_BYTES_MAX

MAIL_BYTES_MAX: Final = FRAME_BYTES_MAX + 1_048_576  # the longest message, and what is around it
_DIGITS_MAX: Final = len(str(MAIL_BYTES_MAX))
_MARK_BYTES: Final = 32
_MARKS_BYTES: Final = 2 * _MARK_BYTES
# Thespian's own acknowledgements are made before we come, and say nothing else.
_CONTROL: Final = {pickle.dumps(word): word for word in (ackPacket, ackDataErrPacket)}
_CONTROL_BYTES: Final = frozenset(map(len, _CONTROL))


class BadMail(ValueError):
    """Not from a process of this system."""


class Signed:
    """Thespian's serializer."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def dumps(self, value: object) -> bytes:
        data = pickle.dumps(value)
        return self._length_mark(_MARKS_BYTES + len(data)) + self._mark(data) + data

    def loads(self, data: bytes) -> object:
        if data in _CONTROL:
            return _CONTROL[data]
        self.check_length(data, len(data))
        mark, data = data[_MARK_BYTES:_MARKS_BYTES], data[_MARKS_BYTES:]
        if not hmac.compare_digest(mark, self._mark(data)):
            raise BadMail("the mark is another one")
        return pickle.loads(data)  # noqa: S301 - signed by one of ours

    def check_length(self, data: bytes, length: int) -> None:
        """Raises `BadMail` unless the frame that begins so was made to be this long."""
        if not hmac.compare_digest(data[:_MARK_BYTES], self._length_mark(length)):
            raise BadMail("the mark of the length is another one")

    def _mark(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, key=self._secret, digest_size=_MARK_BYTES).digest()

    def _length_mark(self, length: int) -> bytes:
        return self._mark(b"length %d" % length)


class Incoming(ReceiveBuffer):  # type: ignore[misc]  # Thespian has no types
    """A frame as it comes in. Thespian hangs up where `addMore` raises."""

    def __init__(self, signed: Signed) -> None:
        super().__init__(signed.loads)
        self._signed = signed
        self._is_checked = False

    def addMore(self, buf: bytes) -> None:
        if not buf:
            return  # Thespian adds what came behind an acknowledgement, and mostly that is nothing
        if self._size is None:
            _check_head(self._buf + buf)
        super().addMore(buf)
        if self._size is None or self._is_checked or self._size in _CONTROL_BYTES:
            return
        if self._blen >= _MARK_BYTES:
            self._signed.check_length(self._buf, self._size)
            self._is_checked = True


def _check_head(data: bytes) -> None:
    digits, end, _ = data.partition(b">")
    if not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise BadMail("no length")
    length = int(digits)
    if end and not (_MARKS_BYTES < length <= MAIL_BYTES_MAX or length in _CONTROL_BYTES):
        raise BadMail(f"a length of {length:,} bytes")
