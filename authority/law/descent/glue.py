"""The glue of a branch: one gluer at a time, one authorised move at a time, and what it leads to.

    glue.claim --> descent.overlap ... --> descent.glue --(the branch moves)--> descent.seal
                          \\--> descent.obstruct

A move is authorised before it happens, and sealed when it is known to have. Whichever gluer comes
next finds it in between, looks where the branch is, and seals it or voids it.
"""

import dataclasses
from typing import Any

from msgspec.structs import replace

from ....contracts import (
    ALL_WORK,
    GLUING,
    Checkpoint,
    ClaimGlue,
    Dependency,
    Glue,
    GlueSections,
    GlueTarget,
    Handover,
    HeldGlue,
    Issue,
    Lease,
    Obstruction,
    ObstructSection,
    Reason,
    RecordOverlaps,
    ReleaseGlue,
    SealGlue,
    Section,
    SectionMove,
    SectionOverlap,
    canonical,
    limits,
    rfc3339,
)
from ..outcome import (
    Accepted,
    Change,
    CoverPut,
    DependencyAdded,
    HandoverPut,
    IssueAdded,
    IssueSet,
    LeaseDropped,
    LeasePut,
    ObstructionPut,
    Outcome,
    OverlapPut,
    Refused,
    SectionPut,
    TargetPut,
)
from ..state import State
from ..term import GLUE, begin_term, claim_deadline, hold_term, renew_term
from ..turn import Turn
from ..view import issue_view
from .cover import handed_back, is_done
from .queue import before, cover_of, find, stands
from .section import moved
from .view import obstruction_view, overlap_view, section_view, target_view

# --- the lease ------------------------------------------------------------------------------------


def claim(turn: Turn, request: ClaimGlue) -> Outcome:
    """The right to move a branch, for one gluer at a time; more time for the one who has it."""
    name = f"branch {request.target}"
    deadline_ms = claim_deadline(turn, GLUE, request, name)
    if isinstance(deadline_ms, Refused):
        return deadline_ms
    lease = renew_term(turn, GLUE, request, deadline_ms, name)
    if isinstance(lease, Refused):
        return lease
    state, target = turn.state, _target(turn.state, request.target)
    changes: list[Change] = []
    if lease is None:
        if ALL_WORK in state.pauses:
            return GLUE.refuse(Refused(Reason.WORK_PAUSED, f"{name}: *"), request.target)
        if request.target not in state.descent.targets:
            if len(state.descent.targets) >= limits.TARGETS_MAX:
                return GLUE.refuse(Refused(Reason.TARGETS_FULL, name), request.target)
            changes.append(TargetPut(target))
        lease = begin_term(turn, GLUE, request, deadline_ms)
    view = target_view(turn, target, lease)
    return GLUE.accept(lease, (LeasePut(lease), *changes), {"changed": True, "glue": view})


def release(turn: Turn, request: ReleaseGlue) -> Outcome:
    """The next gluer may have the branch."""
    lease = _held(turn, request)
    if isinstance(lease, Refused):
        return lease
    view = target_view(turn, _target(turn.state, request.target), None)
    return GLUE.accept(lease, (LeaseDropped(lease.resource),), {"changed": True, "glue": view})


# --- what git says --------------------------------------------------------------------------------


def overlap(turn: Turn, request: RecordOverlaps) -> Outcome:
    """Keep how sections that wait fit to each other, and to their target."""
    lease = _held(turn, request)
    if isinstance(lease, Refused):
        return lease
    found = []
    for each in request.overlaps:
        for section_id in (each.left, each.right):
            if section_id is not None:
                section = _standing(turn.state, section_id, request.target)
                if isinstance(section, Refused):
                    return section
        if each.left == each.right:
            return Refused(Reason.DESCENT_PAYLOAD_INVALID, f"section {each.left}: with itself")
        found.append(
            SectionOverlap(
                left=each.left,
                right=each.right or "",
                onto=each.onto,
                verdict=each.verdict,
                paths=each.paths,
                tree=each.tree or "",
                seq=turn.stamp.seq,
            )
        )
    keys = {(each.left, each.right) for each in found}
    fresh = sum(key not in turn.state.descent.overlaps for key in keys)
    if len(turn.state.descent.overlaps) + fresh > limits.OVERLAPS_MAX:
        return Refused(Reason.OVERLAPS_FULL, f"branch {request.target}")
    body = {"changed": True, "overlaps": [overlap_view(each) for each in found]}
    return GLUE.accept(lease, tuple(OverlapPut(each) for each in found), body)


