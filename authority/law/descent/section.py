"""Sections: what the holder of an issue made, recorded under its fence. That ends the term."""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ....contracts import (
    GLUING,
    SECTION_TRANSITIONS,
    WAITING_STATES,
    Issue,
    Move,
    Reason,
    RecordSection,
    Section,
    SectionMove,
    limits,
    matches,
    path_problem,
    rfc3339,
)
from ..checks.required import refuse_unattested
from ..fiber import still_open
from ..lease import hold, persons, step
from ..outcome import Accepted, IssueSet, LeaseDropped, Outcome, Refused, SectionPut
from ..turn import Turn
from ..view import issue_view
from .queue import cover_of
from .view import section_view

_OUTSIDE_SHOWN_MAX = 3


def record(turn: Turn, request: RecordSection) -> Outcome:
    """The work is done but for its glue: the lease ends, and the section waits for its turn."""
    refusal = _problem(request)
    if refusal is not None:
        return refusal
    lease = hold(turn, request, "descent.section")
    if isinstance(lease, Refused):
        return lease
    issue = turn.state.issues[request.id]
    refusal = persons(turn, issue) or refuse_unattested(turn.state, issue.id)
    refusal = refusal or _strays(issue, request)
    if refusal is not None:
        return refusal
    running = turn.state.running(lease.resource)
    if running:
        return still_open(issue.id, running, lease)
    cover = cover_of(turn.state, issue.id)
    if cover is not None and cover.target != request.target:
        detail = f"issue {issue.id}: cover {cover.cover_id} is for {cover.target}"
        return Refused(Reason.SECTION_TARGET_OTHER, detail, issue.id, lease.fence)
    step(turn, lease.resource, Move.RELEASE)
    section = Section(
        issue_id=issue.id,
        fence=lease.fence,
        lease_id=lease.lease_id,
        owner=lease.owner,
        target=request.target,
        base=request.base,
        commit=request.commit,
        tree=request.tree,
        paths=request.paths,
        path_count=request.path_count,
        paths_digest=request.paths_digest,
        witness=request.witness,
        cover_id=cover.cover_id if cover else "",
        seq=turn.stamp.seq,
        recorded_ms=turn.stamp.wall_ms,
    )
    members: dict[str, Any] = {"status": GLUING, "assignee": ""}
    members["updated_at"] = rfc3339.record_text(turn.stamp.wall_ms)
    issue = replace(issue, **members)
    changes = (LeaseDropped(lease.resource), IssueSet(issue.id, members), SectionPut(section))
    body = {"changed": True, "section": section_view(section)}
    body["issue"] = issue_view(issue, None, turn.stamp.wall_ms)
    refs = (f"git://commit/{section.commit}", f"git://tree/{section.tree}")
    witnesses = (*refs, section.witness) if section.witness else refs
    return Accepted(changes, body, issue.id, lease.fence, witnesses)


def moved(section: Section, move: SectionMove | None, **members: Any) -> SectionPut:
    """The section after a move of its life; its paths are of no use when it is over."""
    if move is not None:
        members["state"] = SECTION_TRANSITIONS[section.state, move]
        if members["state"] not in WAITING_STATES:
            members["paths"] = ()
    return SectionPut(replace(section, **members))


def _problem(request: RecordSection) -> Refused | None:
    """Why this is no section."""
    expected = min(request.path_count, limits.SECTION_PATHS_MAX)
    problem = None
    if len(request.paths) != expected or list(request.paths) != sorted(set(request.paths)):
        problem = "paths: each once, in order, as many as pathCount says or the first of them"
    for path in request.paths:
        problem = problem or path_problem(path)
    if problem is not None:
        detail = f"issue {request.id}: {problem}"
        return Refused(Reason.DESCENT_PAYLOAD_INVALID, detail, request.id)
    return None


def _strays(issue: Issue, request: RecordSection) -> Refused | None:
    """Why the section does not keep within what the issue said it would touch, or nothing."""
    if request.path_count == 0:
        return Refused(Reason.SECTION_EMPTY, f"issue {issue.id}", issue.id, request.fence)
    scope = () if issue.scope is UNSET else issue.scope
    outside = [path for path in request.paths if not any(matches(each, path) for each in scope)]
    if not scope or (not outside and len(request.paths) == request.path_count):
        return None
    if outside:
        told = ", ".join(outside[:_OUTSIDE_SHOWN_MAX])
    else:  # what is not named cannot be compared
        told = f"{request.path_count} paths, of which {len(request.paths)} can be compared"
    return Refused(
        Reason.SECTION_OUT_OF_SCOPE, f"issue {issue.id}: {told}", issue.id, request.fence
    )
