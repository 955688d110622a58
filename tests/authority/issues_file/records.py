"""Records of `issues.jsonl`, whole and short, and the way in and out again."""

import json
from typing import Any

from tests.fakes.desk import START_MS, Desk
from understudy.authority.views.issues_file import export_issues, import_payloads, read_issues
from understudy.contracts.reason import Reason
from understudy.contracts.rfc3339 import record_text

NOW = "2026-05-06T07:08:09Z"
# The order of the format, and what is written even when there is nothing to say.
ORDER = (
    "id", "title", "description", "design", "acceptance_criteria", "notes", "status", "priority",
    "issue_type", "assignee", "owner", "lease", "created_at", "updated_at", "closed_at",
    "ephemeral", "mol_type", "labels", "dependencies", "metadata",
)  # fmt: skip
ALWAYS = (
    "id", "title", "status", "priority", "issue_type", "created_at", "updated_at", "ephemeral",
)  # fmt: skip
BAD = Reason.IMPORT_LINE_INVALID
TORN = Reason.IMPORT_LINE_TORN


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(line(record) for record in records)


def line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def issue(issue_id: str = "a", **members: object) -> dict[str, Any]:
    return {"id": issue_id, "title": "t", "created_at": NOW, "updated_at": NOW, **members}


def lease(**members: object) -> dict[str, Any]:
    return {
        "lease_id": "l1",
        "owner": "ann",
        "acquired_at": record_text(START_MS - 60_000),
        "expires_at": record_text(START_MS + 60_000),
        **members,
    }


def leased(issue_id: str = "a", **members: object) -> dict[str, Any]:
    members = {"status": "in_progress", "assignee": "ann", "lease": lease(), **members}
    return issue(issue_id, **members)


def taken(data: bytes) -> Desk:
    """A desk whose authority has imported a file, and proved it."""
    records, problems, _ = read_issues(data, NOW)
    assert problems == []
    desk = Desk()
    for payload in import_payloads(records):
        desk.grant("issue.import", "cli", **payload)
    desk.prove()
    return desk


def trip(data: bytes) -> bytes:
    """In and out again."""
    return export_issues(taken(data).authority.state)


def tripped(record: dict[str, Any]) -> dict[str, Any]:
    """The one record of a file, in and out again."""
    found: dict[str, Any] = json.loads(trip(line(record)))
    return found


def problems_of(data: bytes) -> list[tuple[int, Reason]]:
    return [(problem.line, problem.reason) for problem in read_issues(data, NOW)[1]]


def full() -> dict[str, Any]:
    """A record with every member of the format, none of them empty, in the wrong order."""
    record = leased(
        description="d",
        design="e",
        acceptance_criteria="f",
        notes="g",
        priority=-7,
        issue_type="epic",
        owner="olga",
        closed_at=NOW,
        ephemeral=True,
        mol_type="m",
        labels=["x", "y"],
        dependencies=[
            {"issue_id": "a", "depends_on_id": "b", "type": "blocks", "created_by": "c"},
        ],
        metadata={"k": [1, 2.5, None]},
    )
    return dict(reversed(record.items()))
