"""What comes in comes out again, whether we understand it or not."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.authority.issues_file.records import (
    ALWAYS,
    NOW,
    ORDER,
    full,
    issue,
    lease,
    leased,
    line,
    lines,
    trip,
    tripped,
)
from tests.long import tried
from tests.together import together
from understudy.authority.views.issues_file import read_issues
from understudy.contracts.registry.check import validator

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


@together("treasure", TREASURES)
def test_a_member_that_we_do_not_know_survives(treasure: object) -> None:
    record = tripped({**issue(), "theirs": treasure, "ключ": treasure})
    assert tuple(record) == (*ALWAYS, "theirs", "ключ")
    assert repr([record["theirs"], record["ключ"]]) == repr([_sorted(treasure)] * 2)


def test_members_with_our_own_inner_names_are_theirs_in_the_file() -> None:
    theirs = {"extra": {"a": 1.5}, "comments": [1], "attempts": 9, "dep_type": "x", "fence": 3}
    assert tripped({**issue(), **theirs}) == tripped(issue()) | theirs


@together("treasure", [each for each in TREASURES if each])
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
    [record], *_ = read_issues(b'{"id":"a","title":"t"}\n', NOW)
    assert (record["created_at"], record["updated_at"]) == (NOW, NOW)
    then = "2025-01-01T00:00:00Z"
    [record], *_ = read_issues(line({"id": "a", "title": "t", "created_at": then}), NOW)
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
    tried(150),
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


def _sorted(value: Any) -> Any:
    """What we keep without understanding it comes out with sorted keys."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


# --- scopes ---------------------------------------------------------------------------------------


def test_a_scope_is_kept_and_is_ours() -> None:
    (record,) = read_issues(line(issue(scope=["src/**", "docs/*"])), NOW).records
    assert record["scope"] == ["src/**", "docs/*"]
    assert tripped(issue(scope=["src/**", "docs/*"]))["scope"] == ["src/**", "docs/*"]


@together("value", ["backend", [], None, {"team": 1}, 7, ["a\nb"], [""], ["x"] * 65, [1]], ids=str)
def test_a_scope_of_another_tool_is_kept_as_it_is_and_binds_nobody(value: object) -> None:
    (record,) = read_issues(line(issue(scope=value)), NOW).records
    assert "scope" not in record
    assert tripped(issue(scope=value))["scope"] == value
