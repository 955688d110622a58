"""Lines that cannot be taken: each is named with its number, and the others are read."""

from typing import Any

import pytest

from tests.authority.issues_file.records import (
    BAD,
    NOW,
    TORN,
    issue,
    lease,
    line,
    lines,
    problems_of,
    trip,
)
from tests.together import together
from understudy.authority.views.issues_file import Problem, read_issues
from understudy.contracts import limits
from understudy.contracts.reason import Reason


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
    "an unknown type": spoilt(issue_type="saga"),
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
    records, problems, _ = read_issues(data, NOW)
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


@together("name", sorted(DAMAGED))
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


@together("cut", range(1, len(line(issue("b"))) - 1))
def test_a_last_line_that_is_cut_off_is_torn(cut: int) -> None:
    data = line(issue("a")) + line(issue("b"))[:cut]
    records, problems, _ = read_issues(data, NOW)
    assert [(problem.line, problem.reason) for problem in problems] == [(2, TORN)]
    assert [record["id"] for record in records] == ["a"]


def test_a_last_line_that_lacks_only_its_end_is_whole() -> None:
    data = lines(issue("a"), issue("b"))
    assert read_issues(data[:-1], NOW) == read_issues(data, NOW)


def test_a_bad_last_line_with_its_end_is_bad_and_not_torn() -> None:
    assert problems_of(line(issue("a")) + b'{"id":\n') == [(2, BAD)]


def test_of_two_records_with_one_id_the_last_is_kept_and_both_lines_are_named() -> None:
    data = lines(issue("a", title="old"), issue("b"), issue("a", title="new"))
    records, problems, _ = read_issues(data, NOW)
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
