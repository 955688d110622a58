"""What the authority remembers: issues, dependencies, leases and what hangs on them.

All records are frozen; a change makes a new one. Times inside a lease are milliseconds of the
authority's clock. Times of an issue stay the text they came as, since other writers of
`issues.jsonl` have nanoseconds.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from .fiber import FiberState
from .transitions import LeaseState


class Stamp(Struct, frozen=True):
    """Where and when in the journal: the sequence number and the hybrid logical clock."""

    seq: int
    wall_ms: int
    counter: int
    node: str


class Issue(Struct, frozen=True, kw_only=True):
    """One piece of work. Field names and defaults are those of `issues.jsonl`."""

    id: str
    title: str
    description: str = ""
    design: str = ""
    acceptance_criteria: str = ""
    notes: str = ""
    status: str = "open"
    priority: int = 2
    issue_type: str = "task"
    assignee: str = ""
    owner: str = ""
    created_at: str
    updated_at: str
    closed_at: str = ""
    ephemeral: bool = False
    mol_type: str = ""
    labels: tuple[str, ...] = ()
    metadata: str = ""  # JSON text, kept as it came
    extra: str = ""  # JSON text of members that we do not know
    comments: tuple[str, ...] = ()  # comment lines that stood above the record
    attempts: int = 0  # grants so far; counted at the claim
    excused: int | UnsetType = UNSET  # of those; rows of before have it not
    # What a person said last, where one did; rows of before have none of these.
    approval: str | UnsetType = UNSET
    steered_by: str | UnsetType = UNSET
    steered_why: str | UnsetType = UNSET
    scope: tuple[str, ...] | UnsetType = UNSET  # globs of what it means to touch


class Dependency(Struct, frozen=True):
    """`issue_id` depends on `depends_on_id`."""

    issue_id: str
    depends_on_id: str
    type: str
    created_by: str = ""
    extra: str = ""  # JSON text of members that we do not know


class Lease(Struct, frozen=True, kw_only=True):
    """The one row of the lease machine. `fence` is the sequence number of the grant."""

    resource: str
    lease_id: str
    owner: str
    fence: int
    ttl_ms: int
    granted_ms: int
    deadline_ms: int
    renewed_ms: int | None = None
    renewals: int = 0
    state: LeaseState = LeaseState.ACTIVE  # as last written; `phase` adds time and contention


class Sublease(Struct, frozen=True, kw_only=True):
    """A part of a lease, lent to a subagent. It dies with its parent."""

    resource: str
    sublease_id: str
    parent_lease_id: str
    holder: str
    capability_scope: tuple[str, ...]
    granted_ms: int
    deadline_ms: int


class Instance(Struct, frozen=True, kw_only=True):
    """The execution context that works under a lease. It dies with the lease."""

    resource: str
    instance_id: str
    issue_id: str
    worktree_ref: str = ""
    runtime_ref: str = ""
    lease_id: str
    lease_owner: str
    lease_ttl_ms: int
    fence_token: int
    policy_digest: str


class Fiber(Struct, frozen=True, kw_only=True):
    """One concurrent part of the work under a lease. Whatever it spawns ends before it does."""

    resource: str
    fiber_id: str
    parent_fiber_id: str = ""  # none: the lease's own scope
    task_ref: str
    scope_ref: str = ""
    fence: int  # the term that it was spawned in
    depth: int = 1
    spawned_seq: int
    spawned_ms: int
    state: FiberState = FiberState.RUNNING
    ended_seq: int | None = None
    ended_ms: int | None = None
    result_class: str = ""
    result_ref: str = ""
    reason: str = ""


class Policy(Struct, frozen=True):
    """What an operator can choose for one authority."""

    mutation: Literal["open", "instruction-linked"] = "open"
    evidence_reads: bool = False
    approve: tuple[str, ...] | UnsetType = UNSET  # scopes; rows of before have it not


class Witness(Struct, frozen=True, kw_only=True):
    """What the authority remembers of a witness that it recorded."""

    key: str  # `instruction/<id>`, or the digest of a required witness
    digest: str  # of the document; of its envelope, where it is an instruction's
    verdict: str
    seq: int
    issue_id: str = ""
    term: tuple[int, int] = (0, 0)  # see `Decision`


class Decision(Struct, frozen=True, kw_only=True):
    """The last decision over an issue's required checks. It dies with the policy it is under.

    A term is the fence of the lease, 0 where there is none, and how many grants there were: what
    was decided before a lease says nothing after it.
    """

    issue_id: str
    term: tuple[int, int]
    decision: str
    digest: str


# --- dependency types ---------------------------------------------------------------------------

BLOCKING_TYPES = frozenset({"blocks", "parent-child", "conditional-blocks", "waits-for"})
DEPENDENCY_TYPES = BLOCKING_TYPES | {
    "related", "discovered-from", "relates-to", "duplicates", "supersedes", "replies-to",
}  # fmt: skip
ESCALATION = "escalation"  # the type of what waits for a person


def is_cancelled(issue: Issue) -> bool:
    """Whether an operator said so; a foreign record that only has the word was claimable before."""
    return issue.status == "cancelled" and issue.steered_by is not UNSET


def issue_resource(issue_id: str) -> str:
    return f"issue/{issue_id}"


def is_issue(resource: str) -> bool:
    return resource.startswith("issue/")


def issue_of(resource: str) -> str:
    """The issue id of a resource key; job and spec leases have other prefixes."""
    return resource.removeprefix("issue/")
