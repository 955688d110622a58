"""Issues: how they come, change and end."""

from typing import Any

import orjson
import pytest

from tests.fakes.desk import START_MS, Desk, asked, records
from understudy.authority.views.replay import replay
from understudy.contracts import rfc3339
from understudy.contracts.requests.request import Door, Request, build

MOMENT = rfc3339.record_text(START_MS)
RECORD: dict[str, Any] = {"title": "t", "created_at": MOMENT, "updated_at": MOMENT}
LEASE = {
    "lease_id": "l1",
    "owner": "ann",
    "acquired_at": rfc3339.record_text(START_MS - 1_000),
    "expires_at": rfc3339.record_text(START_MS + 60_000),
}


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    return desk


# --- add and discover -----------------------------------------------------------------------------


def test_an_issue_without_an_id_is_named_after_its_row() -> None:
    desk = Desk()
    assert desk.grant("issue.add", title="t")["issue"]["id"] == "us-1"
    desk.grant("issue.add", id="us-3", title="t")
    assert desk.grant("issue.add", title="t")["issue"]["id"] == "us-3x"


def test_an_issue_keeps_what_it_came_with() -> None:
    desk = Desk()
    members = {
        "title": "T",
        "description": "d",
        "design": "e",
        "acceptanceCriteria": "f",
        "notes": "n",
        "priority": -5,
        "issueType": "epic",
        "assignee": " ann ",
        "owner": " eve ",
        "labels": ["x", "y", "x"],
        "ephemeral": True,
    }
    desk.grant("issue.add", id="a", **members)
    shown = desk.grant("issue.show", id="a")["issue"]
    expected = members | {"assignee": "ann", "owner": "eve", "labels": ["x", "y"]}
    del expected["ephemeral"]
    assert {name: shown[name] for name in expected} == expected
    assert (shown["createdAt"], shown["updatedAt"], shown["closedAt"]) == (MOMENT, MOMENT, None)
    assert desk.authority.state.issues["a"].ephemeral is True
    assert desk.refusal("issue.add", id="a", title="again") == "issue_id_exists"


def test_a_discovered_issue_remembers_where_it_came_from(desk: Desk) -> None:
    ann = desk.claim("a", "ann")
    answer = desk.grant("issue.discover", **ann, newId="b", title="found", labels=["x", "x"])
    assert (answer["discoveredFrom"], answer["issue"]["labels"]) == ("a", ["x"])
    assert answer["effect"]["fence"] == ann["fence"]
    links = desk.grant("issue.show", id="b")["issue"]["dependencies"]
    assert links == [{"issueId": "b", "dependsOnId": "a", "type": "discovered-from"}]
    assert [issue["id"] for issue in desk.grant("issue.ready")["issues"]] == ["b"]
    assert desk.refusal("issue.discover", **ann, newId="b", title="x") == "issue_id_exists"
    assert desk.refusal("issue.discover", id="a", title="x") == "lease_fence_missing"
    named = desk.grant("issue.discover", **ann, title="x")
    assert named["issue"]["id"] == f"us-{named['seq']}"


# --- update and close -----------------------------------------------------------------------------


def test_an_update_changes_what_it_names_and_nothing_else(desk: Desk) -> None:
    desk.time.passes(5)
    changed = {"title": "u", "description": "d", "priority": 0, "labels": ["x"], "owner": "eve"}
    assert desk.grant("issue.update", id="a", **changed)["changed"] is True
    shown = desk.grant("issue.show", id="a")["issue"]
    assert {name: shown[name] for name in changed} == changed
    assert shown["updatedAt"] == rfc3339.record_text(START_MS + 5)
    assert shown["createdAt"] == MOMENT


def test_an_update_that_says_nothing_new_changes_nothing(desk: Desk) -> None:
    desk.time.passes(5)
    before = records(desk.authority.state)
    assert desk.grant("issue.update", id="a")["changed"] is False
    assert desk.grant("issue.update", id="a", title="t", status="open")["changed"] is False
    assert records(desk.authority.state) == before


STATUSES = [
    ("open", "blocked", None),
    ("open", "closed", None),
    ("open", "in_progress", "issue_invalid_status"),
    ("open", "odd", "issue_invalid_status"),
    ("blocked", "open", None),
    ("blocked", "closed", None),
    ("closed", "open", None),
    ("closed", "blocked", "lease_issue_closed"),
    ("closed", "closed", "lease_issue_closed"),
]


