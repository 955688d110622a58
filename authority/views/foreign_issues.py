"""Issues of other trackers, as lines of `issues.jsonl`: what `issues_file` then reads and judges.

    beads    `.beads/issues.jsonl`, a line each. A type that we lack becomes a label; comments go to
             the notes; work in progress is open, since no lease comes along. What was deleted is
             left out. A child does not wait for its parent there: here the parent waits for it.
    github   what `gh issue list --json number,title,body,state,...` prints. `#7` becomes `gh-7`.

A line that is none stays as it is, so that its number and what is wrong with it are told.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...contracts import DEPENDENCY_TYPES
from .issues_file import BadLine

_OURS = frozenset({"epic", "task"})
_STATUSES = {"in_progress": "open", "hooked": "open", "deferred": "blocked", "pinned": "blocked"}
_DELETED = "tombstone"
_BEADS = (
    "id", "title", "description", "design", "acceptance_criteria", "notes", "assignee", "owner",
    "created_at", "updated_at", "closed_at",
)  # fmt: skip

Record = dict[str, Any]


def from_beads(data: bytes) -> bytes:
    """A file of beads, line by line."""
    lines = data.split(b"\n")
    found = [_object(line) for line in lines]
    gone = {each.get("id") for each in found if each and each.get("status") == _DELETED}
    children = _children(each for each in found if each and each.get("status") != _DELETED)
    return b"\n".join(
        line if each is None else _bead(each, gone, children)
        for line, each in zip(lines, found, strict=True)
    )


def from_github(data: bytes) -> bytes:
    """A list of issues; raise `BadLine` for anything else."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise BadLine(f"this is not JSON: {error}") from None
    if not isinstance(found, list):
        raise BadLine("this is no list: write `gh issue list --json number,title,body,state` to it")
    return b"".join(_line(_github(each)) + b"\n" for each in found)


FORMATS: dict[str, Callable[[bytes], bytes]] = {"beads": from_beads, "github": from_github}


# --- beads ----------------------------------------------------------------------------------------


def _object(line: bytes) -> Record | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _children(records: Iterable[Record]) -> dict[str, list[str]]:
    """The children of each parent; a child that waits for its parent all the same is none."""
    children: dict[str, list[str]] = {}
    for each in records:
        links = list(_links(each))
        waits = {target for target, kind in links if kind not in ("parent-child", "related")}
        for target, kind in links:
            if kind == "parent-child" and target not in waits:
                children.setdefault(target, []).append(str(each.get("id")))
    return children


def _links(record: Record) -> Iterator[tuple[str, str]]:
    for each in record.get("dependencies") or ():
        if isinstance(each, dict) and isinstance(each.get("depends_on_id"), str):
            kind = str(each.get("type"))
            yield each["depends_on_id"], kind if kind in DEPENDENCY_TYPES else "related"


def _bead(record: Record, gone: set[Any], children: dict[str, list[str]]) -> bytes:
    if record.get("status") == _DELETED:
        return b""
    kind, status = record.get("issue_type") or "task", record.get("status") or "open"
    is_ours = kind in _OURS
    labels = [*(record.get("labels") or ()), *([] if is_ours else [kind])]
    members = {name: record[name] for name in _BEADS if record.get(name)}
    if status in ("in_progress", "hooked"):
        members.pop("assignee", None)
    said = [_said(each, "text") for each in record.get("comments") or ()]
    members |= _noted(members.get("notes", ""), said)
    links = [(target, kind) for target, kind in _links(record) if kind != "parent-child"]
    links += [(child, "parent-child") for child in children.get(str(record.get("id")), ())]
    return _line(
        members
        | {
            "issue_type": kind if is_ours else "task",
            "status": _STATUSES.get(status, status),
            "priority": record.get("priority", 0),  # beads leaves out a 0
            "labels": list(dict.fromkeys(labels)),
            "dependencies": [
                {"issue_id": record.get("id"), "depends_on_id": target, "type": kind}
                for target, kind in dict.fromkeys(links)
                if target not in gone
            ],
        }
    )


# --- GitHub ---------------------------------------------------------------------------------------


def _github(issue: object) -> Record:
    """An issue; what has no number gets no id, and is told of as any other bad line is."""
    if not isinstance(issue, dict):
        return {}
    number, state = issue.get("number"), str(issue.get("state", "OPEN")).upper()
    labels = [_named(each, "name") for each in issue.get("labels") or ()]
    people = [_named(each, "login") for each in issue.get("assignees") or ()]
    said = [_said(each, "body") for each in issue.get("comments") or ()]
    record = {
        "id": f"gh-{number}" if isinstance(number, int) else None,
        "title": issue.get("title"),
        "description": issue.get("body"),
        "status": "closed" if state == "CLOSED" else "open",
        "labels": [each for each in labels if each],
        "owner": people[0] if people else None,  # an assignee would keep all others away
        "created_at": issue.get("createdAt"),
        "updated_at": issue.get("updatedAt"),
        "closed_at": issue.get("closedAt"),
        "external_ref": issue.get("url"),
    }
    found = {name: value for name, value in record.items() if value not in (None, "", [])}
    return found | _noted("", said)


def _named(value: object, member: str) -> str:
    return str(value.get(member, "")) if isinstance(value, dict) else str(value)


# --- both -----------------------------------------------------------------------------------------


def _said(comment: object, member: str) -> str:
    """A comment as a paragraph."""
    if not isinstance(comment, dict):
        return str(comment)
    who = _named(comment.get("author", ""), "login") or "unknown"
    when = comment.get("created_at") or comment.get("createdAt") or ""
    return f"{who}, {when}: {comment.get(member, '')}"


def _noted(notes: str, said: list[str]) -> Record:
    return {"notes": "\n\n".join(filter(None, [notes, *said]))} if said or notes else {}


def _line(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
