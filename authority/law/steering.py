"""What operators say about work: cancel it, try it again, pause it, approve it, hurry it.

    cancel     its lease ends under a greater fence, and no claim is granted until it is back
retry      what is blocked, cancelled or tried before is open at once, with attempts anew
pause      no new term begins in a scope; with `now` the terms in it end, handed back in order
approval   work that waits for a person is granted when one has approved it
"""

import dataclasses
from typing import Any

from msgspec.structs import replace

from ...contracts import (
    Approval,
    AskApproval,
    CancelIssue,
    CancelJob,
    ClearPause,
    GiveApproval,
    Issue,
    JobMove,
    JobRecord,
    JobState,
    Move,
    Nothing,
    PrioritizeIssue,
    Reason,
    RetryIssue,
    RetryJob,
    ScopePause,
    SetPause,
    excused_of,
    is_cancelled,
    is_issue,
    is_job,
    is_spent,
    issue_of,
    issue_resource,
    limits,
    rfc3339,
)
from .descent.cover import follow
from .jobs import job as jobs
from .lease import step, touch
from .outcome import (
    Accepted,
    Change,
    IssueSet,
    LeaseDropped,
    Outcome,
    PauseDropped,
    PausePut,
    Refused,
)
from .scope import approval_of, covers, plain_scope
from .turn import Origin, Turn
from .view import issue_view, orphaned_view, pause_view

# --- one piece of work --------------------------------------------------------------------------


def cancel_issue(turn: Turn, request: CancelIssue) -> Outcome:
    """The work is not wanted any more. The evidence has a greater fence than its lease had."""
    issue = _find(turn, request.id)
    if isinstance(issue, Refused):
        return issue
    if is_cancelled(issue):
        return Refused(Reason.ISSUE_CANCELLED, f"issue {issue.id}", issue.id)
    said = {"status": "cancelled", "assignee": ""} | _said(request)
    accepted = _settle(turn, issue, said, Move.BREAK)
    followed = follow(turn.state, issue.id, "cancelled")
    return dataclasses.replace(accepted, changes=(*accepted.changes, *followed))


def retry_issue(turn: Turn, request: RetryIssue) -> Outcome:
    """Open, free and with attempts anew; where a person had rejected it, it waits for one again."""
    issue = _find(turn, request.id)
    if isinstance(issue, Refused):
        return issue
    stands = issue.status in ("blocked", "cancelled") or issue.approval == Approval.REJECTED
    is_tried = issue.status == "open" and issue.attempts > excused_of(issue)
    is_held = issue_resource(issue.id) in turn.state.leases
    if is_held or not (stands or is_tried):
        return Refused(Reason.WORK_NOT_BLOCKED, f"issue {issue.id}", issue.id)
    said: dict[str, Any] = {"status": "open", "assignee": "", "excused": issue.attempts}
    if issue.approval == Approval.REJECTED:
        said["approval"] = Approval.WAITING.value
    return _settle(turn, issue, said | _said(request))


def prioritize(turn: Turn, request: PrioritizeIssue) -> Outcome:
    """Another priority; a lease stays as it is."""
    issue = _find(turn, request.id)
    if isinstance(issue, Refused):
        return issue
    lease = turn.state.leases.get(issue_resource(issue.id))
    fence = lease.fence if lease else None
    changes: tuple[Change, ...] = ()
    if issue.priority != request.priority:
        members = {"priority": request.priority, "updated_at": _now(turn)}
        issue = replace(issue, **members)
        changes = (IssueSet(issue.id, members),)
    body = {"changed": bool(changes), "issue": issue_view(issue, lease, turn.stamp.wall_ms)}
    return Accepted(changes, body, issue.id, fence)


def cancel_job(turn: Turn, request: CancelJob) -> Outcome:
    """The job is over, without a result; what waits for its completion goes on waiting."""
    job = jobs.find(turn, request.job_id)
    if isinstance(job, Refused):
        return job
    job = replace(job, reason=request.reason.strip(), steered_by=request.by_name.strip())
    return jobs.rule(turn, job, JobMove.CANCEL)


