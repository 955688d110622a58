"""The retry policy: proven before use, decided by the first class that has a rule."""

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.together import together
from understudy.contracts import documents
from understudy.contracts.reason import FAILURES, Failure, Retry
from understudy.contracts.retry import (
    Backoff,
    PolicyRefused,
    RetryPolicy,
    adjusted,
    backoff_ms,
    load_policy,
    parse_policy,
    policy_digest,
    retry_decision,
    retry_policy,
)


def published() -> dict[str, Any]:
    return dict(documents.load(documents.RETRY_POLICY))


def sealed(document: dict[str, Any]) -> bytes:
    document["policyDigest"] = policy_digest(document)
    return orjson.dumps(document)


def refused(data: bytes) -> str:
    policy = parse_policy(data)
    assert isinstance(policy, PolicyRefused)
    assert policy.message
    return policy.failure_class


# --- proof ---------------------------------------------------------------------------------------


def test_the_published_policy_is_proven_and_bound_by_the_contract() -> None:
    contract = documents.load(documents.CONTRACT)
    assert retry_policy().policy_digest == contract["harnessRetry"]["policyDigest"]
    assert retry_policy() is retry_policy()


def test_the_order_of_members_does_not_change_the_digest() -> None:
    document = dict(reversed(published().items()))
    assert isinstance(parse_policy(orjson.dumps(document)), RetryPolicy)


def test_other_numbers_make_another_policy_that_is_sealed() -> None:
    data = sealed(published())
    policy = adjusted(data, attempts=7, pause_ms=(5_000, 300_000))
    assert isinstance(policy, RetryPolicy)
    assert policy.policy_digest != retry_policy().policy_digest
    assert policy.rules["job_failed"].max_attempts == 7
    assert policy.rules["check_failed"] == retry_policy().rules["check_failed"], "never tried again"
    pauses = [backoff_ms(policy, "exponential_long", attempt, 0) for attempt in (1, 2, 20)]
    assert pauses[0] == 5_000 < pauses[1]
    assert pauses[2] == 300_000
    assert backoff_ms(policy, "none", 1, 0) == 0
    assert adjusted(data) == retry_policy()
    assert isinstance(adjusted(b"{}"), PolicyRefused)


def test_a_missing_file_is_told_from_an_unreadable_one(tmp_path: Path) -> None:
    missing = load_policy(tmp_path / "policy.json")
    assert isinstance(missing, PolicyRefused)
    assert missing.failure_class == "retry_policy_missing"
    unreadable = load_policy(tmp_path)
    assert isinstance(unreadable, PolicyRefused)
    assert unreadable.failure_class == "retry_policy_io_error"
    assert str(tmp_path) not in missing.message + unreadable.message


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b"{} {}", b'{"a":NaN}', b'{"schema":1,"schema":1}', b'{"schema":1.5}'],
)
def test_bytes_that_are_not_canonical_json_are_refused(data: bytes) -> None:
    assert refused(data) == "retry_policy_invalid_json"


@together(
    ("path", "value"),
    [
        (["schema"], 2), (["schema"], True), (["schema"], "1"),
        (["policyKind"], "ci.harness.retry.policy.v2"), (["policyId"], ""), (["policyId"], 7),
        (["policyDigest"], None), (["defaultRule"], []), (["defaultRule", "maxAttempts"], 0),
        (["defaultRule", "maxAttempts"], True), (["defaultRule", "maxAttempts"], "1"),
        (["defaultRule", "backoffClass"], "never"), (["defaultRule", "escalationAction"], "pray"),
        (["defaultRule", "ruleId"], "x"), (["rules"], []), (["rules"], {}), (["rules", 0], None),
        (["rules", 0, "ruleId"], " "), (["rules", 0, "ruleId"], "operational_retry"),
        (["rules", 0, "ruleId"], "default"), (["rules", 0, "failureClasses"], []),
        (["rules", 0, "failureClasses"], "flaky_io"), (["rules", 0, "failureClasses"], [""]),
        (["rules", 0, "failureClasses"], [7]), (["rules", 0, "failureClasses"], ["a_b", "a_b"]),
        (["rules", 0, "failureClasses"], ["check_failed"]), (["rules", 0, "maxAttempts"], 0),
        (["rules", 0, "maxAttempts"], -1), (["rules", 0, "backoffClass"], "none_such"),
        (["rules", 0, "escalationAction"], ""), (["rules", 0, "surprise"], 1), (["surprise"], 1),
        (["backoff"], {}), (["backoff"], []), (["backoff", "none"], 0),
        (["backoff", "none", "baseMs"], -1), (["backoff", "none", "factor"], 0),
        (["backoff", "none", "capMs"], "0"), (["backoff", "none", "jitterPermille"], 1001),
        (["backoff", "none", "surprise"], 1),
    ],
)  # fmt: skip
def test_a_policy_of_the_wrong_shape_is_refused(path: list[Any], value: object) -> None:
    document = published()
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    if path != ["policyDigest"]:
        document["policyDigest"] = policy_digest(document)
    assert refused(orjson.dumps(document)) == "retry_policy_invalid_shape"


