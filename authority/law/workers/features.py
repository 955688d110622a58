"""The feature ledger: what a worker plans and what became of it, a ledger for each worker.

One worker has at most one feature in progress; many workers have many. Writing is free, and the
check says which laws a ledger breaks. A ledger hangs on its worker's session.
"""

from typing import Any

from msgspec.structs import replace

from ....contracts import (
    LEDGER_CHECK_KIND,
    LEDGER_KIND,
    CheckFeatures,
    Feature,
    Ledger,
    LedgerFeature,
    OfWorker,
    Reason,
    WorkerSession,
    WriteFeature,
    is_closed,
    ledger_flaws,
    limits,
    next_feature,
    normal_refs,
    rfc3339,
)
from ..outcome import Accepted, FeaturePut, Outcome, Refused
from ..state import State
from ..turn import Turn
from ..view import feature_view
from .session import of_worker


def write(turn: Turn, request: WriteFeature) -> Outcome:
    """Plan a feature, or change it; what is left out stays."""
    session = of_worker(turn.state, request.worker)
    if isinstance(session, Refused):
        return session
    worker, now_ms = session.worker, turn.stamp.wall_ms
    if request.issue_id and request.issue_id.strip() not in turn.state.issues:
        return Refused(Reason.ISSUE_NOT_FOUND, f"issue {request.issue_id.strip()}")
    ledger = turn.state.features.get(worker, {})
    feature = ledger.get(request.feature_id)
    if feature is None:
        if len(ledger) >= limits.FEATURES_PER_WORKER_MAX:
            return Refused(Reason.FEATURES_FULL, f"worker {worker}: {request.feature_id}")
        feature = Feature(worker=worker, feature_id=request.feature_id, updated_ms=now_ms)
    members: dict[str, Any] = {} if request.status is None else {"status": request.status}
    for name in ("issue_id", "summary"):
        if (text := getattr(request, name)) is not None:
            members[name] = text.strip()
    for name in ("instruction_refs", "verification_refs"):
        if (refs := getattr(request, name)) is not None:
            members[name] = normal_refs(refs)
    feature = replace(feature, updated_ms=now_ms, **members)
    body = {"changed": True, "feature": feature_view(feature)}
    return Accepted((FeaturePut(feature),), body, feature.issue_id or None)


def read(turn: Turn, request: OfWorker) -> Outcome:
    session = of_worker(turn.state, request.worker)
    if isinstance(session, Refused):
        return session
    features = _ledger(turn.state, session)
    view = {
        "schema": 1,
        "ledgerKind": LEDGER_KIND,
        "sessionRef": session.session_id,
        "updatedAt": _updated_at(session, features),
        "features": [feature_view(each) for each in features],
    }
    return Accepted(body={"ledger": view})


def check(turn: Turn, request: CheckFeatures) -> Outcome:
    """Which laws a ledger breaks: all of them, the first one first."""
    if (request.worker is None) is (request.ledger is None):
        return Refused(Reason.HARNESS_FIELD_MISSING, "worker or ledger")
    name = "the ledger that was shown"
    ledger = request.ledger
    if ledger is None:
        session = of_worker(turn.state, request.worker or "")
        if isinstance(session, Refused):
            return session
        name = f"worker {session.worker}"
        ledger = _as_ledger(session, _ledger(turn.state, session))
    flaws = ledger_flaws(ledger, require_closure=request.require_closure)
    if flaws:
        return Refused(flaws[0], name, others=tuple(flaws[1:]))
    return Accepted(body={"check": {"schema": 1, "checkKind": LEDGER_CHECK_KIND} | _plan(ledger)})


def next_(turn: Turn, request: OfWorker) -> Outcome:
    """What to go on with: what was begun, else the first that waits."""
    session = of_worker(turn.state, request.worker)
    if isinstance(session, Refused):
        return session
    plan = _plan(_as_ledger(session, _ledger(turn.state, session)))
    if plan["nextFeatureId"] is not None:
        plan["feature"] = feature_view(turn.state.features[session.worker][plan["nextFeatureId"]])
    return Accepted(body={"plan": plan})


def _ledger(state: State, session: WorkerSession) -> list[Feature]:
    """The features of a worker, by id."""
    return [each for _, each in sorted(state.features.get(session.worker, {}).items())]


def _updated_at(session: WorkerSession, features: list[Feature]) -> str:
    newest_ms = max((each.updated_ms for each in features), default=session.updated_ms)
    return rfc3339.answer_text(newest_ms)


def _as_ledger(session: WorkerSession, features: list[Feature]) -> Ledger:
    """A ledger of ours as one from anywhere looks."""
    return Ledger(
        ledger_kind=LEDGER_KIND,
        session_ref=session.session_id,
        updated_at=_updated_at(session, features),
        features=tuple(
            LedgerFeature(
                feature_id=each.feature_id,
                status=each.status,
                issue_id=each.issue_id,
                summary=each.summary,
                instruction_refs=each.instruction_refs,
                verification_refs=each.verification_refs,
                updated_at=rfc3339.answer_text(each.updated_ms),
            )
            for each in features
        ),
    )


def _plan(ledger: Ledger) -> dict[str, Any]:
    return {
        "featureCount": len(ledger.features),
        "nextFeatureId": next_feature((each.feature_id, each.status) for each in ledger.features),
        "closureComplete": is_closed(each.status for each in ledger.features),
    }
