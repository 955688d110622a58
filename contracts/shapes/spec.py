"""Payloads about specs, whose steps become jobs, and about handing these on."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from .. import limits
from .atoms import (
    Id,
    Integer,
    JobId,
    Mark,
    Mutation,
    Name,
    Natural,
    OperationMark,
    OperationName,
    ReasonText,
    RefMark,
    Shape,
    StepKey,
    Title,
)
from .job import JobPayload

Page = Annotated[int, Meta(ge=1, le=limits.ROSTER_PAGE_MAX)]


class SpecStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A step becomes one job, which waits for the jobs of the steps that it depends on."""

    step_key: StepKey
    kind: Mark
    inputs: JobPayload = field(default_factory=dict)
    depends_on: Annotated[tuple[StepKey, ...], Meta(max_length=limits.CAUSAL_DEPS_MAX)] = ()


class SubmitSpec(Mutation, frozen=True, kw_only=True):
    """`author` is the node that submits; left out, it is the owner."""

    spec_id: Id
    title: Title | None = None
    steps: Annotated[tuple[SpecStep, ...], Meta(min_length=1, max_length=limits.SPEC_STEPS_MAX)]
    author: Mark | None = None


class ClaimSpec(Mutation, frozen=True, kw_only=True):
    """A first claim, or with the fence of the live lease more time for its holder."""

    spec_id: Id
    runner: Name = ""
    lease_duration_ms: Integer | None = None
    lease_id: OperationName | None = None
    fence: Natural | None = None


class HeldSpec(Mutation, frozen=True, kw_only=True):
    """A mutation by the holder of a spec's lease, who must be named in full."""

    spec_id: Id
    runner: Name | None = None
    lease_id: OperationName | None = None
    fence: Natural | None = None


class MaterializeSpec(HeldSpec, frozen=True, kw_only=True):
    """The steps that become jobs now; one that has its job is left alone."""

    step_keys: Annotated[tuple[StepKey, ...], Meta(min_length=1, max_length=limits.SPEC_BATCH_MAX)]


class ReleaseSpec(HeldSpec, frozen=True, kw_only=True):
    reason: ReasonText = ""


class ShowSpec(Shape, frozen=True, kw_only=True):
    spec_id: Id


class ListSpecs(Shape, frozen=True, kw_only=True):
    """`open` is what a runner can claim now."""

    query: Literal["open", "all"] = "open"
    cursor: OperationMark | None = None
    limit: Page = limits.ROSTER_PAGE_DEFAULT


# --- dispatch -----------------------------------------------------------------------------------


class ClaimDispatch(Mutation, frozen=True, kw_only=True):
    """As `ClaimSpec`, for the job that a dispatcher wants to hand on."""

    job_id: JobId
    dispatcher: Name = ""
    lease_duration_ms: Integer | None = None
    lease_id: OperationName | None = None
    fence: Natural | None = None


class HeldDispatch(Mutation, frozen=True, kw_only=True):
    """A mutation by the dispatcher that holds the job, which must be named in full."""

    job_id: JobId
    dispatcher: Name | None = None
    lease_id: OperationName | None = None
    fence: Natural | None = None


class CompleteDispatch(HeldDispatch, frozen=True, kw_only=True):
    """The file is written: where, and what is in it."""

    file: RefMark
    digest: Mark


class ReleaseDispatch(HeldDispatch, frozen=True, kw_only=True):
    reason: ReasonText = ""


class DispatchRoster(Shape, frozen=True, kw_only=True):
    cursor: OperationMark | None = None
    limit: Page = limits.ROSTER_PAGE_DEFAULT
