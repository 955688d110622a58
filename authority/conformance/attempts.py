"""Vectors about the retry policy: what it decides after one attempt, after several, and when an
authority keeps the count.

    seen, attempt   one decision
    attempts        what was seen after the first, the second, ...: decisions until one escalates
    rounds          the same with an issue that is claimed, and whose own count the policy is given

A round is a claim through the coordinator's door and what came of it:

    by              who claims; another worker each time unless said
    action          `issue.claim` unless said
    asked           how often the claim is sent, with one request id
    renewals        how often the holder asks for more time
    seen            the failure classes of the attempt
    ends            how the term ends before the next try: `release`, `break` or `lapse`
    restart, opens  before the claim: the authority starts anew; an operator opens the issue
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ...contracts import (
    Door,
    PolicyRefused,
    RetryPolicy,
    Transport,
    backoff_ms,
    canonical,
    limits,
    load_policy,
    parse_policy,
    policy_digest,
    retry_decision,
)
from .scene import make_state, proof, require_boundary, scratch
from .verdicts import damaged

_START_MS = 1_000_000
_ISSUE = "a"


def retry(body: Mapping[str, Any], boundary: str) -> dict[str, Any]:
    """What the policy decides, or why a document is no policy."""
    policy = _policy(body)
    if isinstance(policy, PolicyRefused):
        return {"failureClasses": [policy.failure_class]}
    if "rounds" in body:
        return {"failureClasses": [], **_rounds(policy, body, boundary)}
    if "attempts" in body:
        return {"failureClasses": [], "decisions": _sequence(policy, body["attempts"])}
    if "seen" in body:
        decided = _decided(policy, body, body["attempt"])
        return {"failureClasses": [], **{k: v for k, v in decided.items() if k != "attempt"}}
    return {"failureClasses": []}


def _decided(policy: RetryPolicy, seen: Mapping[str, Any], attempt: int) -> dict[str, Any]:
    decision = retry_decision(policy, seen["seen"], attempt)
    random_permille = seen.get("randomPermille", 0)
    return {
        "attempt": decision.attempt,
        "ruleId": decision.rule_id,
        "matched": decision.matched_failure_class,
        "retry": decision.retry,
        "maxAttempts": decision.max_attempts,
        "backoffClass": decision.backoff_class,
        "escalation": decision.escalation_action,
        "recorded": list(decision.failure_classes),
        "backoffMs": backoff_ms(policy, decision.backoff_class, attempt, random_permille),
    }


def _sequence(policy: RetryPolicy, attempts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Decisions in order. What comes behind the last one is a mistake of the vector's."""
    decisions = [_decided(policy, seen, place) for place, seen in enumerate(attempts, start=1)]
    if not all(decision["retry"] for decision in decisions[:-1]):
        raise ValueError("it goes on after a decision to escalate")
    return [_short(decision) for decision in decisions]


def _short(decision: Mapping[str, Any]) -> dict[str, Any]:
    names = ("attempt", "ruleId", "retry", "backoffClass", "backoffMs", "escalation")
    return {name: decision[name] for name in names}


def _policy(body: Mapping[str, Any]) -> RetryPolicy | PolicyRefused:
    if "policyText" in body:
        return parse_policy(str(body["policyText"]).encode())
    document = damaged(body)["retryPolicy"]
    if body.get("sealed"):
        document["policyDigest"] = policy_digest(document)
    with scratch() as folder:
        path = Path(folder) / "retry-policy.json"
        match body.get("policyFile", "present"):
            case "present":
                path.write_bytes(orjson.dumps(document))
            case "folder":
                path.mkdir()
            case "missing":
                pass
            case other:
                raise ValueError(f"a policy file cannot be `{other}`")
        return load_policy(path)


# --- attempts that an authority counts ------------------------------------------------------------


