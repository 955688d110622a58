"""What a check found, and the report that it becomes."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One thing that is wrong: its failure class, where it is, and what to know about it."""

    failure_class: str
    path: str
    message: str


def report(check_kind: str, findings: Iterable[Finding], **parts: object) -> dict[str, Any]:
    """The verdict over a list of findings: accepted only when there are none."""
    unique = list(dict.fromkeys(findings))
    return {
        "schema": 1,
        "checkKind": check_kind,
        "result": "rejected" if unique else "accepted",
        "failureClasses": sorted({finding.failure_class for finding in unique}),
        "issues": [
            {
                "failureClass": finding.failure_class,
                "path": finding.path,
                "message": finding.message,
            }
            for finding in unique
        ],
        **parts,
    }
