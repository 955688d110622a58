"""Issues of other trackers, as lines of `issues.jsonl`: what `issues_file` then reads and judges.

    beads    `.beads/issues.jsonl`, a line each. A type that we lack becomes a label; comments go to
             the notes; work in progress is open, since no lease comes along. A status of their own
             becomes a label, and the issue blocked. What was deleted is left out, and so is what is
             no issue: memories and templates. A child does not wait for its parent there: here the
             parent waits for it, unless they would wait for each other. What waits for another
             project says so in its notes.
    github   what `gh issue list --json number,title,body,state,...` prints. `#7` becomes `gh-7`.

A line that is none stays as it is, so that its number and what is wrong with it are told. Other
members of beads are kept as they are. Notes that are too long are cut, and say so.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from ...contracts import BLOCKING_TYPES, DEPENDENCY_TYPES, jsonl, limits
from .issues_file import BadLine

_OURS = frozenset({"epic", "task"})
_STATUSES = {"in_progress": "open", "hooked": "open", "deferred": "blocked", "pinned": "blocked"}
_STATUSES |= {each: each for each in ("open", "blocked", "closed")}
_DELETED = "tombstone"
_BEADS = (
    "id", "title", "description", "design", "acceptance_criteria", "notes", "assignee", "owner",
    "created_at", "updated_at", "closed_at",
)  # fmt: skip
_APART = frozenset({"_type", "comments", "close_reason"})  # has its place, or needs none
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CUT = "\n\n(Cut here: the tracker has more.)"
_GH = "gh issue list --json number,title,body,state"

Record = dict[str, Any]


def from_beads(data: bytes) -> bytes:
    """A file of beads, line by line."""
    lines = data.split(b"\n")
    found = [_object(line) for line in lines]
    gone = {str(each.get("id")) for each in found if each and not _is_work(each)}
    children = _children([each for each in found if each and _is_work(each)])
    return b"\n".join(map(_bead_line, lines, found, repeat(gone), repeat(children)))


def from_github(data: bytes) -> bytes:
    """A list of issues; raise `BadLine` for anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"this is not JSON: {error}; write what `{_GH}` prints to it") from None
    if not isinstance(found, list):
        raise BadLine(f"this is no list: write what `{_GH}` prints to it")
    if found and not any(isinstance(each, dict) and "number" in each for each in found):
        raise BadLine(f"no issue has a number: write what `{_GH}` prints to it")
    try:
        return b"".join(_line(_github(each)) + b"\n" for each in found)
    except TypeError as error:
        raise BadLine(f"a member is no list: {error}; write what `{_GH}` prints to it") from None


FORMATS: dict[str, Callable[[bytes], bytes]] = {"beads": from_beads, "github": from_github}


# --- beads ----------------------------------------------------------------------------------------


def _object(line: bytes) -> Record | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_work(record: Record) -> bool:
    """Whether it is an issue: there are memories, headers, templates, and what was deleted."""
    is_issue = record.get("_type", "issue") == "issue" and "_schema" not in record
    return is_issue and record.get("status") != _DELETED and record.get("is_template") is not True


def _children(records: list[Record]) -> dict[str, list[str]]:
    """The children of each parent; but for those that wait for their parent all the same."""
    waits: dict[str, set[str]] = {}
    families: list[tuple[str, str]] = []
    for each in records:
        name = str(each.get("id"))
        for target, kind in _links(each):
            if kind == "parent-child":
                families.append((target, name))
            elif kind in BLOCKING_TYPES:
                waits.setdefault(name, set()).add(target)
    children: dict[str, list[str]] = {}
    for parent, child in families:
        if not _reaches(waits, child, parent):
            waits.setdefault(parent, set()).add(child)
            children.setdefault(parent, []).append(child)
    return children


def _reaches(waits: dict[str, set[str]], source: str, target: str) -> bool:
    seen, open_ends = {source}, [source]
    while open_ends:
        each = open_ends.pop()
        if each == target:
            return True
        fresh = waits.get(each, set()) - seen
        seen |= fresh
        open_ends += fresh
    return False


