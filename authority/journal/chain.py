"""The hash chain of the journal: every row names the envelope before it, and all changes so far.

`row1_` digests chain the envelopes, `st1_` digests chain the changes.
"""

from typing import Any

import orjson

from ...contracts import canonical
from .journal import Row


def chain_effect(effect: dict[str, Any]) -> str:
    """The digest of an envelope, which holds the digest of the one before as `prev`."""
    return canonical.digest("row1", canonical.encode(effect))


def chain_state(before: str, changes: bytes) -> str:
    """The digest of all changes so far; a row that changes nothing leaves it as it is."""
    return before if changes == b"[]" else canonical.digest("st1", before.encode() + changes)


def is_sound(row: Row) -> bool:
    """Whether the effect in a row's answer is the one that its digest was made of, and its own."""
    try:
        effect = orjson.loads(row.response)["effect"]
        own = row.seq, row.wall_ms, row.counter, row.node, row.state_digest
        return chain_effect(effect) == row.digest and _columns(effect) == own
    except (ValueError, LookupError, TypeError):
        return False


def _columns(effect: dict[str, Any]) -> tuple[object, ...]:
    """What an effect says that is in columns of the journal as well."""
    stamp = effect["stamp"]
    return effect["seq"], stamp["wallMs"], stamp["counter"], stamp["node"], effect["stateDigest"]
