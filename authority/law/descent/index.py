"""Work on one repository as the authority remembers it: covers, sections, and where to find them.

    covered       the open cover that waits for an issue
    unglued       the sections that wait, by branch, in the order of their rows
    overlapping   the overlaps of a section

The indexes follow from the records. What is over is forgotten in the end, the oldest first.
"""

from collections.abc import Mapping

from sortedcontainers import SortedList

from ....contracts import (
    GLUING,
    WAITING_STATES,
    Cover,
    GlueTarget,
    Issue,
    Obstruction,
    Section,
    SectionOverlap,
    SectionState,
    limits,
)
from ..outcome import CoverPut, ObstructionPut, OverlapPut, SectionPut, TargetPut

DescentChange = CoverPut | SectionPut | OverlapPut | TargetPut | ObstructionPut


class DescentIndex:
    """The records and their indexes. Only `make` writes to it."""

    __slots__ = (
        "covered",
        "covers",
        "obstructions",
        "overlapping",
        "overlaps",
        "sections",
        "targets",
        "unglued",
    )

    def __init__(self) -> None:
        self.covers: dict[str, Cover] = {}
        self.sections: dict[str, Section] = {}  # by issue
        self.overlaps: dict[tuple[str, str], SectionOverlap] = {}  # by the ids of two sections
        self.targets: dict[str, GlueTarget] = {}
        self.obstructions: dict[str, Obstruction] = {}  # the oldest first
        # Indexes.
        self.covered: dict[str, str] = {}
        self.unglued: dict[str, SortedList[tuple[int, str]]] = {}
        self.overlapping: dict[str, set[tuple[str, str]]] = {}

    def make(self, change: DescentChange) -> None:
        """Make a change, and keep the indexes in step."""
        match change:
            case CoverPut(cover):
                self._put_cover(cover)
            case SectionPut(section):
                self._put_section(section)
            case OverlapPut(overlap):
                self._put_overlap(overlap)
            case TargetPut(target):
                self.targets[target.target] = target
            case ObstructionPut(obstruction):
                self.obstructions.pop(obstruction.obstruction_id, None)
                self.obstructions[obstruction.obstruction_id] = obstruction
                while len(self.obstructions) > limits.OBSTRUCTIONS_MAX:
                    del self.obstructions[next(iter(self.obstructions))]

    def _put_cover(self, cover: Cover) -> None:
        before = self.covers.get(cover.cover_id)
        self.covers[cover.cover_id] = cover
        for issue_id in before.issue_ids if before else ():
            if self.covered.get(issue_id) == cover.cover_id:
                del self.covered[issue_id]
        if cover.state == "open":
            members = (each for each in cover.issue_ids if each not in cover.taken_out)
            self.covered.update(dict.fromkeys(members, cover.cover_id))
        if len(self.covers) > limits.COVERS_KEPT_MAX:
            over = (key for key, each in self.covers.items() if each.state != "open")
            if (oldest := next(over, None)) is not None:
                del self.covers[oldest]

    def _put_section(self, section: Section) -> None:
        before = self.sections.get(section.issue_id)
        if before is not None:
            self._unfile(before)
            if before.section_id != section.section_id:
                self._forget_overlaps(before.section_id)
        self.sections[section.issue_id] = section
        if section.state in WAITING_STATES:
            waiting = self.unglued.setdefault(section.target, SortedList())
            waiting.add((section.seq, section.issue_id))
        else:
            self._forget_overlaps(section.section_id)

    def _unfile(self, section: Section) -> None:
        if section.state in WAITING_STATES:
            self.unglued[section.target].remove((section.seq, section.issue_id))
            if not self.unglued[section.target]:
                del self.unglued[section.target]

    def _put_overlap(self, overlap: SectionOverlap) -> None:
        key = (overlap.left, overlap.right)
        self.overlaps[key] = overlap
        for section_id in filter(None, key):
            self.overlapping.setdefault(section_id, set()).add(key)

    def _forget_overlaps(self, section_id: str) -> None:
        for key in self.overlapping.pop(section_id, set()):
            del self.overlaps[key]
            for other in filter(None, key):
                if other != section_id:
                    self.overlapping[other].discard(key)
                    if not self.overlapping[other]:
                        del self.overlapping[other]


def check_descent(index: DescentIndex, issues: Mapping[str, Issue]) -> None:
    """Assert I13 of `State`."""
    assert index.sections.keys() <= issues.keys(), "I13: a section of nothing"
    waits = [each for each in index.sections.values() if each.state in WAITING_STATES]
    filed = sorted((name, *place) for name, places in index.unglued.items() for place in places)
    places = sorted((each.target, each.seq, each.issue_id) for each in waits)
    assert filed == places, "I13: a section is filed twice or not at all"
    for section in waits:
        is_open = section.state is SectionState.OPEN
        assert not is_open or issues[section.issue_id].status == GLUING, (
            f"I13: {section.section_id} waits and its issue does not"
        )
    members = [
        (issue_id, cover.cover_id)
        for cover in index.covers.values()
        for issue_id in cover.issue_ids
        if cover.state == "open" and issue_id not in cover.taken_out
    ]
    assert sorted(index.covered.items()) == sorted(members), "I13: an issue is in two covers"
    ids = {each.section_id for each in waits}
    for key in index.overlaps:
        assert ids >= set(filter(None, key)), f"I13: {key} overlap and do not wait"
    authorised = {
        (name, each)
        for name, target in index.targets.items()
        for each in (target.pending.section_ids if target.pending else ())
    }
    gluing = {(each.target, each.section_id) for each in waits if each.state is SectionState.GLUING}
    assert gluing <= authorised, "I13: a section is authorised without a move of its branch"
