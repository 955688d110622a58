"""Which sections wait, and in which order they are glued.

Sections of a cover are glued in the order of its issues, others in the order of the journal. A
member that is taken out is not waited for, nor one from which no section will come by itself: it is
over or blocked, or waits for another issue, which may well be behind it in the same cover.
"""

from collections.abc import Iterator

from ....contracts import GLUING, Cover, Issue, Section, SectionState
from ..state import State

_IDLE = ("closed", "blocked", "cancelled")  # what no worker takes up
_OVER = ("closed", "cancelled")


def is_gluing(state: State, issue: Issue) -> bool:
    """Whether the issue is done but for its glue; a foreign record may only have the word."""
    return issue.status == GLUING and issue.id in state.descent.sections


def is_over(status: str) -> bool:
    """Whether a cover has nothing to expect of an issue of this status."""
    return status in _OVER


def find(state: State, section_id: str) -> Section | None:
    """The section, if it is the newest of its issue."""
    section = state.descent.sections.get(section_id.partition("/")[0])
    return section if section is not None and section.section_id == section_id else None


def stands(section: Section | None) -> bool:
    """Whether it waits to be glued; a person who changes its issue's status withdraws it."""
    return section is not None and section.state is SectionState.OPEN


def cover_of(state: State, issue_id: str) -> Cover | None:
    """The open cover that waits for the issue."""
    return state.descent.covers.get(state.descent.covered.get(issue_id, ""))


def waiting(state: State, target: str) -> list[Section]:
    """What stands, in the order in which it is glued: covers and single sections by their row."""
    found = (
        state.descent.sections[issue_id] for _, issue_id in state.descent.unglued.get(target, ())
    )
    return sorted(filter(stands, found), key=lambda each: _place(state, each))


def before(state: State, section: Section) -> Iterator[str]:
    """Issues whose sections come first, and have not."""
    cover = cover_of(state, section.issue_id)
    if cover is not None:
        for issue_id in cover.issue_ids[: cover.issue_ids.index(section.issue_id)]:
            if issue_id not in cover.taken_out and _is_expected(state, issue_id):
                yield issue_id
        return
    places = state.descent.unglued.get(section.target)
    for _, issue_id in places.irange(None, (section.seq, ""), (True, False)) if places else ():
        if issue_id not in state.descent.covered and stands(state.descent.sections[issue_id]):
            yield issue_id


def _is_expected(state: State, issue_id: str) -> bool:
    if stands(state.descent.sections.get(issue_id)):
        return True
    return state.issues[issue_id].status not in _IDLE and not state.blockers(issue_id)


def _place(state: State, section: Section) -> tuple[int, int]:
    cover = cover_of(state, section.issue_id)
    if cover is None:
        return (section.seq, 0)
    return (cover.made_seq, cover.issue_ids.index(section.issue_id))
