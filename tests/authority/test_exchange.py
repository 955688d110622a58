"""`issues.jsonl` in and out: what is kept, in which order, and what is said about bad lines."""

import json
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.desk import START_MS, Desk
from understudy.authority.exchange import (
    Problem,
    export_issues,
    import_payloads,
    read_issues,
    write_file,
)
from understudy.contracts import canonical, limits
from understudy.contracts.check import validator
from understudy.contracts.reason import Reason
from understudy.contracts.request import Door, Request, parse
from understudy.contracts.rfc3339 import record_text

NOW = "2026-05-06T07:08:09Z"
# The order of the format, and what is written even when there is nothing to say.
ORDER = (
    "id", "title", "description", "design", "acceptance_criteria", "notes", "status", "priority",
    "issue_type", "assignee", "owner", "lease", "created_at", "updated_at", "closed_at",
    "ephemeral", "mol_type", "labels", "dependencies", "metadata",
)  # fmt: skip
ALWAYS = (
    "id", "title", "status", "priority", "issue_type", "created_at", "updated_at", "ephemeral",
)  # fmt: skip
BAD = Reason.IMPORT_LINE_INVALID
TORN = Reason.IMPORT_LINE_TORN


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(line(record) for record in records)


def line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def issue(issue_id: str = "a", **members: object) -> dict[str, Any]:
    return {"id": issue_id, "title": "t", "created_at": NOW, "updated_at": NOW, **members}


def lease(**members: object) -> dict[str, Any]:
    return {
        "lease_id": "l1",
        "owner": "ann",
        "acquired_at": record_text(START_MS - 60_000),
        "expires_at": record_text(START_MS + 60_000),
        **members,
    }


def leased(issue_id: str = "a", **members: object) -> dict[str, Any]:
    members = {"status": "in_progress", "assignee": "ann", "lease": lease(), **members}
    return issue(issue_id, **members)


def taken(data: bytes) -> Desk:
    """A desk whose authority has imported a file, and proved it."""
    records, problems = read_issues(data, NOW)
    assert problems == []
    desk = Desk()
    for payload in import_payloads(records):
        desk.grant("issue.import", "cli", **payload)
    desk.prove()
    return desk


def trip(data: bytes) -> bytes:
    """In and out again."""
    return export_issues(taken(data).authority.state)


def tripped(record: dict[str, Any]) -> dict[str, Any]:
    """The one record of a file, in and out again."""
    found: dict[str, Any] = json.loads(trip(line(record)))
    return found


def problems_of(data: bytes) -> list[tuple[int, Reason]]:
    return [(problem.line, problem.reason) for problem in read_issues(data, NOW)[1]]


# --- what comes out -----------------------------------------------------------------------------


def full() -> dict[str, Any]:
    """A record with every member of the format, none of them empty, in the wrong order."""
    record = leased(
        description="d",
        design="e",
        acceptance_criteria="f",
        notes="g",
        priority=-7,
        issue_type="epic",
        owner="olga",
        closed_at=NOW,
        ephemeral=True,
        mol_type="m",
        labels=["x", "y"],
        dependencies=[
            {"issue_id": "a", "depends_on_id": "b", "type": "blocks", "created_by": "c"},
        ],
        metadata={"k": [1, 2.5, None]},
    )
    return dict(reversed(record.items()))


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


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_an_empty_member_is_left_out(name: str) -> None:
    assert tuple(tripped(issue(**{name: EMPTY[name]}))) == ALWAYS


@pytest.mark.parametrize("name", sorted(set(ORDER) - {"id", "title"}))
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


# --- what is kept -------------------------------------------------------------------------------

TREASURES: list[Any] = [
    None,
    0,
    False,
    "",
    [],
    {},
    1.5,
    -0.0,
    0.1,
    1e-7,
    1.7976931348623157e308,
    5e-324,
    12345678901234567890123,
    -(2**53),
    'Grüße, 世界 \U0001f600 \u2028 \x00 \x1f \x7f \\ " /',
    [1, [2.5, [None, {"a": {"b": [True]}}]]],
    {"é": {"": "empty key"}, "1": 1},
    {"id": "other", "title": 7, "extra": "x", "comments": ["# y"]},
]


