"""Which sections wait, and in which order they are glued.

Sections of a cover are glued in the order of its issues, others in the order of the journal. A
section that is taken out, and an issue from which none will come by itself, is not waited for.
"""

from collections.abc import Iterator

from ....contracts import GLUING, Cover, Issue, Section, SectionState
from ..state import State

_OVER = ("closed", "blocked", "cancelled")  # what no worker takes up


def is_gluing(state: State, issue: Issue) -> bool:
    """Whether the issue is done but for its glue; a foreign record may only have the word."""
    return issue.status == GLUING and issue.id in state.sections


def find(state: State, section_id: str) -> Section | None:
    """The section, if it is the newest of its issue."""
    section = state.sections.get(section_id.partition("/")[0])
    return section if section is not None and section.section_id == section_id else None


def stands(state: State, section: Section) -> bool:
    """Whether it waits to be glued; a person who changes its issue's status takes it away."""
    is_open = section.state is SectionState.OPEN
    return is_open and state.issues[section.issue_id].status == GLUING


def cover_of(state: State, issue_id: str) -> Cover | None:
    """The open cover that waits for the issue."""
    return state.covers.get(state.covered.get(issue_id, ""))


def waiting(state: State, target: str) -> list[Section]:
    """What stands, in the order in which it is glued: covers and single sections by their row."""
    found = (state.sections[issue_id] for issue_id in state.unglued.get(target, ()))
    return sorted((each for each in found if stands(state, each)), key=lambda it: _place(state, it))


def before(state: State, section: Section) -> Iterator[str]:
    """Issues whose sections come first, and have not."""
    cover = cover_of(state, section.issue_id)
    if cover is not None:
        for issue_id in cover.issue_ids[: cover.issue_ids.index(section.issue_id)]:
            if issue_id not in cover.taken_out and state.issues[issue_id].status not in _OVER:
                yield issue_id
        return
    for issue_id in state.unglued.get(section.target, ()):
        other = state.sections[issue_id]
        is_single = issue_id not in state.covered
        if is_single and other.seq < section.seq and stands(state, other):
            yield issue_id


def _place(state: State, section: Section) -> tuple[int, int]:
    cover = cover_of(state, section.issue_id)
    if cover is None:
        return (section.seq, 0)
    return (cover.made_seq, cover.issue_ids.index(section.issue_id))
