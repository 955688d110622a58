"""Covers: which issues are worked on side by side, and in which order they are glued."""

from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ....contracts import (
    BLOCKING_TYPES,
    AbortCover,
    Cover,
    CoverIssues,
    Issue,
    Reason,
    Section,
    SectionMove,
    excused_of,
    globs_meet,
    limits,
    rfc3339,
)
from ..outcome import Accepted, Change, CoverPut, IssueSet, Outcome, Refused
from ..state import Rank, State
from ..turn import Turn
from .queue import cover_of, is_over, stands
from .section import moved
from .view import cover_view


def start(turn: Turn, request: CoverIssues) -> Outcome:
    """Bind issues to one order. Scopes that meet are named before any work begins."""
    state, cover_id = turn.state, request.cover_id or _fresh_id(turn)
    if cover_id in state.descent.covers:
        return Refused(Reason.COVER_EXISTS, f"cover {cover_id}")
    if sum(each.state == "open" for each in state.descent.covers.values()) >= limits.COVERS_MAX:
        return Refused(Reason.COVERS_FULL, f"cover {cover_id}")
    named: set[str] = set()
    for issue_id in request.issues:
        refusal = _obstacle(state, issue_id, request.target)
        if refusal is None and issue_id in named:
            refusal = Refused(Reason.COVER_ISSUE_TAKEN, f"issue {issue_id}: twice", issue_id)
        if refusal is not None:
            return refusal
        named.add(issue_id)
    cover = Cover(
        cover_id=cover_id,
        target=request.target,
        base=request.base,
        order=request.order,
        issue_ids=_in_order(state, request),
        made_seq=turn.stamp.seq,
        made_ms=turn.stamp.wall_ms,
    )
    found = (state.descent.sections.get(issue_id) for issue_id in cover.issue_ids)
    joined = [replace(each, cover_id=cover_id) for each in found if each and stands(each)]
    body: dict[str, Any] = {"changed": True, "cover": cover_view(state, cover, sections=joined)}
    body["meetingScopes"] = _meeting([state.issues[issue_id] for issue_id in cover.issue_ids])
    puts = [moved(each, None) for each in joined]  # what waits already takes part
    return Accepted((CoverPut(cover), *puts), body)


def abort(turn: Turn, request: AbortCover) -> Outcome:
    """The cover is given up: what waits in it is open again, as if handed back in order.

    A move of the branch that is authorised comes to its end; where it did not happen, its sections
    are handed back then.
    """
    state = turn.state
    cover = state.descent.covers.get(request.cover_id)
    if cover is None:
        return Refused(Reason.COVER_NOT_FOUND, f"cover {request.cover_id}")
    if cover.state != "open":
        return Refused(Reason.COVER_NOT_OPEN, f"cover {request.cover_id}: it is {cover.state}")
    cover = replace(cover, state="aborted", reason=request.reason.strip())
    found = (state.descent.sections.get(issue_id) for issue_id in cover.issue_ids)
    ours = [each for each in found if each and stands(each) and each.cover_id == cover.cover_id]
    puts = [moved(each, SectionMove.WITHDRAW) for each in ours]
    sets = [handed_back(turn, each) for each in ours]
    given_back = [each.issue_id for each in ours]
    view = cover_view(
        state,
        cover,
        sections=[each.section for each in puts],
        statuses=dict.fromkeys(given_back, "open"),
    )
    body = {"changed": True, "cover": view, "handedBack": given_back}
    return Accepted((CoverPut(cover), *puts, *sets), body)


def handed_back(turn: Turn, section: Section) -> IssueSet:
    """The issue of a section that is not wanted any more: open, and the attempt is excused."""
    issue = turn.state.issues[section.issue_id]
    members: dict[str, Any] = {"status": "open", "assignee": ""}
    members["excused"] = min(excused_of(issue) + 1, issue.attempts)
    members["updated_at"] = rfc3339.record_text(turn.stamp.wall_ms)
    return IssueSet(issue.id, members)


