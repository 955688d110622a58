"""`issues.jsonl`, the file that other tools read and write: in once, and out again.

The journal is the truth. The file is read only for an import, and written only
by an export: sorted by id, in the field order of the format, whole or not at all.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...contracts import (
    Dependency,
    Issue,
    Lease,
    Reason,
    RecordedIssue,
    canonical,
    issue_resource,
    jsonl,
    limits,
    rfc3339,
)
from ..journal import private
from ..law.state import State

FOREIGN_TYPES = ("bug", "feature", "chore")  # of other tools; a task here, with a label


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a line of the file."""

    line: int
    reason: Reason
    message: str


class IssuesRead(NamedTuple):
    """A file: records as payloads of `issue.import`, the lines that are none, and by id the types
    that became a task with a label."""

    records: list[dict[str, Any]]
    problems: list[Problem]
    retyped: dict[str, str]


class BadLine(ValueError):
    """The line is no issue record; the message says why."""


# --- in -----------------------------------------------------------------------------------------


def read_issues(data: bytes, now_text: str) -> IssuesRead:
    """Read a whole file.

    Records without `created_at` get `now_text`. Of two records with one id the last is kept.
    """
    records: dict[str, dict[str, Any]] = {}
    lines_of: dict[str, int] = {}
    problems: list[Problem] = []
    comments: list[str] = []
    retyped: dict[str, str | None] = {}
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        try:
            if text.startswith(b"#"):
                comments.append(_comment(text))
            if not text or text.startswith(b"#"):
                continue
            record, foreign = _record(text, now_text)
        except (ValueError, TypeError) as error:
            torn = number == len(lines)  # no LF behind it
            reason = Reason.IMPORT_LINE_TORN if torn else Reason.IMPORT_LINE_INVALID
            problems.append(Problem(number, reason, str(error)))
            continue
        key = record["id"]
        if key in records:
            message = f"{key} stands in line {lines_of[key]} too"
            problems.append(Problem(number, Reason.IMPORT_ID_DUPLICATE, message))
            comments = records.pop(key)["comments"] + comments
        retyped[key] = foreign
        record["comments"], comments = comments, []
        records[key], lines_of[key] = record, number
    if comments and records:
        records[next(reversed(records))]["comments"] += comments
    foreign_types = {key: word for key, word in retyped.items() if word}
    return IssuesRead(list(records.values()), problems, foreign_types)


