"""The answer to a request, its host-effect envelope, and the row that holds both.

The envelope is the evidence: it binds the arguments, the result, the state that follows and the
envelope before it. `row1_` digests chain them; `st1_` digests chain the changes.
"""

from typing import Any

import orjson

from ...contracts import (
    DISPATCH_KIND,
    FAILURES,
    NORMALIZER_ID,
    PROFILE_ID,
    Garbage,
    HostAction,
    Request,
    Stamp,
    canonical,
    host_actions,
    journaled,
    limits,
    semantic_digest,
)
from ..journal.journal import Head, Row
from ..law.outcome import Accepted, Refused, encode_changes

EFFECT_SCHEMA = "premath.host_effect.v0"


def sealed(
    request: Request, outcome: Accepted | Refused, stamp: Stamp, head: Head, epoch: int
) -> tuple[Row, Head]:
    """The journal's next row, and the head after it."""
    changes = encode_changes(outcome.changes)
    state_digest = chain_state(head.state_digest, changes)
    effect = _effect(request, outcome, stamp, state_digest)
    effect["prev"] = head.digest
    digest = canonical.digest("row1", canonical.encode(effect))
    response = _response(request, outcome, stamp) | {"effect": effect}
    row = Row(
        seq=stamp.seq,
        epoch=epoch,
        wall_ms=stamp.wall_ms,
        counter=stamp.counter,
        node=stamp.node,
        request=journaled(request),
        response=canonical.encode(response),
        changes=changes,
        digest=digest,
        state_digest=state_digest,
    )
    return row, Head(stamp.seq, digest, state_digest)


def chain_state(before: str, changes: bytes) -> str:
    """The digest of all changes so far; a row that changes nothing leaves it as it is."""
    return before if changes == b"[]" else canonical.digest("st1", before.encode() + changes)


def glimpsed(request: Request, outcome: Accepted | Refused, stamp: Stamp, head: Head) -> bytes:
    """The answer to a read that leaves no row: its evidence is chained to nothing."""
    effect = _effect(request, outcome, stamp, head.state_digest) | {"prev": None}
    return canonical.encode(_response(request, outcome, stamp) | {"effect": effect})


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


def _effect(
    request: Request, outcome: Accepted | Refused, stamp: Stamp, state_digest: str
) -> dict[str, Any]:
    action, context = request.action, request.context
    failures = outcome.classes if isinstance(outcome, Refused) else []
    args_digest = request.args_digest
    effect: dict[str, Any] = {
        "schema": EFFECT_SCHEMA,
        "action": action.action,
        "argsDigest": args_digest,
        "resultClass": failures[0] if failures else "accepted",
        "failureClasses": failures,
        "witnessRefs": _witness_refs(action, args_digest, outcome),
        "normalizerId": NORMALIZER_ID,
        "policyDigest": request.policy_digest,
        "instructionRef": request.instruction_ref,
        "transport": request.transport,
        "issueId": outcome.issue_id,
        "fence": outcome.fence,
        "seq": stamp.seq,
        "stamp": _stamp(stamp),
        "stateDigest": state_digest,
    }
    if outcome.job_id is not None:
        effect["jobId"] = outcome.job_id
    if outcome.spec_id is not None:
        effect["specId"] = outcome.spec_id
    if context.escalated_from is not None:
        effect["escalatedFrom"] = context.escalated_from
    return effect


def _witness_refs(action: HostAction, args_digest: str, outcome: Accepted | Refused) -> list[str]:
    """What the effect rests on; the same through every door."""
    refs = [f"host-effect://{action.action}/{args_digest}"]
    if outcome.fence is not None and outcome.issue_id is not None:
        refs.append(f"lease://issue/{outcome.issue_id}/{outcome.fence}")
    if outcome.fence is not None and outcome.resource is not None:
        refs.append(f"lease://{outcome.resource}/{outcome.fence}")
    elif outcome.fence is not None and outcome.job_id is not None:
        refs.append(f"lease://job/{outcome.job_id}/{outcome.fence}")
    if action.resolver_ref is not None:
        refs.append(action.resolver_ref)
    if isinstance(outcome, Accepted):
        refs += outcome.witnesses
    return refs


def _response(request: Request, outcome: Accepted | Refused, stamp: Stamp) -> dict[str, Any]:
    action = request.action
    response: dict[str, Any] = {
        "schema": 1,
        "dispatchKind": DISPATCH_KIND,
        "profileId": PROFILE_ID,
        "action": action.action,
        "actionId": action.action_id,
        "semanticDigest": action.semantic_digest,
        "seq": stamp.seq,
        "stamp": _stamp(stamp),
    }
    if action.resolver_ref is not None:
        response["resolverWitnessRef"] = action.resolver_ref
        response["worldBinding"] = {
            "operationId": action.operation_id,
            "routeFamilyId": action.route_family,
            "worldId": action.world_id,
            "morphismRowId": action.morphism_row_id,
        }
    if isinstance(outcome, Refused):
        failures = {"result": "rejected", "failureClasses": outcome.classes}
        return response | failures | {"diagnostic": outcome.diagnostic}
    return response | outcome.body | {"result": "accepted", "failureClasses": []}


def _stamp(stamp: Stamp) -> dict[str, Any]:
    return {"wallMs": stamp.wall_ms, "counter": stamp.counter, "node": stamp.node}


def is_sound(row: Row) -> bool:
    """Whether the effect in a row's answer is the one that its digest was made of."""
    try:
        effect = orjson.loads(row.response)["effect"]
        return canonical.digest("row1", canonical.encode(effect)) == row.digest
    except (ValueError, LookupError, TypeError):
        return False