def glue(turn: Turn, request: GlueSections) -> Outcome:
    """Authorise one move of the branch, with sections in it that come next in their order."""
    state, name = turn.state, f"branch {request.target}"
    lease = _held(turn, request)
    if isinstance(lease, Refused):
        return lease
    if ALL_WORK in state.pauses:  # what is authorised may still be sealed
        return GLUE.refuse(Refused(Reason.WORK_PAUSED, f"{name}: *"), request.target)
    target = _target(state, request.target)
    if target.pending is not None:
        detail = f"{name}: {target.pending.old} to {target.pending.new}"
        return GLUE.refuse(Refused(Reason.GLUE_PENDING, detail), request.target)
    if target.head not in ("", request.old) and not request.moved:
        detail = f"{name}: at {request.old}, and was left at {target.head}"
        return GLUE.refuse(Refused(Reason.GLUE_TARGET_MOVED, detail), request.target)
    sections: dict[str, Section] = {}
    for section_id in request.sections:
        section = _standing(state, section_id, request.target)
        if isinstance(section, Refused):
            return section
        missing = next((each for each in before(state, section) if each not in sections), None)
        if missing is not None or section.issue_id in sections:
            detail = f"section {section_id}: after {missing or 'itself'}"
            return _about(Refused(Reason.GLUE_OUT_OF_ORDER, detail, section.issue_id), request)
        sections[section.issue_id] = section
    pending = Glue(
        old=request.old,
        new=request.new,
        tree=request.tree,
        section_ids=request.sections,
        fence=lease.fence,
        by_command=request.by_command,
        witness=request.witness,
        seq=turn.stamp.seq,
    )
    put = replace(target, pending=pending)
    changes: list[Change] = [TargetPut(put)]
    changes += [moved(each, SectionMove.AUTHORIZE) for each in sections.values()]
    body = {"changed": True, "glue": target_view(turn, put, lease)}
    accepted = GLUE.accept(lease, tuple(changes), body)
    refs = tuple(f"git://commit/{each}" for each in (request.old, request.new))
    return _witnessed(accepted, (*refs, request.witness) if request.witness else refs)


def seal(turn: Turn, request: SealGlue) -> Outcome:
    """The branch has moved as it should: its sections are glued and their issues closed. Or it has
    not, and never will: they wait again."""
    name = f"branch {request.target}"
    lease = _held(turn, request)
    if isinstance(lease, Refused):
        return lease
    target = _target(turn.state, request.target)
    pending = target.pending
    if pending is None:
        return GLUE.refuse(Refused(Reason.GLUE_NOT_PENDING, name), request.target)
    is_moved = request.result == "moved"
    if is_moved and request.head != pending.new and not pending.by_command:
        detail = f"{name}: at {request.head}, and not at {pending.new}"
        return GLUE.refuse(Refused(Reason.GLUE_TARGET_MOVED, detail), request.target)
    if not is_moved and request.head == pending.new != pending.old:
        detail = f"{name}: at {request.head}, so it has moved as it should"
        return GLUE.refuse(Refused(Reason.GLUE_TARGET_MOVED, detail), request.target)
    found = [find(turn.state, each) for each in pending.section_ids]
    sections = [each for each in found if each is not None]  # but those with a newer one
    if is_moved:
        put = replace(target, head=request.head, pending=None, glued=target.glued + len(sections))
        changes, closed = _sealed(turn, sections)
    else:
        # Where it is now is for the next gluer to accept, if it is not where it was.
        put = replace(target, head=pending.old if target.head else "", pending=None)
        changes, closed = _voided(turn, sections), []
    body = {
        "changed": True,
        "glue": target_view(turn, put, lease),
        "closed": closed,
        "sections": [
            section_view(each.section) for each in changes if isinstance(each, SectionPut)
        ],
    }
    accepted = GLUE.accept(lease, (TargetPut(put), *changes), body)
    return _witnessed(accepted, (f"git://commit/{request.head}",))


