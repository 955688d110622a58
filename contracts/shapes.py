"""What may be asked: one frozen shape per host action, decoded strictly.

`schemas/request.schema.json` says the same in JSON Schema; `tests/contracts/test_shapes.py` holds
the two against each other with generated and mutated documents. Members are camelCase on the wire.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from . import limits

# `$(?!\n)` is the end of the text in every dialect; a bare `$` lets Python pass a last newline.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$(?!\n)"
LINE_PATTERN = r"^[^\u0000-\u001f\u007f]*$(?!\n)"


Id = Annotated[str, Meta(pattern=ID_PATTERN)]
Name = Annotated[str, Meta(pattern=LINE_PATTERN, max_length=limits.NAME_LENGTH_MAX)]
Mark = Annotated[  # a name that is there
    str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=limits.NAME_LENGTH_MAX)
]
Title = Annotated[str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=limits.TITLE_LENGTH_MAX)]
Text = Annotated[str, Meta(max_length=limits.TEXT_LENGTH_MAX)]
Summary = Annotated[str, Meta(max_length=limits.SUMMARY_LENGTH_MAX)]
ReasonText = Annotated[str, Meta(max_length=limits.REASON_LENGTH_MAX)]
Ref = Annotated[str, Meta(pattern=LINE_PATTERN, max_length=limits.REF_LENGTH_MAX)]
Refs = Annotated[tuple[Ref, ...], Meta(max_length=limits.REFS_MAX)]
Label = Annotated[str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=limits.ID_LENGTH_MAX)]
Labels = Annotated[tuple[Label, ...], Meta(max_length=limits.LABELS_MAX)]
Integer = Annotated[int, Meta(ge=-limits.INTEGER_MAX, le=limits.INTEGER_MAX)]
Natural = Annotated[int, Meta(ge=0, le=limits.INTEGER_MAX)]
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
IssueType = Literal["epic", "task"]
DependencyType = Literal[
    "blocks", "parent-child", "conditional-blocks", "related", "discovered-from", "relates-to",
    "duplicates", "supersedes", "waits-for", "replies-to",
]  # fmt: skip

Document = dict[
    str, Any
]  # any object of the canonical profile; the rule reads it, member by member


class Shape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The root of all payloads."""


class Mutation(Shape, frozen=True, kw_only=True):
    """Anything that may change state. The same `requestId` gets the first answer again."""

    request_id: Mark | None = None


class Held(Mutation, frozen=True, kw_only=True):
    """A mutation of one issue. Where the issue is leased, the holder must be named in full."""

    id: Id
    assignee: Name | None = None
    lease_id: Name | None = None
    fence: Natural | None = None
    sublease_id: Id | None = None


class TimedMutation(Mutation, frozen=True, kw_only=True):
    """A mutation that says how long, in one of two ways."""

    lease_ttl_seconds: Integer | None = None
    lease_expires_at: Name | None = None


class TimedHeld(Held, frozen=True, kw_only=True):
    """The holder's mutation that says how long, in one of two ways."""

    lease_ttl_seconds: Integer | None = None
    lease_expires_at: Name | None = None


# --- leases ------------------------------------------------------------------------------------


class Claim(TimedMutation, frozen=True, kw_only=True):
    id: Id
    assignee: Name = ""
    lease_id: Name | None = None
    fence: Natural | None = None


class ClaimNext(TimedMutation, frozen=True, kw_only=True):
    assignee: Name = ""
    lease_id: Name | None = None
    labels: Labels = ()
    issue_type: IssueType | None = None
    assigned_to: Name | None = None


class Renew(TimedHeld, frozen=True, kw_only=True):
    pass


class Release(Held, frozen=True, kw_only=True):
    pass


class Reconcile(Held, frozen=True, kw_only=True):
    pass


class Break(Mutation, frozen=True, kw_only=True):
    id: Id
    reason: ReasonText = ""


class GrantSublease(TimedHeld, frozen=True, kw_only=True):
    new_sublease_id: Id | None = None
    holder: Name
    capability_scope: Annotated[tuple[Name, ...], Meta(max_length=limits.CAPABILITIES_MAX)]


class RevokeSublease(Held, frozen=True, kw_only=True):
    revoked_sublease_id: Id


class OpenInstance(Held, frozen=True, kw_only=True):
    instance_id: Id
    worktree_ref: Ref = ""
    runtime_ref: Ref = ""


class CloseInstance(Held, frozen=True, kw_only=True):
    instance_id: Id


