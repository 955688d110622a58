"""`understudy worktree`: what there is, what was left, and what goes."""

import shutil
from pathlib import Path

import pytest

from tests.actors.descent.conftest import Place
from tests.surfaces.conftest import Run
from understudy.actors.descent.repository import survey
from understudy.actors.descent.worktree import Worktree, create
from understudy.authority.journal.state_dir import create_state_dir


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A repository with a state directory, as `understudy init` makes it; we are in there."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
    top = tmp_path / "repository"
    top.mkdir()
    made = Place(top)
    made.git("init", "--quiet", "--initial-branch", "main")
    create_state_dir(made.state_dir, "local")
    made.write(one="1\n")
    made.commit("start")
    monkeypatch.chdir(top)
    return made


def claimed(bare: Run, place: Place, issue_id: str, assignee: str = "ada") -> Worktree:
    """A worktree under a lease."""
    bare("issue", "add", "work", "--id", issue_id)
    answer = bare("issue", "claim", issue_id, "--as", assignee, "--json").json
    found = survey(place.top, place.state_dir)
    return create(found, issue_id, answer["issue"]["lease"]["fence"], found.base)


def test_a_list_says_whose_lease_is_current_and_what_is_not_committed(
    bare: Run, place: Place
) -> None:
    assert bare("worktree", "list").out == "no worktrees\n"
    held, over = claimed(bare, place, "a"), claimed(bare, place, "b")
    (held.path / "new\nline").write_text("2\n")
    assert bare("issue", "break", "b", "--reason", "gone").code == 0
    said = bare("worktree", "list").out.splitlines()
    assert said == [
        f"a  fence {held.fence}  current  dirty  {held.branch}  .premath/worktrees/a/{held.fence}",
        f"b  fence {over.fence}  over  clean  {over.branch}  .premath/worktrees/b/{over.fence}",
    ]
    first, second = bare("worktree", "list", "--json").json["worktrees"]
    assert (first["current"], first["dirty"], first["changed"]) == (True, True, ['"new\\012line"'])
    assert (second["current"], second["dirty"], second["state"]) == (False, False, "whole")
    shutil.rmtree(over.path)
    assert "  over  gone  " in bare("worktree", "list").out


def test_show_is_about_one_issue(bare: Run, place: Place) -> None:
    tree = claimed(bare, place, "a")
    for number in range(20):
        (tree.path / f"f{number:02}").write_text("x")
    said = bare("worktree", "show", "a")
    assert said.code == 0
    assert f"  base  {tree.base}\n  not committed  f00\n" in said.out
    assert said.out.endswith("  and 4 more\n")
    assert bare("worktree", "show", "a", "--json").json["worktrees"][0]["base"] == tree.base
    missing = bare("worktree", "show", "nothing")
    assert (missing.code, "has no worktree" in missing.err) == (3, True)


def test_prune_removes_what_is_over_keeps_what_is_in_it_and_leaves_what_is_current(
    bare: Run, place: Place
) -> None:
    held, over = claimed(bare, place, "a"), claimed(bare, place, "b")
    (over.path / "left").write_text("work\n")
    bare("issue", "break", "b", "--reason", "gone")
    trial = bare("worktree", "prune", "--dry-run")
    assert trial.out.splitlines() == [
        f"would remove b, fence {over.fence}",
        f"stays: a, fence {held.fence} is current",
    ]
    assert over.path.exists()
    ref = f"refs/understudy/aside/b/{over.fence}"
    done = bare("worktree", "prune")
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        f"removed b, fence {over.fence}; kept under {ref}",
    )
    assert (held.path.exists(), over.path.exists()) == (True, False)
    assert place.git("show", f"{ref}:left") == "work"
    assert f"b  fence {over.fence}  left  {ref}" in bare("worktree", "list").out
    assert bare("worktree", "prune", "--json").json["removed"] == []


def test_prune_says_what_it_could_not_set_aside(bare: Run, place: Place) -> None:
    torn, over = claimed(bare, place, "a"), claimed(bare, place, "b")
    place.git("worktree", "lock", torn.path)
    for issue_id in ("a", "b"):
        bare("issue", "break", issue_id, "--reason", "gone")
    done = bare("worktree", "prune", "--json")
    assert done.code == 1
    assert [each["issueId"] for each in done.json["removed"]] == ["b"]
    assert "git worktree unlock" in done.json["refused"][0]["diagnostic"]
    assert (torn.path.exists(), over.path.exists()) == (True, False)


def test_the_next_holder_adopts_what_was_left(bare: Run, place: Place) -> None:
    first = claimed(bare, place, "a")
    (first.path / "left").write_text("work\n")
    nothing = bare("worktree", "adopt", "a")
    assert (nothing.code, "nothing was left of issue a" in nothing.err) == (78, True)
    bare("issue", "break", "a", "--reason", "gone")
    bare("worktree", "prune")
    early = bare("worktree", "adopt", "a")
    assert (early.code, "has no worktree; claim it" in early.err) == (78, True)
    second = claimed(bare, place, "a", "bob")
    wrong = bare("worktree", "adopt", "a", "--left", "999")
    assert (wrong.code, "under fence 999" in wrong.err) == (78, True)
    done = bare("worktree", "adopt", "a", "--json").json
    assert (done["paths"], done["fence"]) == (["left"], second.fence)
    assert (second.path / "left").read_text() == "work\n"
    again = bare("worktree", "adopt", "a", "--fence", second.fence, "--left", first.fence)
    assert (again.code, "commit them first" in again.err) == (78, True)


def test_outside_of_a_repository_the_text_says_so(call: Run) -> None:
    for words in (["list"], ["show", "a"], ["prune"], ["adopt", "a"]):
        said = call("worktree", *words, "--json")
        assert (said.code, said.json["failureClasses"]) == (78, ["git_refused"])
        assert "is in no git repository" in said.json["diagnostic"]


def test_who_resumes_an_issue_is_shown_what_was_set_aside(bare: Run, place: Place) -> None:
    tree = claimed(bare, place, "a")
    (tree.path / "new").write_text("2\n")
    assert bare("resume", "a").out.endswith("  no holder left anything\n")
    bare("issue", "break", "a", "--reason", "gone")
    bare("worktree", "prune")
    ref = f"refs/understudy/aside/a/{tree.fence}"
    said = bare("resume", "a").out
    assert f"  - {ref}\n" in said
    assert "worktree adopt" in said
    (left,) = bare("resume", "a", "--json").json["asides"]
    assert (left["ref"], left["fence"]) == (ref, tree.fence)
