"""The state as SQL tables, for people with SQL in their hands.

The tables follow the journal by its changes and remember how far they came (`watermark`). They
delay no answer, and can be deleted and made anew at any time.
"""

from pathlib import Path
from typing import assert_never

import apsw

from ..contracts import BLOCKING_TYPES, Issue, issue_resource
from .failpoint import failpoint
from .journal import Journal, changes_of
from .outcome import (
    Answered,
    Change,
    ChecksSet,
    DecisionPut,
    DependencyAdded,
    DependencyDropped,
    Designated,
    DirectivePut,
    FeaturePut,
    FiberDropped,
    FiberPut,
    HandoverPut,
    InstanceDropped,
    InstancePut,
    IssueAdded,
    IssueSet,
    JobPut,
    JobQuarantined,
    Lapsed,
    LeaseDropped,
    LeasePut,
    MemberPut,
    OperationAdmitted,
    PolicySet,
    SessionDropped,
    SessionPut,
    SpecMoved,
    SpecPut,
    SubleaseDropped,
    SubleasePut,
    WitnessPut,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS watermark (only INTEGER PRIMARY KEY CHECK (only = 1), seq INTEGER);
INSERT OR IGNORE INTO watermark VALUES (1, 0);
CREATE TABLE IF NOT EXISTS issue (
    id TEXT PRIMARY KEY, title TEXT, description TEXT, design TEXT, acceptance_criteria TEXT,
    notes TEXT, status TEXT, priority INTEGER, issue_type TEXT, assignee TEXT, owner TEXT,
    created_at TEXT, updated_at TEXT, closed_at TEXT, ephemeral INTEGER, mol_type TEXT,
    labels TEXT, metadata TEXT, attempts INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS issue_status ON issue (status, priority, created_at);
CREATE TABLE IF NOT EXISTS dependency (
    issue_id TEXT, depends_on_id TEXT, type TEXT, created_by TEXT, blocking INTEGER,
    PRIMARY KEY (issue_id, depends_on_id, type)
) STRICT;
CREATE TABLE IF NOT EXISTS lease (
    resource TEXT PRIMARY KEY, lease_id TEXT, owner TEXT, fence INTEGER, ttl_ms INTEGER,
    granted_ms INTEGER, deadline_ms INTEGER, renewed_ms INTEGER, renewals INTEGER, state TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS sublease (
    resource TEXT, sublease_id TEXT, parent_lease_id TEXT, holder TEXT, capability_scope TEXT,
    granted_ms INTEGER, deadline_ms INTEGER, PRIMARY KEY (resource, sublease_id)
) STRICT;
CREATE TABLE IF NOT EXISTS instance (
    resource TEXT, instance_id TEXT, issue_id TEXT, worktree_ref TEXT, runtime_ref TEXT,
    lease_id TEXT, lease_owner TEXT, lease_ttl_ms INTEGER, fence_token INTEGER,
    policy_digest TEXT, PRIMARY KEY (resource, instance_id)
) STRICT;
CREATE TABLE IF NOT EXISTS fiber (
    resource TEXT, fiber_id TEXT, parent_fiber_id TEXT, task_ref TEXT, scope_ref TEXT,
    fence INTEGER, depth INTEGER, spawned_seq INTEGER, spawned_ms INTEGER, state TEXT,
    ended_seq INTEGER, ended_ms INTEGER, result_class TEXT, result_ref TEXT, reason TEXT,
    PRIMARY KEY (resource, fiber_id)
) STRICT;
"""
_ISSUE_COLUMNS = (
    "id", "title", "description", "design", "acceptance_criteria", "notes", "status", "priority",
    "issue_type", "assignee", "owner", "created_at", "updated_at", "closed_at", "ephemeral",
    "mol_type", "labels", "metadata", "attempts",
)  # fmt: skip


class Tables:
    """One database file that follows one journal."""

    def __init__(self, path: Path) -> None:
        self._db = apsw.Connection(str(path))
        self._db.set_busy_timeout(5_000)
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "NORMAL")  # rows may be lost, and follow again
        self._db.execute(_SCHEMA)

    def watermark(self) -> int:
        """The last row that the tables show."""
        return int(self._db.execute("SELECT seq FROM watermark").get)

    def follow(self, journal: Journal) -> int:
        """Take in the rows that are missing; how many there were."""
        count = 0
        with self._db:
            for row in journal.read(self.watermark()):
                for change in changes_of(row):
                    self._make(change)
                self._db.execute("UPDATE watermark SET seq = ?", (row.seq,))
                count += 1
            failpoint("tables.written")
        return count

    def close(self) -> None:
        self._db.close()

    def _make(self, change: Change) -> None:
        match change:
            case IssueAdded(issue):
                self._insert("issue", [_cell(issue, name) for name in _ISSUE_COLUMNS])
            case IssueSet(issue_id, members):
                for name, value in members.items():
                    text = "\n".join(value) if name == "labels" else value
                    self._run(f"UPDATE issue SET {name} = ? WHERE id = ?", text, issue_id)  # noqa: S608
                if members.get("status") == "closed":
                    self._run("DELETE FROM fiber WHERE resource = ?", issue_resource(issue_id))
            case LeasePut(lease):
                held = self._db.execute(
                    "SELECT fence FROM lease WHERE resource = ?", (lease.resource,)
                ).get
                if held is not None and held != lease.fence:
                    self._drop_lease(lease.resource)
                self._insert("lease", [
                    lease.resource, lease.lease_id, lease.owner, lease.fence, lease.ttl_ms,
                    lease.granted_ms, lease.deadline_ms, lease.renewed_ms, lease.renewals,
                    lease.state,
                ])  # fmt: skip
            case LeaseDropped(resource):
                self._drop_lease(resource)
            case SubleasePut(one):
                self._insert("sublease", [
                    one.resource, one.sublease_id, one.parent_lease_id, one.holder,
                    "\n".join(one.capability_scope), one.granted_ms, one.deadline_ms,
                ])  # fmt: skip
            case SubleaseDropped(resource, sublease_id):
                query = "DELETE FROM sublease WHERE resource = ? AND sublease_id = ?"
                self._run(query, resource, sublease_id)
            case InstancePut(one):
                self._insert("instance", [
                    one.resource, one.instance_id, one.issue_id, one.worktree_ref,
                    one.runtime_ref, one.lease_id, one.lease_owner, one.lease_ttl_ms,
                    one.fence_token, one.policy_digest,
                ])  # fmt: skip
            case InstanceDropped(resource, instance_id):
                query = "DELETE FROM instance WHERE resource = ? AND instance_id = ?"
                self._run(query, resource, instance_id)
            case FiberPut(one):
                self._insert("fiber", [
                    one.resource, one.fiber_id, one.parent_fiber_id, one.task_ref, one.scope_ref,
                    one.fence, one.depth, one.spawned_seq, one.spawned_ms, one.state,
                    one.ended_seq, one.ended_ms, one.result_class, one.result_ref, one.reason,
                ])  # fmt: skip
            case FiberDropped(resource, fiber_id):
                query = "DELETE FROM fiber WHERE resource = ? AND fiber_id = ?"
                self._run(query, resource, fiber_id)
            case DependencyAdded(one):
                blocking = int(one.type in BLOCKING_TYPES)
                cells = [one.issue_id, one.depends_on_id, one.type, one.created_by, blocking]
                self._insert("dependency", cells)
            case DependencyDropped(one):
                query = "DELETE FROM dependency WHERE (issue_id, depends_on_id, type) = (?, ?, ?)"
                self._run(query, one.issue_id, one.depends_on_id, one.type)
            case PolicySet() | ChecksSet() | WitnessPut() | DecisionPut() | Answered() | Lapsed():
                pass  # the tables show work and leases
            case HandoverPut() | SessionPut() | SessionDropped() | FeaturePut():
                pass
            case JobPut() | JobQuarantined() | DirectivePut() | MemberPut() | Designated():
                pass  # of the job lane they show the leases
            case SpecPut() | SpecMoved():
                pass
            case OperationAdmitted():
                pass
            case _:
                assert_never(change)

    def _drop_lease(self, resource: str) -> None:
        for table in ("lease", "sublease", "instance"):
            self._run(f"DELETE FROM {table} WHERE resource = ?", resource)  # noqa: S608
        self._run("DELETE FROM fiber WHERE resource = ? AND state <> 'running'", resource)
        self._run("UPDATE fiber SET state = 'orphaned' WHERE resource = ?", resource)

    def _insert(self, table: str, cells: list[object]) -> None:
        marks = ", ".join("?" * len(cells))
        self._run(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", *cells)  # noqa: S608

    def _run(self, query: str, *values: object) -> None:
        self._db.execute(query, values)


def _cell(issue: Issue, name: str) -> object:
    value = getattr(issue, name)
    return "\n".join(value) if name == "labels" else value
