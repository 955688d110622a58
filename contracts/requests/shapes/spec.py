"""Payloads about specs, whose steps become jobs, and about handing these on."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ... import limits
from .atoms import (
    Id,
    JobId,
    Mark,
    Mutation,
    Name,
    OperationMark,
    Priority,
    ReasonText,
    RefMark,
    Shape,
    StepKey,
    TermClaim,
    TermHeld,
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
    approve: bool | UnsetType = UNSET  # its job waits for a person
    priority: Priority | UnsetType = UNSET


class SubmitSpec(Mutation, frozen=True, kw_only=True):
    """`author` is the node that submits; left out, it is the owner."""

    spec_id: Id
    title: Title | None = None
    steps: Annotated[tuple[SpecStep, ...], Meta(min_length=1, max_length=limits.SPEC_STEPS_MAX)]
    author: Mark | None = None


class ClaimSpec(TermClaim, frozen=True, kw_only=True):
    spec_id: Id
    runner: Name = ""


class HeldSpec(TermHeld, frozen=True, kw_only=True):
    spec_id: Id
    runner: Name | None = None


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


class ClaimDispatch(TermClaim, frozen=True, kw_only=True):
    job_id: JobId
    dispatcher: Name = ""


class HeldDispatch(TermHeld, frozen=True, kw_only=True):
    job_id: JobId
    dispatcher: Name | None = None


class CompleteDispatch(HeldDispatch, frozen=True, kw_only=True):
    """The file is written: where, and what is in it."""

    file: RefMark
    digest: Mark


class ReleaseDispatch(HeldDispatch, frozen=True, kw_only=True):
    reason: ReasonText = ""


class DispatchRoster(Shape, frozen=True, kw_only=True):
    cursor: OperationMark | None = None
    limit: Page = limits.ROSTER_PAGE_DEFAULT
