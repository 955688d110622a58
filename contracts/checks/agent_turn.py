"""One turn of an agent: its tool calls, their results and uses, and the context it goes on with.

The normal form has everything sorted, trimmed and once, with a digest of every part; what breaks
the turn is read off it. Pure and total, but for `ValueError` where two rows contradict each other.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from .. import canonical
from ..reason import Reason
from ..records.harness import normal_refs

NORMALIZED_KIND = "premath.harness.typestate_normalized.v1"
_STOP_REASONS = frozenset({"tool_use", "pause_turn", "max_tokens", "end_turn"})

# --- what is read -------------------------------------------------------------------------------

Word = Annotated[str, Meta(pattern=r"\S")]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The root of all that is read; an unknown member is refused."""


class CallSpec(Part, frozen=True, kw_only=True):
    call_id: Word
    model_ref: Word
    action_mode: Word
    execution_pattern: Word
    normalizer_id: Word
    mutation_policy_digest: Word
    governance_policy_digest: Word
    tool_render_protocol_digest: Word
    reminder_queue_policy_digest: Word
    state_view_policy_digest: Word
    decomposition_policy_digest: Word


class ToolRequest(Part, frozen=True, kw_only=True):
    tool_call_id: Word
    tool_name: Word
    schema_digest: str | None = None
    caller_id: str | None = None
    search_ref_digest: str | None = None


class ToolResult(Part, frozen=True, kw_only=True):
    tool_call_id: Word
    status: Literal["ok", "error"] | None = None
    result_digest: str | None = None
    payload: Any = None
    error_code: str | None = None
    retryable: bool | None = None
    error_message: str | None = None
    raw_error: Any = None


class ToolUse(Part, frozen=True, kw_only=True):
    tool_call_id: Word
    disposition: Literal["consumed", "observed", "discarded"]
    result_digest: str | None = None


class ProtocolState(Part, frozen=True, kw_only=True):
    stop_reason: Word
    continuation_allowed: bool = False


class Handoff(Part, frozen=True, kw_only=True):
    target: Word
    required_artifact_refs: tuple[str, ...] = ()
    return_path_ref: str | None = None


class ToolRender(Part, frozen=True, kw_only=True):
    tool_call_id: Word
    operator_payload_digest: Word
    reminder_render_digest: Word
    injection_point: Word
    policy_digest: Word


class Reduction(Part, frozen=True, kw_only=True):
    queue_id: Word
    reduced_digest: Word
    policy_digest: Word


class StateView(Part, frozen=True, kw_only=True):
    view_id: Word
    view_digest: Word
    policy_digest: Word
    source_refs: tuple[str, ...] = ()


