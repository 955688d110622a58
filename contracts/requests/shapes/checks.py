"""Payloads about instructions, required checks and their witnesses."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ... import limits
from .atoms import Document, Id, Mutation, Name, Natural, Ref, Shape


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