def import_payloads(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Payloads of `issue.import`: leased records alone, the others together up to the limits."""
    batch: list[dict[str, Any]] = []
    size = 0
    for record in records:
        if "lease" in record:
            yield {"records": [record]}
            continue
        length = len(canonical.encode(record)) + 1
        full = len(batch) >= limits.IMPORT_RECORDS_MAX
        if batch and (full or size + length > limits.IMPORT_BYTES_MAX):
            yield {"records": batch}
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield {"records": batch}


def _comment(text: bytes) -> str:
    comment = text.decode()
    if {"\0", "\r"} & set(comment) or len(comment) > limits.TEXT_LENGTH_MAX:
        raise BadLine("the comment cannot be kept")
    return comment


def _record(text: bytes, now_text: str) -> tuple[dict[str, Any], str | None]:
    """One line as a record, and its type if it is not one of ours; raises `ValueError` with what is
    wrong."""
    value = jsonl.parse_text(text.decode())
    if not isinstance(value, dict):
        raise BadLine("the line is not an object")
    record = {key: value[key] for key in value.keys() & jsonl.KNOWN if value[key] is not None}
    extra = {key: value[key] for key in value.keys() - jsonl.KNOWN}
    if "scope" in value and not jsonl.is_scope(value["scope"]):  # another tool's word
        record.pop("scope", None)
        extra["scope"] = value["scope"]
    if "metadata" in record:
        record["metadata"] = jsonl.json_text(record["metadata"])
    if isinstance(record.get("issue_type"), str):
        record["issue_type"] = record["issue_type"].strip().lower()
    foreign = _retyped(record)
    if "lease" in record:
        record["lease"], unknown = _lease(record["lease"])
        extra |= {"lease": unknown} if unknown else {}
    if "dependencies" in record:
        record["dependencies"] = _dependencies(record["dependencies"], record.get("id"))
    record["extra"] = jsonl.json_text(extra) if extra else ""
    record.setdefault("created_at", now_text)
    record.setdefault("updated_at", record["created_at"])
    problem = jsonl.record_problem(msgspec.convert(record, RecordedIssue))
    if problem is not None:
        raise BadLine(problem)
    for key in ("created_at", "updated_at", "closed_at"):
        if record.get(key) and rfc3339.parse_ms(record[key]) is None:
            raise BadLine(f"`{key}` is no RFC 3339 moment")
    data = canonical.encode(record)
    canonical.decode(data)  # NUL and numbers out of range
    if len(data) > limits.IMPORT_BYTES_MAX:
        raise BadLine(f"the record is longer than {limits.IMPORT_BYTES_MAX} bytes")
    return record, foreign


def _retyped(record: dict[str, Any]) -> str | None:
    """Make a task of another tool's type, and keep the word as a label; the word, if it was one."""
    word, labels = record.get("issue_type"), record.get("labels", [])
    if word not in FOREIGN_TYPES or not isinstance(labels, list):
        return None
    record["issue_type"] = "task"
    record["labels"] = labels if word in labels else [*labels, word]
    return str(word)


def _lease(value: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """A lease, and the members of it that we do not know."""
    if not isinstance(value, dict):
        raise BadLine("`lease` is not an object")
    known = value.keys() & jsonl.KNOWN_LEASE
    lease = {key: value[key] for key in known if value[key] is not None}
    for key in ("acquired_at", "expires_at", "renewed_at"):
        text = lease.get(key)
        if text is not None and (not isinstance(text, str) or rfc3339.parse_ms(text) is None):
            raise BadLine(f"`lease.{key}` is no RFC 3339 moment")
    return lease, {key: value[key] for key in value.keys() - known}


def _dependencies(value: object, issue_id: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise BadLine("`dependencies` is not a list")
    return [_dependency(each, issue_id) for each in value]


def _dependency(value: object, issue_id: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadLine("a dependency is not an object")
    if value.get("issue_id", issue_id) != issue_id:
        raise BadLine("a dependency belongs to another issue")
    extra = {key: value[key] for key in value.keys() - jsonl.KNOWN_DEPENDENCY}
    link = {
        "depends_on_id": value.get("depends_on_id"),
        "type": value.get("type", value.get("dep_type", "blocks")),
        "extra": jsonl.json_text(extra) if extra else "",
    }
    if value.get("created_by"):
        link["created_by"] = value["created_by"]
    return link


# --- out ----------------------------------------------------------------------------------------


def export_issues(state: State) -> bytes:
    """The whole file: equal states give equal bytes."""
    lines: list[str] = []
    for issue_id in sorted(state.issues):
        issue = state.issues[issue_id]
        lease = state.leases.get(issue_resource(issue_id))
        links = state.dependencies.get(issue_id, ())
        lines += issue.comments
        lines.append(_line(_exported(issue, lease, links)))
    return "".join(line + "\n" for line in lines).encode()


def write_file(path: Path, data: bytes, *, is_private: bool = False) -> None:
    """Put the file in its place whole, or leave what is there."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if is_private:
            private.touch(fresh)
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _exported(issue: Issue, lease: Lease | None, links: tuple[Dependency, ...]) -> dict[str, Any]:
    """Members in the order of the format; what is empty is left out where the format does so."""
    record: dict[str, Any] = {"id": issue.id, "title": issue.title}
    for name in ("description", "design", "acceptance_criteria", "notes"):
        _keep(record, name, getattr(issue, name))
    record |= {
        "status": issue.status,
        "priority": issue.priority,
        "issue_type": issue.issue_type,
    }
    _keep(record, "assignee", issue.assignee)
    _keep(record, "owner", issue.owner)
    if lease is not None:
        record["lease"] = _exported_lease(lease)
    record |= {"created_at": issue.created_at, "updated_at": issue.updated_at}
    _keep(record, "closed_at", issue.closed_at)
    record["ephemeral"] = issue.ephemeral
    _keep(record, "mol_type", issue.mol_type)
    _keep(record, "labels", list(issue.labels))
    _keep(record, "scope", list(issue.scope or ()))
    _keep(record, "dependencies", [_exported_dependency(link) for link in links])
    if issue.metadata:
        record["metadata"] = json.loads(issue.metadata)
    extra = json.loads(issue.extra) if issue.extra else {}
    unknown_of_lease = extra.pop("lease", {})
    if lease is not None:
        record["lease"] |= unknown_of_lease
    return record | {key: value for key, value in extra.items() if key not in record}


def _exported_lease(lease: Lease) -> dict[str, Any]:
    record = {
        "lease_id": lease.lease_id,
        "owner": lease.owner,
        "acquired_at": rfc3339.record_text(lease.granted_ms),
        "expires_at": rfc3339.record_text(lease.deadline_ms),
    }
    if lease.renewed_ms is not None:
        record["renewed_at"] = rfc3339.record_text(lease.renewed_ms)
    return record


def _exported_dependency(link: Dependency) -> dict[str, Any]:
    record = {
        "issue_id": link.issue_id,
        "depends_on_id": link.depends_on_id,
        "type": link.type,
    }
    _keep(record, "created_by", link.created_by)
    return record | (json.loads(link.extra) if link.extra else {})


def _keep(record: dict[str, Any], name: str, value: object) -> None:
    if value:
        record[name] = value


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
