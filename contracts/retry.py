"""The retry policy: how often, how long between, and what to do at the end.

The policy is data that is bound by its digest. A decision looks at the failure classes in the
order they came; the first that has a rule decides. Counting attempts and waiting is for others.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from . import canonical, limits, regular_file
from .registry import documents

POLICY_KIND = "ci.harness.retry.policy.v1"
ESCALATIONS = ("issue_discover", "mark_blocked", "stop")

POLICY_MISSING = "retry_policy_missing"
POLICY_IO_ERROR = "retry_policy_io_error"
POLICY_INVALID_JSON = "retry_policy_invalid_json"
POLICY_INVALID_SHAPE = "retry_policy_invalid_shape"
POLICY_INVALID_DIGEST = "retry_policy_invalid_digest"

# What a failure that names no class counts as.
CLASS_MISSING = "pipeline_missing_failure_class"
DEFAULT_RULE_ID = "default"
_RULE_MEMBERS = {"maxAttempts", "backoffClass", "escalationAction"}
_POLICY_MEMBERS = {
    "schema", "policyKind", "policyId", "defaultRule", "rules", "backoff", "policyDigest",
}  # fmt: skip


class Rule(Struct, frozen=True):
    """What to do about the failure classes that it names."""

    rule_id: str
    max_attempts: int
    backoff_class: str
    escalation_action: str


class Backoff(Struct, frozen=True):
    """How long to wait: the base grows by the factor up to the cap; jitter takes a part away."""

    base_ms: int
    factor: int
    cap_ms: int
    jitter_permille: int


class RetryPolicy(Struct, frozen=True):
    """A policy whose shape and digest are proven."""

    policy_id: str
    policy_digest: str
    default: Rule
    rules: Mapping[str, Rule]  # by failure class
    backoff: Mapping[str, Backoff]  # by backoff class


class PolicyRefused(Struct, frozen=True):
    """Why a document is no policy."""

    failure_class: str
    message: str


class RetryDecision(Struct, frozen=True):
    """Try again, or escalate. `matched_failure_class` is None where the default rule decided."""

    attempt: int
    retry: bool
    max_attempts: int
    backoff_class: str
    escalation_action: str
    rule_id: str
    matched_failure_class: str | None
    failure_classes: tuple[str, ...]


def retry_decision(
    policy: RetryPolicy, failure_classes: Sequence[str], attempt: int
) -> RetryDecision:
    """Decide after the given attempt, the first of which is 1."""
    classes = tuple(failure_classes) or (CLASS_MISSING,)
    matched = next((name for name in classes if name in policy.rules), None)
    rule = policy.default if matched is None else policy.rules[matched]
    return RetryDecision(
        attempt=attempt,
        retry=attempt < rule.max_attempts,
        max_attempts=rule.max_attempts,
        backoff_class=rule.backoff_class,
        escalation_action=rule.escalation_action,
        rule_id=rule.rule_id,
        matched_failure_class=matched,
        failure_classes=tuple(sorted(set(classes))),
    )


def backoff_ms(
    policy: RetryPolicy, backoff_class: str, attempt: int, unit_random_permille: int
) -> int:
    """How long to wait after the given attempt.

    The caller brings the randomness, 0 to 1000: 0 waits the whole delay, 1000 takes away all that
    the jitter may. A class that the policy does not know is the caller's error.
    """
    assert attempt >= 1
    assert 0 <= unit_random_permille <= 1000
    backoff = policy.backoff[backoff_class]
    delay_ms = min(backoff.base_ms, backoff.cap_ms)
    for _ in range(attempt - 1):
        if delay_ms >= backoff.cap_ms or backoff.factor == 1:
            break
        delay_ms = min(delay_ms * backoff.factor, backoff.cap_ms)
    return delay_ms - delay_ms * backoff.jitter_permille * unit_random_permille // 1_000_000


@cache
def retry_policy() -> RetryPolicy:
    """The published policy. `check.py` proves it; here a broken one is our own mistake."""
    policy = load_policy(documents.ROOT / documents.RETRY_POLICY)
    assert isinstance(policy, RetryPolicy), policy
    return policy


def load_policy(path: Path) -> RetryPolicy | PolicyRefused:
    """Read and prove the policy in a file."""
    try:
        data = regular_file.read(path, limits.REQUEST_BYTES_MAX)
    except FileNotFoundError:
        return PolicyRefused(POLICY_MISSING, f"there is no retry policy at {path.name}")
    except OSError as error:
        return PolicyRefused(POLICY_IO_ERROR, f"the retry policy cannot be read: {error.strerror}")
    return parse_policy(data)


def parse_policy(data: bytes) -> RetryPolicy | PolicyRefused:
    """Prove a policy: JSON, then its shape, then its digest."""
    try:
        document = canonical.decode(data)
    except canonical.NotCanonical as error:
        return PolicyRefused(POLICY_INVALID_JSON, str(error))
    try:
        policy = _policy(document)
    except _ShapeError as error:
        return PolicyRefused(POLICY_INVALID_SHAPE, str(error))
    expected = policy_digest(document)
    if policy.policy_digest != expected:
        message = f"policyDigest is {policy.policy_digest}, the content gives {expected}"
        return PolicyRefused(POLICY_INVALID_DIGEST, message)
    return policy


def adjusted(
    data: bytes, attempts: int | None = None, pause_ms: tuple[int, int] | None = None
) -> RetryPolicy | PolicyRefused:
    """A policy with other numbers, sealed anew: so many attempts, and pauses from the first to the
    second. Both are for classes that are tried again at all; the others stay as they are."""
    policy = parse_policy(data)
    if isinstance(policy, PolicyRefused):
        return policy
    document: dict[str, Any] = canonical.decode(data)
    for rule in (document["defaultRule"], *document["rules"]):
        if attempts is not None and rule["maxAttempts"] > 1:
            rule["maxAttempts"] = attempts
    for backoff in document["backoff"].values():
        if pause_ms is not None and backoff["capMs"] > 0:
            base_ms, cap_ms = pause_ms
            backoff |= {"baseMs": base_ms, "capMs": cap_ms, "factor": max(2, backoff["factor"])}
    return parse_policy(canonical.encode(document | {"policyDigest": policy_digest(document)}))


def policy_digest(document: Mapping[str, Any]) -> str:
    """The digest of a policy: over its canonical form without the digest itself."""
    content = {name: value for name, value in document.items() if name != "policyDigest"}
    return canonical.digest("pol1", canonical.encode(content))


class _ShapeError(Exception):
    pass


def _policy(document: object) -> RetryPolicy:
    members = _members(document, "the policy", _POLICY_MEMBERS)
    if type(members["schema"]) is not int or members["schema"] != 1:
        raise _ShapeError("schema is not 1")
    if members["policyKind"] != POLICY_KIND:
        raise _ShapeError(f"policyKind is not {POLICY_KIND}")
    backoff = _backoffs(members["backoff"])
    default = _members(members["defaultRule"], "defaultRule", _RULE_MEMBERS)
    return RetryPolicy(
        policy_id=_text(members["policyId"], "policyId"),
        policy_digest=_text(members["policyDigest"], "policyDigest"),
        default=_rule(default, DEFAULT_RULE_ID, backoff),
        rules=_rules(members["rules"], backoff),
        backoff=backoff,
    )


def _rules(value: object, backoff: Mapping[str, Backoff]) -> dict[str, Rule]:
    if not isinstance(value, list) or not value:
        raise _ShapeError("rules is not a list of rules")
    table: dict[str, Rule] = {}
    rule_ids = {DEFAULT_RULE_ID}
    for index, item in enumerate(value):
        members = _members(item, f"rules[{index}]", _RULE_MEMBERS | {"ruleId", "failureClasses"})
        rule = _rule(members, _text(members["ruleId"], f"rules[{index}].ruleId"), backoff)
        if rule.rule_id in rule_ids:
            raise _ShapeError(f"the rule {rule.rule_id} is declared twice")
        rule_ids.add(rule.rule_id)
        for name in _classes(members["failureClasses"], rule.rule_id):
            if name in table:
                raise _ShapeError(f"{name} is in {table[name].rule_id} and in {rule.rule_id}")
            table[name] = rule
    return table


def _rule(members: Mapping[str, Any], rule_id: str, backoff: Mapping[str, Backoff]) -> Rule:
    rule = Rule(
        rule_id,
        _integer(members["maxAttempts"], f"{rule_id}.maxAttempts", 1),
        _text(members["backoffClass"], f"{rule_id}.backoffClass"),
        _text(members["escalationAction"], f"{rule_id}.escalationAction"),
    )
    if rule.backoff_class not in backoff:
        raise _ShapeError(f"{rule_id} waits by {rule.backoff_class}, which has no numbers")
    if rule.escalation_action not in ESCALATIONS:
        raise _ShapeError(f"{rule_id} escalates to {rule.escalation_action}, which is no action")
    return rule


def _backoffs(value: object) -> dict[str, Backoff]:
    if not isinstance(value, dict) or not value:
        raise _ShapeError("backoff is not a table")
    table: dict[str, Backoff] = {}
    for name, item in value.items():
        path = f"backoff.{name}"
        members = _members(item, path, {"baseMs", "factor", "capMs", "jitterPermille"})
        backoff = Backoff(
            _integer(members["baseMs"], f"{path}.baseMs", 0),
            _integer(members["factor"], f"{path}.factor", 1),
            _integer(members["capMs"], f"{path}.capMs", 0),
            _integer(members["jitterPermille"], f"{path}.jitterPermille", 0),
        )
        if backoff.jitter_permille > 1000:
            raise _ShapeError(f"{path}.jitterPermille is beyond 1000")
        table[name] = backoff
    return table


def _members(value: object, path: str, names: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _ShapeError(f"{path} is not an object")
    if value.keys() != names:
        odd = ", ".join(sorted(value.keys() ^ names))
        raise _ShapeError(f"{path} has missing or unknown members: {odd}")
    return value


def _classes(value: object, rule_id: str) -> list[str]:
    if not isinstance(value, list) or not value:
        raise _ShapeError(f"{rule_id}.failureClasses is not a list of classes")
    return [_text(item, f"{rule_id}.failureClasses") for item in value]


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _ShapeError(f"{path} is not a text")
    return value


def _integer(value: object, path: str, minimum: int) -> int:
    if type(value) is not int or not minimum <= value <= limits.INTEGER_MAX:
        raise _ShapeError(f"{path} is not an integer of at least {minimum}")
    return value
