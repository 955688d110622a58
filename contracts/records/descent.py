"""Work on one repository: sections of a cover, where they overlap, and how they are glued.

    section   open --authorize--> gluing --seal--> glued
                |                   |--void--> open
                |                   \\--withdraw--> withdrawn
                |--obstruct--> obstructed
                \\--withdraw--> withdrawn

A section is what one term of an issue made of a branch: the commit, its base, and the paths that it
touched. An issue has one at a time, the newest. What a person takes away is withdrawn, at once or,
where its glue is authorised, when it turns out that the branch did not move. A branch that is glued
to is a target; the gluer holds the lease on `glue/<target>`. Commits and trees are git's; nothing
here looks into them. What a worktree instance holds when its term ends, and no section has, is set
aside by those who run it.
"""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

Verdict = Literal["agree", "merge", "conflict", "meaning"]
ObstructionKind = Literal["conflict", "meaning"]
ObstructionEnd = Literal["return", "file", "stop"]
CoverOrder = Literal["priority", "journal"]

GLUING = "gluing"  # the status of an issue whose section waits


class SectionState(StrEnum):
    OPEN = "open"
    GLUING = "gluing"  # a glue with it is authorised
    GLUED = "glued"
    OBSTRUCTED = "obstructed"
    WITHDRAWN = "withdrawn"


class SectionMove(StrEnum):
    AUTHORIZE = "authorize"
    SEAL = "seal"
    VOID = "void"
    OBSTRUCT = "obstruct"
    WITHDRAW = "withdraw"


_S, _M = SectionState, SectionMove

SECTION_TRANSITIONS: dict[tuple[SectionState, SectionMove], SectionState] = {
    (_S.OPEN, _M.AUTHORIZE): _S.GLUING,
    (_S.OPEN, _M.OBSTRUCT): _S.OBSTRUCTED,
    (_S.OPEN, _M.WITHDRAW): _S.WITHDRAWN,
    (_S.GLUING, _M.SEAL): _S.GLUED,
    (_S.GLUING, _M.VOID): _S.OPEN,
    (_S.GLUING, _M.WITHDRAW): _S.WITHDRAWN,
}
WAITING_STATES = frozenset({SectionState.OPEN, SectionState.GLUING})


class Section(Struct, frozen=True, kw_only=True):
    """What one term made. Its id is the issue and the fence of that term."""

    issue_id: str
    fence: int
    lease_id: str
    owner: str
    target: str
    base: str
    commit: str
    tree: str
    paths: tuple[str, ...]  # the first of them, in order; none once it is over
    path_count: int
    paths_digest: str
    witness: str = ""
    cover_id: str = ""
    seq: int
    recorded_ms: int
    state: SectionState = SectionState.OPEN

    @property
    def section_id(self) -> str:
        return f"{self.issue_id}/{self.fence}"


class Cover(Struct, frozen=True, kw_only=True):
    """Issues whose sections are glued in one order, whichever is ready first."""

    cover_id: str
    target: str
    base: str
    order: CoverOrder
    issue_ids: tuple[str, ...]  # in that order
    taken_out: tuple[str, ...] = ()  # those with an obstruction; the others do not wait for them
    state: Literal["open", "glued", "aborted"] = "open"
    reason: str = ""
    made_seq: int
    made_ms: int


class SectionOverlap(Struct, frozen=True, kw_only=True):
    """What git says of two sections, or of a section and its target, merged."""

    left: str  # a section
    right: str  # another, or none: the target
    onto: str  # the commit that it was merged with
    verdict: Verdict
    paths: tuple[str, ...] = ()  # that do not agree
    tree: str = ""  # of the merge
    seq: int


class Glue(Struct, frozen=True, kw_only=True):
    """A move of a target that is authorised, and not known to have happened."""

    old: str
    new: str
    tree: str
    section_ids: tuple[str, ...]
    fence: int  # of the gluer that was told to
    by_command: bool = False
    witness: str = ""
    seq: int


class GlueTarget(Struct, frozen=True, kw_only=True):
    """A branch that sections are glued to."""

    target: str
    head: str = ""  # where it was when a glue was sealed last
    pending: Glue | None = None
    glued: int = 0  # sections so far


class Obstruction(Struct, frozen=True, kw_only=True):
    """Why a section is not glued. The id follows from what does not fit, and from nothing else."""

    obstruction_id: str
    target: str
    section_id: str
    others: tuple[str, ...] = ()
    kind: ObstructionKind
    onto: str
    paths: tuple[str, ...] = ()
    check: str = ""
    witness: str = ""
    ended: ObstructionEnd
    new_id: str = ""  # the issue that was filed
    seq: int
    at_ms: int


def glue_resource(target: str) -> str:
    return f"glue/{target}"


def is_glue(resource: str) -> bool:
    return resource.startswith("glue/")
