"""Sessions: where each worker stands, so that it or its successor can go on.

Every worker has a session of its own, under its own name, so workers that run side by side cannot
overwrite one another. A worker that fears for its name shows the session's id.
"""

from typing import Any

from msgspec.structs import replace

from ....contracts import (
    BOOTSTRAP_KIND,
    OfWorker,
    Reason,
    WorkerSession,
    WriteSession,
    is_closed,
    limits,
    next_feature,
    normal_refs,
)
from ..outcome import Accepted, Change, Outcome, Refused, SessionDropped, SessionPut
from ..state import State
from ..turn import Turn
from ..view import handover_view, session_view

_TEXTS = ("issue_id", "summary", "next_step", "issues_path", "issues_snapshot_ref")
_REFS = ("instruction_refs", "witness_refs", "lineage_refs")


def write(turn: Turn, request: WriteSession) -> Outcome:
    """Begin the worker's session, or change it; what is left out stays."""
    worker, now_ms = request.worker.strip(), turn.stamp.wall_ms
    if not worker:
        return Refused(Reason.HARNESS_FIELD_MISSING, "worker")
    session = turn.state.sessions.get(worker)
    if request.session_id and (session is None or session.session_id != request.session_id):
        return Refused(Reason.SESSION_MISMATCH, f"worker {worker}: {request.session_id}")
    members: dict[str, Any] = {
        name: text.strip() for name in _TEXTS if (text := getattr(request, name)) is not None
    }
    members |= {
        name: normal_refs(refs) for name in _REFS if (refs := getattr(request, name)) is not None
    }
    if members.get("issue_id") and members["issue_id"] not in turn.state.issues:
        return Refused(Reason.ISSUE_NOT_FOUND, f"issue {members['issue_id']}")
    made_room: tuple[Change, ...] = ()
    if session is None:
        room = _room(turn.state)
        if isinstance(room, Refused):
            return room
        made_room = room
        session = WorkerSession(
            worker=worker,
            session_id=f"hs1_{worker}_{turn.stamp.seq}",
            started_ms=now_ms,
            updated_ms=now_ms,
            updated_seq=turn.stamp.seq,
        )
    now = request.state or session.state
    if now == "stopped":
        members["stopped_ms"] = now_ms if session.stopped_ms is None else session.stopped_ms
    else:
        members["stopped_ms"] = None
    session = replace(session, state=now, updated_ms=now_ms, updated_seq=turn.stamp.seq, **members)
    body = {"changed": True, "session": session_view(session)}
    return Accepted((*made_room, SessionPut(session)), body, session.issue_id or None)


def read(turn: Turn, request: OfWorker) -> Outcome:
    session = of_worker(turn.state, request.worker)
    if isinstance(session, Refused):
        return session
    return Accepted(body={"session": session_view(session)})


def bootstrap(turn: Turn, request: OfWorker) -> Outcome:
    """What a worker, or the one in its place, needs to begin with."""
    session = of_worker(turn.state, request.worker)
    if isinstance(session, Refused):
        return session
    features = turn.state.features.get(session.worker, {}).values()
    view = session_view(session)
    start: dict[str, Any] = {
        "schema": 1,
        "bootstrapKind": BOOTSTRAP_KIND,
        "mode": "resume" if session.state == "stopped" else "attach",
        "worker": session.worker,
        "sessionId": session.session_id,
        "resumeIssueId": session.issue_id or None,
        "nextFeatureId": next_feature((each.feature_id, each.status) for each in features),
        "featureClosureComplete": is_closed(each.status for each in features),
        "featureCount": len(features),
    }
    kept = ("summary", "nextStep", "instructionRefs", "witnessRefs", "lineageRefs")
    start |= {name: view[name] for name in kept if name in view}
    if left := turn.state.handovers.get(session.issue_id):
        start["handover"] = handover_view(left[-1])
    return Accepted(body={"bootstrap": start}, issue_id=session.issue_id or None)


def of_worker(state: State, worker: str) -> WorkerSession | Refused:
    """The session of a worker, or that there is none."""
    session = state.sessions.get(worker.strip())
    return session or Refused(Reason.SESSION_MISSING, f"worker {worker.strip()}")


def _room(state: State) -> tuple[Change, ...] | Refused:
    """Room for one more: the session that stopped longest ago is forgotten for it."""
    if len(state.sessions) < limits.SESSIONS_MAX:
        return ()
    stopped = [each for each in state.sessions.values() if each.state == "stopped"]
    if not stopped:
        return Refused(Reason.SESSIONS_FULL, f"{len(state.sessions)} sessions")
    return (SessionDropped(min(stopped, key=lambda each: each.updated_seq).worker),)
