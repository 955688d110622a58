"""Records on their way into the authority: leases get fences, and payloads stay in their limits."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.authority.issues_file.records import (
    BAD,
    NOW,
    issue,
    lease,
    leased,
    line,
    lines,
    problems_of,
    taken,
)
from tests.fakes.desk import START_MS, Desk
from understudy.authority.views.issues_file import export_issues, import_payloads, read_issues
from understudy.contracts import canonical, limits
from understudy.contracts.requests.request import Door, Request, parse
from understudy.contracts.rfc3339 import record_text

# --- leases -------------------------------------------------------------------------------------


def projection(desk: Desk) -> dict[str, Any]:
    return desk.grant("issue.lease_projection")


def test_a_leased_record_gets_a_fence_and_is_listed() -> None:
    desk = taken(lines(issue("a"), leased("b"), leased("c", lease=lease(lease_id="l2"))))
    answer = projection(desk)
    assert [item["id"] for item in answer["items"]] == ["b", "c"]
    fences = [item["lease"]["fence"] for item in answer["items"]]
    assert len(set(fences)) == 2
    assert all(0 < fence <= desk.authority.head.seq for fence in fences)
    assert answer["items"][0]["lease"] == {
        "leaseId": "l1",
        "owner": "ann",
        "fence": fences[0],
        "state": "active",
        "acquiredAt": "2027-01-15T07:59:00+00:00",
        "expiresAt": "2027-01-15T08:01:00+00:00",
    }
    assert answer["leaseProjection"]["staleCount"] == 0


def test_the_holder_of_an_imported_lease_works_on_with_the_fence() -> None:
    desk = taken(lines(leased("a")))
    fence = projection(desk)["items"][0]["lease"]["fence"]
    held = {"id": "a", "assignee": "ann", "leaseId": "l1", "fence": fence}
    assert desk.refusal("issue.claim", id="a", assignee="bob") == "lease_contention_active"
    assert desk.refusal("issue.update", id="a", title="u") == "lease_fence_missing"
    desk.grant("issue.update", **held, title="u")
    desk.grant("issue.lease_renew", **held, leaseTtlSeconds=30)
    desk.time.passes(30_001)
    assert desk.refusal("issue.lease_renew", **held) == "lease_stale"
    assert desk.claim("a", "bob")["fence"] > fence


def test_a_lapsed_lease_is_listed_as_stale_and_can_be_claimed() -> None:
    gone = lease(expires_at=record_text(START_MS - 1))
    desk = taken(lines(leased("a", lease=gone)))
    answer = projection(desk)
    assert answer["leaseProjection"]["staleIssueIds"] == ["a"]
    assert answer["items"][0]["lease"]["state"] == "stale"
    fence = answer["items"][0]["lease"]["fence"]
    granted = desk.grant("issue.claim_next", assignee="bob")["issue"]
    assert (granted["id"], granted["lease"]["owner"]) == ("a", "bob")
    assert granted["lease"]["fence"] > fence


def test_a_lease_that_its_record_denies_is_listed_as_contended() -> None:
    desk = taken(lines(leased("a", assignee="bob"), leased("b", status="open")))
    answer = projection(desk)
    assert answer["leaseProjection"]["contendedIssueIds"] == ["a", "b"]
    assert [item["contended"] for item in answer["items"]] == [True, True]


def test_closed_work_has_no_lease() -> None:
    desk = taken(lines(leased("a", status="closed", closed_at=NOW)))
    assert projection(desk)["items"] == []
    assert "lease" not in json.loads(export_issues(desk.authority.state))


# --- payloads -----------------------------------------------------------------------------------


def records_of(count: int, **members: object) -> list[dict[str, Any]]:
    data = lines(*(issue(f"i{number:04}", **members) for number in range(count)))
    records, problems, _ = read_issues(data, NOW)
    assert problems == []
    return records


def sizes(records: Iterable[dict[str, Any]]) -> list[int]:
    return [len(payload["records"]) for payload in import_payloads([*records])]


def test_records_travel_together_up_to_the_limit() -> None:
    most = limits.IMPORT_RECORDS_MAX
    assert sizes([]) == []
    assert sizes(records_of(1)) == [1]
    assert sizes(records_of(most)) == [most]
    assert sizes(records_of(most + 1)) == [most, 1]
    assert sizes(records_of(2 * most + 1)) == [most, most, 1]


def test_a_leased_record_travels_alone() -> None:
    records, *_ = read_issues(
        lines(leased("a"), issue("b"), leased("c"), issue("d"), leased("e")), NOW
    )
    payloads = list(import_payloads(records))
    parts = [[record["id"] for record in payload["records"]] for payload in payloads]
    assert sorted(parts) == [["a"], ["b", "d"], ["c"], ["e"]]


def test_payloads_hold_every_record_once() -> None:
    records = records_of(600, description="x" * 5_000)
    found = [record for payload in import_payloads(records) for record in payload["records"]]
    assert found == records


def test_large_records_travel_in_smaller_parts() -> None:
    records = records_of(20, description="x" * limits.TEXT_LENGTH_MAX)
    for payload in import_payloads(records):
        assert len(canonical.encode(payload)) <= limits.REQUEST_BYTES_MAX + 64
    assert sum(sizes(records)) == 20
    assert len(sizes(records)) == 3


def _request(payload: dict[str, Any]) -> bytes:
    return canonical.encode({"action": "issue.import", "payload": payload})


def test_a_full_payload_is_still_a_request() -> None:
    [bare] = records_of(1, description="")
    text = "x" * (limits.REQUEST_BYTES_MAX // 16 - len(canonical.encode(bare)))
    for payload in import_payloads(records_of(16, description=text)):
        assert isinstance(parse(_request(payload), Door("cli")), Request)


def test_a_record_that_is_longer_than_a_request_is_reported() -> None:
    text = "\U0001f600" * limits.TEXT_LENGTH_MAX
    assert problems_of(line(issue(description=text, design=text, notes=text))) == [(1, BAD)]


def test_an_import_meets_the_limit_of_dependencies() -> None:
    links = [
        {"issue_id": "a", "depends_on_id": f"b{number}", "type": "related"}
        for number in range(limits.DEPENDENCIES_PER_ISSUE_MAX + 1)
    ]
    assert problems_of(line(issue(dependencies=links))) == [(1, BAD)]


# What a caller sends to `issue.import` by itself has not been through `read_issues`.
FORGED: dict[str, dict[str, Any]] = {
    "unknown members that are no JSON": {"extra": "{"},
    "unknown members that are no object": {"extra": "[1]"},
    "unknown members that replace known ones": {"extra": '{"id":"other"}'},
    "unknown members that are not numbers": {"extra": '{"x":NaN}'},
    "metadata that is no JSON": {"metadata": "{"},
    "metadata that is more than one value": {"metadata": '1,"result":"forged"'},
    "a comment that is a record": {"comments": ['{"id":"forged","title":"t"}']},
    "a comment of two lines": {"comments": ['#\n{"id":"forged","title":"t"}']},
    "a dependency with members that are no JSON": {
        "dependencies": [{"depends_on_id": "b", "extra": "{"}]
    },
}


@pytest.mark.parametrize("name", sorted(FORGED))
def test_an_import_that_forges_the_file_is_refused(name: str) -> None:
    desk = Desk()
    record = issue("a", **FORGED[name])
    assert desk.refusal("issue.import", "cli", records=[record]) == "issue_invalid_payload"


def test_types_of_other_tools_are_tasks_with_a_label() -> None:
    data = b"".join(
        line({"id": word, "title": "t", "issue_type": word, "labels": labels})
        for word, labels in (
            ("bug", ["red"]),
            ("feature", ["feature"]),
            ("chore", []),
            ("epic", []),
        )
    )
    records, problems, retyped = read_issues(data, NOW)
    assert problems == []
    assert retyped == {"bug": "bug", "feature": "feature", "chore": "chore"}
    assert [(each["issue_type"], each["labels"]) for each in records] == [
        ("task", ["red", "bug"]), ("task", ["feature"]), ("task", ["chore"]), ("epic", []),
    ]  # fmt: skip


def test_a_type_of_another_tool_leaves_labels_alone_that_are_none() -> None:
    records, problems, _ = read_issues(
        line({"id": "a", "title": "t", "issue_type": "bug", "labels": "red"}), NOW
    )
    assert (records, len(problems)) == ([], 1)
