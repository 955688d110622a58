"""Joins: whether what parallel workers did can be put together.

What an issue's worker changed is what its newest hand-over names as `path:` artifacts, and the
worktrees of its instances. Two issues that name the same cannot be joined as they are.
"""

from ....contracts import CheckJoin, JoinSection, Reason, Unreadable, issue_resource, join_check
from ..outcome import Accepted, Outcome, Refused
from ..state import State
from ..turn import Turn

_PATH = "path:"


def check(turn: Turn, request: CheckJoin) -> Outcome:
    """Every class that applies, the first one first; accepted, the whole witness."""
    if request.input is None and len(set(request.issue_ids)) < 2:
        return Refused(Reason.HARNESS_FIELD_MISSING, "input, or two issueIds")
    for issue_id in request.issue_ids:
        if issue_id not in turn.state.issues:
            return Refused(Reason.ISSUE_NOT_FOUND, f"issue {issue_id}")
    sections = [_section(turn.state, issue_id) for issue_id in sorted(set(request.issue_ids))]
    joined = join_check(request.input or {}, sections)
    if isinstance(joined, Unreadable):
        return Refused(Reason.JOIN_INPUT_INVALID, joined.detail)
    if joined.reasons:
        where = [f"{one.left} and {one.right}: {one.path}" for one in joined.overlaps[:3]]
        detail = "; ".join(where) or "the evidence of the turn"
        return Refused(joined.reasons[0], detail, others=joined.reasons[1:])
    return Accepted(body={"joinCheck": joined.report})


def _section(state: State, issue_id: str) -> JoinSection:
    left = state.handovers.get(issue_id, ())
    paths = [
        item.removeprefix(_PATH).strip()
        for item in (left[-1].checkpoint.artifacts if left else ())
        if item.startswith(_PATH)
    ]
    instances = state.instances.get(issue_resource(issue_id), {})
    trees = [f"worktree:{one.worktree_ref}" for _, one in sorted(instances.items())]
    changed = [path for path in (*paths, *trees) if path not in ("", "worktree:")]
    return JoinSection(ref=f"issue/{issue_id}", changed_paths=tuple(changed))
