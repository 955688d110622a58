"""Canonical JSON: one value, one sequence of bytes, on every machine.

The profile is a subset of RFC 8785: UTF-8, keys sorted, no spaces, ASCII keys, integers with an
absolute value of at most 2^53 - 1, no floats. On that subset `orjson` with sorted keys writes the
bytes that RFC 8785 asks for; `tests/contracts/test_canonical.py` holds it against `rfc8785`.
"""

import hashlib
import json
import re
from typing import Any

import orjson

from . import limits

_SPACE_BEFORE_COLON = re.compile(rb'"[ \t\r\n]+:')


class NotCanonical(ValueError):
    """The bytes or the value lie outside the profile; the message says where and why."""


def encode(value: object) -> bytes:
    """The canonical bytes of a value that is inside the profile."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(prefix: str, data: bytes) -> str:
    """`<prefix>_` and the SHA-256 of the data in hex."""
    return f"{prefix}_{hashlib.sha256(data).hexdigest()}"


def decode(data: bytes) -> Any:  # JSON is what the peer says it is
    """Parse untrusted bytes, refusing whatever has no canonical form: duplicate keys, floats,
    integers beyond 2^53 - 1, keys that are not ASCII, NUL, more nesting than `JSON_DEPTH_MAX`."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotCanonical(f"not JSON: {error}") from None
    keys = _survey(value, 0)
    # Without escapes, `":` stands behind every key, and rarely elsewhere: as many as there are
    # keys means that no key was lost as a double. Anything else is looked at closely.
    if b"\\" in data or data.count(b'":') != keys or _SPACE_BEFORE_COLON.search(data):
        _refuse_duplicates(data)
    return value


def _survey(value: Any, depth: int) -> int:
    """Count the keys below a value; raise for anything outside the profile."""
    if isinstance(value, str):
        if "\0" in value:
            raise NotCanonical("a string contains NUL")
        return 0
    if isinstance(value, bool) or value is None:
        return 0
    if isinstance(value, int):
        if abs(value) > limits.INTEGER_MAX:
            raise NotCanonical(f"integer {value} is beyond 2^53 - 1")
        return 0
    if isinstance(value, float):
        raise NotCanonical("a number is not an integer below 2^53")
    if depth >= limits.JSON_DEPTH_MAX:
        raise NotCanonical(f"nested deeper than {limits.JSON_DEPTH_MAX}")
    if isinstance(value, list):
        return sum(_survey(item, depth + 1) for item in value)
    count = len(value)
    for key, item in value.items():
        if not key.isascii() or "\0" in key:
            raise NotCanonical(f"key {key!r} is not plain ASCII")
        count += _survey(item, depth + 1)
    return count


def _refuse_duplicates(data: bytes) -> None:
    def pairs(items: list[tuple[str, object]]) -> None:
        if len({key for key, _ in items}) != len(items):
            raise NotCanonical("an object names the same key twice")

    json.loads(data, object_pairs_hook=pairs)
