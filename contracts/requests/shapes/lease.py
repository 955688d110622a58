"""Payloads about leases, subleases and instances."""

from typing import Annotated

from msgspec import Meta

from ... import limits
from .atoms import (
    Id,
    IssueType,
    Labels,
    Mutation,
    Name,
    Natural,
    OfHolder,
    ReasonText,
    Ref,
    TimedHeld,
    TimedMutation,
)


class ClaimIssue(TimedMutation, frozen=True, kw_only=True):
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


class ReleaseIssue(OfHolder, frozen=True, kw_only=True):
    """`handed_back` says that nothing has failed, so that the attempt counts for nothing."""

    handed_back: bool = False


class Reconcile(OfHolder, frozen=True, kw_only=True):
    pass


class Break(Mutation, frozen=True, kw_only=True):
    id: Id
    reason: ReasonText = ""


class GrantSublease(TimedHeld, frozen=True, kw_only=True):
    new_sublease_id: Id | None = None
    holder: Name
    capability_scope: Annotated[tuple[Name, ...], Meta(max_length=limits.CAPABILITIES_MAX)]


class RevokeSublease(OfHolder, frozen=True, kw_only=True):
    revoked_sublease_id: Id


class OpenInstance(OfHolder, frozen=True, kw_only=True):
    instance_id: Id
    worktree_ref: Ref = ""
    runtime_ref: Ref = ""


class CloseInstance(OfHolder, frozen=True, kw_only=True):
    instance_id: Id