@pytest.mark.parametrize("treasure", TREASURES)
def test_a_member_that_we_do_not_know_survives(treasure: object) -> None:
    record = tripped({**issue(), "theirs": treasure, "ключ": treasure})
    assert tuple(record) == (*ALWAYS, "theirs", "ключ")
    assert repr([record["theirs"], record["ключ"]]) == repr([_sorted(treasure)] * 2)


def test_members_with_our_own_inner_names_are_theirs_in_the_file() -> None:
    theirs = {"extra": {"a": 1.5}, "comments": [1], "attempts": 9, "dep_type": "x", "fence": 3}
    assert tripped({**issue(), **theirs}) == tripped(issue()) | theirs


@pytest.mark.parametrize("treasure", [each for each in TREASURES if each])
def test_metadata_survives(treasure: object) -> None:
    assert repr(tripped(issue(metadata=treasure))["metadata"]) == repr(_sorted(treasure))


@pytest.mark.parametrize("treasure", [{}, [], "", 0, False])
def test_empty_metadata_survives(treasure: object) -> None:
    assert repr(tripped(issue(metadata=treasure)).get("metadata")) == repr(treasure)


def test_a_dependency_keeps_what_we_do_not_know() -> None:
    link = {"issue_id": "a", "depends_on_id": "b", "type": "blocks", "weight": 0.5, "x": {"y": []}}
    assert tripped(issue(dependencies=[link]))["dependencies"] == [link]


def test_dependencies_keep_their_order_and_every_type() -> None:
    types = [
        "replies-to", "waits-for", "supersedes", "duplicates", "relates-to", "discovered-from",
        "related", "conditional-blocks", "parent-child", "blocks",
    ]  # fmt: skip
    links = [{"issue_id": "a", "depends_on_id": f"b{n}", "type": t} for n, t in enumerate(types)]
    assert tripped(issue(dependencies=links))["dependencies"] == links


def test_the_older_name_of_a_dependency_type_is_understood() -> None:
    link = {"issue_id": "a", "depends_on_id": "b", "dep_type": "waits-for"}
    assert tripped(issue(dependencies=[link]))["dependencies"] == [
        {"issue_id": "a", "depends_on_id": "b", "type": "waits-for"}
    ]


def test_a_lease_keeps_what_we_do_not_know() -> None:
    record = leased(lease=lease(term=4, note={"x": 1.5}))
    assert tripped(record)["lease"] == record["lease"]


@pytest.mark.parametrize(
    "moment",
    [
        "2026-01-02T03:04:05.123456789Z",
        "2026-01-02T03:04:05.1Z",
        "2026-01-02T03:04:05+05:30",
        "2026-01-02t03:04:05.000000001z",
        "2026-01-02 03:04:05Z",
    ],
)
def test_times_of_an_issue_stay_the_text_they_came_as(moment: str) -> None:
    times = {"created_at": moment, "updated_at": moment, "closed_at": moment}
    record = tripped(issue(status="closed", **times))
    assert {name: record[name] for name in times} == times


def test_times_of_a_lease_are_rounded_down_to_milliseconds() -> None:
    record = tripped(
        leased(
            lease=lease(
                acquired_at="2026-01-02T03:04:05.123999999Z",
                expires_at="2026-01-02T05:04:05.999999999+01:00",
                renewed_at="2026-01-02T03:04:06Z",
            )
        )
    )
    assert record["lease"] == {
        "lease_id": "l1",
        "owner": "ann",
        "acquired_at": "2026-01-02T03:04:05.123Z",
        "expires_at": "2026-01-02T04:04:05.999Z",
        "renewed_at": "2026-01-02T03:04:06Z",
    }


def test_a_record_without_times_gets_the_hour_of_the_import() -> None:
    [record], _ = read_issues(b'{"id":"a","title":"t"}\n', NOW)
    assert (record["created_at"], record["updated_at"]) == (NOW, NOW)
    then = "2025-01-01T00:00:00Z"
    [record], _ = read_issues(line({"id": "a", "title": "t", "created_at": then}), NOW)
    assert (record["created_at"], record["updated_at"]) == (then, then)