def _sealed(turn: Turn, sections: list[Section]) -> tuple[list[Change], list[str]]:
    """Sections are glued, issues closed, and covers over of which nothing is left to wait for."""
    state, now = turn.state, rfc3339.record_text(turn.stamp.wall_ms)
    members = {"status": "closed", "closed_at": now, "updated_at": now}
    # A person may have said something else about the work meanwhile.
    ids = [each.issue_id for each in sections if state.issues[each.issue_id].status == GLUING]
    changes: list[Change] = [moved(each, SectionMove.SEAL) for each in sections]
    changes += [IssueSet(issue_id, dict(members)) for issue_id in ids]
    covers = dict.fromkeys(
        state.descent.covered[issue_id] for issue_id in ids if issue_id in state.descent.covered
    )
    closed = dict.fromkeys(ids, "closed")
    changes += [
        CoverPut(replace(state.descent.covers[each], state="glued"))
        for each in covers
        if is_done(state, state.descent.covers[each], closed)
    ]
    return changes, ids


def _voided(turn: Turn, sections: list[Section]) -> list[Change]:
    """Sections wait again; those that are not wanted any more are withdrawn."""
    changes: list[Change] = []
    for section in sections:
        is_gluing = turn.state.issues[section.issue_id].status == GLUING
        cover = turn.state.descent.covers.get(section.cover_id)
        is_aborted = cover is not None and cover.state == "aborted"
        is_wanted = is_gluing and not is_aborted
        changes.append(moved(section, SectionMove.VOID if is_wanted else SectionMove.WITHDRAW))
        if is_gluing and is_aborted:
            changes.append(handed_back(turn, section))
    return changes


# --- what does not fit ----------------------------------------------------------------------------


def obstruct(turn: Turn, request: ObstructSection) -> Outcome:
    """A section does not fit: say so for good, and give its issue to whom the policy says."""
    state = turn.state
    lease = _held(turn, request)
    if isinstance(lease, Refused):
        return lease
    section = _standing(state, request.section, request.target)
    if isinstance(section, Refused):
        return section
    found = [find(state, each) for each in request.others]
    others = [each for each in found if each is not None]
    if len({*request.others, request.section}) != len(others) + 1:
        detail = f"section {request.section}: others are other sections, each once"
        return _about(Refused(Reason.DESCENT_PAYLOAD_INVALID, detail, section.issue_id), request)
    issue = state.issues[section.issue_id]
    obstruction_id = _identity(request, section, others)
    new_id = _filed_id(issue, obstruction_id) if request.end == "file" else ""
    if new_id and new_id not in state.issues and len(state.issues) >= limits.ISSUES_MAX:
        return _about(Refused(Reason.ISSUES_FULL, f"issue {new_id}", issue.id), request)
    obstruction = Obstruction(
        obstruction_id=obstruction_id,
        target=request.target,
        section_id=section.section_id,
        others=request.others,
        kind=request.kind,
        onto=request.onto,
        paths=request.paths,
        check=request.check,
        witness=request.witness,
        ended=request.end,
        new_id=new_id,
        seq=turn.stamp.seq,
        at_ms=turn.stamp.wall_ms,
    )
    members: dict[str, Any] = {"assignee": ""}
    members["status"] = "open" if request.end == "return" else "blocked"
    members["updated_at"] = rfc3339.record_text(turn.stamp.wall_ms)
    changes: list[Change] = [
        ObstructionPut(obstruction),
        moved(section, SectionMove.OBSTRUCT),
        IssueSet(issue.id, members),
        HandoverPut(_handover(turn, section, obstruction, request.summary)),
        *_filed(turn, issue, obstruction, request),
    ]
    cover = cover_of(state, issue.id)
    if cover is not None:
        out = replace(cover, taken_out=(*cover.taken_out, issue.id))
        changes.append(CoverPut(replace(out, state="glued") if is_done(state, out, {}) else out))
    shown = issue_view(replace(issue, **members), None, turn.stamp.wall_ms)
    body = {"changed": True, "obstruction": obstruction_view(obstruction), "issue": shown}
    accepted = GLUE.accept(lease, tuple(changes), body)
    return _witnessed(accepted, (f"obstruction://{obstruction.obstruction_id}",))