def _links(record: Record) -> Iterator[tuple[str, str]]:
    found = record.get("dependencies")
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and isinstance(each.get("depends_on_id"), str):
            kind = str(each.get("type"))
            yield each["depends_on_id"], kind if kind in DEPENDENCY_TYPES else "related"


def _bead_line(
    line: bytes, record: Record | None, gone: set[str], children: dict[str, list[str]]
) -> bytes:
    if record is None:
        return line
    try:
        return _line(_bead(record, gone, children)) if _is_work(record) else b""
    except (TypeError, ValueError):  # a member is not what it should be; the reader says which
        return line


def _bead(record: Record, gone: set[str], children: dict[str, list[str]]) -> Record:
    kind, status = record.get("issue_type") or "task", record.get("status") or "open"
    is_ours = kind in _OURS
    labels = [*_list(record, "labels"), *([] if is_ours else [kind])]
    labels += [] if status in _STATUSES else [status]
    members = {name: record[name] for name in _BEADS if record.get(name)}
    if status in ("in_progress", "hooked"):
        members.pop("assignee", None)
    _list(record, "dependencies")
    links = [(target, kind) for target, kind in _links(record) if kind != "parent-child"]
    links += [(child, "parent-child") for child in children.get(str(record.get("id")), ())]
    said = _talk(record, "text")
    said += [f"closed: {record['close_reason']}"] if record.get("close_reason") else []
    said += [f"{kind}: {target}" for target, kind in links if not _ID.fullmatch(target)]
    extra = {name: record[name] for name in record.keys() - jsonl.KNOWN - _APART}
    return {
        **extra,
        **members,
        **_noted(members.get("notes", ""), said),
        "issue_type": kind if is_ours else "task",
        "status": _STATUSES.get(status, "blocked"),
        "priority": record.get("priority", 0),  # beads leaves out a 0
        "labels": list(dict.fromkeys(labels)),
        "dependencies": [
            {"issue_id": record.get("id"), "depends_on_id": target, "type": kind}
            for target, kind in dict.fromkeys(links)
            if target not in gone and _ID.fullmatch(target)
        ],
    }


def _list(record: Record, name: str) -> list[Any]:
    value = record.get(name)
    if value is not None and not isinstance(value, list):
        raise TypeError(name)
    return value or []


# --- GitHub ---------------------------------------------------------------------------------------


def _github(issue: object) -> Record:
    """An issue; what has no number gets no id, and is told of as any other bad line is."""
    if not isinstance(issue, dict):
        return {}
    number, state = issue.get("number"), str(issue.get("state", "OPEN")).upper()
    labels = [_named(each, "name") for each in issue.get("labels") or ()]
    people = [_named(each, "login") for each in issue.get("assignees") or ()]
    said = _talk(issue, "body")
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
        "milestone": _named(issue.get("milestone") or "", "title"),
    }
    found = {name: value for name, value in record.items() if value not in (None, "", [])}
    return found | _noted("", said)


def _named(value: object, member: str) -> str:
    return str(value.get(member, "")) if isinstance(value, dict) else str(value)


# --- both -----------------------------------------------------------------------------------------


def _talk(record: Record, member: str) -> list[str]:
    """The comments; a number of them, as some tools write it, says nothing."""
    found = record.get("comments")
    return [_said(each, member) for each in found] if isinstance(found, list) else []


def _said(comment: object, member: str) -> str:
    """A comment as a paragraph."""
    if not isinstance(comment, dict):
        return str(comment)
    who = _named(comment.get("author", ""), "login") or "unknown"
    when = comment.get("created_at") or comment.get("createdAt") or ""
    return f"{who}, {when}: {comment.get(member, '')}"


def _noted(notes: str, said: list[str]) -> Record:
    text = "\n\n".join(filter(None, [notes, *said]))
    if len(text) > limits.TEXT_LENGTH_MAX:
        text = text[: limits.TEXT_LENGTH_MAX - len(_CUT)] + _CUT
    return {"notes": text} if text else {}


def _line(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
