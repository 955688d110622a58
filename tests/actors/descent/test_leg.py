"""Legs: commands in worktrees of their own, under real leases, in real repositories."""

import os
import sys
from pathlib import Path

import pytest

from tests.actors.descent.bench import Bench, record, said
from tests.actors.descent.bench import bench as bench  # noqa: PLC0414 - a fixture
from tests.fakes.policy import policy
from understudy.actors.descent.leg import LegSettings
from understudy.actors.descent.workspace import _short
from understudy.actors.descent.worktree import occupied
from understudy.contracts import limits

CHANGE = "echo changed > one; echo fresh > new; rm two"


# --- how it ends ----------------------------------------------------------------------------------


def test_what_a_command_changed_becomes_a_section_and_the_issue_waits(bench: Bench) -> None:
    head = bench.place.git("rev-parse", "main")
    outcome = bench.run(CHANGE)
    assert (outcome.result, outcome.code) == ("completed", 0), said(outcome)
    issue = bench.issue()
    assert (issue["status"], "lease" in issue) == ("gluing", False)
    (section,) = bench.sections()
    assert outcome.held is not None
    assert section["paths"] == ["new", "one", "two"]
    assert (section["base"], section["target"]) == (head, "main")
    assert bench.refs("section") == {f"x/{outcome.held.fence}": section["commit"]}
    assert bench.refs("aside") == {}
    assert bench.file(section["commit"], "one") == "changed"
    assert bench.place.git("rev-parse", f"{section['commit']}^{{tree}}") == section["tree"]
    assert bench.place.git("rev-parse", "main") == head
    assert (bench.paths(), bench.branches()) == ([], "main")


def test_a_section_names_its_lease(bench: Bench) -> None:
    outcome = bench.run(CHANGE)
    assert outcome.held is not None
    (section,) = bench.sections()
    text = bench.place.git("show", "--no-patch", "--format=%B", section["commit"])
    assert text.splitlines()[0] == "work on x"
    assert f"Understudy-Issue: x\nUnderstudy-Fence: {outcome.held.fence}\n" in text
    assert f"Understudy-Lease: {outcome.held.lease_id}" in text


def test_commits_of_the_command_stay(bench: Bench) -> None:
    bench.run("echo a > one; git commit -qam mine; echo b > two")
    (section,) = bench.sections()
    log = bench.place.git("log", "--format=%s", f"main..{section['commit']}")
    assert log.splitlines() == ["work on x", "mine"]


@pytest.mark.parametrize("script", ["true", "echo 1 > one", "echo x > a.o", "touch one"])
def test_where_nothing_changed_the_issue_is_closed(bench: Bench, script: str) -> None:
    outcome = bench.run(script)
    assert outcome.result == "completed"
    assert bench.issue()["status"] == "closed"
    assert (bench.refs("section"), bench.refs("aside"), bench.paths()) == ({}, {}, [])
    assert "nothing was changed" in said(outcome)


@pytest.mark.parametrize(
    ("end", "result", "code"),
    [
        ("exit 1", "failed", 1),
        ("exit 75", "handed_back", 75),
        ("exit 78", "failed", 78),
        ("kill -9 $$", "failed", 137),
        ("kill -TERM $$", "failed", 143),
    ],
)
def test_after_any_other_end_what_was_changed_is_set_aside(
    bench: Bench, end: str, result: str, code: int
) -> None:
    outcome = bench.run(f"{CHANGE}; git add new; {end}")
    assert (outcome.result, outcome.code) == (result, code), said(outcome)
    assert bench.issue()["status"] == "open"
    ((name, commit),) = bench.refs("aside").items()
    assert outcome.held is not None
    assert name == f"x/{outcome.held.fence}"
    assert (bench.file(commit, "one"), bench.file(commit, "new")) == ("changed", "fresh")
    assert "two" not in bench.place.git("ls-tree", "--name-only", commit).splitlines()
    assert (bench.refs("section"), bench.paths(), bench.branches()) == ({}, [], "main")


# --- what the command finds -----------------------------------------------------------------------


