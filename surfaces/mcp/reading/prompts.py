"""Prompts: picking up work, handing it over, and triage, each with how things stand just now."""

from typing import Any

import orjson
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, GetPromptRequestParams

from ....actors.agents import AgentDoor
from ....contracts import limits
from .resources import asked

# prompt -> argument -> what its values are, for completion
ARGUMENTS: dict[str, dict[str, str]] = {
    "pick_up_work": {"issue": "issue"},
    "hand_over": {"issue": "lease"},
    "triage": {},
}
_TEXTS = {
    "pick_up_work": "Take a piece of work, do it, and finish it or hand it over.",
    "hand_over": "Stop working on an issue so that another agent can go on.",
    "triage": "Look at what is ready, blocked and held, and put it in order.",
}
_REQUIRED = {("hand_over", "issue")}
_FIXED = {"ttlMs": 3_600_000, "cacheScope": "public"}

_PICK_UP = """\
Take work with {how}. From the answer keep leaseId and fence, and pass them with every \
change. Read the brief, the acceptance criteria and the hand-over of the holder before you, if \
there is one.

Do the work. File what you find on the way with issue_discover instead of doing it. Before \
anything risky, store a checkpoint with work_handover and keep: true.

When the acceptance criteria are met, finish with work_complete and say what came of it. If you \
cannot finish, call work_handover. If any answer says that the lease or the fence is lost, stop at \
once and write nothing more: another agent has the work."""

_HAND_OVER = """\
You are going to stop working on {issue}. Save your changes where the next holder finds them. Then \
call work_handover with your leaseId and fence, and a checkpoint that an agent that knows nothing \
can go on from: a summary, what is done, what is next in order, the artifacts (branch, files, \
links), and what you would warn them of. This is the issue as it stands:

{picture}"""

_TRIAGE = """\
Put the work in order. Nothing here needs a lease, but leased issues are changed by their holders \
alone: leave those.

1. Look for issues that say too little to be worked on, and complete their description and \
acceptance criteria with issue_update.
2. Look for double and outdated ones, and close them.
3. Set priorities (0 is first) and dependencies (dep_add) so that what others wait for comes first.
4. Name what is stuck: leases that have run out, blocked issues whose blocker has no holder, and \
issues with many attempts. Break no lease without asking a person.

This is how things stand:

{picture}"""


def listed() -> dict[str, Any]:
    """The prompts as `prompts/list` gives them."""
    rows = [
        {
            "name": name,
            "description": text,
            "arguments": [
                {
                    "name": argument,
                    "description": "The id of an issue.",
                    "required": (name, argument) in _REQUIRED,
                }
                for argument in ARGUMENTS[name]
            ],
        }
        for name, text in _TEXTS.items()
    ]
    return {"prompts": rows, **_FIXED}


async def got(door: AgentDoor, params: GetPromptRequestParams) -> dict[str, Any]:
    """A prompt with its arguments filled in; `MCPError` for what is missing or unknown."""
    name, given = params.name, dict(params.arguments or {})
    if name not in ARGUMENTS:
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name}")
    if unknown := sorted(given.keys() - ARGUMENTS[name].keys()):
        raise MCPError(INVALID_PARAMS, f"Unknown argument: {unknown[0]}")
    issue = given.get("issue", "")
    match name:
        case "pick_up_work":
            how = f"issue_claim and id {issue}, then issue_show" if issue else "work_next"
            text = _PICK_UP.format(how=how)
        case "hand_over":
            if not issue:
                raise MCPError(INVALID_PARAMS, "Missing argument: issue")
            shown = await asked(door, "issue.show", {"id": issue})
            text = _HAND_OVER.format(issue=issue, picture=_picture(shown["issue"]))
        case _:
            text = _TRIAGE.format(picture=await _standing(door))
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": _TEXTS[name], "messages": [message]}


async def _standing(door: AgentDoor) -> str:
    parts = []
    for action in ("issue.ready", "issue.blocked"):
        answer = await asked(door, action, {})
        parts.append(f"{action}: {_picture(answer['issues'])}")
    leases = await asked(door, "issue.lease_projection", {})
    parts.append(f"leases: {_picture(leases['items'])}")
    return "\n\n".join(parts)


def _picture(value: object) -> str:
    return orjson.dumps(value).decode()[: limits.MCP_TEXT_LENGTH_MAX]