@pytest.mark.parametrize(("before", "after", "failure"), STATUSES)
def test_a_status_is_set_or_refused(
    desk: Desk, before: str, after: str, failure: str | None
) -> None:
    if before != "open":
        desk.grant("issue.update", id="a", status=before)
    assert desk.refusal("issue.update", id="a", status=after) == failure
    shown = desk.grant("issue.show", id="a")["issue"]
    assert shown["status"] == (before if failure else after)
    assert (shown["closedAt"] is not None) == (shown["status"] == "closed")


@pytest.mark.parametrize("belief", [{"fence": 1}, {"leaseId": "l"}, {"subleaseId": "s"}])
def test_no_caller_reopens_an_issue_that_it_thinks_it_holds(
    desk: Desk, belief: dict[str, object]
) -> None:
    desk.grant("issue.close", id="a")
    found = desk.refusal("issue.update", id="a", status="open", **belief)
    assert found == "lease_issue_closed"


@pytest.mark.parametrize("status", ["open", "blocked", "closed"])
def test_a_status_ends_the_lease(desk: Desk, status: str) -> None:
    ann = desk.claim("a", "ann")
    answer = desk.grant("issue.update", **ann, status=status)
    assert "lease" not in answer["issue"]
    assert answer["issue"]["assignee"] == ("" if status == "open" else "ann")
    assert answer["effect"]["fence"] == ann["fence"]
    assert desk.authority.state.leases == {}
    desk.prove()


def test_a_new_assignee_stands_over_an_opened_issue(desk: Desk) -> None:
    ann = desk.claim("a", "ann")
    answer = desk.grant("issue.update", **ann, status="open", newAssignee=" bob ")
    assert answer["issue"]["assignee"] == "bob"


def test_closing_ends_the_lease_and_keeps_the_name(desk: Desk) -> None:
    ann = desk.claim("a", "ann")
    assert desk.refusal("issue.close", id="a") == "lease_fence_missing"
    answer = desk.grant("issue.close", **ann, reason="done")
    assert (answer["issue"]["status"], answer["issue"]["assignee"]) == ("closed", "ann")
    assert desk.refusal("issue.close", **ann) == "lease_issue_closed"
    assert desk.refusal("issue.close", id="nowhere") == "lease_not_found"


# --- import ---------------------------------------------------------------------------------------


def imported(*records_: dict[str, Any]) -> tuple[Desk, str | None]:
    desk = Desk()
    answer = desk.ask("issue.import", "cli", records=list(records_))
    classes = answer["failureClasses"]
    return desk, classes[0] if classes else None


def test_a_record_keeps_every_member_it_came_with() -> None:
    record = RECORD | {
        "id": "a",
        "description": "d",
        "status": "odd",
        "priority": 7,
        "issue_type": "epic",
        "assignee": "ann",
        "owner": "eve",
        "closed_at": "2027-01-15T08:00:00.123456789+01:00",
        "ephemeral": True,
        "mol_type": "m",
        "labels": ["x", "x"],
        "metadata": '{"k":1}',
        "extra": '{"unknown":true}',
        "comments": ["# one"],
    }
    desk, failure = imported(record)
    assert failure is None
    issue = records(desk.authority.state)["issues"][0]
    assert {name: issue[name] for name in record} == record
    assert issue["attempts"] == 0
    assert desk.grant("issue.show", id="a")["issue"]["metadata"] == {"k": 1}
    desk.prove()


def test_a_lease_comes_along_with_a_fence_of_its_own() -> None:
    record = RECORD | {"id": "a", "status": "in_progress", "assignee": "ann", "lease": LEASE}
    desk, failure = imported(record)
    assert failure is None
    item = desk.grant("issue.lease_projection")["items"][0]
    assert (item["lease"]["fence"], item["lease"]["state"]) == (1, "active")
    held = {"id": "a", "assignee": "ann", "leaseId": "l1", "fence": 1}
    answer = desk.grant("issue.lease_renew", **held)
    assert answer["issue"]["lease"]["acquiredAt"] == rfc3339.answer_text(START_MS - 1_000)
    desk.prove()


@pytest.mark.parametrize(
    ("status", "assignee", "contended"),
    [("in_progress", "ann", 0), ("open", "ann", 1), ("in_progress", "bob", 1), ("blocked", "", 1)],
)
def test_an_imported_lease_is_contended_where_its_record_disagrees(
    status: str, assignee: str, contended: int
) -> None:
    record = RECORD | {"id": "a", "status": status, "assignee": assignee, "lease": LEASE}
    desk, _ = imported(record)
    assert desk.grant("issue.ready")["leaseProjection"]["contendedCount"] == contended
    held = {"id": "a", "assignee": "ann", "leaseId": "l1", "fence": 1}
    assert desk.refusal("issue.lease_reconcile", **held) == (
        None if contended else "lease_not_contended"
    )
    desk.prove()


