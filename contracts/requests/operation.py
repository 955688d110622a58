"""An operation of the job lane, as the log keeps it: what, by whom, when, after what, signed.

Every accepted request of the lane leaves one. Its id follows from what it is about: a job is
scheduled and completed once, and a claim, a yield and an expiry belong to one row or one term.
"""

from typing import Any

import msgspec
from msgspec import Struct

from .. import canonical
from .shapes import CallerStamp, SignedOperation

_DOMAIN = b"understudy.operation.v1\0"


class Operation(Struct, frozen=True, kw_only=True):
    """One line of the operation log. `stamp` is the authority's; `authored` the author's own."""

    op_id: str
    kind: str
    author: str
    stamp: CallerStamp
    index: int = 0  # its place among the operations of one row
    causal_deps: tuple[str, ...] = ()  # what must be applied before: the job's last operation too
    body: dict[str, Any]
    authored: CallerStamp | None = None
    signature: str = ""

    @property
    def place(self) -> tuple[int, int, str, int]:
        """Where it stands in the total order of the hybrid logical clock."""
        return (self.stamp.wall_ms, self.stamp.counter, self.stamp.node, self.index)


def position(stamp: CallerStamp) -> tuple[int, int, str]:
    """The total order of stamps: time, counter, node."""
    return (stamp.wall_ms, stamp.counter, stamp.node)


def signed_bytes(operation: SignedOperation) -> bytes:
    """What a node signs: everything but the signature, in canonical form."""
    members = msgspec.to_builtins(operation)
    members.pop("signature", None)
    return _DOMAIN + canonical.encode(members)


def is_signed_by(operation: SignedOperation, public_key: str) -> bool:
    """Whether the signature is that of the key's owner over this very operation."""
    from nacl.exceptions import BadSignatureError  # most authorities never need it
    from nacl.signing import VerifyKey

    try:
        signature = bytes.fromhex(operation.signature or "")
        VerifyKey(bytes.fromhex(public_key)).verify(signed_bytes(operation), signature)
    except (BadSignatureError, ValueError):
        return False
    return True


def sign(operation: SignedOperation, secret_key: str) -> SignedOperation:
    """The operation, signed with the secret key (32 bytes in hex)."""
    from nacl.signing import SigningKey

    signature = SigningKey(bytes.fromhex(secret_key)).sign(signed_bytes(operation)).signature
    return msgspec.structs.replace(operation, signature=signature.hex())