def retry_job(turn: Turn, request: RetryJob) -> Outcome:
    """As an issue; what is cancelled stays so."""
    job = jobs.find(turn, request.job_id)
    if isinstance(job, Refused):
        return job
    is_tried = job.attempts > excused_of(job)
    is_rejected = job.approval == Approval.REJECTED
    if job.state is not JobState.PENDING or not (is_tried or is_spent(job) or is_rejected):
        return Refused(Reason.WORK_NOT_BLOCKED, f"job {job.job_id}", job_id=job.job_id)
    job = replace(job, excused=job.attempts, steered_by=request.by_name.strip())
    if is_rejected:
        job = replace(job, approval=Approval.WAITING.value)
    return jobs.rule(turn, job, JobMove.RETRY)


# --- approval -----------------------------------------------------------------------------------


def ask_approval(turn: Turn, request: AskApproval) -> Outcome:
    """The issue waits for a person from now on; its holder hands it back by asking."""
    lease = touch(turn, request, "approval.ask")
    if isinstance(lease, Refused):
        return lease
    issue = turn.state.issues[request.id]
    said: dict[str, Any] = {"approval": Approval.WAITING.value}
    said |= {"steered_by": (request.assignee or "").strip(), "steered_why": request.reason.strip()}
    if lease is None:
        return _settle(turn, issue, said)
    said |= {"status": "open", "assignee": "", "excused": excused_of(issue) + 1}
    return _settle(turn, issue, said, Move.RELEASE)


def give_approval(turn: Turn, request: GiveApproval) -> Outcome:
    """A person says yes, or no: then it is blocked until it is tried again."""
    if (request.id is None) is (request.job_id is None):
        return Refused(Reason.ISSUE_PAYLOAD_INVALID, "approval.give: either id or jobId")
    is_yes = request.decision == "approved"
    if request.job_id is not None:
        job = jobs.find(turn, request.job_id)
        if isinstance(job, Refused):
            return job
        if approval_of(turn.state, job) != Approval.WAITING or job.state is not JobState.PENDING:
            name = f"job {job.job_id}"
            return Refused(Reason.APPROVAL_NOT_ASKED, name, job_id=job.job_id)
        by_name, why = request.by_name.strip(), request.reason.strip()
        job = replace(job, approval=request.decision, steered_by=by_name, reason=why)
        return jobs.rule(turn, job, JobMove.RULE)
    assert request.id is not None
    issue = _find(turn, request.id)
    if isinstance(issue, Refused):
        return issue
    if approval_of(turn.state, issue) != Approval.WAITING:
        return Refused(Reason.APPROVAL_NOT_ASKED, f"issue {issue.id}", issue.id)
    said = {"approval": request.decision} | _said(request)
    if is_yes or issue.status != "open":
        return _settle(turn, issue, said)
    return _settle(turn, issue, said | {"status": "blocked"})


# --- pauses -------------------------------------------------------------------------------------


def pause(turn: Turn, request: SetPause) -> Outcome:
    """Work in the scope is withheld from now on; with `now`, leases in it end as well."""
    state = turn.state
    scope = plain_scope(request.scope)
    if scope is None:
        return Refused(Reason.SCOPE_INVALID, request.scope)
    family, _, name = scope.partition("/")
    if family == "issue" and name not in state.issues:
        return Refused(Reason.ISSUE_NOT_FOUND, f"issue {name}")
    if family == "job" and name not in turn.lane.jobs:
        return Refused(Reason.JOB_NOT_FOUND, f"job {name}")
    before = state.pauses.get(scope)
    if before is None and len(state.pauses) >= limits.PAUSES_MAX:
        return Refused(Reason.PAUSES_FULL, scope)
    by_name, why = request.by_name.strip(), request.reason.strip()
    since_ms = before.since_ms if before else turn.stamp.wall_ms
    put = ScopePause(scope=scope, reason=why, by_name=by_name, since_ms=since_ms)
    changes: list[Change] = [] if put == before else [PausePut(put)]
    ended: list[str] = []
    for resource in sorted(state.leases) if request.now else ():
        handed_back = _hand_back(turn, scope, resource, len(ended))
        if handed_back:
            ended.append(resource)
            changes += handed_back
    body = {"changed": bool(changes), "pause": pause_view(put), "handedBackCount": len(ended)}
    body["handedBack"] = ended[: limits.PROJECTION_IDS_MAX]
    return Accepted(tuple(changes), body)


