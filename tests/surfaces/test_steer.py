"""`cancel`, `retry`, `pause`, `approve` on the command line: what ID names, and what is refused."""

from pathlib import Path

import pytest

from tests.surfaces.process import report_of, understudy
from understudy.authority.journal.state_dir import create_state_dir


@pytest.fixture
def home(tmp_path: Path) -> list[str | Path]:
    create_state_dir(tmp_path / "state", "local")
    return ["--state-dir", tmp_path / "state"]


def test_an_id_is_an_issue_or_else_a_job_and_a_prefix_tells_them_apart(
    home: list[str | Path],
) -> None:
    report_of("issue", "add", "t", "--id", "both", *home)
    for name in ("both", "alone"):
        report_of("job", "schedule", name, "--kind", "k", *home)
    assert report_of("cancel", "both", *home)["issue"]["status"] == "cancelled"
    assert report_of("cancel", "job/both", *home)["job"]["state"] == "cancelled"
    assert report_of("cancel", "alone", *home)["job"]["state"] == "cancelled"
    assert report_of("retry", "issue/both", *home)["issue"]["status"] == "open"
    said = understudy("cancel", "nowhere", *home)
    assert (said.returncode, b"issue_not_found" in said.stderr) == (3, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["pause", "--label", "a", "--issue", "b"], 2, b"name one scope"),
        (["pause", "--issue", "nowhere"], 3, b"issue_not_found"),
        (["pause", "--kind", "*"], 2, b"scope_invalid"),
        (["unpause"], 5, b"pause_missing"),
        (["approve", "a"], 5, b"approval_not_asked"),
        (["retry", "a"], 5, b"work_not_blocked"),
        (["issue", "prioritize", "a", "soon"], 2, b"not a valid integer"),
        (["policy", "set", "--approve", "prod"], 2, b"scope_invalid"),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_step(
    home: list[str | Path], words: list[str], code: int, said: bytes
) -> None:
    report_of("issue", "add", "t", "--id", "a", *home)
    done = understudy(*words, *home)
    assert done.returncode == code
    assert said in done.stderr


def test_who_finds_nothing_is_told_what_people_withhold(home: list[str | Path]) -> None:
    for name in ("a", "b"):
        report_of("issue", "add", "t", "--id", name, "--label", name, *home)
    for name, kind in (("j", "ci.x"), ("k", "ci.y"), ("m", "other")):
        report_of("job", "schedule", name, "--kind", kind, *home)
    understudy("policy", "set", "--approve", "label/b", *home)
    for words in (["--label", "a"], ["--kind", "ci."], ["--kind", "ci.x"], ["--job", "m"]):
        understudy("pause", *words, *home)
    for words in (["next", "--as", "eve"], ["ready"]):
        said = understudy("issue", *words, *home).stdout.decode()
        assert "paused  label/a\n`understudy unpause`" in said
        assert "waits for a person: b; `understudy approve ID`" in said
        assert "kind/" not in said
    found = report_of("job", "roster", *home)
    assert [each["scope"] for each in found["pauses"]] == ["job/m", "kind/ci.", "kind/ci.x"]
    assert (found["jobCounts"]["pending"], found["jobCounts"]["paused"]) == (0, 3)
    assert "  paused  label/a" in understudy("issue", "show", "a", *home).stdout.decode()
    understudy("unpause", "--kind", "ci.", *home)
    counts = report_of("job", "roster", *home)["jobCounts"]
    assert (counts["pending"], counts["paused"]) == (1, 2)
    understudy("pause", *home)
    assert report_of("job", "roster", *home)["jobCounts"]["paused"] == 3


@pytest.mark.parametrize("words", [["reopen"], ["issue", "reopen"]])
def test_what_is_over_is_reopened(home: list[str | Path], words: list[str]) -> None:
    report_of("issue", "add", "t", "--id", "a", *home)
    for end in (["cancel", "a"], ["issue", "close", "a"], ["issue", "update", "a", "--status"]):
        report_of(*end, *(["blocked"] if end[-1] == "--status" else []), *home)
        assert report_of(*words, "a", *home)["issue"]["status"] == "open"
    assert b"work_not_blocked" in understudy(*words, "a", *home).stderr
    assert b"issue_not_found" in understudy(*words, "nowhere", *home).stderr


def test_a_job_says_what_people_withhold_of_it(home: list[str | Path]) -> None:
    report_of("job", "schedule", "j", "--kind", "k", *home)
    understudy("policy", "set", "--approve", "kind/k", *home)
    understudy("pause", "--kind", "k", *home)
    words = b"j  pending  k  paused by kind/k  waits for a person's approval"
    for command in (["job", "list"], ["job", "show", "j"], ["job", "roster"]):
        assert words in understudy(*command, *home).stdout
    said = understudy("reject", "j", *home).stdout
    assert said == b"reject: j  pending  k  paused by kind/k  rejected\n"


def test_who_said_it_and_why_is_shown(home: list[str | Path]) -> None:
    report_of("issue", "add", "t", "--id", "a", *home)
    understudy("pause", "--label", "ui", "--as", "eve", "--reason", "release", *home)
    listed = understudy("pause", "--list", *home)
    assert listed.stdout == b"paused  label/ui  by eve: release\n"
    understudy("unpause", "--label", "ui", *home)
    assert understudy("pause", "--list", *home).stdout == b"nothing is paused\n"
    report_of("issue", "ask", "a", *home)
    rejected = report_of("reject", "a", "--as", "eve", "--reason", "no", *home)["issue"]
    assert (rejected["status"], rejected["approval"]) == ("blocked", "rejected")
    assert rejected["steered"] == {"byName": "eve", "reason": "no"}
    row = report_of("sql", "SELECT status, approval, steered_by FROM issue", *home)
    assert row == {"status": "blocked", "approval": "rejected", "steered_by": "eve"}
