"""Which sections that wait meet each other or what their branch has by now, and how they fit.

Only what may not agree is merged to find out, and what is known already is not looked at again: a
pair of sections never changes, and a section is held against its branch once in a pass, since its
merge will tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...contracts import limits
from .git import Git, spelled
from .overlap import Agreement, MergeOverlap, SectionCommit, overlap, overlaps

SectionView = Mapping[str, Any]  # as `descent.show` has it
Found = dict[str, Any]  # as `descent.overlap` takes it


@dataclass(frozen=True, slots=True)
class Meetings:
    """What is known of sections and pairs; each method says what is new, and remembers it."""

    with_branch: dict[str, str] = field(default_factory=dict)  # section -> the commit it met
    paired: set[str] = field(default_factory=set)  # sections that were held against all others

    def learn(self, records: Iterable[Mapping[str, Any]], head: str) -> None:
        """What the authority has from gluers before; the branch may have moved since."""
        for each in records:
            if "right" not in each:
                self.paired.add(each["left"])
                if each["onto"] == head:
                    self.with_branch[each["left"]] = head

    def fresh(self, git: Git, head: str, waiting: Sequence[SectionView]) -> list[Found]:
        """Everything that is not known yet of what waits."""
        found = [*self._branch_ones(git, head, waiting), *self._pairs(git, waiting)]
        self.paired.update(each["sectionId"] for each in waiting)
        return found

    def _branch_ones(self, git: Git, head: str, waiting: Sequence[SectionView]) -> list[Found]:
        moved: dict[str, frozenset[str]] = {}  # what the branch did since a base
        found: list[Found] = []
        for each in waiting:
            if each["sectionId"] in self.with_branch or git.commit(each["commit"]) is None:
                continue
            self.with_branch[each["sectionId"]] = head
            base = each["base"]
            if base not in moved:
                moved[base] = _touched(git, base, head)
            tree = each["tree"] if base == head else None
            merged = None
            if tree is None and _may_meet(each, moved[base]):
                merged = overlap(git, head, each["commit"])
            found.append(_record(each["sectionId"], None, head, merged, tree))
        return found

    def _pairs(self, git: Git, waiting: Sequence[SectionView]) -> list[Found]:
        known = [each for each in waiting if git.commit(each["commit"]) is not None]
        new = [each for each in known if each["sectionId"] not in self.paired]
        near = [each for each in known if each in new or any(_may_share(each, it) for it in new)]
        if not new or len(near) < 2:
            return []
        # Sections of one commit agree, and one of them stands for all.
        ids = {each["commit"]: each["sectionId"] for each in reversed(near)}
        once = [each for each in near if ids[each["commit"]] == each["sectionId"]]
        commits = [SectionCommit(it["sectionId"], it["base"], it["commit"]) for it in once]
        fresh = {each["sectionId"] for each in new}
        return [
            _record(ids[each.left], ids[each.right], each.right, each)
            for each in overlaps(git, commits)
            if fresh & {ids[each.left], ids[each.right]}
        ]


def batches(found: Sequence[Found]) -> Iterable[list[Found]]:
    """As many as one row takes."""
    for at in range(0, len(found), limits.OVERLAP_BATCH_MAX):
        yield list(found[at : at + limits.OVERLAP_BATCH_MAX])


def _record(
    left: str, right: str | None, onto: str, merged: MergeOverlap | None, tree: str | None = None
) -> Found:
    found: Found = {"left": left, "onto": onto, "verdict": Agreement.AGREE.value}
    if right is not None:
        found["right"] = right
    if merged is None:
        return found | ({"tree": tree} if tree else {})
    found["verdict"] = merged.verdict.value
    if merged.verdict is Agreement.CONFLICT:
        paths = dict.fromkeys(each.path[: limits.REF_LENGTH_MAX] for each in merged.clashes)
        return found | {"paths": list(paths)[: limits.OVERLAP_PATHS_MAX]}
    return found | ({"tree": merged.tree} if merged.tree else {})


def _touched(git: Git, base: str, head: str) -> frozenset[str]:
    if base == head or git.commit(base) is None:
        return frozenset()
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, head)
    return frozenset(spelled(each) for each in git.run(*words).stdout.split(b"\0") if each)


def _may_meet(section: SectionView, touched: frozenset[str]) -> bool:
    """Not all paths are shown of a large section; and a rename meets what it does not name."""
    if section["pathCount"] > len(section["paths"]):
        return bool(touched)
    folders = {each.partition("/")[0] for each in touched}
    return any(each.partition("/")[0] in folders for each in section["paths"])


def _may_share(one: SectionView, other: SectionView) -> bool:
    is_short = any(each["pathCount"] > len(each["paths"]) for each in (one, other))
    tops = {each.partition("/")[0] for each in one["paths"]}
    return is_short or any(each.partition("/")[0] in tops for each in other["paths"])
