"""Witnesses and decisions: whatever a caller makes of them, nothing but the real one counts."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.desk import Desk, records
from tests.fakes.policy import envelope, passed, policy

Document = dict[str, Any]
STRANGERS: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2**53 - 1, "", "a", "../a", "x" * 5_000, [], {}, [None], ["a"],
    {"a": 1}, [{"checkId": "lint"}], [[[]]],
)  # fmt: skip


def spoilt(value: Any) -> Iterator[Any]:
    """A value with one thing in it replaced, dropped or added, everywhere."""
    yield from (other for other in STRANGERS if repr(other) != repr(value))
    if isinstance(value, dict):
        yield {**value, "surprise": 1}
        for name in value:
            yield {key: value[key] for key in value if key != name}
            for new in spoilt(value[name]):
                yield {**value, name: new}
    elif isinstance(value, list) and value:
        yield [*value, value[0]]
        for new in spoilt(value[0]):
            yield [new, *value[1:]]


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.grant("policy.set", "cli", checks=policy(closeRequires="witness"))
    desk.grant("issue.add", id="a", title="t")
    return desk


@pytest.fixture
def held(desk: Desk) -> Document:
    return desk.claim("a", "ann")


@pytest.fixture
def witness(desk: Desk, held: Document) -> Document:
    paths = {"changedPaths": ["a.py", "b.txt"], "results": passed("lint", "tests")}
    found: Document = desk.grant("required.witness", "cli", **paths, **held)["witness"]
    return found


def test_no_witness_but_the_recorded_one_is_decided_over(desk: Desk, witness: Document) -> None:
    before = records(desk.authority.state)
    tried = 0
    for document in spoilt(witness):
        tried += 1
        assert desk.refusal("required.witness_decide", witness=document) is not None, document
    assert tried > 800
    assert records(desk.authority.state) == before
    desk.grant("required.witness_decide", witness=witness)


def test_no_decision_but_the_real_one_is_verified(desk: Desk, witness: Document) -> None:
    decision = desk.grant("required.witness_decide", witness=witness)["decision"]
    desk.grant("required.decision_verify", decision=decision, witness=witness)
    for document in spoilt(decision):
        answer = desk.refusal("required.decision_verify", decision=document, witness=witness)
        assert answer is not None, document


def test_whatever_an_envelope_or_a_policy_is_made_of_it_gets_an_answer(desk: Desk) -> None:
    digest = policy(closeRequires="witness")["policyDigest"]
    for document in spoilt(envelope(policyDigest=digest, capabilityClaims=["c"])):
        desk.ask("instruction.check", instructionId="i", envelope=document)
    for document in spoilt(policy()):
        refusal = desk.refusal("policy.set", "cli", checks=document)
        assert (refusal is None) is (document is None), document
    assert desk.grant("issue.backend_status")["checkPolicy"]["policyDigest"] == digest


def test_a_decision_lasts_as_long_as_its_term(
    desk: Desk, held: Document, witness: Document
) -> None:
    desk.grant("required.witness_decide", witness=witness)
    desk.grant("issue.lease_renew", **held, leaseTtlSeconds=60)
    desk.authority.snapshot()
    desk.restart()
    desk.time.passes(60_001)
    assert desk.refusal("issue.close", **held) == "lease_stale"
    again = desk.claim("a", "ann")
    assert desk.refusal("issue.close", **again) == "issue_close_unattested"
    desk.prove()


def test_an_issue_that_is_opened_again_is_proved_again(
    desk: Desk, held: Document, witness: Document
) -> None:
    desk.grant("required.witness_decide", witness=witness)
    desk.grant("issue.close", **held)
    desk.grant("issue.update", id="a", status="open")
    assert desk.refusal("issue.close", id="a") == "issue_close_unattested"
    assert desk.refusal("required.witness_decide", witness=witness) == "required_witness_term_ended"
    desk.prove()


def test_a_sublease_closes_with_the_decision_of_its_lease(
    desk: Desk, held: Document, witness: Document
) -> None:
    desk.grant("required.witness_decide", witness=witness)
    scope = {"holder": "sub", "capabilityScope": ["issue.close"], "newSubleaseId": "s"}
    desk.grant("sublease.grant", **held, **scope)
    desk.grant("issue.close", **(held | {"assignee": "sub", "subleaseId": "s"}))
    desk.prove()
