"""What there is to see: the newest, what needs attention, one instruction, and the whole.

Reads of the state and, for what was refused or decided lately, of the past. Nothing here changes
anything, and every list has a maximum.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ....contracts import (
    ESCALATION,
    Approval,
    Issue,
    Nothing,
    ObserveInstruction,
    Reason,
    is_closed,
    is_success,
    issue_resource,
    limits,
    rfc3339,
)
from ..outcome import Accepted, Outcome, Refused
from ..scope import approval_of
from ..state import State
from ..turn import Turn
from ..view import contended_ids, feature_view, lease_projection, lease_view, session_view
from .history import Past
from .steps import view

# What a worker hands in; a refusal of one of these is work that may be lost.
HAND_INS = frozenset({"issue.close", "issue.handover", "issue.update", "issue.discover"})


def latest(turn: Turn, _: Nothing) -> Outcome:
    """The newest decision, and how many there are of everything."""
    seen: dict[str, Any] = {
        "seq": turn.past[-1].seq if turn.past else 0,
        "checkedAt": rfc3339.answer_text(turn.stamp.wall_ms),
        "decision": view(turn.past[-1]) if turn.past else None,
        "totals": _totals(turn),
        "recent": _recent(turn.past),
    }
    return Accepted(body={"latest": seen})


def needs_attention(turn: Turn, _: Nothing) -> Outcome:
    """What does not mend itself, each with what to do next; by kind, then by issue."""
    items = list(islice(_trouble(turn), limits.ATTENTION_ITEMS_MAX + 1))
    shown = items[: limits.ATTENTION_ITEMS_MAX]
    body = {"count": len(shown), "truncated": len(items) > len(shown), "items": shown}
    return Accepted(body={"attention": body})


def instruction(turn: Turn, request: ObserveInstruction) -> Outcome:
    """Everything known of one instruction: what was done under it lately, and who names it."""
    ref = request.instruction_ref.strip()
    if not ref:
        return Refused(Reason.HARNESS_FIELD_MISSING, "instructionRef")
    done = [each for each in turn.past if ref in each.instruction_refs]
    sessions = [
        session_view(each)
        for _, each in sorted(turn.state.sessions.items())
        if ref in each.instruction_refs
    ]
    features = [
        feature_view(each) | {"worker": worker}
        for worker, ledger in sorted(turn.state.features.items())
        for _, each in sorted(ledger.items())
        if ref in each.instruction_refs
    ]
    if not (done or sessions or features):
        return Refused(Reason.INSTRUCTION_UNSEEN, ref)
    failed = sum(not is_success(each.result_class) for each in done)
    seen = {
        "instructionRef": ref,
        "acceptedCount": len(done) - failed,
        "failedCount": failed,
        "issueIds": sorted({each.issue_id for each in done if each.issue_id}),
        "items": [view(each) for each in reversed(done[-limits.QUERY_ITEMS_MAX :])],
        "sessions": sessions[: limits.QUERY_ITEMS_MAX],
        "features": features[: limits.QUERY_ITEMS_MAX],
    }
    return Accepted(body={"observed": seen})


def projection(turn: Turn, _: Nothing) -> Outcome:
    """The whole, as one picture."""
    state, now_ms, past = turn.state, turn.stamp.wall_ms, turn.past
    trouble = Counter(item["kind"] for item in _trouble(turn))
    seen: dict[str, Any] = {
        "seq": past[-1].seq if past else 0,
        "checkedAt": rfc3339.answer_text(now_ms),
        "totals": _totals(turn),
        "recent": _recent(past),
        "attention": dict(sorted(trouble.items())),
        "leaseProjection": lease_projection(state, now_ms),
        "leases": [
            {"resource": key, "lease": lease_view(state.leases[key], now_ms)}
            for key in islice(sorted(state.leases), limits.QUERY_ITEMS_MAX)
        ],
        "sessions": [
            session_view(state.sessions[worker]) | _progress(state, worker)
            for worker in islice(sorted(state.sessions), limits.QUERY_ITEMS_MAX)
        ],
    }
    return Accepted(body={"picture": seen})


def _totals(turn: Turn) -> dict[str, int]:
    state, now_ms = turn.state, turn.stamp.wall_ms
    statuses = Counter(issue.status for issue in state.issues.values())
    sessions = Counter(each.state for each in state.sessions.values())
    features = Counter(
        each.status for ledger in state.features.values() for each in ledger.values()
    )
    return {
        "issues": len(state.issues),
        "open": statuses["open"],
        "inProgress": statuses["in_progress"],
        "blocked": statuses["blocked"],
        "closed": statuses["closed"],
        "ready": len(state.ready),
        "leases": len(state.leases),
        "staleLeases": state.stale_count(now_ms),
        "contendedLeases": len(contended_ids(state, now_ms)),
        "handovers": sum(map(len, state.handovers.values())),
        "sessions": len(state.sessions),
        "activeSessions": sessions["active"],
        "features": features.total(),
        "completedFeatures": features["completed"],
    }


def _recent(past: Past) -> dict[str, int]:
    failed = sum(not is_success(each.result_class) for each in past)
    return {"rows": len(past), "accepted": len(past) - failed, "failed": failed}


def _progress(state: State, worker: str) -> dict[str, Any]:
    features = state.features.get(worker, {}).values()
    return {
        "featureCount": len(features),
        "featureClosureComplete": is_closed(each.status for each in features),
    }


# --- trouble ------------------------------------------------------------------------------------


def _trouble(turn: Turn) -> Iterator[dict[str, Any]]:
    state, now_ms = turn.state, turn.stamp.wall_ms
    yield from _worn_out(state)
    for issue_id in sorted(state.stale_ids(now_ms)):
        lease = state.leases[issue_resource(issue_id)]
        detail = f"{lease.owner} held it until {rfc3339.answer_text(lease.deadline_ms)}"
        yield _item("stale_lease", issue_id, detail, "claim it; claim_next hands it out by itself")
    for issue_id in contended_ids(state, now_ms):
        owner = state.leases[issue_resource(issue_id)].owner
        detail = f"{owner} holds it, and its record says otherwise"
        yield _item("contended_lease", issue_id, detail, "reconcile it, or break the lease")
    for issue_id in sorted(state.issues):
        if _is_escalation(state.issues[issue_id]):
            detail = f"an escalation: {state.issues[issue_id].title}"
            remedy = "claim it by its id or, with --type task, leave it to agents"
            yield _item("waits_for_person", issue_id, detail, remedy)
        elif state.issues[issue_id].status == "blocked":
            detail = f"waits for {', '.join(state.blockers(issue_id)[:3]) or 'somebody'}"
            yield _item("blocked", issue_id, detail, "remove what blocks it, then set it to open")
        elif _waits_for_approval(state, state.issues[issue_id]):
            said = state.issues[issue_id].steered_why or state.issues[issue_id].title
            remedy = "a person says `understudy approve ID` or `understudy reject ID`"
            yield _item("waits_for_approval", issue_id, f"waits for approval: {said}", remedy)
    yield from _refusals(state, turn.past)


def _worn_out(state: State) -> Iterator[dict[str, Any]]:
    """Issues that were begun often, and are not done."""
    for issue_id in sorted(state.issues):
        issue = state.issues[issue_id]
        if issue.status != "closed" and issue.attempts >= limits.ATTENTION_ATTEMPTS:
            detail = f"begun {issue.attempts} times, and not done"
            yield _item("attempts", issue_id, detail, "read its hand-over and logs; split it")


def _waits_for_approval(state: State, issue: Issue) -> bool:
    return issue.status == "open" and approval_of(state, issue) == Approval.WAITING


def _is_escalation(issue: Issue) -> bool:
    return issue.issue_type == ESCALATION and issue.status != "closed"


def _refusals(state: State, past: Past) -> Iterator[dict[str, Any]]:
    """Work that a worker wanted to hand in lately and could not, on issues that are not done."""
    refused = [
        each
        for each in past
        if each.host_action in HAND_INS and not is_success(each.result_class) and each.issue_id
    ]
    counts = Counter(each.issue_id for each in refused)
    newest = {each.issue_id: each for each in refused}
    for issue_id in sorted(key for key in counts if key in state.issues):
        if state.issues[issue_id].status == "closed":
            continue
        last = newest[issue_id]
        detail = f"{counts[issue_id]} refused, the last one of {last.worker or 'nobody'}"
        remedy = "look at what it wanted to hand in before somebody does it again"
        item = _item("refused_hand_in", issue_id, detail, remedy)
        yield item | {"resultClass": last.result_class, "seq": last.seq}


def _item(kind: str, issue_id: str, detail: str, remedy: str) -> dict[str, Any]:
    return {"kind": kind, "issueId": issue_id, "detail": detail, "next": remedy}