def unpause(turn: Turn, request: ClearPause) -> Outcome:
    """This very scope goes on; work that another pause covers stays withheld."""
    scope = plain_scope(request.scope)
    if scope is None:
        return Refused(Reason.SCOPE_INVALID, request.scope)
    before = turn.state.pauses.get(scope)
    if before is None:
        return Refused(Reason.PAUSE_MISSING, scope)
    return Accepted((PauseDropped(scope),), {"changed": True, "pause": pause_view(before)})


def list_pauses(turn: Turn, _: Nothing) -> Outcome:
    pauses = [pause_view(each) for _, each in sorted(turn.state.pauses.items())]
    return Accepted(body={"pauses": pauses, "count": len(pauses)})


def _hand_back(turn: Turn, scope: str, resource: str, index: int) -> tuple[Change, ...]:
    """The end of a lease, as if its holder had given it back in order; nothing out of scope."""
    work: Issue | JobRecord
    if is_issue(resource):
        work = turn.state.issues[issue_of(resource)]
        if not covers(scope, work):
            return ()
        members = {"assignee": "", "updated_at": _now(turn), "excused": excused_of(work) + 1}
        members["status"] = "open" if work.status == "in_progress" else work.status
        return (LeaseDropped(resource), IssueSet(work.id, members))
    if not is_job(resource):
        return ()
    work = turn.lane.jobs[resource.partition("/")[2]]
    if not covers(scope, work):
        return ()
    placed = replace(turn, origin=Origin(index=index))
    work = replace(work, reason="paused", excused=excused_of(work) + 1)
    return jobs.rule(placed, work, JobMove.YIELD).changes


# --- what they share ----------------------------------------------------------------------------


def _find(turn: Turn, issue_id: str) -> Issue | Refused:
    """The issue, where something can still become of it."""
    issue = turn.state.issues.get(issue_id)
    if issue is None:
        return Refused(Reason.ISSUE_NOT_FOUND, f"issue {issue_id}", issue_id)
    if issue.status == "closed":
        return Refused(Reason.ISSUE_CLOSED, f"issue {issue_id}", issue_id)
    return issue


def _settle(
    turn: Turn, issue: Issue, members: dict[str, Any], move: Move | None = None
) -> Accepted:
    """The issue as it is from now on, and the end of its lease where the move ends one."""
    resource = issue_resource(issue.id)
    lease = turn.state.leases.get(resource)
    members["updated_at"] = _now(turn)
    settled = replace(issue, **members)
    changes: tuple[Change, ...] = (IssueSet(issue.id, members),)
    fence, orphaned = None, {}
    if lease is not None and move is not None:
        step(turn, resource, move)
        changes, fence = (LeaseDropped(resource), *changes), turn.stamp.seq
        orphaned, lease = orphaned_view(turn.state, resource), None
    view = issue_view(settled, lease, turn.stamp.wall_ms)
    return Accepted(changes, {"changed": True, "issue": view} | orphaned, issue.id, fence)


def _said(request: CancelIssue | RetryIssue | GiveApproval) -> dict[str, Any]:
    return {"steered_by": request.by_name.strip(), "steered_why": request.reason.strip()}


def _now(turn: Turn) -> str:
    return rfc3339.record_text(turn.stamp.wall_ms)
