"""Covers: which issues are worked on side by side, and in which order they are glued."""

from itertools import combinations
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ....contracts import (
    AbortCover,
    Cover,
    CoverIssues,
    Issue,
    Reason,
    SectionMove,
    excused_of,
    globs_meet,
    limits,
    rfc3339,
)
from ..outcome import Accepted, Change, CoverPut, IssueSet, Outcome, Refused
from ..state import State
from ..turn import Turn
from .queue import stands
from .section import moved
from .view import cover_view


def start(turn: Turn, request: CoverIssues) -> Outcome:
    """Bind issues to one order. Scopes that meet are named before any work begins."""
    state, cover_id = turn.state, request.cover_id or f"cover-{turn.stamp.seq}"
    if cover_id in state.covers:
        return Refused(Reason.COVER_EXISTS, f"cover {cover_id}")
    if sum(each.state == "open" for each in state.covers.values()) >= limits.COVERS_MAX:
        return Refused(Reason.COVERS_FULL, f"cover {cover_id}")
    for index, issue_id in enumerate(request.issues):
        issue = state.issues.get(issue_id)
        if issue is None:
            return Refused(Reason.ISSUE_NOT_FOUND, f"issue {issue_id}", issue_id)
        is_taken = issue_id in request.issues[:index] or issue_id in state.covered
        if is_taken or issue.status == "closed":
            return Refused(Reason.COVER_ISSUE_TAKEN, f"issue {issue_id}", issue_id)
        section = state.sections.get(issue_id)
        if section is not None and stands(state, section) and section.target != request.target:
            detail = f"issue {issue_id}: its section is for {section.target}"
            return Refused(Reason.SECTION_TARGET_OTHER, detail, issue_id)
    cover = Cover(
        cover_id=cover_id,
        target=request.target,
        base=request.base,
        order=request.order,
        issue_ids=_in_order(state, request),
        made_seq=turn.stamp.seq,
        made_ms=turn.stamp.wall_ms,
    )
    issues = [state.issues[issue_id] for issue_id in cover.issue_ids]
    body = {"changed": True, "cover": cover_view(state, cover), "meetingScopes": _meeting(issues)}
    return Accepted((CoverPut(cover), *_joined(state, cover)), body)


def abort(turn: Turn, request: AbortCover) -> Outcome:
    """The cover is given up: what waits in it is open again, as if handed back in order."""
    cover = turn.state.covers.get(request.cover_id)
    if cover is None:
        return Refused(Reason.COVER_NOT_FOUND, f"cover {request.cover_id}")
    if cover.state != "open":
        return Refused(Reason.COVER_NOT_OPEN, f"cover {request.cover_id}: it is {cover.state}")
    cover = replace(cover, state="aborted", reason=request.reason.strip())
    changes: list[Change] = [CoverPut(cover)]
    given_back = []
    for issue_id in cover.issue_ids:
        section = turn.state.sections.get(issue_id)
        if section is None or section.cover_id != cover.cover_id:
            continue
        if stands(turn.state, section):
            changes.append(moved(section, SectionMove.WITHDRAW))
            changes.append(_reopened(turn, turn.state.issues[issue_id]))
            given_back.append(issue_id)
    body = {"changed": True, "cover": cover_view(turn.state, cover), "handedBack": given_back}
    return Accepted(tuple(changes), body)


def _reopened(turn: Turn, issue: Issue) -> IssueSet:
    members: dict[str, Any] = {"status": "open", "assignee": "", "excused": excused_of(issue) + 1}
    members["updated_at"] = rfc3339.record_text(turn.stamp.wall_ms)
    return IssueSet(issue.id, members)


def _in_order(state: State, request: CoverIssues) -> tuple[str, ...]:
    """By priority, age and id; or by age and id alone, as the journal has them."""
    ranks = sorted(state.ranks[issue_id] for issue_id in request.issues)
    if request.order == "journal":
        ranks.sort(key=lambda rank: (rank.created_ms, rank.issue_id))
    return tuple(rank.issue_id for rank in ranks)


def _joined(state: State, cover: Cover) -> list[Change]:
    """Sections that wait already take part."""
    found = (state.sections.get(issue_id) for issue_id in cover.issue_ids)
    return [
        moved(each, None, cover_id=cover.cover_id)
        for each in found
        if each is not None and stands(state, each)
    ]


def _meeting(issues: list[Issue]) -> list[dict[str, Any]]:
    """Pairs of issues that may touch the same path, by what they say they will touch."""
    scoped = [(each.id, each.scope) for each in issues if each.scope is not UNSET]
    pairs = (
        {"left": left, "right": right, "scope": both}
        for (left, ours), (right, theirs) in combinations(scoped, 2)
        if (both := [one for one in ours if any(globs_meet(one, each) for each in theirs)])
    )
    return [pair for pair, _ in zip(pairs, range(limits.OVERLAP_BATCH_MAX), strict=False)]
