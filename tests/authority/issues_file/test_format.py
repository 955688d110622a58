"""What an export looks like: the order of members, of lines, and what is left out."""

import json
from typing import Any

from tests.authority.issues_file.records import (
    ALWAYS,
    NOW,
    ORDER,
    full,
    issue,
    line,
    lines,
    trip,
    tripped,
)
from tests.together import together


def test_members_come_out_in_the_order_of_the_format() -> None:
    record = tripped(full())
    assert tuple(record) == ORDER
    assert tuple(record["lease"]) == ("lease_id", "owner", "acquired_at", "expires_at")
    assert tuple(record["dependencies"][0]) == ("issue_id", "depends_on_id", "type", "created_by")
    assert record == full()


def test_the_least_record_gets_the_defaults_and_nothing_else() -> None:
    record = tripped({"id": "a", "title": ""})
    assert tuple(record) == ALWAYS
    assert record == {
        "id": "a",
        "title": "",
        "status": "open",
        "priority": 2,
        "issue_type": "task",
        "created_at": NOW,
        "updated_at": NOW,
        "ephemeral": False,
    }


EMPTY: dict[str, Any] = {
    "description": "",
    "design": "",
    "acceptance_criteria": "",
    "notes": "",
    "assignee": "",
    "owner": "",
    "closed_at": "",
    "mol_type": "",
    "labels": [],
    "dependencies": [],
}


@together("name", sorted(EMPTY))
def test_an_empty_member_is_left_out(name: str) -> None:
    assert tuple(tripped(issue(**{name: EMPTY[name]}))) == ALWAYS


@together("name", sorted(set(ORDER) - {"id", "title"}))
def test_null_says_that_a_member_is_not_there(name: str) -> None:
    record = {key: value for key, value in full().items() if key != name}
    assert trip(line({**record, name: None})) == trip(line(record))


def test_ids_are_sorted_as_bytes() -> None:
    names = ["bd-2", "bd-10", "B", "a.b", "a-b", "a_b", "a", "0"]
    data = trip(lines(*(issue(name) for name in names)))
    found = [json.loads(one)["id"] for one in data.splitlines()]
    assert found == sorted(names, key=str.encode)


def test_a_file_has_one_lf_behind_every_line_and_no_spaces_between_members() -> None:
    data = trip(lines(issue("a", extra_={"k": [1, 2]}), issue("b")))
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 2
    assert b'": ' not in data
    assert b", " not in data


def test_nothing_gives_nothing() -> None:
    for data in (b"", b"\n", b"\n \t\r\n", b"# only a word\n"):
        assert trip(data) == b""
