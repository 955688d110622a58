"""Dependencies: which issue waits for which. Blocking ones never close a cycle."""

from ....contracts import (
    BLOCKING_TYPES,
    AddDependency,
    Dependency,
    Lease,
    Reason,
    RemoveDependency,
    ReplaceDependency,
    limits,
)
from ..lease import touch
from ..outcome import Accepted, Change, DependencyAdded, DependencyDropped, Outcome, Refused
from ..state import State
from ..turn import Turn
from ..view import dependency_view


def add(turn: Turn, request: AddDependency) -> Outcome:
    lease = touch(turn, request, "dep.add")
    if isinstance(lease, Refused):
        return lease
    link = Dependency(request.id, request.depends_on_id, request.type, request.created_by)
    refusal = _obstacle(turn.state, link, turn.state.dependencies.get(request.id, ()))
    if refusal is not None:
        return refusal
    return _link((DependencyAdded(link),), link, lease)


def remove(turn: Turn, request: RemoveDependency) -> Outcome:
    lease = touch(turn, request, "dep.remove")
    if isinstance(lease, Refused):
        return lease
    link = _find(turn.state, request.id, request.depends_on_id, request.type)
    if isinstance(link, Refused):
        return link
    return _link((DependencyDropped(link),), link, lease)


def replace(turn: Turn, request: ReplaceDependency) -> Outcome:
    """Remove one and add another, or do neither."""
    lease = touch(turn, request, "dep.replace")
    if isinstance(lease, Refused):
        return lease
    old = _find(turn.state, request.id, request.depends_on_id, request.type)
    if isinstance(old, Refused):
        return old
    new_type = request.new_type or request.type
    new = Dependency(request.id, request.new_depends_on_id, new_type, old.created_by)
    rest = tuple(each for each in turn.state.dependencies[request.id] if each != old)
    refusal = _obstacle(turn.state, new, rest)
    if refusal is not None:
        return refusal
    return _link((DependencyDropped(old), DependencyAdded(new)), new, lease)


def cycle_through(state: State, source: str, target: str) -> list[str] | None:
    """The path from `target` back to `source` over blocking dependencies, if there is one."""
    trail: dict[str, str | None] = {target: None}
    queue = [target]
    while queue:
        here = queue.pop()
        if here == source:
            return _walk_back(trail, here)
        for link in state.dependencies.get(here, ()):
            if link.type in BLOCKING_TYPES and link.depends_on_id not in trail:
                trail[link.depends_on_id] = here
                queue.append(link.depends_on_id)
    return None


def tangle(state: State) -> set[str]:
    """The issues that can be on a cycle: what is left when those that wait for nothing are gone.

    One walk over everything, where a search from every issue would take the square of the time.
    """
    waits = {
        source: {link.depends_on_id for link in links if link.type in BLOCKING_TYPES}
        for source, links in state.dependencies.items()
    }
    counts = {source: sum(each in waits for each in targets) for source, targets in waits.items()}
    free = [source for source, count in counts.items() if not count]
    while free:
        for waiting in state.blocks.get(free.pop(), ()):
            counts[waiting] -= 1
            if not counts[waiting]:
                free.append(waiting)
    return {source for source, count in counts.items() if count}


def _walk_back(trail: dict[str, str | None], last: str) -> list[str]:
    path: list[str] = []
    here: str | None = last
    while here is not None:
        path.append(here)
        here = trail[here]
    return path[::-1]


def _obstacle(state: State, link: Dependency, rest: tuple[Dependency, ...]) -> Refused | None:
    """Why this dependency cannot stand beside the rest of the issue's dependencies."""
    source, target = link.issue_id, link.depends_on_id
    detail = f"issue {source}: {link.type} {target}"
    if source == target:
        return Refused(Reason.DEPENDENCY_SELF, detail, source)
    if target not in state.issues:
        return Refused(Reason.DEPENDENCY_TARGET_MISSING, detail, source)
    if any((each.depends_on_id, each.type) == (target, link.type) for each in rest):
        return Refused(Reason.DEPENDENCY_EXISTS, detail, source)
    if len(rest) >= limits.DEPENDENCIES_PER_ISSUE_MAX:
        return Refused(Reason.DEPENDENCIES_FULL, detail, source)
    path = cycle_through(state, source, target) if link.type in BLOCKING_TYPES else None
    if path is not None:
        return Refused(Reason.DEPENDENCY_CYCLE, " -> ".join([source, *path]), source)
    return None


def _find(state: State, source: str, target: str, kind: str) -> Dependency | Refused:
    for each in state.dependencies.get(source, ()):
        if (each.depends_on_id, each.type) == (target, kind):
            return each
    return Refused(Reason.DEPENDENCY_MISSING, f"issue {source}: {kind} {target}", source)


def _link(changes: tuple[Change, ...], link: Dependency, lease: Lease | None) -> Accepted:
    body = {"changed": True, "dependency": dependency_view(link)}
    return Accepted(changes, body, link.issue_id, lease.fence if lease else None)
