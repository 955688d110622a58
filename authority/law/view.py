"""How records look in an answer: camelCase, RFC 3339 times, what is absent left out."""

from itertools import islice
from typing import Any

from msgspec import UNSET

from ...contracts import (
    SESSION_KIND,
    Dependency,
    Feature,
    Fiber,
    Handover,
    Instance,
    Issue,
    Lease,
    ScopePause,
    Sublease,
    WorkerSession,
    excused_of,
    issue_of,
    limits,
    rfc3339,
)
from .state import State


def lease_view(lease: Lease, wall_ms: int) -> dict[str, Any]:
    view: dict[str, Any] = {
        "leaseId": lease.lease_id,
        "owner": lease.owner,
        "fence": lease.fence,
        "state": "active" if wall_ms <= lease.deadline_ms else "stale",
        "acquiredAt": rfc3339.answer_text(lease.granted_ms),
        "expiresAt": rfc3339.answer_text(lease.deadline_ms),
    }
    if lease.renewed_ms is not None:
        view["renewedAt"] = rfc3339.answer_text(lease.renewed_ms)
    return view


def issue_view(issue: Issue, lease: Lease | None, wall_ms: int) -> dict[str, Any]:
    view: dict[str, Any] = {
        "id": issue.id,
        "title": issue.title,
        "status": issue.status,
        "priority": issue.priority,
        "issueType": issue.issue_type,
        "assignee": issue.assignee,
        "owner": issue.owner,
        "attempts": issue.attempts,
    }
    if excused := excused_of(issue):
        view["excused"] = excused
    if issue.approval is not UNSET:
        view["approval"] = issue.approval
    if issue.steered_by is not UNSET:
        view["steered"] = {"byName": issue.steered_by, "reason": issue.steered_why}
    if issue.labels:
        view["labels"] = list(issue.labels)
    if lease is not None:
        view["lease"] = lease_view(lease, wall_ms)
    return view


def pause_view(pause: ScopePause) -> dict[str, Any]:
    return {
        "scope": pause.scope,
        "reason": pause.reason,
        "byName": pause.by_name,
        "sinceMs": pause.since_ms,
    }


def steered_view(state: State, family: str, waiting: list[str]) -> dict[str, Any]:
    """Why there may be less to claim than there is: pauses of issues or of jobs, and what waits for
    a person; the first of each."""
    foreign = ("kind/", "job/") if family == "issue" else ("label/", "issue/")
    pauses = (state.pauses[each] for each in sorted(state.pauses) if not each.startswith(foreign))
    shown = [pause_view(each) for each in islice(pauses, limits.PROJECTION_IDS_MAX)]
    body: dict[str, Any] = {"pauses": shown} if shown else {}
    return body | ({"waitsForPerson": waiting[: limits.PROJECTION_IDS_MAX]} if waiting else {})


def sublease_view(sublease: Sublease) -> dict[str, Any]:
    return {
        "parentLeaseId": sublease.parent_lease_id,
        "subleaseId": sublease.sublease_id,
        "holder": sublease.holder,
        "capabilityScope": list(sublease.capability_scope),
        "expiresAt": rfc3339.answer_text(sublease.deadline_ms),
    }


def instance_view(instance: Instance) -> dict[str, Any]:
    view: dict[str, Any] = {
        "instanceId": instance.instance_id,
        "issueId": instance.issue_id,
        "leaseId": instance.lease_id,
        "leaseOwner": instance.lease_owner,
        "leaseTtl": instance.lease_ttl_ms // 1000,
        "fenceToken": instance.fence_token,
        "policyDigest": instance.policy_digest,
    }
    if instance.worktree_ref:
        view["worktreeRef"] = instance.worktree_ref
    if instance.runtime_ref:
        view["runtimeRef"] = instance.runtime_ref
    return view


def fiber_view(fiber: Fiber) -> dict[str, Any]:
    view: dict[str, Any] = {
        "fiberId": fiber.fiber_id,
        "parentFiberId": fiber.parent_fiber_id or None,
        "taskRef": fiber.task_ref,
        "fence": fiber.fence,
        "depth": fiber.depth,
        "state": fiber.state.value,
        "spawnedAt": rfc3339.answer_text(fiber.spawned_ms),
    }
    if fiber.ended_ms is not None:
        view["endedAt"] = rfc3339.answer_text(fiber.ended_ms)
    given = {
        "scopeRef": fiber.scope_ref,
        "resultClass": fiber.result_class,
        "resultRef": fiber.result_ref,
        "reason": fiber.reason,
    }
    return view | {name: text for name, text in given.items() if text}