@pytest.mark.parametrize("spelling", ["epic", "EPIC", "  Epic\t", "\nepic "])
def test_the_type_of_an_issue_is_trimmed_and_lowered(spelling: str) -> None:
    assert tripped(issue(issue_type=spelling))["issue_type"] == "epic"


def test_text_survives_whatever_letters_it_has() -> None:
    text = 'Grüße\n世界\t\U0001f600\u2028\x7f\x1f\\"'
    record = tripped(issue(title=text, description=text, design=text, notes=text))
    assert [record[name] for name in ("title", "description", "design", "notes")] == [text] * 4
    name = "Grüße 世界 \U0001f600\u2028"
    record = tripped(issue(assignee=name, owner=name, labels=[name], status=name, mol_type=name))
    assert [record[key] for key in ("assignee", "owner", "status", "mol_type")] == [name] * 4


def test_comments_stay_above_their_record() -> None:
    data = b"# first\n#second\n\n" + line(issue("b")) + b"  # about a \r\n" + line(issue("a"))
    assert trip(data).splitlines() == [
        b"# about a",
        trip(line(issue("a"))).strip(),
        b"# first",
        b"#second",
        trip(line(issue("b"))).strip(),
    ]


def test_comments_at_the_end_move_to_the_last_record_and_stay_there() -> None:
    once = trip(line(issue("a")) + "# Schluss \u2028 世界\n#\n".encode())
    assert once == "# Schluss \u2028 世界\n#\n".encode() + trip(line(issue("a")))
    assert trip(once) == once


def test_the_order_of_lines_and_of_members_makes_no_difference() -> None:
    records = [
        issue("a", x=1, y={"b": 1, "a": 2}),
        leased("b", metadata={"q": 1, "p": 2}),
        full() | {"id": "c", "dependencies": [{"issue_id": "c", "depends_on_id": "b"}]},
    ]
    backwards = [dict(reversed(record.items())) for record in reversed(records)]
    assert trip(lines(*backwards)) == trip(lines(*records))


def test_an_export_of_an_export_is_the_same_file() -> None:
    data = b"# top\n" + lines(issue("b", x=1.5), full(), leased("c"), issue("d", status="closed"))
    once = trip(data)
    assert trip(once) == once


def test_every_exported_line_is_an_issue_record() -> None:
    data = trip(lines(full(), issue("b", x=1.5), leased("c"), {"id": "d", "title": ""}))
    for one in data.splitlines():
        assert [*validator("issue-record").iter_errors(json.loads(one))] == []


# Any JSON at all, with numbers of any size; NaN and infinities are no JSON.
characters = st.characters(exclude_categories=["Cs"])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(characters, max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(characters), inner, max_size=3)
    ),
    max_leaves=8,
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
moments = st.sampled_from(
    ["2026-01-02T03:04:05Z", "1999-12-31T23:59:60Z"[:17] + "59Z", "2026-01-02T03:04:05.987654321Z"]
)
records_strategy = st.fixed_dictionaries(
    {"title": texts, "created_at": moments, "updated_at": moments},
    optional={
        "description": texts,
        "acceptance_criteria": texts,
        "status": st.sampled_from(["open", "blocked", "closed", "in_progress", "someday"]),
        "priority": st.integers(-(2**31), 2**31 - 1),
        "issue_type": st.sampled_from(["epic", "task"]),
        "assignee": names,
        "closed_at": moments,
        "ephemeral": st.booleans(),
        "labels": st.lists(names, max_size=3),
        "metadata": json_values.filter(bool),
        "x-theirs": json_values,
        "Ünknown": json_values,
    },
)


@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(records_strategy, max_size=4))
def test_any_file_of_records_survives_the_trip(found: list[dict[str, Any]]) -> None:
    given_records = [{"id": f"i{number}", **record} for number, record in enumerate(found)]
    once = trip(lines(*given_records))
    kept = [json.loads(one) for one in once.split(b"\n")[:-1]]
    assert repr(kept) == repr([expected(record) for record in given_records])
    assert trip(once) == once


