"""Payloads about issues and what they depend on."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from ... import limits
from .atoms import (
    DependencyType,
    Globs,
    Id,
    IssueType,
    Label,
    Labels,
    Mark,
    Mutation,
    Name,
    OfHolder,
    Priority,
    ReasonText,
    Ref,
    Shape,
    Summary,
    Text,
    Title,
)


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
    scope: Globs = ()  # of the paths that it means to touch
    ephemeral: bool = False


class UpdateIssue(OfHolder, frozen=True, kw_only=True):
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
    scope: Globs | None = None
    afresh: bool = False  # no attempt so far counts any more


class CloseIssue(OfHolder, frozen=True, kw_only=True):
    reason: ReasonText = ""


class DiscoverIssue(OfHolder, frozen=True, kw_only=True):
    """A new issue, found while working on `id`."""

    new_id: Id | None = None
    title: Title
    description: Text = ""
    priority: Priority = 2
    issue_type: IssueType = "task"
    labels: Labels = ()


class Checkpoint(Shape, frozen=True, kw_only=True):
    """How far the work is, in the worker's words."""

    summary: Summary
    done: Annotated[tuple[ReasonText, ...], Meta(max_length=limits.CHECKPOINT_ITEMS_MAX)] = ()
    next: Annotated[tuple[ReasonText, ...], Meta(max_length=limits.CHECKPOINT_ITEMS_MAX)] = ()
    artifacts: Annotated[tuple[Ref, ...], Meta(max_length=limits.CHECKPOINT_ITEMS_MAX)] = ()
    notes: Annotated[str, Meta(max_length=limits.CHECKPOINT_NOTES_MAX)] = ""


class HandOverIssue(OfHolder, frozen=True, kw_only=True):
    """What the holder leaves for the next one."""

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
    scope: Globs | UnsetType = UNSET
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


class AddDependency(OfHolder, frozen=True, kw_only=True):
    depends_on_id: Id
    type: DependencyType = "blocks"
    created_by: Name = ""


class RemoveDependency(OfHolder, frozen=True, kw_only=True):
    depends_on_id: Id
    type: DependencyType = "blocks"


class ReplaceDependency(OfHolder, frozen=True, kw_only=True):
    depends_on_id: Id
    type: DependencyType = "blocks"
    new_depends_on_id: Id
    new_type: DependencyType | None = None