@pytest.mark.parametrize("document", [None, [], 7, "policy", {}])
def test_a_document_that_is_no_policy_is_refused(document: object) -> None:
    assert refused(orjson.dumps(document)) == "retry_policy_invalid_shape"


@pytest.mark.parametrize("member", sorted(published()))
def test_a_policy_without_one_of_its_members_is_refused(member: str) -> None:
    document = published()
    del document[member]
    assert refused(orjson.dumps(document)) == "retry_policy_invalid_shape"


def test_one_more_attempt_than_was_sealed_is_refused() -> None:
    document = published()
    document["rules"][0]["maxAttempts"] += 1
    assert refused(orjson.dumps(document)) == "retry_policy_invalid_digest"
    assert isinstance(parse_policy(sealed(document)), RetryPolicy)


def test_a_digest_of_something_else_is_refused() -> None:
    document = published()
    document["policyDigest"] = "pol1_" + "0" * 64
    assert refused(orjson.dumps(document)) == "retry_policy_invalid_digest"


# --- decisions -----------------------------------------------------------------------------------


@together(
    ("classes", "attempt", "retry", "rule", "action"),
    [
        (["gate_timeout"], 1, True, "transient_retry", "issue_discover"),
        (["gate_timeout"], 2, True, "transient_retry", "issue_discover"),
        (["gate_timeout"], 3, False, "transient_retry", "issue_discover"),
        (["pipeline_missing_witness"], 1, True, "operational_retry", "issue_discover"),
        (["pipeline_missing_witness"], 2, False, "operational_retry", "issue_discover"),
        (["check_failed"], 1, False, "semantic_no_retry", "mark_blocked"),
        (["governance.eval_gate_unmet"], 1, False, "governance_no_retry", "mark_blocked"),
        (["lease_contention_active"], 1, True, "lease_wait", "stop"),
        (["lease_contention_active"], 5, False, "lease_wait", "stop"),
        (["lease_mutation_lock_busy"], 1, True, "lease_store_retry", "issue_discover"),
        (["lease_fence_stale"], 1, False, "lease_lost_stop", "stop"),
        (["lease_stale"], 1, False, "lease_lost_stop", "stop"),
        (["lease_owner_mismatch"], 1, False, "lease_request_no_retry", "mark_blocked"),
        (["authority_busy"], 5, True, "authority_retry", "issue_discover"),
        (["authority_busy"], 6, False, "authority_retry", "issue_discover"),
        (["clock_drift_exceeded"], 1, True, "clock_retry", "issue_discover"),
        (["transport_unreachable"], 1, True, "transport_retry", "issue_discover"),
        (["transport_invalid_request"], 1, False, "transport_no_retry", "mark_blocked"),
        (["fiber_missing_field"], 1, False, "fiber_no_retry", "mark_blocked"),
        (["fiber_orphaned"], 1, False, "fiber_lost_stop", "stop"),
        (["fiber_scope_open"], 4, True, "fiber_wait", "issue_discover"),
        (["fiber_scope_full"], 5, False, "fiber_wait", "issue_discover"),
        (["job_failed"], 2, True, "job_retry", "issue_discover"),
        (["job_completed"], 1, False, "lease_lost_stop", "stop"),
        (["never_heard_of"], 1, False, "default", "stop"),
        ([], 1, True, "operational_retry", "issue_discover"),
    ],
)
def test_a_failure_is_decided_by_its_rule(
    classes: list[str], attempt: int, retry: bool, rule: str, action: str
) -> None:
    decision = retry_decision(retry_policy(), classes, attempt)
    assert (decision.retry, decision.rule_id, decision.escalation_action) == (retry, rule, action)
    assert decision.attempt == attempt