def handover_view(handover: Handover) -> dict[str, Any]:
    left = handover.checkpoint
    checkpoint: dict[str, Any] = {"summary": left.summary}
    for name in ("done", "next", "artifacts"):
        if items := getattr(left, name):
            checkpoint[name] = list(items)
    if left.notes:
        checkpoint["notes"] = left.notes
    return {
        "issueId": handover.issue_id,
        "owner": handover.owner,
        "leaseId": handover.lease_id,
        "fence": handover.fence,
        "seq": handover.seq,
        "at": rfc3339.answer_text(handover.at_ms),
        "checkpoint": checkpoint,
    }


def session_view(session: WorkerSession) -> dict[str, Any]:
    view: dict[str, Any] = {
        "schema": 1,
        "sessionKind": SESSION_KIND,
        "sessionId": session.session_id,
        "worker": session.worker,
        "state": session.state,
        "instructionRefs": list(session.instruction_refs),
        "witnessRefs": list(session.witness_refs),
        "lineageRefs": list(session.lineage_refs),
        "startedAt": rfc3339.answer_text(session.started_ms),
        "updatedAt": rfc3339.answer_text(session.updated_ms),
    }
    if session.stopped_ms is not None:
        view["stoppedAt"] = rfc3339.answer_text(session.stopped_ms)
    given = {
        "issueId": session.issue_id,
        "summary": session.summary,
        "nextStep": session.next_step,
        "issuesPath": session.issues_path,
        "issuesSnapshotRef": session.issues_snapshot_ref,
    }
    return view | {name: text for name, text in given.items() if text}


def feature_view(feature: Feature) -> dict[str, Any]:
    view: dict[str, Any] = {
        "featureId": feature.feature_id,
        "status": feature.status,
        "instructionRefs": list(feature.instruction_refs),
        "verificationRefs": list(feature.verification_refs),
        "updatedAt": rfc3339.answer_text(feature.updated_ms),
    }
    given = {"issueId": feature.issue_id, "summary": feature.summary}
    return view | {name: text for name, text in given.items() if text}


def orphaned_view(state: State, resource: str) -> dict[str, Any]:
    """What an answer says about fibers that run in a term that ends now."""
    running = [fiber.fiber_id for fiber in state.running(resource)]
    return {"orphanedFibers": running} if running else {}


def dependency_view(dependency: Dependency) -> dict[str, Any]:
    view = {
        "issueId": dependency.issue_id,
        "dependsOnId": dependency.depends_on_id,
        "type": dependency.type,
    }
    if dependency.created_by:
        view["createdBy"] = dependency.created_by
    return view


def lease_projection(state: State, wall_ms: int, settled: str | None = None) -> dict[str, Any]:
    """Which leases are stale or contended, once the `settled` one is out of both sets.

    At most `PROJECTION_IDS_MAX` ids of each kind are listed; the counts are always whole.
    """
    stale_count = state.stale_count(wall_ms)
    lease = state.leases.get(settled) if settled else None
    if lease is not None and wall_ms > lease.deadline_ms:
        stale_count -= 1
    issue_id = issue_of(settled) if settled else None
    stale = (each for each in state.stale_ids(wall_ms) if each != issue_id)
    contended = contended_ids(state, wall_ms, settled)
    return {
        "checkedAt": rfc3339.answer_text(wall_ms),
        "staleCount": stale_count,
        "staleIssueIds": sorted(islice(stale, limits.PROJECTION_IDS_MAX)),
        "contendedCount": len(contended),
        "contendedIssueIds": contended[: limits.PROJECTION_IDS_MAX],
    }


def contended_ids(state: State, wall_ms: int, settled: str | None = None) -> list[str]:
    """Issues whose lease is live and whose record says otherwise."""
    return sorted(
        issue_of(resource)
        for resource in state.torn
        if resource != settled and wall_ms <= state.leases[resource].deadline_ms
    )
