"""What a client reads of an answer: what an agent needs of it, and a text that says what is next.

Many clients show a model the text alone, so it carries what matters of the answer as well. The
whole answer, with its evidence, is there for those who ask for it.
"""

from typing import Any

import orjson

from ....contracts import BY_WIRE, FAILURES, limits
from .tool_texts import BY_RETRY, NEXT

# Of an answer, what says which request it belongs to and how it was decided: evidence, not news.
_EVIDENCE = frozenset(
    {"schema", "dispatchKind", "profileId", "action", "actionId", "semanticDigest", "stamp"}
    | {"effect", "worldBinding", "resolverWitnessRef", "steps"}
)
_SAID = frozenset({"result", "failureClasses", "diagnostic", "seq", "leaseProjection", "changed"})
_LEASE = frozenset({"leaseId", "owner", "fence", "expiresAt"})  # what a holder needs of its own
_PROJECTED = ("issue.lease_projection", "issue.ready", "issue.check")


def told(
    answer: dict[str, Any], lead: str | None = None, *, verbose: bool = False
) -> dict[str, Any]:
    """The result of a tool call."""
    refused = answer["result"] != "accepted"
    text = _refused(answer) if refused else _accepted(answer, lead)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": answer if verbose else _brief(answer),
        "isError": refused,
    }


def _brief(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without its evidence, and without what says nothing."""
    kept = {name: value for name, value in answer.items() if name not in _EVIDENCE}
    if answer["action"] not in _PROJECTED:
        kept.pop("leaseProjection", None)
    if kept.get("changed") is True:
        del kept["changed"]
    if "issue" in kept:
        kept["issue"] = _issue(kept["issue"])
    if "issues" in kept:
        kept["issues"] = [_issue(each) for each in kept["issues"]]
    return kept


def _issue(issue: dict[str, Any]) -> dict[str, Any]:
    """An issue without empty members and, where it is held, without what only proves the lease."""
    shown = {name: value for name, value in issue.items() if value not in ("", [], None)}
    if "lease" in issue:
        lease = issue["lease"]
        names = _LEASE if lease["state"] == "active" else _LEASE | {"state"}
        shown["lease"] = {name: value for name, value in lease.items() if name in names}
        if shown.get("assignee") == lease["owner"]:
            del shown["assignee"]
    return shown


def _refused(answer: dict[str, Any]) -> str:
    """Why, and what to do next: in terms of tools, where the class's own remedy is a command."""
    wire = answer["failureClasses"][0]
    if "next" in answer:  # as this server knows it
        return f"Refused ({wire}): {answer['diagnostic']}\nNext: {answer['next']}"
    failure = FAILURES[BY_WIRE[wire]]
    why = answer["diagnostic"].removesuffix(f"; {failure.remedy}")
    rule = f"{failure.remedy[0].upper()}{failure.remedy[1:]}. {BY_RETRY[failure.retry]}"
    return f"Refused ({wire}): {why}\nNext: {NEXT.get(wire, rule)}"


def _accepted(answer: dict[str, Any], lead: str | None) -> str:
    lead = lead or holding(answer)
    told_by_lead = {"issue", "lease", "found"} if holding(answer) else set[str]()
    unsaid = _SAID | told_by_lead
    body = {name: value for name, value in _brief(answer).items() if name not in unsaid}
    data = orjson.dumps(body).decode() if body else ""
    if len(data) > limits.MCP_TEXT_LENGTH_MAX:
        data = data[: limits.MCP_TEXT_LENGTH_MAX] + " ... (cut here: ask for less at once)"
    lead = lead or f"Accepted: {answer['action']}, row {answer['seq']}."
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
        f"You hold {answer['issue']['id']} ({answer['issue']['title']}) until {lease['expiresAt']}."
        f" Send leaseId {lease['leaseId']} and fence {lease['fence']} with every change; finish"
        f" with work_complete or work_handover.{again}"
    )
