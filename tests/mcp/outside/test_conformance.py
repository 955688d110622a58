"""The official conformance suite against the real gateway, for both eras of the protocol."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.long import few
from tests.mcp.outside import node
from tests.mcp.stand import Stand

# How many checks of a revision pass; fewer would mean that the suite found less to look at.
REVISIONS = {"2026-07-28": 190, "2025-11-25": 80}
# No scored part of any revision, and the first place where the extension is judged at all.
TASKS = {
    "tasks-lifecycle": {"SUCCESS": 9},
    "tasks-capability-negotiation": {"SUCCESS": 5},
    "tasks-wire-fields": {"SUCCESS": 4},
    "tasks-request-state-removal": {"SUCCESS": 3},
    "tasks-mrtr-input": {"SUCCESS": 4},
    "tasks-request-headers": {"SUCCESS": 5},
    "tasks-dispatch-and-envelope": {"SUCCESS": 9},
    "tasks-status-notifications": {"SKIPPED": 1},  # the suite has no such check yet; we do
    "tasks-required-task-error": {"SUCCESS": 3},
    "tasks-mrtr-composition": {"SUCCESS": 2},
}


def judged(stand: Stand, revision: str, folder: Path) -> dict[str, list[dict]]:
    """Every check of every scenario of a revision."""
    said = node.run(
        node.CONFORMANCE,
        *("server", "--url", stand.url, "--requirements", revision, "-o", str(folder)),
    )
    found = {
        path.parent.name.removeprefix("server-").partition("-20")[0]: json.loads(path.read_text())
        for path in folder.glob("*/checks.json")
    }
    assert found, said.stdout + said.stderr
    return found


@pytest.mark.parametrize("revision", few([*REVISIONS]))
def test_no_check_of_a_revision_fails(equipped: Stand, revision: str, tmp_path: Path) -> None:
    found = judged(equipped, revision, tmp_path)
    failed = {
        f"{name}: {check['id']}": check.get("errorMessage")
        for name, checks in found.items()
        for check in checks
        if check["status"] == "FAILURE"
    }
    passed = sum(check["status"] == "SUCCESS" for each in found.values() for check in each)
    assert failed == {}
    assert passed >= REVISIONS[revision]
    if revision == "2026-07-28":
        seen = {name: Counter(each["status"] for each in found[name]) for name in TASKS}
        assert seen == TASKS
