"""What is said when no attempt is left: the note on the issue, and the issue that is filed.

Field names, title and references are those of the reference protocol, so that its readers find
them. An issue is escalated once an episode: its number is that of the notes on the issue, plus
one. The note is written together with the status that ends the lease. So the next dispatcher, in
the middle of it, comes to the same number, and finds what was filed already.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...contracts import RetryDecision, RetryPolicy, limits

LABEL = "escalation"  # of issues that are filed here; no dispatcher takes one up by itself
BLOCKED = "blocked"  # an action of jobs alone: the authority hands out no more of it by itself
WORDS: Final = {  # for people, what an action of the policy comes to
    "issue_discover": "escalated",
    "mark_blocked": "blocked",
    BLOCKED: "blocked",
    "stop": "stop",
}
_MARK = "[harness-escalation]"
_CLASS = re.compile(r"[a-z0-9]+(?:[._][a-z0-9]+)*")
_CLASS_LENGTH_MAX = 128
_CLASSES_MAX = 16
_DETAIL_LENGTH_MAX = 2_000


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """Why an attempt counts as failed, and what the policy makes of it."""

    worker: str
    decision: RetryDecision
    detail: str


def sound_classes(names: Iterable[str]) -> tuple[str, ...]:
    """The failure classes among what a worker said, each once, in its order."""
    found = (name for name in names if len(name) <= _CLASS_LENGTH_MAX and _CLASS.fullmatch(name))
    return tuple(dict.fromkeys(found))[:_CLASSES_MAX]


def note(issue_id: str, failure: FailedAttempt, policy: RetryPolicy) -> str:
    """What is written on the failed issue."""
    decision = failure.decision
    lines = [
        _MARK,
        f"scope: issue/{issue_id}",
        f"action: {decision.escalation_action}",
        f"policyId: {policy.policy_id}",
        f"policyDigest: {policy.policy_digest}",
        f"ruleId: {decision.rule_id}",
        f"matchedFailureClass: {matched(decision)}",
        f"attempt: {decision.attempt}",
        f"failureClasses: {', '.join(decision.failure_classes)}",
        f"witnessRef: worker://loop/{failure.worker}/{issue_id}/failed",
    ]
    if failure.detail:
        lines.append(f"detail: {shortened(failure.detail, _DETAIL_LENGTH_MAX)}")
    return "\n".join(lines)


def noted(notes: str, fresh: str) -> str | None:
    """The notes with one more; None where it does not fit: what people wrote is not cut."""
    text = f"{notes.rstrip()}\n\n{fresh}" if notes.strip() else fresh
    return text if len(text) <= limits.TEXT_LENGTH_MAX else None


def title(issue_id: str, decision: RetryDecision) -> str:
    """The title of the issue that is filed."""
    return f"[HarnessEscalation] issue/{issue_id} retry exhausted ({matched(decision)})"


def filed_id(issue_id: str, notes: str) -> str:
    """The id of the issue that is filed in this episode."""
    ending = f".escalation-{1 + notes.splitlines().count(_MARK)}"
    room = limits.ID_LENGTH_MAX - len(ending)
    if len(issue_id) > room:
        digest = hashlib.sha256(issue_id.encode()).hexdigest()[:16]
        issue_id = f"{issue_id[: room - 17]}-{digest}"
    return issue_id + ending


def matched(decision: RetryDecision) -> str:
    """The class that decided, or the first of those that none was known of."""
    return decision.matched_failure_class or decision.failure_classes[0]


def escalation_of(decision: RetryDecision, labels: Sequence[str]) -> str:
    """What to do; of an escalation that fails itself no further issue is made."""
    action = decision.escalation_action
    return "mark_blocked" if action == "issue_discover" and LABEL in labels else action


def shortened(text: str, length_max: int) -> str:
    """The end of a text, in one line: notes are split into lines to find the marks."""
    sound = text.encode(errors="replace").decode()
    return " ".join(sound.split())[-length_max:]