def _rounds(policy: RetryPolicy, body: Mapping[str, Any], boundary: str) -> dict[str, Any]:
    with scratch() as folder:
        make_state(Path(folder))
        coordinator = _Coordinator(Path(folder), boundary, body.get("door", "coordinator"))
        try:
            coordinator.ask("issue.add", {"id": _ISSUE, "title": "Work"})
            rounds = [
                coordinator.round(policy, place, each)
                for place, each in enumerate(body["rounds"], start=1)
            ]
            issue = coordinator.ask("issue.show", {"id": _ISSUE})["issue"]
        finally:
            coordinator.close()
        _, _, problems = proof(Path(folder))
        assert not problems, problems
    return {"rounds": rounds, "attempts": issue["attempts"], "status": issue["status"]}


class _Coordinator:
    """Claims, has a worker fail, asks the policy, and does what it says."""

    def __init__(self, state_dir: Path, boundary: str, transport: Transport) -> None:
        self._state_dir, self._opened = state_dir, require_boundary(boundary)
        self._authority = self._opened(state_dir)
        self._door = Door(transport, frozen_clock=True)
        self._now_ms = _START_MS

    def close(self) -> None:
        self._authority.close()

    def ask(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        line = canonical.encode({"action": action, "payload": payload, "now": self._now_ms})
        answer: dict[str, Any] = orjson.loads(self._authority.submit([(line, self._door)])[0])
        return answer

    def round(self, policy: RetryPolicy, place: int, each: Mapping[str, Any]) -> dict[str, Any]:
        if each.get("restart"):
            self._authority.close()
            self._authority = self._opened(self._state_dir)
        if each.get("opens"):
            self.ask("issue.update", {"id": _ISSUE, "status": "open"})
        answer = self._claim(place, each)
        if answer["result"] != "accepted":
            return {"refused": answer["failureClasses"][0]}
        lease = answer["issue"]["lease"]
        holder = {"id": _ISSUE, "assignee": lease["owner"]}
        holder |= {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        for _ in range(each.get("renewals", 0)):
            self.ask("issue.lease_renew", holder)
        decision = _decided(policy, each, answer["issue"]["attempts"])
        if not decision["retry"]:
            return {**_short(decision), "escalated": self._escalate(decision, holder)}
        self._end(each["ends"], holder)
        self._now_ms += decision["backoffMs"]
        return _short(decision)

    def _claim(self, place: int, each: Mapping[str, Any]) -> dict[str, Any]:
        action = each.get("action", "issue.claim")
        payload = {"assignee": each.get("by", f"worker-{place}")}
        payload |= {"id": _ISSUE} if action == "issue.claim" else {}
        if "asked" in each:
            payload["requestId"] = f"claim-{place}"
        answers = [self.ask(action, payload) for _ in range(each.get("asked", 1))]
        return answers[-1]

    def _end(self, how: str, holder: dict[str, Any]) -> None:
        match how:
            case "release":
                self._granted("issue.lease_release", holder)
            case "break":
                self._granted("issue.lease_break", {"id": _ISSUE, "reason": "no sign of life"})
            case "lapse":
                self._now_ms += limits.TTL_SECONDS_DEFAULT * 1000 + 1
            case other:
                raise ValueError(f"no term ends by `{other}`")

    def _escalate(self, decision: Mapping[str, Any], holder: dict[str, Any]) -> dict[str, Any]:
        """The host action that the escalation stands for."""
        match decision["escalation"]:
            case "issue_discover":
                found = {"newId": "found", "title": f"retry exhausted ({decision['matched']})"}
                answer = self._granted("issue.discover", holder | found)
            case "mark_blocked":
                answer = self._granted("issue.update", holder | {"status": "blocked"})
            case _:
                answer = self._granted("issue.lease_release", holder)
        return {"action": answer["action"], "transport": answer["effect"]["transport"]}

    def _granted(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        answer = self.ask(action, payload)
        assert answer["result"] == "accepted", answer["diagnostic"]
        return answer