def test_a_command_finds_its_worktree(bench: Bench, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f"env > {seen}; pwd >> {seen}; git rev-parse --abbrev-ref HEAD >> {seen}"
    outcome = bench.run(script)
    assert outcome.held is not None
    fence = outcome.held.fence
    path = bench.place.state_dir / "worktrees" / "x" / str(fence)
    lines = seen.read_text().splitlines()
    base = bench.place.git("rev-parse", "main")
    for name, value in (("WORKTREE", path), ("BRANCH", f"understudy/x/{fence}"), ("BASE", base)):
        assert f"UNDERSTUDY_{name}={value}" in lines
    assert lines[-2:] == [str(path), f"understudy/x/{fence}"]
    assert not any(line.startswith("UNDERSTUDY_SECTION_FILE") for line in lines)


def test_a_command_is_not_led_to_another_repository(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(bench.place.top / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(bench.place.top))
    bench.run("echo a > one; git commit -qam mine")
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_WORK_TREE")
    assert bench.place.git("log", "--format=%s", "main") == "start"
    assert len(bench.sections()) == 1


def test_the_record_on_stdin_names_the_worktree_and_what_was_left(
    bench: Bench, tmp_path: Path
) -> None:
    bench.run(f"{CHANGE}; exit 1")
    bench.run(f"cat > {tmp_path / 'record'}")
    found = record(tmp_path / "record")
    ((name, commit),) = bench.refs("aside").items()
    assert found["id"] == "x"
    assert found["asides"] == [
        {"ref": f"refs/understudy/aside/{name}", "commit": commit, "fence": int(name[2:])}
    ]
    assert found["worktree"]["branch"].startswith("understudy/x/")
    assert found["worktree"]["base"] == bench.place.git("rev-parse", "main")
    assert "obstruction" not in found


def test_a_command_may_leave_its_input_unread(bench: Bench) -> None:
    bench.ask("issue.update", {"id": "x", "description": "long " * 12_000})
    assert bench.run("exec <&-; echo a > one").result == "completed"


def test_work_starts_where_the_target_is_then(bench: Bench, tmp_path: Path) -> None:
    bench.place.write(three="3\n")
    head = bench.place.commit()
    bench.run(f"cat three > {tmp_path / 'seen'}; echo a > one")
    assert (tmp_path / "seen").read_text() == "3\n"
    assert bench.sections()[0]["base"] == head


def test_work_starts_from_the_base_that_is_named(bench: Bench, tmp_path: Path) -> None:
    first = bench.place.git("rev-parse", "main")
    bench.place.write(three="3\n")
    bench.place.commit()
    bench.run(f"ls > {tmp_path / 'seen'}; echo a > one", base=first)
    assert (tmp_path / "seen").read_text() == "one\ntwo\n"
    assert bench.sections()[0]["base"] == first


def test_a_sparse_worktree_has_its_folders_alone(bench: Bench, tmp_path: Path) -> None:
    for name in ("left", "right"):
        (bench.place.top / name).mkdir()
        (bench.place.top / name / "file").write_text("1\n")
    bench.place.commit()
    bench.run(f"ls > {tmp_path / 'seen'}; echo 2 > left/file", sparse=("left",))
    assert "right" not in (tmp_path / "seen").read_text()
    (section,) = bench.sections()
    assert section["paths"] == ["left/file"]
    assert bench.file(section["commit"], "right/file") == "1"


# --- setup ----------------------------------------------------------------------------------------


def test_setup_comes_before_the_command_and_in_its_worktree(bench: Bench) -> None:
    outcome = bench.run("cat cache.o > one", setup="echo $UNDERSTUDY_BRANCH > cache.o")
    assert outcome.held is not None
    (section,) = bench.sections()
    assert bench.file(section["commit"], "one") == f"understudy/x/{outcome.held.fence}"


@pytest.mark.parametrize(
    ("setup", "words"),
    [
        ("echo no network; exit 3", "--setup ended with 3"),
        ("no-such-command", "--setup ended with 127"),
        ("echo a > made; echo b > one", "2 changes that would be part of every section: one, made"),
    ],
)
def test_a_setup_that_fails_is_a_fault_of_the_tree(bench: Bench, setup: str, words: str) -> None:
    outcome = bench.run("echo ran > one", setup=setup)
    assert (outcome.result, outcome.code) == ("not_started", 78)
    assert words in outcome.diagnostic
    issue = bench.issue()
    assert (issue["status"], issue["excused"]) == ("open", 1)
    assert bench.paths() == []


def test_a_target_that_is_gone_is_a_fault_of_the_tree(bench: Bench) -> None:
    bench.place.git("branch", "--move", "other")
    outcome = bench.run("echo ran > one")
    assert (outcome.result, outcome.code) == ("not_started", 78)
    assert "no branch `main`" in outcome.diagnostic
    assert bench.issue()["status"] == "open"


# --- checks ---------------------------------------------------------------------------------------


def require(bench: Bench, test: str, **members: object) -> None:
    check = {"command": [sys.executable, "-I", "-S", "-c", test], "timeoutSeconds": 60}
    named = [{"checkId": name, **check} for name in ("lint", "tests")]
    document = policy(checks=named, **members)
    assert bench.ask("policy.set", {"checks": document})["result"] == "accepted"


def test_a_section_whose_checks_passed_has_a_witness(bench: Bench) -> None:
    require(bench, "assert open('one').read() == 'good\\n'", closeRequires="witness")
    outcome = bench.run("echo good > one")
    assert outcome.result == "completed", said(outcome)
    (section,) = bench.sections()
    assert section["witness"]
    assert ": passed" in said(outcome)


def test_a_section_whose_checks_failed_is_none(bench: Bench) -> None:
    require(bench, "assert open('one').read() == 'good\\n'")
    outcome = bench.run("echo bad > one")
    assert (outcome.result, outcome.code) == ("failed", 9)
    assert ": failed" in said(outcome)
    assert (bench.sections(), bench.issue()["status"]) == ([], "open")
    ((_, commit),) = bench.refs("aside").items()
    assert bench.file(commit, "one") == "bad"


# --- leases that end too early --------------------------------------------------------------------

BREAK = f"{Path(sys.executable).with_name('understudy')} issue break x --reason stuck >&2"
CLAIM = "env -u UNDERSTUDY_LEASE -u UNDERSTUDY_FENCE " + BREAK.replace(
    "break x --reason stuck", "claim x --assignee bob"
)


@pytest.mark.parametrize("also", [":", CLAIM], ids=["free", "taken"])
def test_a_section_of_a_lease_that_is_over_is_refused_and_kept(bench: Bench, also: str) -> None:
    head = bench.place.git("rev-parse", "main")
    outcome = bench.run(f"trap '' TERM; {CHANGE}; {BREAK} && {also}")
    assert (outcome.result, outcome.code) == ("lost", 6), said(outcome)
    assert bench.sections() == []
    assert bench.place.git("rev-parse", "main") == head
    (commit,) = bench.kept().values()
    assert bench.file(commit, "new") == "fresh"
    assert bench.issue()["status"] == ("open" if also == ":" else "in_progress")


def test_a_section_that_was_refused_is_offered_to_the_next_holder(
    bench: Bench, tmp_path: Path
) -> None:
    bench.run(f"{CHANGE}; {BREAK}")
    bench.run(f"cat > {tmp_path / 'record'}")
    (aside,) = record(tmp_path / "record")["asides"]
    assert bench.file(aside["commit"], "new") == "fresh"


def test_what_a_killed_leg_left_is_set_aside_by_the_next_one(bench: Bench, tmp_path: Path) -> None:
    outcome = bench.run(f"{CHANGE}; git add new; echo more >> new; kill -9 $PPID; sleep 60")
    assert (outcome.result, outcome.code) == ("failed", 137)
    (path,) = bench.paths()
    assert (path / "new").read_text() == "fresh\nmore\n"
    bench.run(f"cat > {tmp_path / 'record'}")
    (aside,) = record(tmp_path / "record")["asides"]
    assert bench.file(aside["commit"], "one") == "changed"
    assert bench.file(aside["commit"], "new") == "fresh\nmore"
    assert bench.paths() == []


def test_a_worktree_that_is_worked_in_is_not_taken_away(bench: Bench, tmp_path: Path) -> None:
    """As long as what its leg started lives, its lock is held, whatever became of the lease."""
    bench.run(f"{CHANGE}; kill -9 $PPID; sleep 60")
    (left,) = bench.worktrees()
    with occupied(left):
        second = bench.run(f"cat > {tmp_path / 'record'}")
        assert (left.path / "new").read_text() == "fresh\n"
    assert "a process is still at work" in said(second)
    (commit,) = bench.kept().values()
    assert bench.file(commit, "new") == "fresh"


def test_what_a_command_leaves_running_is_ended_before_its_commit(
    bench: Bench, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    left = f"(trap 'echo last > one; exit' TERM; touch {ready}; while :; do sleep 0.01; done) &"
    bench.run(f"{left} while [ ! -e {ready} ]; do sleep 0.01; done; echo a > two")
    (section,) = bench.sections()
    assert section["paths"] == ["one", "two"]
    assert bench.file(section["commit"], "one") == "last"
    assert bench.refs("aside") == {}


# --- what is no section ---------------------------------------------------------------------------


def test_a_path_out_of_the_scope_fails_the_attempt(bench: Bench) -> None:
    bench.add("y", scope=["docs/*"])
    outcome = bench.run(CHANGE, "y")
    assert (outcome.result, outcome.failure) == ("failed", "section_out_of_scope")
    assert bench.issue("y")["status"] == "open"
    ((_, commit),) = bench.refs("section").items()
    assert bench.file(commit, "new") == "fresh"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("git switch -q -c mine; echo a > one", "on branch mine"),
        ("git switch -q --detach; echo a > one", "detached"),
        ("truncate -s 101M huge", "104857600 are allowed"),
    ],
)
def test_what_cannot_be_committed_fails_and_is_kept(bench: Bench, script: str, words: str) -> None:
    outcome = bench.run(script)
    assert (outcome.result, outcome.code) == ("failed", 1)
    assert words in said(outcome)
    assert len(bench.refs("aside")) == 1
    assert bench.paths() == []


def test_a_repository_within_stays_and_does_not_stop_the_next_leg(bench: Bench) -> None:
    make = "git init -q inner; cd inner; echo 1 > a; git add a; git commit -qm inner"
    outcome = bench.run(make)
    assert (outcome.result, outcome.code) == ("failed", 1)
    assert "a git repository of its own" in said(outcome)
    (path,) = bench.paths()
    assert (path / "inner" / "a").exists()
    again = bench.run("echo a > one")
    assert again.result == "completed", said(again)
    assert "stays" in said(again)
    assert bench.paths() == [path]


def test_what_is_written_through_a_link_is_not_in_the_section(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    bench.run(f"ln -s {outside} link; echo a > link/file")
    (section,) = bench.sections()
    assert section["paths"] == ["link"]
    assert (outside / "file").exists()


def test_odd_names_are_spelled_and_whole(bench: Bench) -> None:
    bench.run(r"""printf x > "$(printf 'new\nline')"; printf y > "$(printf '\377')"; : > 'a b'""")
    (section,) = bench.sections()
    assert section["paths"] == ['"\\377"', '"new\\012line"', "a b"]


def test_more_paths_than_a_section_names_are_counted(bench: Bench) -> None:
    count = limits.SECTION_PATHS_MAX + 3
    bench.run(f"mkdir many; cd many; seq {count} | xargs touch")
    (section,) = bench.sections()
    assert section["pathCount"] == count


def test_long_paths_fit_into_a_request() -> None:
    assert _short("a" * 400) == "a" * 400
    long = {_short("é" * 300 + end) for end in "ab"}
    assert len(long) == 2
    assert all(len(each.encode()) < 500 for each in long)


def test_settings_survive_a_path_that_is_no_text() -> None:
    folder = os.fsdecode(b"/tmp/\xff")
    assert LegSettings(folder, "main").words()[3].isascii()