class TurnEvidence(Part, frozen=True, kw_only=True):
    call_spec: CallSpec
    tool_requests: tuple[ToolRequest, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    tool_use: tuple[ToolUse, ...] = ()
    protocol_state: ProtocolState
    handoff: Handoff | None = None
    tool_render: tuple[ToolRender, ...] = ()
    reminder_queue: tuple[Reduction, ...] = ()
    state_views: tuple[StateView, ...] = ()
    session_refs: tuple[str, ...] = ()
    trajectory_refs: tuple[str, ...] = ()


# --- evidence -----------------------------------------------------------------------------------


def turn_flaws(evidence: TurnEvidence, normal: dict[str, Any]) -> Iterator[Reason]:
    join, context = normal["joinState"], normal["contextState"]
    for member, reason in (
        ("missingResultCallIds", Reason.JOIN_RESULT_MISSING),
        ("orphanResultCallIds", Reason.JOIN_RESULT_ORPHAN),
        ("missingUseCallIds", Reason.JOIN_USE_MISSING),
        ("unknownUseCallIds", Reason.JOIN_USE_UNKNOWN),
    ):
        if member in join:
            yield reason
    if not join["joinClosed"]:
        yield Reason.JOIN_INCOMPLETE
    if normal["protocolState"]["stopReason"] not in _STOP_REASONS:
        yield Reason.JOIN_STOP_REASON
    if any(_is_error(each) and not all(_error(each)) for each in evidence.tool_results):
        yield Reason.JOIN_ERROR_SHAPELESS
    consumed = any(each.disposition == "consumed" for each in evidence.tool_use)
    if not (evidence.protocol_state.continuation_allowed or consumed):
        return
    if "missingRenderCallIds" in context or not context["stateViewPresent"]:
        yield Reason.JOIN_INJECTION_POINT
    kept = ("queueReductionPresent", "renderPolicyValid", "queuePolicyValid")
    if not all(context[name] for name in (*kept, "stateViewPolicyValid")):
        yield Reason.JOIN_QUEUE_POLICY


def _is_error(result: ToolResult) -> bool:
    if result.status is not None:
        return result.status == "error"
    said = (result.error_code or "").strip() or (result.error_message or "").strip()
    return bool(said) or result.retryable is not None or result.raw_error is not None


def _error(result: ToolResult) -> tuple[str, bool, str]:
    """The code, whether it says if trying again helps, and the message."""
    raw = result.raw_error if isinstance(result.raw_error, dict) else {}
    code = _first(result.error_code, raw.get("errorCode"), raw.get("code"))
    message = _first(result.error_message, raw.get("errorMessage"), raw.get("message"))
    told = isinstance(raw.get("retryable"), bool) or result.retryable is not None
    return code, told, message


def _first(*texts: object) -> str:
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")


# --- the normal form ----------------------------------------------------------------------------


def normalized(evidence: TurnEvidence) -> dict[str, Any]:
    """Sorted, trimmed, none twice, with a digest of every part. `ValueError` where two rows of one
    id contradict each other."""
    spec = _members(evidence.call_spec)
    for name in ("actionMode", "executionPattern"):
        spec[name] = spec[name].lower()
    state = _members(evidence.protocol_state)
    state["stopReason"] = state["stopReason"].lower()
    handoff = _members(evidence.handoff) if evidence.handoff else None
    parts: dict[str, list[dict[str, Any]]] = {
        "toolRequests": _rows("toolCallId", map(_members, evidence.tool_requests)),
        "toolResults": _rows("toolCallId", map(_result, evidence.tool_results)),
        "toolUse": _rows("toolCallId", map(_members, evidence.tool_use)),
        "toolRender": _rows("toolCallId", map(_render, evidence.tool_render)),
        "reminderQueue": _rows("queueId", map(_members, evidence.reminder_queue)),
        "stateViews": _rows("viewId", map(_members, evidence.state_views)),
    }
    join, context = _join_state(parts), _context_state(parts, spec, state)
    digests = {
        "requestSetDigest": _digest(parts["toolRequests"]),
        "resultSetDigest": _digest(parts["toolResults"]),
        "useSetDigest": _digest(parts["toolUse"]),
        "toolRenderSetDigest": _digest(parts["toolRender"]),
        "reminderQueueSetDigest": _digest(parts["reminderQueue"]),
        "stateViewSetDigest": _digest(parts["stateViews"]),
        "protocolStateDigest": _digest(state),
        "handoffDigest": _digest(handoff) if handoff else None,
    }
    sets = {name: ids for name, ids in (join | context).items() if name != "joinClosed"}
    digests["joinSetDigest"] = _digest(_every_list(sets) | digests)
    digests["callSpecDigest"] = _digest(spec)
    normal: dict[str, Any] = {
        "schema": 1,
        "kind": NORMALIZED_KIND,
        "callSpec": spec,
        "protocolState": state,
        "handoff": handoff,
        "digests": _said(digests),
        "joinState": join,
        "contextState": context,
        "sessionRefs": list(normal_refs(evidence.session_refs)),
        "trajectoryRefs": list(normal_refs(evidence.trajectory_refs)),
    }
    return _said(normal | parts)


def _join_state(parts: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    asked = _ids(parts["toolRequests"], "toolCallId")
    given = _ids(parts["toolResults"], "toolCallId")
    used = _ids(parts["toolUse"], "toolCallId")
    gaps = {
        "missingResultCallIds": _less(asked, given),
        "orphanResultCallIds": _less(given, asked),
        "missingUseCallIds": _less(given, used),
        "unknownUseCallIds": _less(used, given),
    }
    lists = {"requestedCallIds": asked, "resultCallIds": given, "usedCallIds": used, **gaps}
    return _said(lists) | {"joinClosed": not any(gaps.values())}


def _context_state(
    parts: dict[str, list[dict[str, Any]]], spec: dict[str, Any], state: dict[str, Any]
) -> dict[str, Any]:
    rendered = _ids(parts["toolRender"], "toolCallId")
    missing = _less(_ids(parts["toolResults"], "toolCallId"), rendered)
    flags = {
        "queueReductionPresent": bool(parts["reminderQueue"]),
        "stateViewPresent": bool(parts["stateViews"]),
        "renderPolicyValid": _under(parts["toolRender"], spec["toolRenderProtocolDigest"]),
        "queuePolicyValid": _under(parts["reminderQueue"], spec["reminderQueuePolicyDigest"]),
        "stateViewPolicyValid": _under(parts["stateViews"], spec["stateViewPolicyDigest"]),
    }
    ready = not state["continuationAllowed"] or (not missing and all(flags.values()))
    lists = {
        "renderCallIds": rendered,
        "queueIds": _ids(parts["reminderQueue"], "queueId"),
        "stateViewIds": _ids(parts["stateViews"], "viewId"),
        "missingRenderCallIds": missing,
    }
    return _said(lists) | flags | {"continuationContextReady": ready}


def _result(result: ToolResult) -> dict[str, Any]:
    status = "error" if _is_error(result) else "ok"
    digest = _first(result.result_digest)
    if not digest and result.payload is not None:
        digest = _digest(result.payload)
    row: dict[str, Any] = {"toolCallId": result.tool_call_id.strip(), "status": status}
    if digest:
        row["resultDigest"] = digest
    if status == "error":
        code, _, message = _error(result)
        raw = result.raw_error if isinstance(result.raw_error, dict) else {}
        again = raw.get("retryable") if result.retryable is None else result.retryable
        row["error"] = {
            "errorCode": code or "unknown_error",
            "retryable": again is True,
            "errorMessageDigest": "sha256:" + hashlib.sha256(message.encode()).hexdigest(),
        }
    return row


def _render(render: ToolRender) -> dict[str, Any]:
    row = _members(render)
    return row | {"injectionPoint": row["injectionPoint"].lower()}


def _members(part: Part) -> dict[str, Any]:
    """What a part says, trimmed; what is blank is not said."""
    members: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(part).items():
        if isinstance(value, str):
            members[name] = value.strip()
        elif isinstance(value, list | tuple):
            members[name] = list(normal_refs(value))
        else:
            members[name] = value
    return _said(members)


def _rows(key: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if found.setdefault(row[key], row) != row:
            raise ValueError(f"two rows of {key} {row[key]} contradict each other")
    return [found[name] for name in sorted(found)]


def _said(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value not in (None, "", [])}


def _every_list(members: dict[str, Any]) -> dict[str, Any]:
    """The joined set names its lists also where they are empty."""
    names = (
        "requestedCallIds", "resultCallIds", "usedCallIds", "renderCallIds", "queueIds",
        "stateViewIds", "missingResultCallIds", "orphanResultCallIds", "missingUseCallIds",
        "unknownUseCallIds", "missingRenderCallIds",
    )  # fmt: skip
    return {name: [] for name in names} | members


def _ids(rows: list[dict[str, Any]], key: str) -> list[str]:
    return [row[key] for row in rows]


def _less(some: list[str], others: list[str]) -> list[str]:
    return sorted(set(some) - set(others))


def _under(rows: list[dict[str, Any]], policy: str) -> bool:
    return all(row["policyDigest"] == policy for row in rows)


def _digest(value: object) -> str:
    return "sha256:" + hashlib.sha256(canonical.encode(value)).hexdigest()
