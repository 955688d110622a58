"""The answer to a request, its host-effect envelope, and the row that holds both.

The envelope is the evidence: it binds the arguments, the result, the state that follows and the
envelope before it (`journal.chain`).
"""

from typing import Any

import orjson

from ...contracts import (
    DISPATCH_KIND,
    NORMALIZER_ID,
    PROFILE_ID,
    HostAction,
    Reason,
    Request,
    Stamp,
    canonical,
    journaled,
)
from ..journal.chain import chain_effect, chain_state
from ..journal.journal import Head, Row, Unavailable
from ..law.outcome import Accepted, Refused, encode_changes
from ..law.workers.history import PastStep, step_id

EFFECT_SCHEMA = "premath.host_effect.v0"


def sealed(
    request: Request, outcome: Accepted | Refused, stamp: Stamp, head: Head, epoch: int
) -> tuple[Row, Head]:
    """The journal's next row, and the head after it."""
    changes = encode_changes(outcome.changes)
    state_digest = chain_state(head.state_digest, changes)
    effect = _effect(request, outcome, stamp, state_digest)
    effect["prev"] = head.digest
    digest = chain_effect(effect)
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


def glimpsed(request: Request, outcome: Accepted | Refused, stamp: Stamp, head: Head) -> bytes:
    """The answer to a read that leaves no row: its evidence is chained to nothing."""
    effect = _effect(request, outcome, stamp, head.state_digest) | {"prev": None}
    return canonical.encode(_response(request, outcome, stamp) | {"effect": effect})


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
    if context.agent is not None:
        effect["agent"] = context.agent.name
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


def glean(row: Row) -> PastStep:
    """What a row says; `Unavailable` where its bytes are not what an authority writes."""
    try:
        response = orjson.loads(row.response)
        payload = orjson.loads(row.request)["payload"]
        effect, step = response["effect"], response.get("step")
        instruction = effect["instructionRef"]
        refs = {instruction} if instruction else set[str]()
        return PastStep(
            seq=row.seq,
            wall_ms=row.wall_ms,
            step_id=step_id(row.node, row.seq, effect["action"]),
            host_action=effect["action"],
            action=step["action"] if step else effect["action"],
            result_class=step["resultClass"] if step else effect["resultClass"],
            issue_id=effect["issueId"],
            worker=(payload.get("worker") or payload.get("assignee") or "").strip(),
            instruction_refs=tuple(
                sorted(refs | set(step.get("instructionRefs", ()) if step else ()))
            ),
            step=step,
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {row.seq}: its answer") from error