# --- fibers ------------------------------------------------------------------------------------


class SpawnFiber(Held, frozen=True, kw_only=True):
    fiber_id: Id | None = None
    parent_fiber_id: Id | None = None
    task_ref: Ref
    scope_ref: Ref = ""


class JoinFiber(Held, frozen=True, kw_only=True):
    """`join_set` names fibers below `fiber_id` that end in the same decision."""

    fiber_id: Id
    join_set: Annotated[tuple[Id, ...], Meta(max_length=limits.FIBERS_PER_LEASE_MAX)] = ()
    result_class: Literal["accepted", "rejected"] = "accepted"
    result_ref: Ref = ""


class CancelFiber(Held, frozen=True, kw_only=True):
    """One fiber and all below it; or, said explicitly, all fibers of the lease."""

    fiber_id: Id | None = None
    whole_scope: bool = False
    reason: ReasonText = ""


# --- issues ------------------------------------------------------------------------------------


class AddIssue(Mutation, frozen=True, kw_only=True):
    id: Id | None = None
    title: Title
    description: Text = ""
    design: Text = ""
    acceptance_criteria: Text = ""
    notes: Text = ""
    priority: Priority = 2
    issue_type: IssueType = "task"
    assignee: Name = ""
    owner: Name = ""
    labels: Labels = ()
    ephemeral: bool = False


class UpdateIssue(Held, frozen=True, kw_only=True):
    """Members that are left out stay as they are."""

    title: Title | None = None
    description: Text | None = None
    design: Text | None = None
    acceptance_criteria: Text | None = None
    notes: Text | None = None
    status: Name | None = None
    priority: Priority | None = None
    issue_type: IssueType | None = None
    new_assignee: Name | None = None
    owner: Name | None = None
    labels: Labels | None = None


class CloseIssue(Held, frozen=True, kw_only=True):
    reason: ReasonText = ""


class DiscoverIssue(Held, frozen=True, kw_only=True):
    """A new issue, found while working on `id`."""

    new_id: Id | None = None
    title: Title
    description: Text = ""
    priority: Priority = 2
    issue_type: IssueType = "task"
    labels: Labels = ()


class Checkpoint(Shape, frozen=True, kw_only=True):
    """How far the work is, in the words of whoever did it."""

    summary: Summary
    done: Annotated[tuple[ReasonText, ...], Meta(max_length=limits.CHECKPOINT_ITEMS_MAX)] = ()
    next: Annotated[tuple[ReasonText, ...], Meta(max_length=limits.CHECKPOINT_ITEMS_MAX)] = ()
    artifacts: Annotated[tuple[Ref, ...], Meta(max_length=limits.CHECKPOINT_ITEMS_MAX)] = ()
    notes: Annotated[str, Meta(max_length=limits.CHECKPOINT_NOTES_MAX)] = ""


class HandOverIssue(Held, frozen=True, kw_only=True):
    """What the holder leaves for whoever works on the issue next."""

    checkpoint: Checkpoint


class RecordedLease(Struct, frozen=True, forbid_unknown_fields=True):
    """A lease as it stands in `issues.jsonl`."""

    lease_id: Mark
    owner: Mark
    acquired_at: Name
    expires_at: Name
    renewed_at: Name | None = None


class RecordedDependency(Struct, frozen=True, forbid_unknown_fields=True):
    depends_on_id: Id
    type: DependencyType = "blocks"
    created_by: Name = ""
    extra: Text = ""


class RecordedIssue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of `issues.jsonl`, in the file's own names; unknown members travel in `extra`."""

    id: Id
    title: Annotated[str, Meta(max_length=limits.TEXT_LENGTH_MAX)]
    description: Text = ""
    design: Text = ""
    acceptance_criteria: Text = ""
    notes: Text = ""
    status: Mark = "open"
    priority: Priority = 2
    issue_type: IssueType = "task"
    assignee: Name = ""
    owner: Name = ""
    lease: RecordedLease | None = None
    created_at: Name
    updated_at: Name
    closed_at: Name = ""
    ephemeral: bool = False
    mol_type: Name = ""
    labels: Annotated[tuple[Name, ...], Meta(max_length=limits.LABELS_MAX)] = ()
    dependencies: Annotated[
        tuple[RecordedDependency, ...], Meta(max_length=limits.DEPENDENCIES_PER_ISSUE_MAX)
    ] = ()
    metadata: Text = ""
    extra: Text = ""
    comments: Annotated[tuple[Text, ...], Meta(max_length=limits.COMMENTS_MAX)] = ()


