"""Reads: what the state looks like at a moment. Nothing here changes anything."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

import orjson

from ....contracts import (
    BLOCKING_TYPES,
    Issue,
    ListIssues,
    Nothing,
    Reason,
    RouteBinding,
    ShowIssue,
    document_of,
    host_actions,
    is_issue,
    issue_of,
    issue_resource,
    limits,
)
from ..budget import forbids, spend_view
from ..descent.view import section_view
from ..outcome import Accepted, Outcome, Refused
from ..scope import approval_of, pause_of, withheld
from ..state import State, check_invariants
from ..turn import Turn
from ..view import (
    contended_ids,
    dependency_view,
    fiber_view,
    handover_view,
    instance_view,
    issue_view,
    lease_projection,
    lease_view,
    pause_view,
    steered_view,
    sublease_view,
)
from .dependency import cycle_through, tangle

_Hung = TypeVar("_Hung")  # a sublease or an instance


def list_issues(turn: Turn, request: ListIssues) -> Outcome:
    wanted = (
        turn.state.issues[key]
        for key in sorted(turn.state.issues)
        if _fits(turn.state.issues[key], request)
    )
    return _list(turn, wanted)


def ready(turn: Turn, _: Nothing) -> Outcome:
    """Open issues that wait for nothing, in the order in which `claim_next` hands them out.

    Left out is what people withhold, or a budget forbids to all.
    """
    state, now_ms = turn.state, turn.stamp.wall_ms
    found = (state.issues[place.issue_id] for place in state.ready)
    waiting: list[str] = []
    free = (each for each in found if _free(state, each, waiting))
    accepted = _list(turn, (each for each in free if not forbids(state, each, None, now_ms)))
    accepted.body["leaseProjection"] = lease_projection(turn.state, turn.stamp.wall_ms)
    accepted.body.update(steered_view(state, "issue", waiting))
    return accepted


def _free(state: State, issue: Issue, waiting: list[str]) -> bool:
    """Whether people withhold nothing of it; what waits for one of them is noted."""
    refused = withheld(state, issue)
    if refused is not None and refused.reason is Reason.APPROVAL_MISSING:
        waiting.append(issue.id)
    return refused is None


def blocked(turn: Turn, _: Nothing) -> Outcome:
    """Unfinished issues that wait, each with what it waits for."""
    waiting = []
    for key in sorted(turn.state.issues):
        issue, blockers = turn.state.issues[key], turn.state.blockers(key)
        if issue.status != "closed" and (blockers or issue.status == "blocked"):
            waiting.append(_view(turn, issue) | {"blockedBy": blockers})
    return Accepted(body=_page(waiting))


def show(turn: Turn, request: ShowIssue) -> Outcome:
    """One issue whole, with its dependencies, its lease and what hangs on it."""
    state = turn.state
    issue = state.issues.get(request.id)
    if issue is None:
        return Refused(Reason.ISSUE_NOT_FOUND, f"issue {request.id}", request.id)
    resource = issue_resource(issue.id)
    view = _view(turn, issue) | {
        "description": issue.description,
        "design": issue.design,
        "acceptanceCriteria": issue.acceptance_criteria,
        "notes": issue.notes,
        "createdAt": issue.created_at,
        "updatedAt": issue.updated_at,
        "closedAt": issue.closed_at or None,
        "blockedBy": state.blockers(issue.id),
        "dependencies": [dependency_view(one) for one in state.dependencies.get(issue.id, ())],
        "subleases": _views(state.subleases, resource, sublease_view),
        "instances": _views(state.instances, resource, instance_view),
        "fibers": _fibers(state, resource),
    }
    if (approval := approval_of(state, issue)) is not None:
        view["approval"] = approval
    if (pause := pause_of(state, issue)) is not None:
        view["pause"] = pause_view(pause)
    if left := state.handovers.get(issue.id):
        view["handover"] = handover_view(left[-1])
    if spend := state.spends.get(resource):
        view["spend"] = spend_view(spend)
    if issue.scope:
        view["scope"] = list(issue.scope)
    if section := state.descent.sections.get(issue.id):
        view["section"] = section_view(section)
    if issue.metadata:
        view["metadata"] = orjson.Fragment(issue.metadata)
    return Accepted(body={"issue": view}, issue_id=issue.id)


def leases(turn: Turn, _: Nothing) -> Outcome:
    """Every lease on an issue with its fence, and which are stale or contended."""
    state, now_ms = turn.state, turn.stamp.wall_ms
    contended = set(contended_ids(state, now_ms))
    items = []
    for resource in sorted(key for key in state.leases if is_issue(key)):
        issue = state.issues[issue_of(resource)]
        item = {
            "id": issue.id,
            "status": issue.status,
            "assignee": issue.assignee,
            "lease": lease_view(state.leases[resource], now_ms),
            "contended": issue.id in contended,
        }
        if state.subleases.get(resource):
            item["subleases"] = _views(state.subleases, resource, sublease_view)
        if state.instances.get(resource):
            item["instances"] = _views(state.instances, resource, instance_view)
        if running := state.running(resource):
            item["runningFibers"] = len(running)
        items.append(item)
    projection = lease_projection(state, now_ms)
    projection["staleIssueIds"] = sorted(state.stale_ids(now_ms))
    projection["contendedIssueIds"] = sorted(contended)
    return Accepted(body={"leaseProjection": projection, "items": items})


def diagnostics(turn: Turn, _: Nothing) -> Outcome:
    """What is wrong with the dependencies: cycles, and targets that do not exist."""
    state = turn.state
    missing, cycles, seen = [], [], set[str]()
    tangled = tangle(state)
    for source in sorted(state.dependencies):
        for link in state.dependencies[source]:
            if link.depends_on_id not in state.issues:
                missing.append(dependency_view(link))
            if link.type not in BLOCKING_TYPES or source in seen or source not in tangled:
                continue
            path = cycle_through(state, source, link.depends_on_id)
            if path is not None:
                cycles.append(path)
                seen.update(path)
    body = {"cycles": cycles, "missing": missing, "sound": not (cycles or missing)}
    return Accepted(body=body)


def check(turn: Turn, _: Nothing) -> Outcome:
    """The store examined: the invariants recomputed from the records, and what looks wrong."""
    state = turn.state
    try:
        check_invariants(state)
        broken = None
    except AssertionError as error:
        broken = str(error)
    body = {
        "sound": broken is None,
        "broken": broken,
        "issueCount": len(state.issues),
        "leaseCount": len(state.leases),
        "leaseProjection": lease_projection(state, turn.stamp.wall_ms),
    }
    return Accepted(body=body)


def backend_status(turn: Turn, _: Nothing) -> Outcome:
    state = turn.state
    body: dict[str, Any] = {
        "issueCount": len(state.issues),
        "leaseCount": len(state.leases),
        "readyCount": len(state.ready),
        "policy": {
            "mutation": state.policy.mutation,
            "evidenceReads": state.policy.evidence_reads,
        },
    }
    if state.policy.approve:
        body["policy"]["approve"] = list(state.policy.approve)
    if state.pauses:
        body["pauseCount"] = len(state.pauses)
    if state.checks is not None:
        body["checkPolicy"] = document_of(state.checks)
    return Accepted(body=body)


def route_binding(_: Turn, request: RouteBinding) -> Outcome:
    """The world binding of an action, as the contract has it."""
    action = host_actions().get(request.operation_action)
    if action is None:
        return Refused(Reason.ACTION_UNKNOWN, request.operation_action)
    binding = {
        "operationId": action.operation_id,
        "routeFamilyId": action.route_family,
        "worldId": action.world_id,
        "morphismRowId": action.morphism_row_id,
    }
    return Accepted(body={"operationAction": action.action, "binding": binding})


def _fits(issue: Issue, request: ListIssues) -> bool:
    return (
        (request.status is None or issue.status == request.status)
        and (request.label is None or request.label in issue.labels)
        and (request.issue_type is None or issue.issue_type == request.issue_type)
        and (request.assignee is None or issue.assignee == request.assignee)
    )


def _views(
    nested: dict[str, dict[str, _Hung]], resource: str, view: Callable[[_Hung], dict[str, Any]]
) -> list[dict[str, Any]]:
    """What hangs on a lease, by id: an image of the state does not keep another order."""
    return [view(one) for _, one in sorted(nested.get(resource, {}).items())]


def _fibers(state: State, resource: str) -> list[dict[str, Any]]:
    """The fibers of this term and the orphans of the one before, in the order of their spawns."""
    fibers = state.fibers.get(resource, {}).values()
    return [fiber_view(one) for one in sorted(fibers, key=lambda each: each.spawned_seq)]


def _view(turn: Turn, issue: Issue) -> dict[str, Any]:
    return issue_view(issue, turn.state.leases.get(issue_resource(issue.id)), turn.stamp.wall_ms)


def _list(turn: Turn, issues: Iterable[Issue]) -> Accepted:
    views = [_view(turn, each) for each in islice(issues, limits.LIST_MAX + 1)]
    return Accepted(body=_page(views))


def _page(views: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "issues": views[: limits.LIST_MAX],
        "count": min(len(views), limits.LIST_MAX),
        "truncated": len(views) > limits.LIST_MAX,
    }
