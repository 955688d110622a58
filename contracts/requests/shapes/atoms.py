"""What payloads are made of: names, texts, numbers, and who holds what."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ... import limits

# `$(?!\n)` is the end of the text in every dialect; a bare `$` lets Python pass a last newline.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$(?!\n)"
JOB_ID_PATTERN = (
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?::[A-Za-z0-9][A-Za-z0-9._:-]{0,127}|@[0-9]{1,16})?$(?!\n)"
)
PLAIN_JOB_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?:@[0-9]{1,16})?$(?!\n)"
SCHEDULE_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$(?!\n)"
STEP_KEY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$(?!\n)"
LINE_PATTERN = r"^[^\u0000-\u001f\u007f]*$(?!\n)"


Id = Annotated[str, Meta(pattern=ID_PATTERN)]
# With a colon: of the step of a spec. With an @: made by a schedule, for a moment.
JobId = Annotated[str, Meta(pattern=JOB_ID_PATTERN)]
PlainJobId = Annotated[str, Meta(pattern=PLAIN_JOB_ID_PATTERN)]
ScheduleId = Annotated[str, Meta(pattern=SCHEDULE_ID_PATTERN)]  # what it makes has room for more
StepKey = Annotated[str, Meta(pattern=STEP_KEY_PATTERN)]
Name = Annotated[str, Meta(pattern=LINE_PATTERN, max_length=limits.NAME_LENGTH_MAX)]
Mark = Annotated[  # a name that is there
    str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=limits.NAME_LENGTH_MAX)
]
OperationName = Annotated[  # what is named after a job: its leases, operations, cursors
    str, Meta(pattern=LINE_PATTERN, max_length=limits.OPERATION_ID_LENGTH_MAX)
]
OperationMark = Annotated[
    str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=limits.OPERATION_ID_LENGTH_MAX)
]
Scope = OperationMark  # a word, and a name that may be a job's
Title = Annotated[str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=limits.TITLE_LENGTH_MAX)]
Text = Annotated[str, Meta(max_length=limits.TEXT_LENGTH_MAX)]
Summary = Annotated[str, Meta(max_length=limits.SUMMARY_LENGTH_MAX)]
ReasonText = Annotated[str, Meta(max_length=limits.REASON_LENGTH_MAX)]
Ref = Annotated[str, Meta(pattern=LINE_PATTERN, max_length=limits.REF_LENGTH_MAX)]
RefMark = Annotated[  # a reference that is there
    str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=limits.REF_LENGTH_MAX)
]
Refs = Annotated[tuple[Ref, ...], Meta(max_length=limits.REFS_MAX)]
Label = Annotated[str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=limits.ID_LENGTH_MAX)]
Labels = Annotated[tuple[Label, ...], Meta(max_length=limits.LABELS_MAX)]
Globs = Annotated[tuple[RefMark, ...], Meta(max_length=limits.SCOPE_GLOBS_MAX)]  # of paths
Integer = Annotated[int, Meta(ge=-limits.INTEGER_MAX, le=limits.INTEGER_MAX)]
Natural = Annotated[int, Meta(ge=0, le=limits.INTEGER_MAX)]
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
IssueType = Literal["epic", "task", "escalation"]
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


class OfHolder(Mutation, frozen=True, kw_only=True):
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


class TimedHeld(OfHolder, frozen=True, kw_only=True):
    """The holder's mutation that says how long, in one of two ways."""

    lease_ttl_seconds: Integer | None = None
    lease_expires_at: Name | None = None


class Nothing(Shape, frozen=True, kw_only=True):
    """A read without arguments."""


class TermClaim(Mutation, frozen=True, kw_only=True):
    """A first claim, or with the fence of the live lease more time for its holder."""

    lease_duration_ms: Integer | None = None
    lease_id: OperationName | None = None
    fence: Natural | None = None


class TermHeld(Mutation, frozen=True, kw_only=True):
    """A mutation by the holder of such a lease, who must be named in full."""

    lease_id: OperationName | None = None
    fence: Natural | None = None