class ImportIssues(Mutation, frozen=True, kw_only=True):
    records: Annotated[tuple[RecordedIssue, ...], Meta(max_length=limits.IMPORT_RECORDS_MAX)]


class ListIssues(Shape, frozen=True, kw_only=True):
    status: Name | None = None
    label: Label | None = None
    issue_type: IssueType | None = None
    assignee: Name | None = None


class ShowIssue(Shape, frozen=True, kw_only=True):
    id: Id


class Nothing(Shape, frozen=True, kw_only=True):
    """A read without arguments."""


# --- dependencies ------------------------------------------------------------------------------


class AddDependency(Held, frozen=True, kw_only=True):
    depends_on_id: Id
    type: DependencyType = "blocks"
    created_by: Name = ""


class RemoveDependency(Held, frozen=True, kw_only=True):
    depends_on_id: Id
    type: DependencyType = "blocks"


class ReplaceDependency(Held, frozen=True, kw_only=True):
    depends_on_id: Id
    type: DependencyType = "blocks"
    new_depends_on_id: Id
    new_type: DependencyType | None = None


# --- sessions, features, steps ------------------------------------------------------------------


class WriteSession(Mutation, frozen=True, kw_only=True):
    """Members that are left out stay as they are; an empty text or list clears."""

    worker: Mark
    session_id: Name | None = None
    state: Literal["active", "stopped"] | None = None
    issue_id: Name | None = None
    summary: Summary | None = None
    next_step: Summary | None = None
    instruction_refs: Refs | None = None
    witness_refs: Refs | None = None
    lineage_refs: Refs | None = None
    issues_path: Ref | None = None
    issues_snapshot_ref: Ref | None = None


class OfWorker(Shape, frozen=True, kw_only=True):
    """A read of what one worker left."""

    worker: Mark


class WriteFeature(Mutation, frozen=True, kw_only=True):
    """Members that are left out stay as they are; an empty text or list clears."""

    worker: Mark
    feature_id: Id
    status: Literal["pending", "in_progress", "blocked", "completed"] | None = None
    issue_id: Name | None = None
    summary: Summary | None = None
    instruction_refs: Refs | None = None
    verification_refs: Refs | None = None


class LedgerFeature(Shape, frozen=True, kw_only=True):
    """A line of a ledger from anywhere, which may break every law."""

    feature_id: Name
    status: Name
    issue_id: Name = ""
    summary: Summary = ""
    instruction_refs: Refs = ()
    verification_refs: Refs = ()
    updated_at: Name


class Ledger(Shape, frozen=True, kw_only=True):
    schema: Annotated[int, Meta(ge=1, le=1)] = 1
    ledger_kind: Literal["premath.harness.feature_ledger.v1"]
    session_ref: Name = ""
    updated_at: Name
    features: Annotated[tuple[LedgerFeature, ...], Meta(max_length=limits.FEATURES_PER_WORKER_MAX)]


class CheckFeatures(Shape, frozen=True, kw_only=True):
    """The ledger of a worker, or one that is shown."""

    worker: Mark | None = None
    ledger: Ledger | None = None
    require_closure: bool = False


class AppendStep(Mutation, frozen=True, kw_only=True):
    worker: Mark
    action: Mark
    result_class: Mark
    issue_id: Id | None = None
    summary: Summary = ""
    instruction_refs: Refs = ()
    witness_refs: Refs = ()
    lineage_refs: Refs = ()
    started_at: Name | None = None
    finished_at: Name | None = None


class QuerySteps(Shape, frozen=True, kw_only=True):
    mode: Literal["latest", "failed", "retry-needed"] = "latest"
    limit: Annotated[int, Meta(ge=1, le=limits.QUERY_ITEMS_MAX)] = 20
    issue_id: Id | None = None
    worker: Mark | None = None


class ObserveInstruction(Shape, frozen=True, kw_only=True):
    instruction_ref: Ref


class CheckJoin(Shape, frozen=True, kw_only=True):
    """One turn's evidence, the hand-overs of some issues, or both."""

    input: dict[str, Any] | None = None
    issue_ids: Annotated[tuple[Id, ...], Meta(max_length=limits.JOIN_SECTIONS_MAX)] = ()


# --- checks ------------------------------------------------------------------------------------


class CheckResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How one check ended; `exit_code` as a shell shows it."""

    check_id: Id
    status: Literal["passed", "failed", "timed_out", "signalled", "unavailable", "cancelled"]
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None = None
    duration_ms: Natural = 0
    output_bytes: Natural = 0
    output_digest: Name = ""


Results = Annotated[tuple[CheckResult, ...], Meta(max_length=limits.CHECKS_MAX)]
Path = Annotated[str, Meta(max_length=limits.REF_LENGTH_MAX)]
Paths = Annotated[tuple[Path, ...], Meta(max_length=limits.CHANGED_PATHS_MAX)]


class CheckInstruction(Shape, frozen=True, kw_only=True):
    instruction_id: Name
    envelope: Document


class RunInstruction(Mutation, frozen=True, kw_only=True):
    instruction_id: Name
    envelope: Document
    results: Results


class ProjectRequired(Shape, frozen=True, kw_only=True):
    changed_paths: Paths


class RequiredDelta(Shape, frozen=True, kw_only=True):
    changed_paths: Paths
    delta_source: Name = ""
    from_ref: Ref = ""
    to_ref: Ref = ""


class GateRef(Shape, frozen=True, kw_only=True):
    check_id: Id
    artifact_rel_path: Path
    artifact: Document
    source: Literal["native", "fallback"] = "native"


class RecordWitness(Mutation, frozen=True, kw_only=True):
    """Results of the required checks; bound to the term of an issue, where `id` names one."""

    changed_paths: Paths
    results: Results
    delta_source: Name = ""
    from_ref: Ref = ""
    to_ref: Ref = ""
    id: Id | None = None
    assignee: Name | None = None
    lease_id: Name | None = None
    fence: Natural | None = None
    sublease_id: Id | None = None


class VerifyWitness(Shape, frozen=True, kw_only=True):
    witness: Document


class DecideWitness(Mutation, frozen=True, kw_only=True):
    witness: Document


class VerifyDecision(Shape, frozen=True, kw_only=True):
    decision: Document
    witness: Document


# --- jobs --------------------------------------------------------------------------------------

JobPayload = Annotated[dict[str, Any], Meta(max_length=limits.JOB_PAYLOAD_MEMBERS_MAX)]
CausalDeps = Annotated[tuple[Mark, ...], Meta(max_length=limits.CAUSAL_DEPS_MAX)]


class Artifact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What a job produced, by its content. A snapshot of an inference says how it came about."""

    artifact_id: Mark
    artifact_type: Mark
    source_job: Id | None = None
    model_id: Name | None = None
    model_version: Name | None = None
    prompt_digest: Name | None = None
    output_digest: Name | None = None


Artifacts = Annotated[tuple[Artifact, ...], Meta(max_length=limits.ARTIFACTS_MAX)]


class ScheduleJob(Mutation, frozen=True, kw_only=True):
    """`author` is the node that schedules; left out, it is the owner."""

    job_id: Id
    kind: Mark
    payload: JobPayload = {}
    causal_deps: CausalDeps = ()
    author: Mark | None = None


class ClaimJob(Mutation, frozen=True, kw_only=True):
    """A first claim, or with the fence of the live lease more time for its holder."""

    job_id: Id
    worker: Name = ""
    lease_duration_ms: Integer | None = None
    lease_id: Name | None = None
    fence: Natural | None = None


class HeldJob(Mutation, frozen=True, kw_only=True):
    """A mutation by the holder of a job's lease, who must be named in full."""

    job_id: Id
    worker: Name | None = None
    lease_id: Name | None = None
    fence: Natural | None = None


class CompleteJob(HeldJob, frozen=True, kw_only=True):
    """`adopt` takes over the quarantined result of an earlier holder."""

    output_artifacts: Artifacts = ()
    adopt: bool = False


class YieldJob(HeldJob, frozen=True, kw_only=True):
    reason: ReasonText = ""


class ExpireJob(Mutation, frozen=True, kw_only=True):
    """Names the very claim that it expires, so that no later one can be meant."""

    job_id: Id
    worker: Name = ""
    claim: Mark
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
    """A node and what it may do. With a public key it signs; without `quarantined` it is free."""

    node: Mark
    public_key: Name | None = None
    capabilities: Annotated[
        tuple[Literal["job.schedule", "job.claim", "job.complete"], ...],
        Meta(max_length=limits.CAPABILITIES_MAX),
    ] = ()
    quarantined: bool = False
    author: Mark | None = None


class ShowJob(Shape, frozen=True, kw_only=True):
    job_id: Id