@pytest.mark.parametrize("status", ["open", "blocked", "odd"])
def test_a_release_leaves_a_foreign_status_as_it_is(status: str) -> None:
    desk, _ = imported(RECORD | {"id": "a", "status": status, "lease": LEASE})
    held = {"id": "a", "assignee": "ann", "leaseId": "l1", "fence": 1}
    assert desk.grant("issue.lease_release", **held)["issue"]["status"] == status
    desk.prove()


def test_a_live_imported_lease_on_open_work_goes_to_its_owner_alone() -> None:
    record = RECORD | {"id": "a", "assignee": "ann", "lease": LEASE}
    desk, _ = imported(record)
    assert "issue" not in desk.grant("issue.claim_next", assignee="bob")
    answer = desk.grant("issue.claim_next", assignee="ann")
    assert (answer["issue"]["status"], answer["issue"]["lease"]["fence"]) == ("in_progress", 1)
    desk.prove()


def test_a_lapsed_imported_lease_is_reclaimed_with_a_new_fence() -> None:
    old = LEASE | {"expires_at": rfc3339.record_text(START_MS - 1), "renewed_at": MOMENT}
    desk, _ = imported(
        RECORD | {"id": "a", "status": "in_progress", "assignee": "ann", "lease": old}
    )
    answer = desk.grant("issue.claim_next", assignee="bob")
    assert answer["issue"]["lease"]["fence"] == 2
    assert answer["issue"]["attempts"] == 2
    desk.prove()


def test_a_closed_record_leaves_its_lease_behind() -> None:
    desk, failure = imported(RECORD | {"id": "a", "status": "closed", "lease": LEASE})
    assert failure is None
    assert desk.authority.state.leases == {}


REFUSED: list[tuple[str, list[dict[str, Any]], str]] = [
    ("twice in a row", [RECORD | {"id": "a"}, RECORD | {"id": "a"}], "issue_id_exists"),
    (
        "a bad moment",
        [RECORD | {"id": "b"}, RECORD | {"id": "a", "created_at": "then"}],
        "issue_invalid_payload",
    ),
    (
        "a bad end",
        [RECORD | {"id": "b"}, RECORD | {"id": "a", "closed_at": "x"}],
        "issue_invalid_payload",
    ),
    (
        "a leased one among others",
        [RECORD | {"id": "a", "lease": LEASE}, RECORD | {"id": "b"}],
        "issue_invalid_payload",
    ),
    ("a text that is no JSON", [RECORD | {"id": "a", "metadata": "{"}], "issue_invalid_payload"),
    (
        "a lease without a start",
        [RECORD | {"id": "a", "lease": LEASE | {"acquired_at": "x"}}],
        "issue_invalid_payload",
    ),
    (
        "a lease without an end",
        [RECORD | {"id": "a", "lease": LEASE | {"expires_at": "x"}}],
        "issue_invalid_payload",
    ),
    (
        "a lease with a bad renewal",
        [RECORD | {"id": "a", "lease": LEASE | {"renewed_at": "x"}}],
        "issue_invalid_payload",
    ),
]


@pytest.mark.parametrize(
    ("case", "lines", "failure"), REFUSED, ids=[case for case, _, _ in REFUSED]
)
def test_an_import_is_taken_whole_or_not_at_all(
    case: str, lines: list[dict[str, Any]], failure: str
) -> None:
    desk, found = imported(*lines)
    assert found == failure
    assert desk.authority.state.issues == {}


def test_an_import_does_not_overwrite(desk: Desk) -> None:
    found = desk.refusal("issue.import", "cli", records=[RECORD | {"id": "a"}])
    assert found == "issue_id_exists"


def test_an_empty_import_changes_nothing() -> None:
    desk, failure = imported()
    assert failure is None
    assert records(desk.authority.state)["issues"] == []


def test_an_import_leaves_the_clock_where_it_was(desk: Desk) -> None:
    desk.time.passes(1_000)
    stamp = desk.grant("issue.import", "cli", records=[RECORD | {"id": "b"}])["stamp"]
    assert stamp == {"wallMs": START_MS, "counter": 1, "node": "n1"}


