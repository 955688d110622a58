"""Issues of other trackers on their way in: nothing that a person wrote is lost."""

import json
from typing import Any

import pytest

from tests.authority.issues_file.records import NOW, taken
from tests.fakes.desk import Desk
from understudy.authority.views.foreign_issues import from_beads, from_github
from understudy.authority.views.issues_file import BadLine, export_issues, read_issues
from understudy.contracts import limits

# As `bd` writes them: no priority is 0, times have zones, and members come that we do not know.
EPIC: dict[str, Any] = {
    "id": "bd-2oo", "title": "Threads", "status": "open", "issue_type": "epic",
    "created_at": "2025-12-18T02:02:00.468223-08:00",
    "updated_at": "2025-12-18T02:49:10.575133-08:00",
}  # fmt: skip
CHILD: dict[str, Any] = EPIC | {
    "id": "bd-2oo.1", "title": "Add columns", "status": "in_progress", "assignee": "ann",
    "issue_type": "bug", "priority": 1, "labels": ["sql"], "estimated_minutes": 30,
    "dependencies": [
        {"issue_id": "bd-2oo.1", "depends_on_id": "bd-2oo", "type": "parent-child",
         "created_at": "2025-12-18T02:02:00.470012-08:00", "created_by": "daemon"},
        {"issue_id": "bd-2oo.1", "depends_on_id": "bd-gone", "type": "blocks",
         "created_at": "2025-12-18T02:02:00.470012-08:00", "created_by": "daemon"},
        {"issue_id": "bd-2oo.1", "depends_on_id": "bd-9", "type": "tracks",
         "created_at": "2025-12-18T02:02:00.470012-08:00", "created_by": "daemon"},
    ],
    "comments": [
        {"id": 1, "issue_id": "bd-2oo.1", "author": "bob", "text": "Mind the index.",
         "created_at": "2025-12-18T02:10:00-08:00"},
    ],
}  # fmt: skip
CLOSED = EPIC | {"id": "bd-9", "title": "Done", "status": "closed", "issue_type": "chore",
                 "closed_at": "2025-12-18T02:49:10.575133-08:00", "priority": 4}  # fmt: skip
GONE = EPIC | {"id": "bd-gone", "status": "tombstone", "delete_reason": "batch delete"}


def beads(*records: dict[str, Any]) -> Desk:
    data = "".join(json.dumps(each) + "\n" for each in records).encode()
    return taken(from_beads(data))


def shown(desk: Desk, issue_id: str) -> dict[str, Any]:
    issue: dict[str, Any] = desk.grant("issue.show", id=issue_id)["issue"]
    return issue


def test_beads_keep_types_comments_labels_and_priorities() -> None:
    desk = beads(EPIC, CHILD, CLOSED, GONE)
    child = shown(desk, "bd-2oo.1")
    assert (child["issueType"], child["labels"], child["priority"]) == ("task", ["sql", "bug"], 1)
    assert (child["status"], child["assignee"]) == ("open", "")
    assert child["notes"] == "bob, 2025-12-18T02:10:00-08:00: Mind the index."
    assert shown(desk, "bd-2oo")["priority"] == 0
    assert shown(desk, "bd-9")["status"] == "closed"
    assert desk.refusal("issue.show", id="bd-gone") == "issue_not_found"


def test_a_parent_waits_for_its_children_and_no_child_for_its_parent() -> None:
    desk = beads(EPIC, CHILD, CLOSED, GONE)
    assert [each["id"] for each in desk.grant("issue.ready")["issues"]] == ["bd-2oo.1"]
    assert shown(desk, "bd-2oo")["blockedBy"] == ["bd-2oo.1"]
    links = {
        (each["dependsOnId"], each["type"]) for each in shown(desk, "bd-2oo.1")["dependencies"]
    }
    assert links == {("bd-9", "related")}
    assert desk.grant("dep.diagnostics")["sound"] is True


def test_a_child_that_waits_for_its_parent_makes_no_circle() -> None:
    waits = {"issue_id": "bd-2oo.1", "depends_on_id": "bd-2oo", "type": "blocks"}
    child = CHILD | {"dependencies": [CHILD["dependencies"][0], waits]}
    desk = beads(EPIC, child)
    assert [each["id"] for each in desk.grant("issue.ready")["issues"]] == ["bd-2oo"]


def test_a_parent_that_its_child_waits_for_by_way_of_others_does_not_wait_for_it() -> None:
    def waits(source: str, target: str, kind: str = "blocks") -> dict[str, str]:
        return {"issue_id": source, "depends_on_id": target, "type": kind}

    first = CHILD | {
        "dependencies": [waits("bd-2oo.1", "bd-2oo", "parent-child"), waits("bd-2oo.1", "bd-3")]
    }
    desk = beads(EPIC, first, EPIC | {"id": "bd-3", "dependencies": [waits("bd-3", "bd-2oo")]})
    assert desk.grant("dep.diagnostics")["sound"] is True
    assert [each["id"] for each in desk.grant("issue.ready")["issues"]] == ["bd-2oo"]