def _identity(request: ObstructSection, section: Section, others: list[Section]) -> str:
    """What does not fit, by content: fences and commits would differ with the order of arrival."""
    document = {
        "target": request.target,
        "issueId": section.issue_id,
        "tree": section.tree,
        "others": sorted([each.issue_id, each.tree] for each in others),
        "kind": request.kind,
        "ontoTree": request.onto_tree,
        "paths": sorted(request.paths),
        "check": request.check,
    }
    return canonical.digest("obs1", canonical.encode(document))


def _filed_id(issue: Issue, obstruction_id: str) -> str:
    suffix = f"-glue-{obstruction_id.partition('_')[2][:8]}"
    return issue.id[: limits.ID_LENGTH_MAX - len(suffix)] + suffix


def _handover(turn: Turn, section: Section, obstruction: Obstruction, summary: str) -> Handover:
    """What the next holder is told."""
    told = summary.strip() or f"{obstruction.kind} with {obstruction.target}"
    artifacts = (f"refs/understudy/section/{section.section_id}", obstruction.obstruction_id)
    return Handover(
        issue_id=section.issue_id,
        owner=section.owner,
        lease_id=section.lease_id,
        fence=section.fence,
        seq=turn.stamp.seq,
        at_ms=turn.stamp.wall_ms,
        checkpoint=Checkpoint(summary=told, artifacts=artifacts),
    )


def _filed(
    turn: Turn, issue: Issue, obstruction: Obstruction, request: ObstructSection
) -> list[Change]:
    """The issue that settles it; one that an earlier obstruction filed is there already."""
    new_id, state = obstruction.new_id, turn.state
    if not new_id or new_id in state.issues:
        return []
    now = rfc3339.record_text(turn.stamp.wall_ms)
    title = f"Glue {issue.id} to {obstruction.target}: {issue.title}"
    filed = Issue(
        id=new_id,
        title=title[: limits.TITLE_LENGTH_MAX],
        description=request.summary,
        priority=issue.priority,
        labels=issue.labels,
        created_at=now,
        updated_at=now,
    )
    others = (each.partition("/")[0] for each in obstruction.others)
    origins = [Dependency(new_id, issue.id, "discovered-from")]
    origins += [Dependency(new_id, each, "blocks") for each in others]
    return [IssueAdded(filed), *map(DependencyAdded, origins)]


# --- what they share ------------------------------------------------------------------------------


def _held(turn: Turn, request: HeldGlue) -> Lease | Refused:
    """The lease, where its holder speaks."""
    return hold_term(turn, GLUE, request, f"branch {request.target}")


def _target(state: State, name: str) -> GlueTarget:
    return state.descent.targets.get(name) or GlueTarget(target=name)


def _standing(state: State, section_id: str, target: str) -> Section | Refused:
    section = find(state, section_id)
    if section is None or not stands(section):
        refusal = Refused(Reason.SECTION_NOT_OPEN, f"section {section_id}")
        return GLUE.refuse(refusal, target)
    if section.target != target:
        detail = f"section {section_id}: it is for {section.target}"
        refusal = Refused(Reason.SECTION_TARGET_OTHER, detail, section.issue_id)
        return GLUE.refuse(refusal, target)
    return section


def _about(refusal: Refused, request: HeldGlue) -> Refused:
    return GLUE.refuse(refusal, request.target)


def _witnessed(accepted: Accepted, refs: tuple[str, ...]) -> Accepted:
    return dataclasses.replace(accepted, witnesses=refs)