def test_the_first_class_that_has_a_rule_decides() -> None:
    classes = ["never_heard_of", "check_failed", "gate_timeout", "check_failed"]
    decision = retry_decision(retry_policy(), classes, 1)
    assert decision.rule_id == "semantic_no_retry"
    assert decision.matched_failure_class == "check_failed"
    assert decision.failure_classes == ("check_failed", "gate_timeout", "never_heard_of")
    assert retry_decision(retry_policy(), classes[::-1][1:], 1).rule_id == "transient_retry"


def test_a_failure_without_a_class_counts_as_one_that_forgot_it() -> None:
    decision = retry_decision(retry_policy(), [], 2)
    assert decision.matched_failure_class == "pipeline_missing_failure_class"
    assert decision.failure_classes == ("pipeline_missing_failure_class",)


def test_the_default_rule_matches_no_class() -> None:
    decision = retry_decision(retry_policy(), ["never_heard_of"], 1)
    assert decision.matched_failure_class is None
    assert decision.max_attempts == 1


@together("failure", FAILURES.values(), ids=lambda failure: failure.wire)
def test_the_policy_agrees_with_the_table_of_failures(failure: Failure) -> None:
    decision = retry_decision(retry_policy(), [failure.wire], 1)
    assert decision.retry == (failure.retry is Retry.LATER)


@together("failure", FAILURES.values(), ids=lambda failure: failure.wire)
def test_every_class_that_a_request_can_meet_has_a_rule_of_its_own(failure: Failure) -> None:
    prefixes = (
        "lease_", "transport_", "clock_", "authority_", "journal_", "fiber_", "job_", "spec_",
    )  # fmt: skip
    if failure.wire.startswith(prefixes):
        assert failure.wire in retry_policy().rules


# --- waiting -------------------------------------------------------------------------------------


@together(
    ("backoff_class", "attempt", "random", "expected"),
    [
        ("none", 1, 0, 0), ("none", 9, 1000, 0),
        ("fixed_short", 1, 0, 1000), ("fixed_short", 50, 0, 1000),
        ("fixed_short", 1, 500, 900), ("fixed_short", 1, 1000, 800),
        ("exponential_short", 1, 0, 250), ("exponential_short", 2, 0, 500),
        ("exponential_short", 6, 0, 8000), ("exponential_short", 7, 0, 8000),
        ("exponential_short", 1, 1000, 125), ("exponential_short", 3, 500, 750),
        ("exponential_long", 1, 0, 2000), ("exponential_long", 6, 0, 64000),
        ("exponential_long", 7, 0, 120000), ("exponential_long", 10**9, 1000, 60000),
    ],
)  # fmt: skip
def test_the_wait_grows_by_the_factor_up_to_the_cap(
    backoff_class: str, attempt: int, random: int, expected: int
) -> None:
    assert backoff_ms(retry_policy(), backoff_class, attempt, random) == expected


@given(
    st.builds(
        Backoff,
        st.integers(0, 10**6),
        st.integers(1, 10),
        st.integers(0, 10**7),
        st.integers(0, 1000),
    ),
    st.integers(1, 10**6),
    st.integers(0, 1000),
)
def test_a_wait_is_an_integer_between_the_jittered_and_the_whole_delay(
    backoff: Backoff, attempt: int, random: int
) -> None:
    policy = RetryPolicy("id", "digest", retry_policy().default, {}, {"x": backoff})
    wait_ms = backoff_ms(policy, "x", attempt, random)
    whole_ms = min(backoff.base_ms * backoff.factor ** min(attempt - 1, 64), backoff.cap_ms)
    assert type(wait_ms) is int
    assert whole_ms * (1000 - backoff.jitter_permille) // 1000 <= wait_ms <= whole_ms


def test_an_unknown_backoff_class_is_the_callers_error() -> None:
    with pytest.raises(KeyError):
        backoff_ms(retry_policy(), "tomorrow", 1, 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
        ),
    )
)
def test_any_value_in_the_place_of_a_rule_gives_a_verdict(value: object) -> None:
    for member in ("rules", "backoff", "defaultRule"):
        document = copy.deepcopy(published())
        document[member] = value
        try:
            data = orjson.dumps(document)
        except TypeError:  # an integer that JSON readers cannot hold
            return
        assert refused(data) in {"retry_policy_invalid_shape", "retry_policy_invalid_json"}
