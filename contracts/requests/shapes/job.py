"""Payloads about jobs, and about what the owner of a mesh says."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from ... import limits
from .atoms import (
    Integer,
    JobId,
    Mark,
    Mutation,
    Name,
    Natural,
    OperationMark,
    PlainJobId,
    Priority,
    ReasonText,
    Shape,
    TermClaim,
    TermHeld,
)
from .context import CallerStamp

JobPayload = Annotated[dict[str, Any], Meta(max_length=limits.JOB_PAYLOAD_MEMBERS_MAX)]
CausalDeps = Annotated[tuple[OperationMark, ...], Meta(max_length=limits.CAUSAL_DEPS_MAX)]


class Artifact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What a job produced, by its content. A snapshot of an inference says how it came about."""

    artifact_id: Mark
    artifact_type: Mark
    source_job: JobId | None = None
    model_id: Name | None = None
    model_version: Name | None = None
    prompt_digest: Name | None = None
    output_digest: Name | None = None


Artifacts = Annotated[tuple[Artifact, ...], Meta(max_length=limits.ARTIFACTS_MAX)]


class ScheduleJob(Mutation, frozen=True, kw_only=True):
    """`author` is the node that schedules; left out, it is the owner.

    Its id has no colon: those with one are for the steps of specs, as those with an @ are for
    schedules. It can be claimed from `run_at_ms` on, or from so long after now.
    """

    job_id: PlainJobId
    kind: Mark
    payload: JobPayload = field(default_factory=dict)
    causal_deps: CausalDeps = ()
    author: Mark | None = None
    priority: Priority | None = None
    run_at_ms: Natural | None = None
    delay_ms: Natural | None = None
    timeout_ms: Integer | None = None


class ClaimJob(TermClaim, frozen=True, kw_only=True):
    job_id: JobId
    worker: Name = ""


class HeldJob(TermHeld, frozen=True, kw_only=True):
    job_id: JobId
    worker: Name | None = None


class CompleteJob(HeldJob, frozen=True, kw_only=True):
    """`adopt` takes over the quarantined result of an earlier holder."""

    output_artifacts: Artifacts = ()
    adopt: bool = False


class YieldJob(HeldJob, frozen=True, kw_only=True):
    reason: ReasonText = ""
    handed_back: bool = False  # nothing has failed, so that the attempt counts for nothing


class ExpireJob(Mutation, frozen=True, kw_only=True):
    """Names the very claim that it expires, so that no later one can be meant."""

    job_id: JobId
    worker: Name = ""
    claim: OperationMark
    fence: Natural


class SetRoute(Mutation, frozen=True, kw_only=True):
    """What is left out is taken back; a kind that ends in `.` or `.*` stands for a prefix."""

    kind: Mark
    route: Mark | None = None
    derivation: bool = False
    audited: bool = False
    author: Mark | None = None


class DesignateCoordinator(Mutation, frozen=True, kw_only=True):
    node: Mark
    author: Mark | None = None


class RegisterNode(Mutation, frozen=True, kw_only=True):
    """A node and what it may do, with kinds of jobs to which that is narrowed, if there are any.

    With a public key it signs; without `quarantined` it is free.
    """

    node: Mark
    public_key: Name | None = None
    capabilities: Annotated[
        tuple[Literal["job.schedule", "job.claim", "job.complete"], ...],
        Meta(max_length=limits.CAPABILITIES_MAX),
    ] = ()
    kind_prefixes: Annotated[tuple[Mark, ...], Meta(max_length=limits.KIND_PREFIXES_MAX)] = ()
    quarantined: bool = False
    author: Mark | None = None


class UnregisterNode(Mutation, frozen=True, kw_only=True):
    """The node takes part no longer. The last one needs `open`: then any name may work again."""

    node: Mark
    open: bool = False
    author: Mark | None = None


class SetLimit(Mutation, frozen=True, kw_only=True):
    """What is left out is not limited; a kind that ends in `.` or `.*` stands for a prefix."""

    kind: Mark
    concurrency: Integer | None = None
    rate_per_minute: Integer | None = None
    burst: Integer | None = None
    timeout_ms: Integer | None = None


class ClearLimit(Mutation, frozen=True, kw_only=True):
    kind: Mark


class ShowJob(Shape, frozen=True, kw_only=True):
    job_id: JobId


class Roster(Shape, frozen=True, kw_only=True):
    """`pending` is what `worker` may claim, `overdue` what may be expired, `waiting` what waits,
    `delayed` what has its time to come, and `claimed` what is held, with `worker` by it alone.
    """

    query: Literal["pending", "overdue", "waiting", "claimed", "delayed"] = "pending"
    kind: Mark | None = None
    worker: Mark | None = None
    cursor: OperationMark | None = None
    limit: Annotated[int, Meta(ge=1, le=limits.ROSTER_PAGE_MAX)] = limits.ROSTER_PAGE_DEFAULT


class ListJobs(Shape, frozen=True, kw_only=True):
    """All jobs in the order in which they were scheduled, of one kind or in one state."""

    state: Literal["pending", "claimed", "completed", "waiting", "blocked", "cancelled"] | None = (
        None
    )
    kind: Mark | None = None
    cursor: OperationMark | None = None
    limit: Annotated[int, Meta(ge=1, le=limits.ROSTER_PAGE_MAX)] = limits.ROSTER_PAGE_DEFAULT


class ListNodes(Shape, frozen=True, kw_only=True):
    """In the order of their names, behind that of the cursor."""

    cursor: Mark | None = None
    limit: Annotated[int, Meta(ge=1, le=limits.ROSTER_PAGE_MAX)] = limits.ROSTER_PAGE_DEFAULT


# --- operations of several nodes ----------------------------------------------------------------


class SignedOperation(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """What a node of the mesh wants, under its own stamp, signed if the node has a key."""

    kind: Literal[
        "ScheduleJob",
        "ClaimWork",
        "CompleteJob",
        "YieldWork",
        "ExpireWork",
        "RouteKind",
        "DesignateCoordinator",
        "RegisterNode",
    ]
    author: Mark
    stamp: CallerStamp
    payload: JobPayload
    signature: Name | None = None


class AdmitOperations(Mutation, frozen=True, kw_only=True):
    """Operations that are admitted together, in the order of their stamps."""

    operations: Annotated[
        tuple[SignedOperation, ...], Meta(max_length=limits.OPERATIONS_PER_BATCH_MAX)
    ]