def expected(record: dict[str, Any]) -> dict[str, Any]:
    """What the table of the format makes of a record."""
    defaults = {"status": "open", "priority": 2, "issue_type": "task", "ephemeral": False}
    whole = defaults | record
    known = {name: whole[name] for name in ORDER if name in whole}
    kept = {name: value for name, value in known.items() if name in ALWAYS or value}
    return (
        kept
        | {name: _sorted(whole[name]) for name in sorted(whole.keys() - set(ORDER))}
        | ({"metadata": _sorted(whole["metadata"])} if "metadata" in whole else {})
    )


def _sorted(value: Any) -> Any:  # noqa: ANN401
    """What we keep without understanding it comes out with sorted keys."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


# --- bad lines ----------------------------------------------------------------------------------


def spoilt(**members: object) -> bytes:
    return line(issue("bad", **members))


def lease_without(name: str) -> dict[str, Any]:
    return {key: value for key, value in lease().items() if key != name}


BAD_LINES: dict[str, bytes] = {
    "no JSON": b"hello\n",
    "half an object": b'{"id":"a","title":\n',
    "two objects": b'{"id":"a","title":"t"}{"id":"b","title":"t"}\n',
    "a list": b'[{"id":"a","title":"t"}]\n',
    "a number": b"7\n",
    "null": b"null\n",
    "an empty object": b"{}\n",
    "a byte order mark": b'\xef\xbb\xbf{"id":"a","title":"t"}\n',
    "invalid UTF-8": b'{"id":"a","title":"\xff"}\n',
    "an overlong NUL": b'{"id":"a","title":"\xc0\x80"}\n',
    "UTF-8 of a surrogate": b'{"id":"a","title":"\xed\xa0\x80"}\n',
    "NUL": b'{"id":"a","title":"\x00"}\n',
    "NUL between members": b'{"id":"a",\x00"title":"t"}\n',
    "an escaped NUL": b'{"id":"a","title":"\\u0000"}\n',
    "a key twice": b'{"id":"a","title":"t","title":"u"}\n',
    "a key twice inside": b'{"id":"a","title":"t","x":[{"k":1,"k":1}]}\n',
    "no id": b'{"title":"t"}\n',
    "no title": b'{"id":"a"}\n',
    "a number for an id": spoilt(id=7),
    "a list for an id": spoilt(id=["a"]),
    "an empty id": spoilt(id=""),
    "a blank in an id": spoilt(id="a b"),
    "a newline behind an id": spoilt(id="a\n"),
    "a control character in an id": spoilt(id="a\x1fb"),
    "an id that is too long": spoilt(id="a" * (limits.ID_LENGTH_MAX + 1)),
    "a number for a title": spoilt(title=7),
    "a title that is too long": spoilt(title="x" * (limits.TEXT_LENGTH_MAX + 1)),
    "a text that is too long": spoilt(notes="x" * (limits.TEXT_LENGTH_MAX + 1)),
    "ten megabytes": spoilt(description="x" * 10_000_000),
    "unknown members that are too long": spoilt(theirs="x" * limits.TEXT_LENGTH_MAX),
    "metadata that is too long": spoilt(metadata="x" * limits.TEXT_LENGTH_MAX),
    "an unknown type": spoilt(issue_type="bug"),
    "a number for a type": spoilt(issue_type=7),
    "a float for a priority": spoilt(priority=1.0),
    "a boolean for a priority": spoilt(priority=True),
    "a priority that is too great": spoilt(priority=2**31),
    "a priority that is too small": spoilt(priority=-(2**31) - 1),
    "a number of five thousand digits": b'{"id":"a","title":"t","x":' + b"1" * 5000 + b"}\n",
    "a number for ephemeral": spoilt(ephemeral=1),
    "a control character in a name": spoilt(assignee="a\x01"),
    "a newline in a status": spoilt(status="open\n"),
    "a name that is too long": spoilt(owner="x" * (limits.NAME_LENGTH_MAX + 1)),
    "a word for labels": spoilt(labels="x"),
    "a number among labels": spoilt(labels=["x", 1]),
    "a word for a time": spoilt(created_at="yesterday"),
    "a number for a time": spoilt(updated_at=1_700_000_000),
    "a day that the calendar lacks": spoilt(closed_at="2026-02-30T00:00:00Z"),
    "a time without a zone": spoilt(created_at="2026-01-01T00:00:00"),
    "a time before 1970": spoilt(created_at="1969-12-31T23:59:59Z"),
    "an object for dependencies": spoilt(dependencies={}),
    "a word among dependencies": spoilt(dependencies=["b"]),
    "a dependency on nothing": spoilt(dependencies=[{"issue_id": "a", "type": "blocks"}]),
    "a dependency on no id": spoilt(dependencies=[{"depends_on_id": "b c"}]),
    "an unknown dependency": spoilt(dependencies=[{"depends_on_id": "b", "type": "likes"}]),
    "a list for a dependency type": spoilt(dependencies=[{"depends_on_id": "b", "type": []}]),
    "a number for a creator": spoilt(dependencies=[{"depends_on_id": "b", "created_by": 7}]),
    "a word for a lease": spoilt(lease="l1"),
    "a list for a lease": spoilt(lease=[]),
    "an empty lease": spoilt(lease={}),
    "a lease without an id": spoilt(lease=lease_without("lease_id")),
    "a lease without an owner": spoilt(lease=lease_without("owner")),
    "a lease without a beginning": spoilt(lease=lease_without("acquired_at")),
    "a lease without an end": spoilt(lease=lease_without("expires_at")),
    "a lease until a word": spoilt(lease=lease(expires_at="soon")),
    "a lease since a number": spoilt(lease=lease(acquired_at=7)),
    "a lease renewed at a number": spoilt(lease=lease(renewed_at=7)),
    "a lease until null": spoilt(lease=lease(expires_at=None)),
}


@pytest.mark.parametrize("name", sorted(BAD_LINES))
def test_a_bad_line_is_reported_with_its_number_and_the_others_are_read(name: str) -> None:
    data = b"# a comment\n" + line(issue("x")) + b"\n" + BAD_LINES[name] + line(issue("y"))
    records, problems = read_issues(data, NOW)
    assert [(problem.line, problem.reason) for problem in problems] == [(4, BAD)]
    assert problems[0].message
    assert len(problems[0].message) < 1_000
    assert [record["id"] for record in records] == ["x", "y"]


DAMAGED: dict[str, bytes] = {
    "a lone surrogate in a title": b'{"id":"a","title":"\\ud800"}\n',
    "a lone surrogate in an unknown member": b'{"id":"a","title":"t","x":"\\udfff"}\n',
    "a lone surrogate in an unknown key": b'{"id":"a","title":"t","\\ud800":1}\n',
    "a lone surrogate in metadata": b'{"id":"a","title":"t","metadata":["\\ud800"]}\n',
    "NaN": b'{"id":"a","title":"t","x":NaN}\n',
    "NaN in metadata": b'{"id":"a","title":"t","metadata":{"k":NaN}}\n',
    "an infinity": b'{"id":"a","title":"t","x":[-Infinity]}\n',
    "a float beyond all floats": b'{"id":"a","title":"t","x":1e999}\n',
    "lists in lists in lists": b'{"id":"a","title":"t","x":' + b"[" * 9_999 + b"]" * 9_999 + b"}\n",
    "a lease of nobody": spoilt(lease=lease(owner="")),
    "a lease without a name": spoilt(lease=lease(lease_id=" ")),
    "an empty status": spoilt(status=""),
}


@pytest.mark.parametrize("name", sorted(DAMAGED))
def test_a_damaged_line_is_reported_with_its_number(name: str) -> None:
    data = line(issue("x")) + DAMAGED[name] + line(issue("y"))
    assert problems_of(data) == [(2, BAD)]


@pytest.mark.parametrize("comment", [b"# \x00", b"# \xff", b"#" + b"x" * limits.TEXT_LENGTH_MAX])
def test_a_comment_that_cannot_be_kept_is_reported(comment: bytes) -> None:
    assert problems_of(comment + b"\n" + line(issue())) == [(1, BAD)]


def test_every_bad_line_is_reported() -> None:
    data = b"x\n" + line(issue("a")) + b"y\n\n# z\nz\n" + line(issue("b"))
    assert problems_of(data) == [(1, BAD), (3, BAD), (6, BAD)]


def test_lines_may_end_as_on_another_system() -> None:
    data = lines(issue("a"), issue("b")).replace(b"\n", b"\r\n")
    assert trip(data) == trip(lines(issue("a"), issue("b")))


@pytest.mark.parametrize("cut", range(1, len(line(issue("b"))) - 1))
def test_a_last_line_that_is_cut_off_is_torn(cut: int) -> None:
    data = line(issue("a")) + line(issue("b"))[:cut]
    records, problems = read_issues(data, NOW)
    assert [(problem.line, problem.reason) for problem in problems] == [(2, TORN)]
    assert [record["id"] for record in records] == ["a"]


def test_a_last_line_that_lacks_only_its_end_is_whole() -> None:
    data = lines(issue("a"), issue("b"))
    assert read_issues(data[:-1], NOW) == read_issues(data, NOW)


def test_a_bad_last_line_with_its_end_is_bad_and_not_torn() -> None:
    assert problems_of(line(issue("a")) + b'{"id":\n') == [(2, BAD)]


def test_of_two_records_with_one_id_the_last_is_kept_and_both_lines_are_named() -> None:
    data = lines(issue("a", title="old"), issue("b"), issue("a", title="new"))
    records, problems = read_issues(data, NOW)
    message = "a stands in line 1 too"
    assert problems == [Problem(3, Reason.IMPORT_ID_DUPLICATE, message)]
    assert {record["id"]: record["title"] for record in records} == {"a": "new", "b": "t"}


def test_every_repetition_of_an_id_is_reported() -> None:
    data = lines(issue("a"), issue("a"), issue("b"), issue("a"))
    duplicate = Reason.IMPORT_ID_DUPLICATE
    assert problems_of(data) == [(2, duplicate), (4, duplicate)]


def test_a_bad_line_is_no_repetition() -> None:
    data = line(issue("a", priority="high")) + line(issue("a"))
    assert problems_of(data) == [(1, BAD)]


def test_limits_are_met_from_below() -> None:
    longest = issue(
        "a" * limits.ID_LENGTH_MAX,
        title="t" * limits.TEXT_LENGTH_MAX,
        description="\U0001f600" * limits.TEXT_LENGTH_MAX,
        owner="o" * limits.NAME_LENGTH_MAX,
        priority=2**31 - 1,
        theirs="x" * (limits.TEXT_LENGTH_MAX - len('{"theirs":""}')),
        metadata="x" * (limits.TEXT_LENGTH_MAX - 2),
    )
    assert problems_of(line(longest)) == []


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
    records, problems = read_issues(data, NOW)
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
    records, _ = read_issues(
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


# --- writing ------------------------------------------------------------------------------------


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "issues.jsonl"
    write_file(path, b"one\n")
    write_file(path, b"two\n")
    assert path.read_bytes() == b"two\n"
    assert [*tmp_path.iterdir()] == [path]


def test_nothing_but_nothing_is_written_for_an_empty_export(tmp_path: Path) -> None:
    path = tmp_path / "issues.jsonl"
    write_file(path, b"")
    assert path.read_bytes() == b""


def _fail(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


FAILURES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "on the way to the disk": lambda patch: patch.setattr(os, "fsync", _fail),
    "when it is put in its place": lambda patch: patch.setattr(Path, "replace", _fail),
}


@pytest.mark.parametrize("when", sorted(FAILURES))
def test_the_old_file_stays_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    path = tmp_path / "issues.jsonl"
    path.write_bytes(b"old\n")
    FAILURES[when](monkeypatch)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"new\n")
    assert path.read_bytes() == b"old\n"
    assert [*tmp_path.iterdir()] == [path]


def test_the_old_file_stays_when_the_disk_is_full_halfway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "issues.jsonl"
    path.write_bytes(b"old\n")

    class Full:
        def __init__(self, file: Any) -> None:  # noqa: ANN401
            self.file = file

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[:2])
            _fail()

    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode: Full(opened(path, mode)))
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"new\n")
    monkeypatch.undo()
    assert path.read_bytes() == b"old\n"
    assert [*tmp_path.iterdir()] == [path]


def test_the_data_is_on_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(handle: int) -> None:
        done.append("sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
        fsync(handle)

    def noted_replace(source: Path, target: Path) -> Path:
        done.append("replace")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    write_file(tmp_path / "issues.jsonl", b"new\n")
    assert done == ["sync file", "replace", "sync folder"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "nowhere" / "issues.jsonl", b"new\n")
