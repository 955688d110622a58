"""How covers, sections, overlaps, targets and obstructions are shown, and the read that does so."""

from typing import Any

from ....contracts import (
    Cover,
    GlueTarget,
    Lease,
    Obstruction,
    Reason,
    Section,
    SectionOverlap,
    ShowDescent,
    glue_resource,
    limits,
    rfc3339,
)
from ..outcome import Accepted, Outcome, Refused
from ..state import State
from ..term import term_view
from ..turn import Turn
from .queue import before, waiting


def show(turn: Turn, request: ShowDescent) -> Outcome:
    """What waits, in its order; how it fits together; what was in the way."""
    state, most = turn.state, limits.DESCENT_SHOWN_MAX
    if request.cover_id is not None and request.cover_id not in state.covers:
        return Refused(Reason.COVER_NOT_FOUND, f"cover {request.cover_id}")
    cover = state.covers[request.cover_id] if request.cover_id else None
    target = request.target or (cover.target if cover else None)
    names = sorted(state.unglued.keys() | state.targets.keys())
    queues = [each for name in names if target in (None, name) for each in waiting(state, name)]
    if cover is not None:
        queues = [each for each in queues if each.cover_id == cover.cover_id]
    ids = {each.section_id for each in queues}
    covers = [
        each
        for each in state.covers.values()
        if (each is cover if cover else target in (None, each.target))
    ]
    overlaps = [each for each in state.overlaps.values() if each.left in ids]
    obstructions = [
        each
        for each in reversed(state.obstructions.values())
        if target in (None, each.target)
        and (cover is None or each.section_id.partition("/")[0] in cover.issue_ids)
    ]
    body: dict[str, Any] = {
        "sections": [_waiting_view(state, each) for each in queues[:most]],
        "covers": [cover_view(state, each) for each in covers[:most]],
        "overlaps": [overlap_view(each) for each in overlaps[:most]],
        "obstructions": [obstruction_view(each) for each in obstructions[:most]],
        "targets": [
            target_view(turn, state.targets[name], state.leases.get(glue_resource(name)))
            for name in sorted(state.targets)
            if target in (None, name)
        ],
        "count": len(queues),
        "truncated": max(len(queues), len(covers), len(overlaps), len(obstructions)) > most,
    }
    if target is not None:
        known = state.targets.get(target) or GlueTarget(target=target)
        body["glue"] = target_view(turn, known, state.leases.get(glue_resource(target)))
    return Accepted(body=body)


def section_view(section: Section) -> dict[str, Any]:
    view: dict[str, Any] = {
        "sectionId": section.section_id,
        "issueId": section.issue_id,
        "fence": section.fence,
        "owner": section.owner,
        "target": section.target,
        "base": section.base,
        "commit": section.commit,
        "tree": section.tree,
        "pathCount": section.path_count,
        "pathsDigest": section.paths_digest,
        "paths": list(section.paths[: limits.OVERLAP_PATHS_MAX]),
        "state": section.state.value,
        "recordedAt": rfc3339.answer_text(section.recorded_ms),
    }
    if section.witness:
        view["witness"] = section.witness
    if section.cover_id:
        view["coverId"] = section.cover_id
    return view


def _waiting_view(state: State, section: Section) -> dict[str, Any]:
    """With what comes before it."""
    return section_view(section) | {"after": list(before(state, section))[:3]}


def cover_view(state: State, cover: Cover) -> dict[str, Any]:
    view: dict[str, Any] = {
        "coverId": cover.cover_id,
        "target": cover.target,
        "base": cover.base,
        "order": cover.order,
        "state": cover.state,
        "members": [_member(state, cover, issue_id) for issue_id in cover.issue_ids],
        "madeAt": rfc3339.answer_text(cover.made_ms),
    }
    return view | ({"reason": cover.reason} if cover.reason else {})


def _member(state: State, cover: Cover, issue_id: str) -> dict[str, Any]:
    member: dict[str, Any] = {"issueId": issue_id, "status": state.issues[issue_id].status}
    section = state.sections.get(issue_id)
    if section is not None and section.cover_id == cover.cover_id:
        member["section"] = section.state.value
    return member | ({"takenOut": True} if issue_id in cover.taken_out else {})


def overlap_view(overlap: SectionOverlap) -> dict[str, Any]:
    view: dict[str, Any] = {"left": overlap.left, "verdict": overlap.verdict, "onto": overlap.onto}
    if overlap.right:
        view["right"] = overlap.right
    if overlap.paths:
        view["paths"] = list(overlap.paths)
    return view | ({"tree": overlap.tree} if overlap.tree else {})


def obstruction_view(obstruction: Obstruction) -> dict[str, Any]:
    view: dict[str, Any] = {
        "obstructionId": obstruction.obstruction_id,
        "target": obstruction.target,
        "section": obstruction.section_id,
        "others": list(obstruction.others),
        "kind": obstruction.kind,
        "onto": obstruction.onto,
        "paths": list(obstruction.paths),
        "end": obstruction.ended,
        "at": rfc3339.answer_text(obstruction.at_ms),
    }
    for name, value in (
        ("check", obstruction.check),
        ("witness", obstruction.witness),
        ("newId", obstruction.new_id),
    ):
        view |= {name: value} if value else {}
    return view


def target_view(turn: Turn, target: GlueTarget, lease: Lease | None) -> dict[str, Any]:
    view: dict[str, Any] = {"target": target.target, "glued": target.glued}
    if target.head:
        view["head"] = target.head
    if target.pending is not None:
        pending = target.pending
        view["pending"] = {
            "old": pending.old,
            "new": pending.new,
            "tree": pending.tree,
            "sections": list(pending.section_ids),
            "fence": pending.fence,
            "byCommand": pending.by_command,
        }
    return view if lease is None else view | {"lease": term_view(lease, turn.stamp)}
