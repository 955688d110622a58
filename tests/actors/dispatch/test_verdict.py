"""Policy decisions as a coordinator makes them: what an end means, and what is written about it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.together import together
from understudy.actors.dispatch import escalation
from understudy.actors.dispatch.assignment import Assignment, EndStep, Why
from understudy.actors.dispatch.escalation import FailedAttempt
from understudy.actors.dispatch.orders import WorkerExited
from understudy.actors.dispatch.verdict import effect_of, failed, judge, lost
from understudy.actors.leasing.holding import Timing
from understudy.actors.leasing.work_kind import HeldLease
from understudy.contracts import limits, retry_decision, retry_policy
from understudy.contracts.requests.shapes import ID_PATTERN

POLICY = retry_policy()
NO_COMMAND, NO_WITNESS = "executor_unavailable", "pipeline_missing_witness"
RELEASE, CLOSE = (EndStep.RELEASE,), (EndStep.CLOSE,)
FILE = (EndStep.READ, EndStep.FILE, EndStep.BLOCK)
BLOCK = (EndStep.READ, EndStep.BLOCK)
STOP = (EndStep.READ, EndStep.NOTE, EndStep.RELEASE, EndStep.STOP)


def ended(
    code: int | None = None,
    signal: int | None = None,
    *classes: str,
    was_stopped: bool = False,
) -> WorkerExited:
    return WorkerExited("w", code, signal, classes, "the end of its output", was_stopped)


Row = tuple[Why | None, WorkerExited, int, tuple[EndStep, ...], str | None, str | None]
TABLE: list[Row] = [
    # why it was stopped, its end, attempt -> steps, rests by, rule
    (None, ended(0), 1, CLOSE, None, None),
    (None, ended(0), 99, CLOSE, None, None),
    (None, ended(75), 1, RELEASE, "exponential_long", None),
    (None, ended(75), 99, RELEASE, "exponential_long", None),
    (None, ended(1), 1, RELEASE, "exponential_long", "job_retry"),
    (None, ended(1), 2, RELEASE, "exponential_long", "job_retry"),
    (None, ended(1), 3, FILE, None, "job_retry"),
    (None, ended(255), 4, FILE, None, "job_retry"),
    (None, ended(None, 9), 2, RELEASE, "exponential_long", "job_retry"),
    (None, ended(None, 11), 3, FILE, None, "job_retry"),
    (None, ended(), 3, FILE, None, "job_retry"),
    (None, ended(None, None, NO_COMMAND), 1, RELEASE, "exponential_short", "transient_retry"),
    (None, ended(None, None, NO_COMMAND), 3, FILE, None, "transient_retry"),
    (None, ended(1, None, NO_WITNESS), 1, RELEASE, "fixed_short", "operational_retry"),
    (None, ended(1, None, NO_WITNESS), 2, FILE, None, "operational_retry"),
    (None, ended(1, None, "check_failed"), 1, BLOCK, None, "semantic_no_retry"),
    (None, ended(1, None, "unheard_of", "check_failed"), 1, BLOCK, None, "semantic_no_retry"),
    (None, ended(1, None, "unheard_of"), 1, RELEASE, "exponential_long", "job_retry"),
    (None, ended(1, None, "contract_drift"), 1, STOP, None, "authority_stop"),
    (None, ended(0, None, "check_failed"), 1, CLOSE, None, None),
    (None, ended(0, was_stopped=True), 1, RELEASE, None, None),
    (Why.TIMEOUT, ended(0, was_stopped=True), 1, RELEASE, "exponential_long", "job_retry"),
    (Why.TIMEOUT, ended(None, 15, was_stopped=True), 3, FILE, None, "job_retry"),
    (Why.UNCONFIRMED, ended(0), 9, RELEASE, None, None),
    (Why.LEAVING, ended(1), 9, RELEASE, None, None),
    (Why.LOST, ended(0), 1, (), None, None),
    (Why.LOST, ended(1), 9, (), None, None),
]  # fmt: skip


@together("row", TABLE)
def test_an_end_has_one_meaning(row: Row) -> None:
    why, event, attempt, steps, rests, rule = row
    verdict = judge(why, event, attempt, (), POLICY)
    assert (verdict.steps, verdict.rests) == (steps, rests)
    found = None if verdict.failure is None else verdict.failure.decision.rule_id
    assert found == rule


@pytest.mark.parametrize(
    ("why", "event", "excused", "expected"),
    [
        (Why.LEAVING, ended(1), 0, True),
        (Why.LEAVING, ended(1), limits.HAND_BACKS_MAX, True),
        (Why.UNCONFIRMED, ended(1), 0, False),
        (None, ended(0, was_stopped=True), 0, False),
        (None, ended(75), limits.HAND_BACKS_MAX - 1, True),
        (None, ended(75), limits.HAND_BACKS_MAX, False),
        (None, ended(1), 0, False),
        (None, ended(0), 0, False),
    ],
)
def test_only_an_orderly_end_is_excused(
    why: Why | None, event: WorkerExited, excused: int, *, expected: bool
) -> None:
    verdict = judge(why, event, 1, (), POLICY, excused=excused)
    assert verdict.handed_back is expected
    assert (verdict.failure is not None) == (event.code in (1, 75) and why is None and not expected)


ENDS = st.builds(
    WorkerExited,
    st.just("w"),
    st.none() | st.integers(0, 255),
    st.none() | st.integers(1, 64),
    st.lists(st.text(max_size=12) | st.sampled_from(sorted(POLICY.rules)), max_size=4).map(tuple),
    st.text(max_size=8),
    st.booleans(),
)


@given(st.sampled_from([None, *Why]), ENDS, st.integers(1, 50))
def test_every_end_has_a_meaning_and_no_last_attempt_is_tried_again(
    why: Why | None, event: WorkerExited, attempt: int
) -> None:
    verdict = judge(why, event, attempt, (), POLICY)
    is_success = why is None and event.code == 0 and not event.was_stopped
    assert (EndStep.CLOSE in verdict.steps) == is_success
    assert (verdict.steps == ()) == (why is Why.LOST)
    if verdict.failure is not None:
        retries = attempt < verdict.failure.decision.max_attempts
        assert (verdict.steps == RELEASE) == retries
        assert (verdict.rests is not None) == retries
    if verdict.rests is not None:
        assert verdict.rests in POLICY.backoff


def failure(attempt: int = 3, detail: str = "signal 9") -> FailedAttempt:
    return lost("tree/r1/7", detail, attempt, POLICY)


def test_the_note_binds_the_policy_and_says_what_was_tried() -> None:
    lines = escalation.note("a", failure(), POLICY).splitlines()
    assert lines[0] == "[harness-escalation]"
    members = dict(line.split(": ", 1) for line in lines[1:])
    assert members == {
        "scope": "issue/a",
        "action": "issue_discover",
        "policyId": POLICY.policy_id,
        "policyDigest": POLICY.policy_digest,
        "ruleId": "job_retry",
        "matchedFailureClass": "job_worker_lost",
        "attempt": "3",
        "failureClasses": "job_worker_lost",
        "witnessRef": "worker://loop/tree/r1/7/a/failed",
        "detail": "signal 9",
    }


def test_what_a_worker_printed_is_cut_and_cannot_forge_a_note() -> None:
    forged = "x" * 9_000 + "\n[harness-escalation]\naction: stop\ud800"
    note = escalation.note("a", failure(detail=forged), POLICY)
    assert note.splitlines().count("[harness-escalation]") == 1
    assert len(note) < 3_000
    note.encode()


def test_an_episode_has_one_number_until_its_note_is_written() -> None:
    assert escalation.filed_id("a", "") == escalation.filed_id("a", "by ann") == "a.escalation-1"
    notes = escalation.noted("by ann\n", escalation.note("a", failure(), POLICY))
    assert notes is not None
    assert notes.startswith("by ann\n\n[harness-escalation]\n")
    assert escalation.filed_id("a", notes) == "a.escalation-2"


@pytest.mark.parametrize("length", [1, 113, 114, limits.ID_LENGTH_MAX])
def test_what_is_filed_has_an_id_however_long_the_issue_s_is(length: int) -> None:
    first, second = "i" * length, "i" * (length - 1) + "j"
    for notes in ("", "[harness-escalation]\n" * 200):
        found = escalation.filed_id(first, notes)
        assert re.match(ID_PATTERN, found)
        assert found != escalation.filed_id(second, notes)


def test_notes_that_people_wrote_are_not_cut_to_make_room() -> None:
    note = escalation.note("a", failure(), POLICY)
    assert escalation.noted("n" * limits.TEXT_LENGTH_MAX, note) is None
    lease = HeldLease("a", "w", "l", 1)
    term = Assignment(lease, Timing(60_000), 0, 0, 3, 0, 0, failure=failure())
    term.notes = "n" * limits.TEXT_LENGTH_MAX
    amend = effect_of(EndStep.BLOCK, term, "token", POLICY)
    assert (amend.status, amend.notes) == ("blocked", None)


def test_names_that_are_no_classes_are_left_out() -> None:
    said = ("flaky_io", "Flaky", "", "a b", "x" * 129, "flaky_io", "governance.eval_gate_unmet")
    assert escalation.sound_classes(said) == ("flaky_io", "governance.eval_gate_unmet")
    assert len(escalation.sound_classes(f"c{number}" for number in range(99))) == 16


def test_an_escalation_that_fails_is_blocked() -> None:
    assert failed(failure(), ("escalation",)).steps == BLOCK
    decision = retry_decision(POLICY, ("contract_drift",), 1)
    assert failed(FailedAttempt("w", decision, ""), ("escalation",)).steps == STOP
