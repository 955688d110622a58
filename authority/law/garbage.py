"""The answer to what never became a request: bytes that are not JSON, too long, or no action."""

from ...contracts import (
    DISPATCH_KIND,
    FAILURES,
    PROFILE_ID,
    Garbage,
    canonical,
    host_actions,
    limits,
    semantic_digest,
)
from .outcome import Refused


def refused_garbage(garbage: Garbage, seq: int) -> bytes:
    """The answer to what never became a request. It is no host action, and has no evidence."""
    action = host_actions().get(garbage.action or "")
    name = "transport.dispatch" if garbage.action is None else garbage.action
    name = name[: limits.NAME_LENGTH_MAX]
    pseudo = "invalid_request" if garbage.action is None else "unknown"
    action_id = action.action_id if action else f"transport.action.{pseudo}"
    failure = FAILURES[garbage.reason]
    response = {
        "schema": 1,
        "dispatchKind": DISPATCH_KIND,
        "profileId": PROFILE_ID,
        "action": name,
        "actionId": action_id,
        "semanticDigest": semantic_digest(name, action_id),
        "result": "rejected",
        "failureClasses": [failure.wire],
        "diagnostic": Refused(garbage.reason, garbage.detail).diagnostic,
        "seq": seq,
    }
    return canonical.encode(response)


def with_mark(response: bytes, mark: str | int | None) -> bytes:
    """The answer as the caller gets it: its own `id` in front."""
    if mark is None:
        return response
    return b'{"id":' + canonical.encode(mark) + b"," + response[1:]
