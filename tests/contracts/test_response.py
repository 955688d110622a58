"""What really leaves the authority, held against the schemas that are published for it.

A long day at one authority: every action is granted and refused, garbage comes in between, and each
answer, effect, journal row, trajectory line and exported record is shown to its schema.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.contracts.day import descent, doors, issues, jobs
from tests.contracts.day.day import Day, Document
from understudy.authority.journal.journal import Row
from understudy.authority.views.issues_file import export_issues
from understudy.contracts.reason import Reason
from understudy.contracts.registry.check import document_findings, validator
from understudy.contracts.requests.shapes import SHAPES

# --- the day ------------------------------------------------------------------------------------


def live(day: Day, patch: pytest.MonkeyPatch) -> None:
    """Everything that can be asked, at least once with success and once without."""
    issues.imports(day)
    issues.work(day)
    issues.dependencies(day)
    issues.leases(day)
    issues.handed_over(day)
    issues.harness(day)
    issues.lent(day, patch)
    issues.fibers(day, patch)
    doors.checks(day)
    jobs.specs(day)  # before nodes are registered
    jobs.jobs(day)
    doors.steered(day)
    jobs.spending(day)
    descent.glued(day, patch)
    descent.obstructed(day)
    descent.full(day, patch)
    doors.reads(day)
    doors.doors(day)
    doors.garbage(day)
    doors.policies(day)
    doors.full(day, patch)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    day = Day(tmp_path_factory.mktemp("day"))
    with pytest.MonkeyPatch.context() as patch:
        live(day, patch)
    yield day
    day.close()


# --- and what came out of it --------------------------------------------------------------------


def test_the_day_was_full(day: Day) -> None:
    seen = {(answer["action"], answer["result"]) for answer in day.answers}
    assert {(action, result) for action in SHAPES for result in ("accepted", "rejected")} <= seen
    classes = {name for answer in day.answers for name in answer["failureClasses"]}
    asked_for = {reason.wire for reason in Reason if reason < Reason.IMPORT_LINE_INVALID}
    assert asked_for - classes == set()
    assert len(day.answers) > 300
    assert len(day.rows()) > 100


def test_every_answer_is_a_response(day: Day) -> None:
    for answer in day.answers:
        assert document_findings("response", answer, answer["action"]) == []


def test_every_effect_is_a_host_effect(day: Day) -> None:
    effects = [answer["effect"] for answer in day.answers if "effect" in answer]
    assert len(effects) > 200
    for effect in effects:
        assert document_findings("host-effect", effect, effect["action"]) == []


def row_document(row: Row) -> Document:
    """A row of the journal as JSON: what the columns hold, under the names of the schema."""
    return {
        "seq": row.seq,
        "epoch": row.epoch,
        "stamp": {"wallMs": row.wall_ms, "counter": row.counter, "node": row.node},
        "request": orjson.loads(row.request),
        "response": orjson.loads(row.response),
        "changes": orjson.loads(row.changes),
        "digest": row.digest,
        "stateDigest": row.state_digest,
    }


def test_every_row_is_a_journal_row(day: Day) -> None:
    for row in day.rows():
        document = row_document(row)
        assert document_findings("journal-row", document, f"row {row.seq}") == []
        assert document_findings("response", document["response"], f"row {row.seq}") == []
        assert all("change" in change for change in document["changes"])


def test_every_journaled_request_is_a_request(day: Day) -> None:
    for row in day.rows():
        request = orjson.loads(row.request)
        del request["door"], request["policy"]
        assert document_findings("request", request, f"row {row.seq}") == []


def test_a_refusal_is_remembered_and_changes_nothing_else(day: Day) -> None:
    kept = [
        document["changes"]
        for document in map(row_document, day.rows())
        if document["response"]["result"] == "rejected"
    ]
    assert {len(changes) for changes in kept} == {0, 1}
    changes = {change["change"] for changes in kept for change in changes}
    assert changes == {"answered", "job.quarantined"}, "and a result that came too late is kept"


def test_every_line_of_the_trajectory_is_a_trajectory_row(day: Day) -> None:
    lines = day.trajectory.path.read_bytes().splitlines()
    assert len(lines) == len(day.rows())
    for number, line in enumerate(lines, start=1):
        assert document_findings("trajectory-row", orjson.loads(line), f"line {number}") == []


def test_every_exported_line_is_an_issue_record(day: Day) -> None:
    lines = export_issues(day.authority.state).splitlines()
    records = [orjson.loads(line) for line in lines if not line.startswith(b"#")]
    assert len(records) == len(day.authority.state.issues) > 20
    assert any("lease" in record for record in records)
    for record in records:
        assert document_findings("issue-record", record, record["id"]) == []


# --- the schemas are not generous ---------------------------------------------------------------


def widened(value: object, path: str = "$") -> Iterator[tuple[str, Any]]:
    """A value with one unknown member in one of its objects, for each of them."""
    if isinstance(value, dict):
        yield path, {**value, "surprise": 1}
        kept = {"metadata", "payload", "inputs"}  # without a look at it
        for name in value.keys() - kept:
            for where, new in widened(value[name], f"{path}.{name}"):
                yield where, {**value, name: new}
    elif isinstance(value, list) and value:
        for where, new in widened(value[0], f"{path}[0]"):
            yield where, [new, *value[1:]]


def test_no_object_of_an_answer_takes_an_unknown_member(day: Day) -> None:
    judge, seen = validator("response"), set[tuple[str, str]]()
    for answer in day.answers:
        for path, document in widened(answer):
            if (answer["action"], path) in seen:
                continue
            seen.add((answer["action"], path))
            assert not judge.is_valid(document), path
    assert len(seen) > 100


@pytest.mark.parametrize("member", ["issue", "issues", "leaseProjection", "items", "sublease"])
def test_a_refusal_has_no_body(day: Day, member: str) -> None:
    body = next(answer[member] for answer in day.answers if member in answer)
    refusal = next(answer for answer in day.answers if answer["result"] == "rejected")
    assert document_findings("response", {**refusal, member: body})


def test_only_what_never_became_a_request_has_no_evidence(day: Day) -> None:
    for answer in day.answers:
        if answer["result"] == "accepted":
            bare = {key: answer[key] for key in answer.keys() - {"effect", "stamp"}}
            assert document_findings("response", bare)


def test_a_refused_row_that_changes_something_is_no_journal_row(day: Day) -> None:
    rows = [row_document(row) for row in day.rows()]
    granted = next(row for row in rows if row["changes"])
    for row in rows:
        if row["response"]["result"] == "rejected":
            assert document_findings("journal-row", {**row, "changes": granted["changes"]})


# --- debts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "context",
    [{"policyDigest": "none"}, {"instructionRef": ""}, {"instructionRef": " "}],
)
def test_evidence_is_well_formed_whatever_the_context(tmp_path: Path, context: Document) -> None:
    with closing(Day(tmp_path)) as day:
        answer = day.ask("issue.add", {"title": "t"}, context=context)
        assert document_findings("response", answer) == []


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000 ", "\u2028"])
def test_a_holder_has_a_name(tmp_path: Path, blank: str) -> None:
    with closing(Day(tmp_path)) as day:
        day.grant("issue.add", id="a", title="t")
        answer = day.ask("issue.claim", {"id": "a", "assignee": blank})
        assert answer["failureClasses"] == [Reason.ASSIGNEE_INVALID.wire]


@pytest.mark.parametrize(
    ("action", "payload"),
    [("policy.set", {"evidenceReads": True}), ("issue.import", {"records": []})],
)
def test_a_request_gains_nothing_by_weakening_its_door(
    tmp_path: Path, action: str, payload: Document
) -> None:
    with closing(Day(tmp_path)) as day:
        day.refuse(Reason.TRANSPORT_FORBIDDEN, action, **payload)
        answer = day.ask(action, payload, context={"transport": "cli"})
        assert answer["result"] == "rejected"
