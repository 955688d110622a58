"""What a client reads of an answer: the answer itself, and a text that says what to do next.

Many clients show a model the text alone, so it carries what matters of the answer as well.
"""

from typing import Any

import orjson

from ....contracts import BY_WIRE, FAILURES, limits
from .tool_texts import BY_RETRY, NEXT

# Of an answer, what says which request it belongs to and how it was decided: evidence, not news.
_ENVELOPE = frozenset(
    {"schema", "dispatchKind", "profileId", "action", "actionId", "semanticDigest", "seq", "stamp"}
    | {"effect", "worldBinding", "resolverWitnessRef", "result", "failureClasses", "diagnostic"}
    | {"leaseProjection", "changed", "steps"}
)


def told(answer: dict[str, Any], lead: str | None = None) -> dict[str, Any]:
    """The result of a tool call."""
    refused = answer["result"] != "accepted"
    text = _refused(answer) if refused else _accepted(answer, lead)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": answer,
        "isError": refused,
    }


def _refused(answer: dict[str, Any]) -> str:
    """Why, and what to do next: in terms of tools, where the class's own remedy is a command."""
    wire = answer["failureClasses"][0]
    failure = FAILURES[BY_WIRE[wire]]
    why = answer["diagnostic"].removesuffix(f"; {failure.remedy}")
    rule = f"{failure.remedy[0].upper()}{failure.remedy[1:]}. {BY_RETRY[failure.retry]}"
    return f"Refused ({wire}): {why}\nNext: {NEXT.get(wire, rule)}"


def _accepted(answer: dict[str, Any], lead: str | None) -> str:
    body = {name: value for name, value in answer.items() if name not in _ENVELOPE}
    data = orjson.dumps(body).decode() if body else ""
    if len(data) > limits.MCP_TEXT_LENGTH_MAX:
        data = data[: limits.MCP_TEXT_LENGTH_MAX] + " ... (cut here: ask for less at once)"
    lead = lead or holding(answer) or f"Accepted: {answer['action']}, row {answer['seq']}."
    return f"{lead}\n{data}" if data else lead


def holding(answer: dict[str, Any]) -> str | None:
    """What an agent that has just claimed must know."""
    lease = answer.get("issue", {}).get("lease")
    if lease is None or not answer["action"].startswith("issue.claim"):
        return None
    again = "" if lease["fence"] == answer["seq"] else (
        " It was held under this name before; if that was not you, another agent has your name:"
        " stop, and use one of your own."
    )  # fmt: skip
    return (
        f"You hold {answer['issue']['id']} as {lease['owner']} until {lease['expiresAt']}, with"
        f" leaseId {lease['leaseId']} and fence {lease['fence']}. Pass these three with every"
        f" change, and finish with work_complete or work_handover.{again}"
    )
