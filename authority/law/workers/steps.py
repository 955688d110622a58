"""Steps: what workers report of their own doing, and the trajectory read back.

A step is a row of the journal like any other, and so a line of the one trajectory: with an id that
no other has, chained, and with its one route to `Ev`. It changes no state. A host action leaves
evidence of its own, so a step cannot take the name of one: it would have two routes.

A query reads the newest rows of the journal (`past`), decisions and steps alike.
"""

from typing import Any

from ....contracts import (
    STEP_KIND,
    TRAJECTORY_KIND,
    AppendStep,
    QuerySteps,
    Reason,
    host_actions,
    is_success,
    needs_retry,
    normal_refs,
    rfc3339,
)
from ..outcome import Accepted, Outcome, Refused
from ..turn import Turn
from .history import PastStep, step_id


def append(turn: Turn, request: AppendStep) -> Outcome:
    """Join a worker's own step to the trajectory."""
    worker, action = request.worker.strip(), request.action.strip()
    result_class = request.result_class.strip()
    if not (worker and action and result_class):
        return Refused(Reason.HARNESS_FIELD_MISSING, "worker, action or resultClass")
    if action in host_actions():
        return Refused(Reason.STEP_ACTION_RESERVED, f"worker {worker}: {action}")
    if request.issue_id is not None and request.issue_id not in turn.state.issues:
        return Refused(Reason.ISSUE_NOT_FOUND, f"issue {request.issue_id}", request.issue_id)
    times = [(text or "").strip() for text in (request.started_at, request.finished_at)]
    started_ms, finished_ms = map(rfc3339.parse_ms, times)
    finished_ms = finished_ms if times[1] else turn.stamp.wall_ms
    if (times[0] and started_ms is None) or finished_ms is None or finished_ms < (started_ms or 0):
        return Refused(Reason.STEP_TIME_INVALID, f"worker {worker}: {action}")
    step: dict[str, Any] = {
        "schema": 1,
        "stepKind": STEP_KIND,
        "stepId": step_id(turn.stamp.node, turn.stamp.seq, "harness.trajectory.append"),
        "worker": worker,
        "action": action,
        "resultClass": result_class,
        "finishedAt": rfc3339.record_text(finished_ms),
    }
    if started_ms is not None:
        step["startedAt"] = rfc3339.record_text(started_ms)
    if request.issue_id is not None:
        step["issueId"] = request.issue_id
    if summary := request.summary.strip():
        step["summary"] = summary
    witnesses = normal_refs(request.witness_refs)
    for name, refs in (
        ("instructionRefs", normal_refs(request.instruction_refs)),
        ("witnessRefs", witnesses),
        ("lineageRefs", normal_refs(request.lineage_refs)),
    ):
        if refs:
            step[name] = list(refs)
    return Accepted(body={"step": step}, issue_id=request.issue_id, witnesses=witnesses)


def query(turn: Turn, request: QuerySteps) -> Outcome:
    """The newest steps of a kind, the newest first; the counts are of all that was looked at."""
    looked_at = [each for each in turn.past if _fits(each, request)]
    failed = [each for each in looked_at if not is_success(each.result_class)]
    again = [each for each in failed if needs_retry(each.result_class)]
    chosen = {"latest": looked_at, "failed": failed, "retry-needed": again}[request.mode]
    items = [view(each) for each in reversed(chosen[-request.limit :])]
    projection = {
        "schema": 1,
        "projectionKind": TRAJECTORY_KIND,
        "mode": request.mode.replace("-", "_"),
        "count": len(items),
        "totalCount": len(looked_at),
        "failedCount": len(failed),
        "retryNeededCount": len(again),
        "firstSeq": turn.past[0].seq if turn.past else 0,
        "lastSeq": turn.past[-1].seq if turn.past else 0,
        "items": items,
    }
    return Accepted(body={"trajectory": projection})


def _fits(done: PastStep, request: QuerySteps) -> bool:
    return request.issue_id in (None, done.issue_id) and request.worker in (None, done.worker)


def view(done: PastStep) -> dict[str, Any]:
    """A row as the projections show it: a step in its own words, a decision in short."""
    if done.step is not None:
        return done.step | {"seq": done.seq}
    shown: dict[str, Any] = {
        "stepId": done.step_id,
        "seq": done.seq,
        "action": done.action,
        "resultClass": done.result_class,
        "finishedAt": rfc3339.record_text(done.wall_ms),
    }
    if done.issue_id is not None:
        shown["issueId"] = done.issue_id
    if done.worker:
        shown["worker"] = done.worker
    if done.instruction_refs:
        shown["instructionRefs"] = list(done.instruction_refs)
    return shown
