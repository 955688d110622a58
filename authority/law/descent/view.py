"""How covers, sections, overlaps, targets and obstructions are shown, and the read that does so."""

from collections.abc import Iterable, Mapping
from itertools import accumulate, islice
from types import MappingProxyType
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
    if request.cover_id is not None and request.cover_id not in state.descent.covers:
        return Refused(Reason.COVER_NOT_FOUND, f"cover {request.cover_id}")
    cover = state.descent.covers[request.cover_id] if request.cover_id else None
    target = request.target or (cover.target if cover else None)
    names = sorted(state.descent.unglued.keys() | state.descent.targets.keys())
    queue = [each for name in names if target in (None, name) for each in waiting(state, name)]
    if cover is not None:
        queue = [each for each in queue if each.cover_id == cover.cover_id]
    covers = _covers(state, target) if cover is None else [cover]
    keys = sorted(
        {key for each in queue for key in state.descent.overlapping.get(each.section_id, ())}
    )
    obstructions = [
        each
        for each in reversed(state.descent.obstructions.values())
        if target in (None, each.target)
        and (cover is None or each.section_id.partition("/")[0] in cover.issue_ids)
    ]
    shown = _fitting(covers)
    body: dict[str, Any] = {
        "sections": [_waiting_view(state, each) for each in queue[:most]],
        "covers": [cover_view(state, each) for each in shown],
        "overlaps": [overlap_view(state.descent.overlaps[key]) for key in keys[:most]],
        "obstructions": [obstruction_view(each) for each in obstructions[:most]],
        "targets": [
            target_view(turn, state.descent.targets[name], state.leases.get(glue_resource(name)))
            for name in sorted(state.descent.targets)
            if target in (None, name)
        ],
        "count": len(queue),
        "truncated": max(len(queue), len(keys), len(obstructions)) > most
        or len(shown) < len(covers),
    }
    if target is not None:
        known = state.descent.targets.get(target) or GlueTarget(target=target)
        body["glue"] = target_view(turn, known, state.leases.get(glue_resource(target)))
    return Accepted(body=body)


def _covers(state: State, target: str | None) -> list[Cover]:
    """The open ones, and then the newest."""
    found = [each for each in state.descent.covers.values() if target in (None, each.target)]
    return sorted(found, key=lambda each: (each.state != "open", -each.made_seq))


def _fitting(covers: list[Cover]) -> list[Cover]:
    """The first of them, as far as there is room for their members."""
    totals = accumulate(len(each.issue_ids) for each in covers)
    pairs = zip(covers[: limits.DESCENT_SHOWN_MAX], totals, strict=False)
    return [each for each, total in pairs if total <= limits.LIST_MAX]


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
        "paths": list(section.paths[: limits.DESCENT_PATHS_SHOWN_MAX]),
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
    return section_view(section) | {"after": list(islice(before(state, section), 3))}


def cover_view(
    state: State,
    cover: Cover,
    *,
    sections: Iterable[Section] = (),
    statuses: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The cover with its members; what a decision changes of them is told beside."""
    fresh = {each.issue_id: each for each in sections}
    members = [
        _member(
            cover,
            issue_id,
            statuses.get(issue_id, state.issues[issue_id].status),
            fresh.get(issue_id) or state.descent.sections.get(issue_id),
        )
        for issue_id in cover.issue_ids
    ]
    view: dict[str, Any] = {
        "coverId": cover.cover_id,
        "target": cover.target,
        "base": cover.base,
        "order": cover.order,
        "state": cover.state,
        "members": members,
        "madeAt": rfc3339.answer_text(cover.made_ms),
    }
    return view | ({"reason": cover.reason} if cover.reason else {})


def _member(cover: Cover, issue_id: str, status: str, section: Section | None) -> dict[str, Any]:
    member: dict[str, Any] = {"issueId": issue_id, "status": status}
    if section is not None and section.cover_id == cover.cover_id:
        member["section"] = section.state.value
    return member | ({"takenOut": True} if issue_id in cover.taken_out else {})


def overlap_view(overlap: SectionOverlap) -> dict[str, Any]:
    view: dict[str, Any] = {"left": overlap.left, "verdict": overlap.verdict, "onto": overlap.onto}
    if overlap.right:
        view["right"] = overlap.right
    if overlap.paths:
        view["paths"] = list(overlap.paths[: limits.DESCENT_PATHS_SHOWN_MAX])
        view["pathCount"] = len(overlap.paths)
    return view | ({"tree": overlap.tree} if overlap.tree else {})


def obstruction_view(obstruction: Obstruction) -> dict[str, Any]:
    view: dict[str, Any] = {
        "obstructionId": obstruction.obstruction_id,
        "target": obstruction.target,
        "section": obstruction.section_id,
        "others": list(obstruction.others),
        "kind": obstruction.kind,
        "onto": obstruction.onto,
        "paths": list(obstruction.paths[: limits.DESCENT_PATHS_SHOWN_MAX]),
        "pathCount": len(obstruction.paths),
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
