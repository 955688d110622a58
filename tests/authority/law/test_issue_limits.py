"""Limits of issues and of checks, from both sides."""

from typing import Any

import pytest

from tests.fakes.desk import START_MS, Desk, fits
from tests.fakes.policy import envelope, passed, policy
from tests.limits import stands_on
from understudy.authority.law.outcome import (
    Answered,
    DependencyAdded,
    IssueAdded,
    LeasePut,
)
from understudy.authority.law.state import State, apply
from understudy.authority.views.issues_file import import_payloads, read_issues
from understudy.contracts import (
    CheckPolicy,
    canonical,
    check_policy,
    jsonl,
    limits,
    rfc3339,
)
from understudy.contracts.records.records import Dependency, Issue, Lease
from understudy.contracts.registry.check import validator

MOMENT = rfc3339.record_text(START_MS)


# --- what the authority remembers -----------------------------------------------------------------


def an_issue(key: str, **members: Any) -> Issue:
    return Issue(id=key, title="t", created_at=MOMENT, updated_at=MOMENT, **members)


@stands_on("ISSUES_MAX")
def test_the_store_has_room_for_so_many_issues(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.ISSUES_MAX == 2**22
    monkeypatch.setattr(limits, "ISSUES_MAX", 2)  # four million would take a while
    desk = Desk()
    assert desk.refusal("issue.add", id="a", title="t") is None
    assert desk.refusal("issue.discover", id="a", newId="b", title="t") is None
    assert desk.refusal("issue.add", id="c", title="t") == "issue_store_full"
    assert desk.refusal("issue.discover", id="a", newId="c", title="t") == "issue_store_full"
    record = {"id": "c", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    assert desk.refusal("issue.import", "cli", records=[record]) == "issue_store_full"


@stands_on("DEPENDENCIES_PER_ISSUE_MAX")
def test_an_issue_has_so_many_dependencies() -> None:
    desk = Desk()
    keys = [f"i{place}" for place in range(limits.DEPENDENCIES_PER_ISSUE_MAX + 1)]
    apply(desk.authority.state, [IssueAdded(an_issue(key)) for key in ["a", *keys]])
    links = [DependencyAdded(Dependency("a", key, "blocks")) for key in keys[2:]]
    apply(desk.authority.state, tuple(links))
    assert desk.refusal("dep.add", id="a", dependsOnId="i0") is None
    assert desk.refusal("dep.add", id="a", dependsOnId="i1") == "dep_full"


def test_an_imported_issue_has_no_more_dependencies_than_others() -> None:
    record = {"id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    links = [{"depends_on_id": f"i{n}"} for n in range(limits.DEPENDENCIES_PER_ISSUE_MAX + 1)]
    found = Desk().refusal("issue.import", "cli", records=[record | {"dependencies": links}])
    assert found is not None


@stands_on("ANSWERS_MAX")
def test_the_newest_request_ids_are_remembered_and_older_ones_are_not() -> None:
    state = State()
    ids = [f"r{place}" for place in range(limits.ANSWERS_MAX + 1)]
    apply(state, [Answered(each, "issue.add", "he1_", seq) for seq, each in enumerate(ids[:-1], 1)])
    assert ids[0] in state.answers
    assert len(state.answers) == limits.ANSWERS_MAX
    apply(state, [Answered(ids[-1], "issue.add", "he1_", len(ids))])
    assert ids[0] not in state.answers
    assert ids[1] in state.answers
    assert len(state.answers) == len(state.forgetting) == limits.ANSWERS_MAX


@stands_on("PROJECTION_IDS_MAX")
@pytest.mark.parametrize("extra", [0, 1])
def test_an_answer_lists_so_many_stale_ids_and_counts_them_all(extra: int) -> None:
    desk = Desk()
    count = limits.PROJECTION_IDS_MAX + extra
    for place in range(count):
        key = f"i{place:03d}"
        lease = Lease(
            resource=f"issue/{key}",
            lease_id="l",
            owner="ann",
            fence=place + 1,
            ttl_ms=1,
            granted_ms=0,
            deadline_ms=1,
        )
        issue = an_issue(key, status="in_progress", assignee="ann")
        apply(desk.authority.state, [IssueAdded(issue), LeasePut(lease)])
    projection = desk.grant("issue.ready")["leaseProjection"]
    assert projection["staleCount"] == count
    assert len(projection["staleIssueIds"]) == limits.PROJECTION_IDS_MAX


@stands_on("LIST_MAX")
@pytest.mark.parametrize("extra", [0, 1])
def test_a_read_lists_so_many_issues_and_says_whether_there_are_more(extra: int) -> None:
    desk = Desk()
    count = limits.LIST_MAX + extra
    apply(desk.authority.state, [IssueAdded(an_issue(f"i{place}")) for place in range(count)])
    for action in ("issue.list", "issue.ready"):
        answer = desk.grant(action)
        assert (answer["count"], answer["truncated"]) == (limits.LIST_MAX, bool(extra))
        assert len(answer["issues"]) == limits.LIST_MAX


@stands_on("IMPORT_RECORDS_MAX")
def test_a_row_imports_so_many_records() -> None:
    records = [
        {"id": f"i{place}", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
        for place in range(limits.IMPORT_RECORDS_MAX + 1)
    ]
    assert fits("issue.import", {"records": records[1:]})
    assert not fits("issue.import", {"records": records})


@stands_on("TEXT_DEPTH_MAX")
def test_a_text_that_is_carried_along_is_nested_only_so_deep() -> None:
    text = "[" * limits.TEXT_DEPTH_MAX + "]" * limits.TEXT_DEPTH_MAX
    assert jsonl.parse_text(text) is not None
    with pytest.raises(ValueError, match="deeper"):
        jsonl.parse_text(f"[{text}]")
    assert jsonl.parse_text('"' + "[" * 999 + '"') == "[" * 999


@stands_on("COMMENTS_MAX")
def test_a_record_keeps_so_many_comments() -> None:
    record = {"id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    comments = ["# c"] * (limits.COMMENTS_MAX + 1)
    assert fits("issue.import", {"records": [record | {"comments": comments[1:]}]})
    assert not fits("issue.import", {"records": [record | {"comments": comments}]})


@stands_on("IMPORT_BYTES_MAX")
def test_a_row_of_records_has_a_greatest_length_and_so_has_each_of_them() -> None:
    records = [
        {"id": f"i{place}", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
        | {"notes": "x" * 100_000}
        for place in range(11)
    ]
    payloads = list(import_payloads(records))
    sizes = [len(canonical.encode(payload)) for payload in payloads]
    assert [len(payload["records"]) for payload in payloads] == [10, 1]
    assert max(sizes) <= limits.IMPORT_BYTES_MAX + len(b'{"records":[]}')
    assert len(canonical.encode({"records": records})) > limits.IMPORT_BYTES_MAX
    record = dict.fromkeys(("notes", "design", "description"), "é" * limits.TEXT_LENGTH_MAX)
    half = limits.TEXT_LENGTH_MAX // 2
    record |= {"id": "a", "title": "", "acceptance_criteria": "é" * half + "x" * half}
    record |= {"created_at": MOMENT, "updated_at": MOMENT}
    room = limits.IMPORT_BYTES_MAX - len(canonical.encode(record | {"extra": ""}))
    for title, problems in (("t" * room, 0), ("t" * (room + 1), 1)):
        found = read_issues(canonical.encode(record | {"title": title}) + b"\n", MOMENT)
        assert (len(found[0]), len(found[1])) == (1 - problems, problems)


# --- checks ---------------------------------------------------------------------------------------


@stands_on(
    "CHECKS_MAX",
    "CHECK_RULES_MAX",
    "GLOBS_MAX",
    "CHECK_COMMAND_WORDS_MAX",
    "CHECK_TIMEOUT_SECONDS_MAX",
)
def test_every_list_of_a_check_policy_has_a_greatest_length() -> None:
    def taken(**members: object) -> bool:
        document = policy(**members)
        judged = validator("check-policy").is_valid(document)
        found = check_policy(document)
        assert isinstance(found, CheckPolicy) is judged
        return judged

    def check(place: int = 0, words: int = 1, seconds: int = 1) -> dict[str, Any]:
        command = ["c"] * words
        return {"checkId": f"c{place}", "command": command, "timeoutSeconds": seconds}

    bare: dict[str, object] = {"rules": [], "defaultChecks": [], "allowedChecks": []}
    for count, expected in ((limits.CHECKS_MAX, True), (limits.CHECKS_MAX + 1, False)):
        assert taken(**bare, checks=[check(place) for place in range(count)]) is expected
    for count, expected in ((limits.CHECK_RULES_MAX, True), (limits.CHECK_RULES_MAX + 1, False)):
        rules = [{"ruleId": f"r{place}", "paths": [], "checks": []} for place in range(count)]
        assert taken(rules=rules) is expected
    for count, expected in ((limits.GLOBS_MAX, True), (limits.GLOBS_MAX + 1, False)):
        assert taken(docsPaths=["*"] * count) is expected
    words_max = limits.CHECK_COMMAND_WORDS_MAX
    for count, expected in ((0, False), (words_max, True), (words_max + 1, False)):
        assert taken(**bare, checks=[check(words=count)]) is expected
    seconds_max = limits.CHECK_TIMEOUT_SECONDS_MAX
    for seconds, expected in ((0, False), (seconds_max, True), (seconds_max + 1, False)):
        assert taken(**bare, checks=[check(seconds=seconds)]) is expected


@stands_on("CHANGED_PATHS_MAX")
def test_a_change_has_so_many_paths() -> None:
    paths = [f"p{place}" for place in range(limits.CHANGED_PATHS_MAX)]
    assert fits("required.projection", {"changedPaths": paths})
    assert not fits("required.projection", {"changedPaths": [*paths, "p"]})


@stands_on("WITNESSES_MAX")
def test_so_many_witnesses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WITNESSES_MAX", 3)
    desk = Desk()
    desk.grant("policy.set", "cli", checks=policy())
    asked = {"envelope": envelope(), "results": passed("lint")}
    other = asked | {"envelope": envelope(intent="another")}
    for name in ("i1", "i2", "i3"):
        desk.grant("instruction.run", "cli", instructionId=name, **asked)
    conflict = "instruction_id_conflict"
    assert desk.refusal("instruction.run", "cli", instructionId="i1", **other) == conflict
    desk.grant("instruction.run", "cli", instructionId="i4", **asked)
    assert desk.refusal("instruction.run", "cli", instructionId="i1", **other) is None
    assert desk.refusal("instruction.run", "cli", instructionId="i3", **other) == conflict
    desk.prove()
