"""Every vector holds, every failure class has one, and the runner notices what is wrong."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.shelves import TIMES, VECTORS, broken, by_shelf
from tests.together import together
from understudy.authority.conformance import vectors
from understudy.authority.conformance.faults import RESTING, RUNNING
from understudy.authority.conformance.scene import UnknownBoundary
from understudy.authority.conformance.vectors import (
    Result,
    Vector,
    failure_classes,
    load_vectors,
    run_vector,
)
from understudy.contracts import limits
from understudy.contracts.reason import Reason
from understudy.contracts.registry.check import validator
from understudy.contracts.requests.shapes import SHAPES

VERDICTS = ("check", "evidence", "import", "retry", "fault")


def written(folder: Path, body: dict[str, Any]) -> Vector:
    """A vector of our own, as a file below a folder."""
    path = folder / body["suite"] / "golden" / f"{body['name']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(vectors.text(body), "utf-8")
    (vector,) = load_vectors(folder)
    return vector


def copied(folder: Path, vector_id: str, **members: object) -> Vector:
    """A published vector with some members changed."""
    (vector,) = [each for each in VECTORS if each.id == vector_id]
    return written(folder, {**vector.body, **members})


@by_shelf(VECTORS)
def test_vectors_hold(shelf: list[Vector], request: pytest.FixtureRequest) -> None:
    answer_schema = validator("response")
    refreshes = request.config.getoption("--rewrite-vectors")

    def judge(vector: Vector) -> Result:
        result = vectors.rewrite(vector) if refreshes else run_vector(vector, times=TIMES)
        answers = [orjson.loads(data) for data in result.answers]
        errors = [error.message for each in answers for error in answer_schema.iter_errors(each)]
        return replace(result, problems=(*result.problems, *errors))

    assert broken(shelf, judge) == {}


@together("vector", VECTORS, ids=lambda vector: vector.id)
def test_a_vector_is_written_as_vectors_are(vector: Vector) -> None:
    errors = [
        f"{error.json_path}: {error.message}"
        for error in validator("vector").iter_errors(vector.body)
    ]
    assert errors == []
    assert (vector.suite, vector.name) == (vector.body["suite"], vector.body["name"])
    assert vector.shelf in vectors.SHELVES
    assert vector.path.read_text("utf-8") == vectors.text(vector.body)
    assert all(hasattr(limits, name) for name in vector.body.get("limits", {}))


def test_there_are_vectors_of_every_kind_on_every_shelf() -> None:
    assert len(VECTORS) >= 150
    assert {vector.shelf for vector in VECTORS} == {*vectors.SHELVES}
    assert {vector.body["kind"] for vector in VECTORS} == {"dispatch", *VERDICTS}


def test_no_two_vectors_share_a_name_or_a_reason_to_exist() -> None:
    for counts in (
        Counter((vector.suite, vector.name) for vector in VECTORS),
        Counter((vector.suite, vector.body["why"]) for vector in VECTORS),
    ):
        assert [each for each, count in counts.items() if count > 1] == []


def test_every_failure_class_has_a_vector() -> None:
    shown = set().union(*map(failure_classes, VECTORS))
    assert {reason.wire for reason in Reason} - shown == set()


def test_every_action_is_granted_and_refused_by_a_vector() -> None:
    granted, refused = (
        {action for vector in VECTORS for action in actions(vector, result)}
        for result in ("accepted", "rejected")
    )
    harmless = {"dep.diagnostics", "issue.backend_status", "issue.blocked", "issue.check"}
    assert SHAPES.keys() - granted == set()
    assert SHAPES.keys() - refused == harmless


def actions(vector: Vector, result: str) -> Iterator[str]:
    """What is asked for and must end like this; that it does, `test_vectors_hold` shows."""
    if vector.body["kind"] != "dispatch":
        return
    for scene in vector.body.get("variants", [vector.body]):
        asked = [each for each in scene["requests"] if each.get("compared", "restart" not in each)]
        for item, expected in zip(asked, vector.body["expect"], strict=True):
            action = item.get("request", item).get("action")
            if expected["result"] == result and isinstance(action, str):
                yield action


def test_every_fault_has_a_vector() -> None:
    inflicted = {vector.body["fault"] for vector in VECTORS if vector.body["kind"] == "fault"}
    assert inflicted == RESTING.keys() | RUNNING.keys()


# --- the runner itself --------------------------------------------------------------------------


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    vector = copied(tmp_path, "fence/adversarial/guard_06_fence_of_an_earlier_term")
    vector.body["expect"][-1]["failureClasses"] = ["lease_stale"]
    (problem,) = run_vector(vector).problems
    assert "lease_fence_stale" in problem
    assert not run_vector(vector).ok


@pytest.mark.parametrize("kind", VERDICTS)
def test_a_wrong_verdict_is_noticed(kind: str, tmp_path: Path) -> None:
    vector = next(each for each in VECTORS if each.body["kind"] == kind)
    wrong = {**vector.body["expect"], "failureClasses": ["something_else"]}
    assert run_vector(written(tmp_path, {**vector.body, "expect": wrong})).problems


@pytest.mark.parametrize("member", vectors.WRITTEN)
def test_a_wrong_digest_is_noticed(member: str, tmp_path: Path) -> None:
    digest = "0" * 64 if member == "sha256" else "row1_" + "0" * 64
    result = run_vector(copied(tmp_path, "lease/golden/claim_grants_the_issue", **{member: digest}))
    assert result.problems == ()
    (stale,) = result.stale
    assert stale.startswith(f"{member}: ")


def test_a_missing_answer_is_noticed(tmp_path: Path) -> None:
    vector = copied(tmp_path, "lease/golden/claim_grants_the_issue", requests=[])
    assert run_vector(vector).problems == ("2 answers are expected, 0 came",)


def test_variants_that_differ_are_noticed(tmp_path: Path) -> None:
    vector = copied(tmp_path, "hostile/invariance/the_order_of_keys")
    raw = vector.body["variants"][1]["requests"][0]
    raw["raw"] = raw["raw"].replace('"priority":1', '"priority":2')
    assert any("is not that of variant 1" in each for each in run_vector(vector).problems)


def test_variants_of_a_decision_that_differ_are_noticed(tmp_path: Path) -> None:
    vector = copied(tmp_path, "retry/invariance/however_an_attempt_ended")
    vector.body["variants"][1]["rounds"][0]["seen"] = ["check_failed"]
    assert run_vector(vector).problems == ("variant 2: the verdict is not that of variant 1",)


def test_attempts_behind_the_last_one_are_noticed(tmp_path: Path) -> None:
    attempts = [{"seen": ["check_failed"]}, {"seen": ["check_failed"]}]
    vector = copied(tmp_path, "retry/golden/three_attempts_and_then_an_issue", attempts=attempts)
    assert run_vector(vector).problems == ("ValueError: it goes on after a decision to escalate",)


def test_a_vector_that_raises_is_a_failure_and_no_traceback(tmp_path: Path) -> None:
    result = run_vector(copied(tmp_path, "lease/golden/claim_grants_the_issue", kind="magic"))
    assert result.problems == ("ValueError: there is no kind of vector `magic`",)


def test_lowered_limits_are_back_afterwards() -> None:
    before = limits.ISSUES_MAX
    (vector,) = [each for each in VECTORS if each.body.get("limits", {}).get("ISSUES_MAX")]
    assert run_vector(vector).ok
    assert before == limits.ISSUES_MAX


def test_an_unknown_boundary_is_an_error() -> None:
    with pytest.raises(UnknownBoundary, match=r"there is .*reference"):
        run_vector(VECTORS[0], "telepathy")


def test_rewrite_fills_in_digests_and_nothing_else(tmp_path: Path) -> None:
    published = copied(tmp_path, "lease/golden/claim_grants_the_issue")
    bare = {name: value for name, value in published.body.items() if name not in vectors.WRITTEN}
    vector = written(tmp_path, bare)
    assert not run_vector(vector).ok
    assert vectors.rewrite(vector).ok
    assert json.loads(vector.path.read_text("utf-8")) == published.body


def test_rewrite_leaves_a_vector_alone_whose_expectations_do_not_hold(tmp_path: Path) -> None:
    vector = copied(tmp_path, "lease/golden/claim_grants_the_issue", sha256="0" * 64)
    vector.body["expect"][0]["result"] = "rejected"
    before = vector.path.read_text("utf-8")
    assert vectors.rewrite(vector).problems
    assert vector.path.read_text("utf-8") == before
