"""Payloads about covers, sections, overlaps and their glue. What git said comes along as data."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ... import limits
from .atoms import (
    Id,
    Mark,
    Mutation,
    Name,
    Natural,
    OfHolder,
    ReasonText,
    RefMark,
    Shape,
    Summary,
    TermClaim,
    TermHeld,
)

BRANCH_PATTERN = r"^[^\u0000-\u0020\u007f~^:?*\[\\]+$(?!\n)"
COMMIT_PATTERN = r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$(?!\n)"
SECTION_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}/[1-9][0-9]{0,15}$(?!\n)"

Branch = Annotated[
    str, Meta(pattern=BRANCH_PATTERN, min_length=1, max_length=limits.BRANCH_LENGTH_MAX)
]
ObjectId = Annotated[str, Meta(pattern=COMMIT_PATTERN)]
SectionId = Annotated[str, Meta(pattern=SECTION_PATTERN)]
SomePaths = Annotated[tuple[RefMark, ...], Meta(max_length=limits.SECTION_PATHS_MAX)]
FewPaths = Annotated[tuple[RefMark, ...], Meta(max_length=limits.OVERLAP_PATHS_MAX)]


class CoverIssues(Mutation, frozen=True, kw_only=True):
    """Without an id it is named after its row."""

    cover_id: Id | None = None
    target: Branch
    base: ObjectId
    issues: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=limits.COVER_ISSUES_MAX)]
    order: Literal["priority", "journal"] = "priority"


class AbortCover(Mutation, frozen=True, kw_only=True):
    cover_id: Id
    reason: ReasonText = ""


class RecordSection(OfHolder, frozen=True, kw_only=True):
    """The first paths in order, and how many there are, with a digest of all."""

    target: Branch
    base: ObjectId
    commit: ObjectId
    tree: ObjectId
    paths: SomePaths
    path_count: Natural
    paths_digest: Mark
    witness: Name = ""


class ClaimGlue(TermClaim, frozen=True, kw_only=True):
    target: Branch
    gluer: Name = ""


class HeldGlue(TermHeld, frozen=True, kw_only=True):
    target: Branch
    gluer: Name | None = None


class ReleaseGlue(HeldGlue, frozen=True, kw_only=True):
    pass


class OverlapFound(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Of two sections, or without the second of a section and its target."""

    left: SectionId
    right: SectionId | None = None
    onto: ObjectId
    verdict: Literal["agree", "merge", "conflict", "meaning"]
    paths: FewPaths = ()
    tree: ObjectId | None = None


class RecordOverlaps(HeldGlue, frozen=True, kw_only=True):
    overlaps: Annotated[
        tuple[OverlapFound, ...], Meta(min_length=1, max_length=limits.OVERLAP_BATCH_MAX)
    ]


class GlueSections(HeldGlue, frozen=True, kw_only=True):
    """`moved` says that the gluer knows the branch to be elsewhere than it was left."""

    sections: Annotated[
        tuple[SectionId, ...], Meta(min_length=1, max_length=limits.GLUE_SECTIONS_MAX)
    ]
    old: ObjectId
    new: ObjectId
    tree: ObjectId
    moved: bool = False
    by_command: bool = False
    witness: Name = ""


class SealGlue(HeldGlue, frozen=True, kw_only=True):
    """What became of it, and where the branch is now."""

    result: Literal["moved", "void"]
    head: ObjectId


class ObstructSection(HeldGlue, frozen=True, kw_only=True):
    section: SectionId
    others: Annotated[tuple[SectionId, ...], Meta(max_length=limits.GLUE_SECTIONS_MAX)] = ()
    kind: Literal["conflict", "meaning"]
    onto: ObjectId
    onto_tree: ObjectId
    paths: FewPaths = ()
    check: Name = ""
    witness: Name = ""
    end: Literal["return", "file", "stop"] = "return"
    summary: Summary = ""


class ShowDescent(Shape, frozen=True, kw_only=True):
    """All of it, or of one branch or one cover."""

    target: Branch | None = None
    cover_id: Id | None = None
