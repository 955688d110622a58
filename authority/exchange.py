"""`issues.jsonl`, the file that other tools read and write: in once, and out again.

The journal is the truth. The file is read only when somebody asks for an import, and written only
by an export: sorted by id, in the field order of the format, whole or not at all.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..contracts import canonical, limits, rfc3339
from ..contracts.reason import Reason
from ..contracts.records import Dependency, Issue, Lease, issue_resource
from ..contracts.shapes import RecordedIssue
from .state import State

_KNOWN = frozenset(RecordedIssue.__struct_fields__) - {"extra", "comments"}
_KNOWN_DEPENDENCY = frozenset({"issue_id", "depends_on_id", "type", "dep_type", "created_by"})
_KNOWN_LEASE = frozenset({"lease_id", "owner", "acquired_at", "expires_at", "renewed_at"})


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a line of the file."""

    line: int
    reason: Reason
    message: str


class BadLine(ValueError):
    """The line is no issue record; the message says why."""


# --- in -----------------------------------------------------------------------------------------


def read_issues(data: bytes, now_text: str) -> tuple[list[dict[str, Any]], list[Problem]]:
    """The records of a file, as payloads of `issue.import`, and every line that is none.

    Records without `created_at` get `now_text`. Of two records with one id the last is kept.
    """
    records: dict[str, dict[str, Any]] = {}
    lines_of: dict[str, int] = {}
    problems: list[Problem] = []
    comments: list[str] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            if text:
                comments.append(text.decode(errors="replace"))
            continue
        try:
            record = _record(text, now_text)
        except (ValueError, msgspec.ValidationError) as error:
            torn = number == len(lines)  # no LF behind it
            reason = Reason.IMPORT_LINE_TORN if torn else Reason.IMPORT_LINE_INVALID
            problems.append(Problem(number, reason, str(error)))
            continue
        if record["id"] in records:
            message = f"{record['id']} stands in line {lines_of[record['id']]} too"
            problems.append(Problem(number, Reason.IMPORT_ID_DUPLICATE, message))
        record["comments"], comments = comments, []
        records[record["id"]], lines_of[record["id"]] = record, number
    if comments and records:
        records[next(reversed(records))]["comments"] += comments
    return list(records.values()), problems


def import_payloads(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Payloads of `issue.import`: leased records alone, the others together up to the limits."""
    batch: list[dict[str, Any]] = []
    size = 0
    for record in records:
        if "lease" in record:
            yield {"records": [record]}
            continue
        length = len(canonical.encode(record))
        full = len(batch) >= limits.IMPORT_RECORDS_MAX
        if batch and (full or size + length > limits.REQUEST_BYTES_MAX):
            yield {"records": batch}
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield {"records": batch}


def _record(text: bytes, now_text: str) -> dict[str, Any]:
    """One line as a record; raises `ValueError` with what is wrong."""
    value = json.loads(text.decode(), object_pairs_hook=_object)
    if not isinstance(value, dict):
        raise BadLine("the line is not an object")
    record = {key: value[key] for key in value.keys() & _KNOWN if value[key] is not None}
    record["extra"] = _text({key: value[key] for key in value.keys() - _KNOWN})
    if "metadata" in record:
        record["metadata"] = _text(record["metadata"])
    if isinstance(record.get("issue_type"), str):
        record["issue_type"] = record["issue_type"].strip().lower()
    if "lease" in record:
        record["lease"] = _lease(record["lease"])
    if "dependencies" in record:
        record["dependencies"] = [_dependency(one) for one in _list(record["dependencies"])]
    record.setdefault("created_at", now_text)
    record.setdefault("updated_at", record["created_at"])
    msgspec.convert(record, RecordedIssue)
    for key in ("created_at", "updated_at", "closed_at"):
        if record.get(key) and rfc3339.parse_ms(record[key]) is None:
            raise BadLine(f"`{key}` is no RFC 3339 moment")
    canonical.decode(canonical.encode(record))  # NUL, lone surrogates, numbers out of range
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadLine("an object names the same key twice")
    return value


def _lease(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadLine("`lease` is not an object")
    lease = {key: value[key] for key in value.keys() & _KNOWN_LEASE if value[key] is not None}
    for key in ("acquired_at", "expires_at", "renewed_at"):
        text = lease.get(key)
        if text is not None and (not isinstance(text, str) or rfc3339.parse_ms(text) is None):
            raise BadLine(f"`lease.{key}` is no RFC 3339 moment")
    return lease


def _dependency(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadLine("a dependency is not an object")
    link = {
        "depends_on_id": value.get("depends_on_id"),
        "type": value.get("type", value.get("dep_type", "blocks")),
        "extra": _text({key: value[key] for key in value.keys() - _KNOWN_DEPENDENCY}),
    }
    if value.get("created_by"):
        link["created_by"] = value["created_by"]
    return link


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise BadLine("`dependencies` is not a list")
    return value


def _text(value: object) -> str:
    """JSON text of what we keep without understanding it; nothing for nothing."""
    return (
        json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        if value
        else ""
    )


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


def write_file(path: Path, data: bytes) -> None:
    """Put the file in its place whole, or leave what is there."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
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
    _keep(record, "dependencies", [_exported_dependency(link) for link in links])
    if issue.metadata:
        record["metadata"] = json.loads(issue.metadata)
    return record | (json.loads(issue.extra) if issue.extra else {})


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