def test_what_is_no_issue_of_beads_is_left_out() -> None:
    desk = beads(
        {"_schema": "beads-jsonl/1"},
        EPIC | {"_type": "issue"},
        {"_type": "memory", "key": "k", "value": "v"},
        EPIC | {"id": "bd-t", "issue_type": "molecule", "is_template": True},
    )
    assert [each["id"] for each in desk.grant("issue.list")["issues"]] == ["bd-2oo"]


def test_what_people_wrote_beside_it_is_kept() -> None:
    outside = {"issue_id": "bd-9", "depends_on_id": "external:ours:login", "type": "blocks"}
    desk = beads(CLOSED | {"close_reason": "Fixed it.", "external_ref": "gh-9",
                           "quality_score": 0.5, "dependencies": [outside]})  # fmt: skip
    assert shown(desk, "bd-9")["notes"] == "closed: Fixed it.\n\nblocks: external:ours:login"
    exported = json.loads(export_issues(desk.authority.state))
    assert (exported["external_ref"], exported["quality_score"]) == ("gh-9", 0.5)
    assert "close_reason" not in exported


def test_a_status_of_their_own_waits_for_a_person() -> None:
    issue = shown(beads(EPIC | {"status": "awaiting_review"}), "bd-2oo")
    assert (issue["status"], issue["labels"]) == ("blocked", ["awaiting_review"])


@pytest.mark.parametrize(
    "member",
    [{"issue_type": ["x"]}, {"labels": "a"}, {"dependencies": "x"}, {"status": ["open"]},
     {"notes": 5}, {"labels": [1]}],
)  # fmt: skip
def test_a_member_of_another_kind_is_a_bad_line(member: dict[str, Any]) -> None:
    data = json.dumps(EPIC | member).encode() + b"\n"
    records, problems, _ = read_issues(from_beads(data), NOW)
    assert (records, [each.line for each in problems]) == ([], [1])


def test_a_long_talk_is_cut_and_says_so() -> None:
    said = {"author": {"login": "bob"}, "body": "y" * 60_000, "createdAt": "2025-01-02T03:04:05Z"}
    listed = [{"number": 7, "title": "It breaks", "state": "OPEN", "comments": [said] * 4}]
    notes = shown(taken(from_github(json.dumps(listed).encode())), "gh-7")["notes"]
    assert len(notes) == limits.TEXT_LENGTH_MAX
    assert notes.endswith("(Cut here: the tracker has more.)")


def test_a_line_that_is_none_keeps_its_number() -> None:
    data = json.dumps(GONE).encode() + b"\nnonsense\n" + json.dumps(EPIC).encode() + b"\n"
    records, problems, _ = read_issues(from_beads(data), NOW)
    assert [each["id"] for each in records] == ["bd-2oo"]
    assert [each.line for each in problems] == [2]


def test_issues_of_github_come_with_labels_people_and_comments() -> None:
    listed = [
        {
            "number": 7, "title": "It breaks", "body": "Badly.", "state": "OPEN",
            "labels": [{"id": "x", "name": "bug", "color": "d73a4a"}],
            "assignees": [{"login": "ann"}], "url": "https://github.com/o/r/issues/7",
            "comments": [{"author": {"login": "bob"}, "body": "Same here.",
                          "createdAt": "2025-01-02T03:04:05Z"}],
            "createdAt": "2025-01-01T00:00:00Z", "updatedAt": "2025-01-02T00:00:00Z",
            "closedAt": None,
        },
        {"number": 8, "title": "Fixed", "state": "CLOSED", "closedAt": "2025-01-03T00:00:00Z"},
    ]  # fmt: skip
    desk = taken(from_github(json.dumps(listed).encode()))
    issue = shown(desk, "gh-7")
    assert (issue["title"], issue["description"], issue["labels"]) == (
        "It breaks",
        "Badly.",
        ["bug"],
    )
    assert (issue["owner"], issue["assignee"]) == ("ann", "")
    assert issue["notes"] == "bob, 2025-01-02T03:04:05Z: Same here."
    assert shown(desk, "gh-8")["status"] == "closed"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"nonsense",
        b'{"number": 7}',
        b'[{"title": "t"}]',
        b'[{"number": 7, "labels": 7}]',
        b"[" * 100_000,
    ],
)
def test_what_is_no_list_of_issues_is_refused(data: bytes) -> None:
    with pytest.raises(BadLine, match=r"gh issue list --json number"):
        from_github(data)


def test_an_issue_of_github_without_number_or_title_is_a_bad_line() -> None:
    data = from_github(b'[7, {"number": 1}, {"title": "t"}, {"number": 2, "title": "good"}]')
    records, problems, _ = read_issues(data, NOW)
    assert [each["id"] for each in records] == ["gh-2"]
    assert [each.line for each in problems] == [1, 2, 3]