def follow(state: State, issue_id: str, status: str) -> tuple[Change, ...]:
    """What comes of it when a person gives an issue another status: its section is withdrawn, and
    a cover that waited for nothing else is over."""
    changes: list[Change] = []
    section = state.descent.sections.get(issue_id)
    if section is not None and stands(section):
        changes.append(moved(section, SectionMove.WITHDRAW))
    cover = cover_of(state, issue_id)
    if cover is not None and is_done(state, cover, {issue_id: status}):
        changes.append(CoverPut(replace(cover, state="glued")))
    return tuple(changes)


def is_done(state: State, cover: Cover, statuses: dict[str, str]) -> bool:
    """Whether the cover has nothing left to wait for, once issues have these statuses."""
    return all(
        issue_id in cover.taken_out
        or is_over(statuses.get(issue_id, state.issues[issue_id].status))
        for issue_id in cover.issue_ids
    )


def _fresh_id(turn: Turn) -> str:
    cover_id = f"cover-{turn.stamp.seq}"
    while cover_id in turn.state.descent.covers:
        cover_id += "x"
    return cover_id


def _obstacle(state: State, issue_id: str, target: str) -> Refused | None:
    """Why an issue cannot be in a cover of this branch."""
    issue = state.issues.get(issue_id)
    if issue is None:
        return Refused(Reason.ISSUE_NOT_FOUND, f"issue {issue_id}", issue_id)
    if issue_id in state.descent.covered:
        detail = f"issue {issue_id}: in cover {state.descent.covered[issue_id]}"
        return Refused(Reason.COVER_ISSUE_TAKEN, detail, issue_id)
    if is_over(issue.status):
        detail = f"issue {issue_id}: it is {issue.status}"
        return Refused(Reason.COVER_ISSUE_TAKEN, detail, issue_id)
    section = state.descent.sections.get(issue_id)
    if section is not None and stands(section) and section.target != target:
        detail = f"issue {issue_id}: its section is for {section.target}"
        return Refused(Reason.SECTION_TARGET_OTHER, detail, issue_id)
    return None


def _in_order(state: State, request: CoverIssues) -> tuple[str, ...]:
    """By priority, age and id, or by age and id alone, as the journal has them; but what waits for
    another member comes after it."""
    by_age = request.order == "journal"
    ranks = {each: state.ranks[each] for each in request.issues}
    if by_age:
        ranks = {each: Rank(0, rank.created_ms, each) for each, rank in ranks.items()}
    awaited = {
        issue_id: {
            link.depends_on_id
            for link in state.dependencies.get(issue_id, ())
            if link.type in BLOCKING_TYPES and link.depends_on_id in ranks
        }
        for issue_id in ranks
    }
    waiters: dict[str, list[str]] = {}
    for issue_id, others in awaited.items():
        for other in others:
            waiters.setdefault(other, []).append(issue_id)
    free = [ranks[each] for each, others in awaited.items() if not others]
    heapify(free)
    placed: dict[str, None] = {}
    while free:
        rank = heappop(free)
        placed[rank.issue_id] = None
        for waiter in waiters.get(rank.issue_id, ()):
            awaited[waiter].discard(rank.issue_id)
            if not awaited[waiter]:
                heappush(free, ranks[waiter])
    # Records from elsewhere may go in circles.
    rest = sorted(rank for each, rank in ranks.items() if each not in placed)
    return (*placed, *(rank.issue_id for rank in rest))


def _meeting(issues: list[Issue]) -> list[dict[str, Any]]:
    """Pairs of issues that may touch the same path, by what they say they will touch. Globs beyond
    the limit are not compared: this is a hint, and the sections show what was touched."""
    scoped = [(each.id, each.scope) for each in issues if each.scope is not UNSET and each.scope]
    found: list[dict[str, Any]] = []
    compared = 0
    for (left, ours), (right, theirs) in combinations(scoped, 2):
        compared += len(ours) * len(theirs)
        if compared > limits.SCOPES_COMPARED_MAX or len(found) >= limits.OVERLAP_BATCH_MAX:
            break
        both = [one for one in ours if any(globs_meet(one, each) for each in theirs)]
        if both:
            found.append({"left": left, "right": right, "scope": both})
    return found
