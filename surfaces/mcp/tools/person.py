"""Asks the person at a client whether work may go on that waits for a person.

    approval_ask is granted, or a claim is refused with approval_missing
      --> the client shows its person a form     a request of ours; in the modern era, an answer
      --> approval.give, said by that person --> the claim once more

The client asks; a model neither sees the form nor fills it in. An operator may have nobody asked
(`asks_person` of the caller), and over HTTP nobody is.

I1  What the person did not decide goes on waiting.
"""

from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ....contracts import Approval, Reason, limits
from .calls import Answer, ToolCall

Context = ServerRequestContext[Any, Any]

_KEY = "approval"  # of the one question that is asked
_GIVE = "approval.give"
# What may find that work waits: by which member it names the work, and what shows it.
_ASKING = {
    "approval.ask": ("id", "issue.show", "issue"),
    "issue.claim": ("id", "issue.show", "issue"),
    "job.claim": ("jobId", "job.show", "job"),
}
_DECISIONS = {"approve": "approved", "reject": "rejected"}
_FORM = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": [*_DECISIONS]},
        "reason": {"type": "string", "title": "Why", "maxLength": limits.REASON_LENGTH_MAX},
    },
    "required": ["decision"],
}
_LEADS = {
    "approved": "The person approved it: claim it.",
    "rejected": "The person rejected it: take other work.",
    None: "The person has not decided: it goes on waiting. Take other work.",
}


class PersonAsked(Exception):
    """The call goes on when the client has asked its person; `result` is what to answer it."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(_KEY)
        self.result = result


def again(ctx: Context, params: CallToolRequestParams, action: str) -> dict[str, Any]:
    """The arguments of a call; one that comes again with an answer is the same request."""
    arguments = dict(params.arguments or {})
    if action in _ASKING and params.request_state and _is_modern(ctx):
        arguments.setdefault("requestId", params.request_state)
    return arguments


async def settled(
    call: ToolCall,
    ctx: Context,
    params: CallToolRequestParams,
    arguments: Mapping[str, Any],
    answer: Answer,
) -> tuple[Answer, str | None]:
    """The answer after the person was asked, where work waits for one who can be asked here."""
    action = answer["action"]
    if not _waits(action, answer) or not call.asks_person or not _shows_forms(ctx):
        return answer, None
    member, *_ = _ASKING[action]
    words = await _question(call, action, arguments)
    reply = await _reply(ctx, params, words, arguments.get("requestId") or call.key)
    content = (reply.content if reply is not None and reply.action == "accept" else None) or {}
    decision = _DECISIONS.get(str(content.get("decision")))
    if decision is None:
        return answer, _LEADS[None]
    said = {member: arguments[member], "decision": decision}
    said["reason"] = str(content.get("reason") or "")
    given = await call.in_person(_GIVE, said, arguments.get("context"))
    if action == "approval.ask":
        return given, _LEADS[decision]
    if given["result"] != "accepted" and given["failureClasses"] != [
        Reason.APPROVAL_NOT_ASKED.wire  # another person was faster
    ]:
        return given, None
    return await call.ask(action, arguments, "-approved"), None


def _waits(action: str, answer: Answer) -> bool:
    if action == "approval.ask":
        return bool(answer.get("issue", {}).get("approval") == Approval.WAITING)
    return action in _ASKING and answer["failureClasses"] == [Reason.APPROVAL_MISSING.wire]


def _shows_forms(ctx: Context) -> bool:
    """Whether the client does. One that says nothing of modes is older than they are."""
    declared = ctx.session.client_capabilities
    able = None if declared is None else declared.elicitation
    return able is not None and (able.form is not None or able.url is None)


def _is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _question(call: ToolCall, action: str, arguments: Mapping[str, Any]) -> str:
    member, look, record = _ASKING[action]
    name = arguments[member]
    shown = (await call.ask(look, {member: name})).get(record, {})
    title = shown.get("title") or shown.get("kind") or ""
    words = f"{call.name} wants to go on with {record} {name} ({title}), which waits for a person."
    why = arguments.get("reason") or shown.get("steered", {}).get("reason")
    return f"{words} Why: {why}" if why else words


async def _reply(
    ctx: Context, params: CallToolRequestParams, words: str, key: str
) -> ElicitResult | None:
    """What the person said; None where that cannot be known, and `PersonAsked` in the meantime."""
    if _is_modern(ctx):
        reply = (params.input_responses or {}).get(_KEY)
        if reply is not None:
            return reply if isinstance(reply, ElicitResult) else None
        form = {"mode": "form", "message": words, "requestedSchema": _FORM}
        asked = {_KEY: {"method": "elicitation/create", "params": form}}
        raise PersonAsked(
            {"resultType": "input_required", "inputRequests": asked, "requestState": key}
        )
    try:
        return await ctx.session.elicit_form(words, _FORM, ctx.request_id)
    except MCPError:
        return None  # it cannot, or will not
