"""What can be read: issues, leases, the trajectory, and how things stand.

    issue://ID            one issue whole
    lease://ID            the lease on an issue, as long as there is one
    trajectory://WHICH    rows of evidence, newest first: latest, failed, or those of one issue
    job://ID              one job
    spec://ID             one spec, with the state of the job of every step
    mesh://ready          what work_next would hand out
    tools://all           every tool there is, and which of them this client was given
    mesh://status         this state directory in numbers, and its tree, if one runs

Everything is JSON. Nothing may be cached for any time: leases change hands.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import orjson
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from ....actors import tree
from ....actors.agents import AgentDoor
from ....authority import Unavailable, open_journal
from ....authority.journal import journal
from ....authority.views import trajectory
from ....contracts import limits
from ..tools import catalogue

_ROWS_SHOWN = 50  # of the trajectory
_ROWS_READ = 256  # at once
_ROWS_BACK_MAX = 65_536  # looked through for those of one issue
_TREE_SECONDS = 2.0
_LIVE = {"ttlMs": 0, "cacheScope": "private"}
_FIXED = {"ttlMs": 3_600_000, "cacheScope": "public"}

_ALWAYS = {
    "tools://all": "Every tool there is, and which of them are offered here.",
    "mesh://status": "Issues by status, leases, and the supervision tree if one runs.",
    "mesh://ready": "What work_next would hand out; subscribe to hear of new work.",
    "trajectory://latest": "The newest rows of evidence.",
    "trajectory://failed": "The newest refusals.",
}
_TEMPLATES = {
    "issue://{id}": "One issue whole; subscribe to hear of its changes.",
    "lease://{id}": "The lease on an issue; subscribe to hear when it is lost.",
    "trajectory://{which}": "Rows of evidence: latest, failed, or an issue's id.",
    "job://{id}": "One job.",
    "spec://{id}": "One spec, with the state of the job of every step.",
}


class Book(Protocol):
    """Of a journal, what can be read beside its writer."""

    def last_seq(self) -> int: ...
    def rows(self, after_seq: int, count: int) -> Sequence[journal.Row]: ...


def templates() -> dict[str, Any]:
    """What can be read by name."""
    rows = [
        {"uriTemplate": uri, "name": uri.partition(":")[0], "description": text, **_json()}
        for uri, text in _TEMPLATES.items()
    ]
    return {"resourceTemplates": rows, **_FIXED}


async def listed(door: AgentDoor, cursor: str | None) -> dict[str, Any]:
    """A page: first what is always there, then the issues by id, each with its lease."""
    answer = await asked(door, "issue.list", {})
    after = _after(cursor)
    rest = [issue for issue in answer["issues"] if issue["id"] > after]
    page = rest[: limits.MCP_PAGE_MAX]
    rows = [_row(uri, text) for uri, text in _ALWAYS.items()] if cursor is None else []
    for issue in page:
        rows.append(_row(f"issue://{issue['id']}", f"{issue['status']}: {issue['title']}"))
        if "lease" in issue:
            lease = issue["lease"]
            rows.append(_row(f"lease://{issue['id']}", f"{lease['state']}: {lease['owner']}"))
    more = {"nextCursor": f"after {page[-1]['id']}"} if len(rest) > len(page) else {}
    return {"resources": rows, **more, **_LIVE}


async def read(door: AgentDoor, uri: str, offered: Collection[str]) -> dict[str, Any]:
    """What a URI stands for; `MCPError` for what does not exist."""
    scheme, _, name = uri.partition("://")
    match scheme, name:
        case "mesh", "status":
            value: Any = await _status(door)
        case "mesh", "ready":
            answer = await asked(door, "issue.ready", {})
            value = {key: answer[key] for key in ("issues", "count", "truncated")}
        case "tools", "all":
            value = catalogue.directory(offered)
        case "issue", issue_id:
            value = await _shown(door, "issue", {"id": issue_id}, uri)
        case "lease", issue_id:
            issue = await _shown(door, "issue", {"id": issue_id}, uri)
            names = ("id", "lease", "subleases", "instances", "fibers")
            value = {key: issue[key] for key in names if key in issue}
            if "lease" not in value:
                raise _missing(uri)
        case "job", job_id:
            value = await _shown(door, "job", {"jobId": job_id}, uri)
        case "spec", spec_id:
            value = await _shown(door, "spec", {"specId": spec_id}, uri)
        case "trajectory", str(which) if which:
            value = await asyncio.to_thread(_steps, door, which)
        case _:
            raise _missing(uri)
    text = orjson.dumps(value).decode()
    return {"contents": [{"uri": uri, "text": text, **_json()}], **_LIVE}


async def asked(door: AgentDoor, action: str, payload: dict[str, Any]) -> dict[str, Any]:
    """An accepted answer to a read; `MCPError` where no authority is there to give one."""
    try:
        answer = await door.ask(action, payload)
    except Unavailable as error:
        raise MCPError(INTERNAL_ERROR, str(error), {"failureClass": error.reason.wire}) from error
    except ValueError as error:  # a name that is no text
        raise MCPError(INVALID_PARAMS, str(error)) from error
    if answer["result"] != "accepted":
        failure = {"failureClass": answer["failureClasses"][0]}
        raise MCPError(INVALID_PARAMS, answer["diagnostic"], failure)
    return answer


def _json() -> dict[str, str]:
    return {"mimeType": "application/json"}


def _row(uri: str, text: str) -> dict[str, Any]:
    name = uri.replace("://", " ")
    return {"uri": uri, "name": name, "description": text, **_json()}


def _after(cursor: str | None) -> str:
    if cursor is None:
        return ""
    word, _, issue_id = cursor.partition(" ")
    if word != "after" or not issue_id:
        raise MCPError(INVALID_PARAMS, "the cursor is none of ours")
    return issue_id


def _missing(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})


async def _shown(door: AgentDoor, what: str, payload: dict[str, Any], uri: str) -> dict[str, Any]:
    try:
        answer = await asked(door, f"{what}.show", payload)
    except MCPError as error:
        if error.code == INVALID_PARAMS:
            raise _missing(uri) from error
        raise
    value: dict[str, Any] = answer[what]
    return value


async def _status(door: AgentDoor) -> dict[str, Any]:
    counts, listed, leases, picture = await asyncio.gather(
        asked(door, "issue.backend_status", {}),
        asked(door, "issue.list", {}),
        asked(door, "issue.lease_projection", {}),
        asyncio.to_thread(_tree, door),
    )
    names = ("issueCount", "leaseCount", "readyCount", "policy")
    return {name: counts[name] for name in names} | {
        "issuesByStatus": dict(
            sorted(Counter(each["status"] for each in listed["issues"]).items())
        ),
        "issuesCounted": listed["count"],  # a very long list is cut
        "leases": leases["leaseProjection"],
        "seq": counts["seq"],
        "tree": picture and door.shown(picture),
    }


def _tree(door: AgentDoor) -> dict[str, Any] | None:
    try:
        return tree.ask(door.state_dir / tree.RUN_FOLDER, {"ask": "picture"}, _TREE_SECONDS)
    except tree.NoTree:
        return None


def _steps(door: AgentDoor, which: str) -> list[dict[str, Any]]:
    """Rows of the trajectory, newest first, from the journal that it is a projection of."""
    try:
        with open_journal(door.state_dir, read_only=True) as book:
            found = islice(filter(_wanted(which), _backwards(book)), _ROWS_SHOWN)
            return [door.shown(orjson.loads(trajectory.line(row))) for row in found]
    except Unavailable as error:
        raise MCPError(INTERNAL_ERROR, str(error), {"failureClass": error.reason.wire}) from error


def _wanted(which: str) -> Callable[[journal.Row], bool]:
    def is_wanted(row: journal.Row) -> bool:
        effect = orjson.loads(row.response)["effect"]
        return bool(effect["failureClasses"] if which == "failed" else effect["issueId"] == which)

    return is_wanted if which != "latest" else lambda row: row.seq > 0


def _backwards(book: Book) -> Iterator[journal.Row]:
    """Rows from the end, as far back as anybody is made to wait for."""
    end = book.last_seq()
    first = max(0, end - _ROWS_BACK_MAX)
    while end > first:
        begin = max(first, end - _ROWS_READ)
        yield from reversed(book.rows(begin, end - begin))
        end = begin