def test_import_and_policy_are_for_the_command_line() -> None:
    desk = Desk()
    expected = "control_plane_host_action_transport_forbidden"
    assert desk.refusal("issue.import", "mcp", records=[]) == expected
    assert desk.refusal("policy.set", "local-repl") == expected


def test_a_record_built_in_this_process_replays_like_one_from_a_line() -> None:
    desk = Desk()
    record = RECORD | {"id": "a", "status": "open", "issue_type": "task"}
    request = build({"action": "issue.import", "payload": {"records": [record]}}, Door("cli"))
    assert isinstance(request, Request)
    desk.authority.submit([request])
    assert replay(desk.journal).mismatch is None


# --- reads ----------------------------------------------------------------------------------------


def test_a_list_is_filtered_by_every_member() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t", labels=["x"], issueType="epic")
    desk.grant("issue.add", id="b", title="t", assignee="ann")
    desk.grant("issue.close", id="b")

    def ids(**filters: object) -> list[str]:
        return [issue["id"] for issue in desk.grant("issue.list", **filters)["issues"]]

    assert ids() == ["a", "b"]
    assert ids(status="closed") == ["b"]
    assert ids(label="x") == ["a"]
    assert ids(issueType="task") == ["b"]
    assert ids(assignee="ann") == ["b"]
    assert ids(assignee="ann", status="open") == []


def test_reads_name_the_row_they_saw_and_leave_none(desk: Desk) -> None:
    for action, payload in (
        ("issue.list", {}),
        ("issue.ready", {}),
        ("issue.blocked", {}),
        ("issue.check", {}),
        ("issue.backend_status", {}),
        ("issue.lease_projection", {}),
        ("dep.diagnostics", {}),
        ("issue.show", {"id": "a"}),
        ("world.route_binding", {"operationAction": "issue.claim"}),
    ):
        answer = desk.grant(action, **payload)
        assert (answer["seq"], answer["effect"]["prev"]) == (1, None), action
    assert desk.authority.head.seq == 1
    assert desk.refusal("issue.show", id="x") == "issue_not_found"
    assert desk.refusal("world.route_binding", operationAction="x") == "transport_unknown_action"


def test_reads_are_rows_once_the_policy_says_so(desk: Desk) -> None:
    answer = desk.grant("policy.set", "cli", evidenceReads=True)
    assert answer["policy"] == {"mutation": "open", "evidenceReads": True}
    assert desk.grant("policy.set", "cli")["changed"] is False
    seq = desk.grant("issue.ready")["seq"]
    assert desk.authority.head.seq == seq == 4
    assert desk.refusal("issue.show", id="x") == "issue_not_found"
    assert desk.authority.head.seq == 5
    desk.prove()


def test_a_check_finds_what_is_broken(desk: Desk) -> None:
    assert desk.grant("issue.check")["sound"] is True
    desk.authority.state.ready.clear()
    answer = desk.grant("issue.check")
    assert (answer["sound"], answer["broken"][:2]) == (False, "I4")
    status = desk.grant("issue.backend_status")
    assert (status["issueCount"], status["readyCount"], status["leaseCount"]) == (1, 0, 0)


def test_the_policy_in_force_asks_for_evidence() -> None:
    desk = Desk()
    desk.grant("policy.set", "cli", mutation="instruction-linked")
    digest = desk.grant("issue.ready")["effect"]["policyDigest"]

    def found(**context: Any) -> list[str]:
        request = asked("issue.add", {"id": "a", "title": "t"}, context=context)
        answers, rows = desk.authority.submit([request])
        assert len(rows) == 1
        classes: list[str] = orjson.loads(answers[0])["failureClasses"]
        return classes

    assert found() == ["mutation.use_evidence_missing"]
    assert found(policyDigest=digest) == ["mutation.use_evidence_missing"]
    linked = {"policyDigest": digest, "instructionRef": "i"}
    assert found(**linked | {"policyDigest": "pol1_x"}) == ["mutation.policy_digest_unknown"]
    assert found(**linked) == ["mutation.capability_claim_missing"]
    claims = ["capabilities.change_morphisms.issue_claim"]
    assert found(**linked, capabilityClaims=claims) == ["mutation.capability_claim_missing"]
    assert found(**linked, capabilityClaims=["capabilities.change_morphisms.all"]) == []
    claims = ["capabilities.change_morphisms.issue_add"]
    assert found(**linked, capabilityClaims=claims) == ["issue_id_exists"]
    assert desk.refusal("issue.ready") is None
    desk.prove()
