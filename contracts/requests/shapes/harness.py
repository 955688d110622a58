"""Payloads about sessions, features and steps."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from ... import limits
from .atoms import Id, Mark, Mutation, Name, Ref, Refs, Shape, Summary


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