class Roster(Shape, frozen=True, kw_only=True):
    """`pending` is what `worker` may claim, `overdue` what may be expired, `waiting` what waits."""

    query: Literal["pending", "overdue", "waiting"] = "pending"
    kind: Mark | None = None
    worker: Mark | None = None
    cursor: Mark | None = None
    limit: Annotated[int, Meta(ge=1, le=limits.ROSTER_PAGE_MAX)] = limits.ROSTER_PAGE_DEFAULT


# --- the authority itself -----------------------------------------------------------------------


class SetPolicy(Mutation, frozen=True, kw_only=True):
    mutation: Literal["open", "instruction-linked"] | None = None
    evidence_reads: bool | None = None
    checks: Document | None = None  # a check policy, which takes the place of the one before


class RouteBinding(Shape, frozen=True, kw_only=True):
    operation_action: Name


# --- the request around the payload -------------------------------------------------------------

Transport = Literal["local-repl", "cli", "mcp", "coordinator"]
STRENGTH: dict[str, int] = {"local-repl": 0, "cli": 1, "mcp": 2, "coordinator": 3}


class CallerStamp(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The caller's hybrid logical clock; the authority's clock moves past it, within bounds."""

    wall_ms: Annotated[int, Meta(ge=0, le=limits.WALL_MS_MAX)]
    counter: Annotated[int, Meta(ge=0, le=limits.COUNTER_MAX)]
    node: Name


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


class Context(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="camel",
):
    """Through which door, under which policy, with which rights."""

    transport: Transport | None = None
    escalated_from: Transport | None = None  # the weaker door that handed the request on
    policy_digest: Name | None = None
    instruction_ref: Ref | None = None
    capability_claims: Annotated[tuple[Name, ...], Meta(max_length=limits.CAPABILITIES_MAX)] = ()
    stamp: CallerStamp | None = None


SHAPES: dict[str, type[Shape]] = {
    "issue.claim": Claim,
    "issue.claim_next": ClaimNext,
    "issue.lease_renew": Renew,
    "issue.lease_release": Release,
    "issue.lease_reconcile": Reconcile,
    "issue.lease_break": Break,
    "issue.lease_projection": Nothing,
    "sublease.grant": GrantSublease,
    "sublease.revoke": RevokeSublease,
    "instance.open": OpenInstance,
    "instance.close": CloseInstance,
    "fiber.spawn": SpawnFiber,
    "fiber.join": JoinFiber,
    "fiber.cancel": CancelFiber,
    "issue.add": AddIssue,
    "issue.update": UpdateIssue,
    "issue.close": CloseIssue,
    "issue.discover": DiscoverIssue,
    "issue.handover": HandOverIssue,
    "issue.import": ImportIssues,
    "issue.list": ListIssues,
    "issue.show": ShowIssue,
    "issue.ready": Nothing,
    "issue.blocked": Nothing,
    "issue.check": Nothing,
    "issue.backend_status": Nothing,
    "dep.add": AddDependency,
    "dep.remove": RemoveDependency,
    "dep.replace": ReplaceDependency,
    "dep.diagnostics": Nothing,
    "harness.session.read": OfWorker,
    "harness.session.write": WriteSession,
    "harness.session.bootstrap": OfWorker,
    "harness.feature.read": OfWorker,
    "harness.feature.write": WriteFeature,
    "harness.feature.check": CheckFeatures,
    "harness.feature.next": OfWorker,
    "harness.trajectory.append": AppendStep,
    "harness.trajectory.query": QuerySteps,
    "harness.join.check": CheckJoin,
    "observe.latest": Nothing,
    "observe.needs_attention": Nothing,
    "observe.instruction": ObserveInstruction,
    "observe.projection": Nothing,
    "instruction.check": CheckInstruction,
    "instruction.run": RunInstruction,
    "required.projection": ProjectRequired,
    "required.delta": RequiredDelta,
    "required.gate_ref": GateRef,
    "required.witness": RecordWitness,
    "required.witness_verify": VerifyWitness,
    "required.witness_decide": DecideWitness,
    "required.decision_verify": VerifyDecision,
    "coherence.check": Nothing,
    "job.schedule": ScheduleJob,
    "job.claim": ClaimJob,
    "job.complete": CompleteJob,
    "job.yield": YieldJob,
    "job.expire": ExpireJob,
    "job.admit": AdmitOperations,
    "job.show": ShowJob,
    "job.roster": Roster,
    "route.set": SetRoute,
    "coordinator.designate": DesignateCoordinator,
    "node.register": RegisterNode,
    "policy.set": SetPolicy,
    "world.route_binding": RouteBinding,
}
