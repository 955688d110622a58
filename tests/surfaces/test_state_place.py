"""A repository has one state directory, wherever a command is run, and git leaves it alone."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.conftest import Run
from tests.surfaces.process import understudy
from understudy.authority.journal import move
from understudy.surfaces.cli import state_place


def git(*words: str, cwd: Path) -> str:
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *who, *words], cwd=cwd, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a commit, whose path is not the plainest."""
    folder = tmp_path / "mein Lädchen"
    folder.mkdir()
    git("init", "--quiet", cwd=folder)
    git("commit", "--quiet", "--allow-empty", "--message", "Begin", cwd=folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def loose_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


# --- git ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("loose_umask")
def test_git_neither_commits_nor_cleans_away_a_state_directory(repository: Path, bare: Run) -> None:
    assert bare("init").code == 0
    assert git("status", "--porcelain", cwd=repository) == ""
    git("add", "-A", cwd=repository)
    assert git("ls-files", cwd=repository) == ""
    git("clean", "-fd", cwd=repository)
    assert bare("issue", "list").code == 0


def test_a_copy_of_the_journal_is_left_alone_by_git_too(repository: Path, bare: Run) -> None:
    bare("init")
    move.copy(Path(".premath"), "copy")
    assert git("status", "--porcelain", cwd=repository) == ""


def test_a_folder_that_people_work_in_is_not_hidden_from_git(repository: Path, bare: Run) -> None:
    (repository / "work.txt").write_text("mine")
    assert bare("init", "--state-dir", ".").code == 0
    assert "work.txt" in git("status", "--porcelain", cwd=repository)


def test_the_doctor_names_an_old_one_that_git_would_take_and_how_to_mend_it(
    repository: Path, bare: Run
) -> None:
    bare("init")
    Path(".premath/.gitignore").unlink()
    said = bare("doctor")
    assert "note     git" in said.out
    (remedy,) = (line.partition("-> ")[2] for line in said.out.splitlines() if "-> echo" in line)
    subprocess.run(["sh", "-c", remedy.partition(", and")[0]], check=True)
    assert "note     git" not in bare("doctor").out
    assert git("status", "--porcelain", cwd=repository) == ""


# --- one for a repository -------------------------------------------------------------------------


def test_a_command_below_uses_the_state_directory_above(
    repository: Path, bare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare("init")
    bare("issue", "add", "first", "--id", "a")
    (repository / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(repository / "src" / "deep")
    assert bare("issue", "show", "a").code == 0
    said = bare("where", "--json").json
    assert (said["stateDir"], said["why"]) == (str(repository / ".premath"), "above")


@pytest.mark.parametrize("place", ["beside", "mein Lädchen/inside"])
def test_a_linked_worktree_uses_what_its_main_one_uses(
    repository: Path, bare: Run, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare("init")
    tree = repository.parent / place
    git("worktree", "add", "--quiet", str(tree), cwd=repository)
    (tree / "src").mkdir()
    for folder in (tree, tree / "src"):
        monkeypatch.chdir(folder)
        said = bare("where", "--json").json
        assert (said["stateDir"], said["why"]) == (str(repository / ".premath"), "main-worktree")


def test_a_linked_worktree_finds_what_is_above_its_main_one(
    repository: Path, tmp_path: Path, bare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm, near = tmp_path / "farm", tmp_path / "near"
    farm.mkdir()
    moved = farm / "repository"
    repository.rename(moved)
    git("worktree", "add", "--quiet", str(near), cwd=moved)
    assert bare("init", "--state-dir", farm / ".premath").code == 0
    monkeypatch.chdir(near)
    assert bare("where", "--json").json["stateDir"] == str(farm / ".premath")


def test_a_second_one_is_made_only_by_one_who_says_so(
    repository: Path, bare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare("init")
    below = repository / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    refused = bare("init")
    assert refused.code == 2
    assert str(repository / ".premath") in refused.err
    assert "--here" in refused.err
    assert list(below.iterdir()) == []
    assert bare("init", "--here").out.startswith("made .premath\n")
    assert bare("where", "--json").json["why"] == "here"
    assert bare("init").out.startswith("exists: .premath\n")


def test_a_linked_worktree_is_told_where_all_of_them_would_find_one(
    repository: Path, bare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = repository.parent / "beside"
    git("worktree", "add", "--quiet", str(tree), cwd=repository)
    monkeypatch.chdir(tree)
    refused = bare("init")
    assert refused.code == 2
    _, _, words = refused.err.replace("\n", " ").partition("`understudy ")
    assert bare(*shlex.split(words.partition("`")[0])).code == 0
    assert bare("where", "--json").json["stateDir"] == str(repository / ".premath")


def test_one_that_is_named_wins(
    repository: Path, bare: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare("init")
    other = tmp_path / "other"
    assert bare("init", "--state-dir", other).code == 0
    for arguments in (
        ["where", "--json", "--state-dir", other],
        ["--state-dir", other, "where", "--json"],
    ):
        said = bare(*arguments).json
        assert (said["stateDir"], said["why"]) == (str(other), "--state-dir")
    monkeypatch.setenv("UNDERSTUDY_STATE_DIR", str(other))
    said = bare("where", "--json").json
    assert (said["stateDir"], said["why"]) == (str(other), "UNDERSTUDY_STATE_DIR")


def test_where_there_is_none_it_says_so(repository: Path, bare: Run) -> None:
    said = bare("where")
    assert (said.code, said.out.splitlines()[0]) == (78, str(repository / ".premath"))
    assert "understudy init" in said.err
    assert bare("where", "--json").json["failureClasses"] == ["state_dir_missing"]


# --- what is not ours -----------------------------------------------------------------------------


def test_what_everybody_can_write_in_is_passed_over(
    repository: Path, bare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare("init")
    Path(".premath").chmod(0o777)
    _below(repository, monkeypatch)
    said = bare("where", "--json")
    assert (said.code, said.json["why"]) == (78, "missing")
    assert said.json["passedOver"] == [f"{repository}/.premath: everybody can write in it"]
    assert "passed over" in bare("init").err


def test_what_belongs_to_another_user_is_passed_over(
    repository: Path, bare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare("init")
    _below(repository, monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    (line,) = bare("where", "--json").json["passedOver"]
    assert line.endswith("it belongs to another user")


@pytest.mark.parametrize(
    "pointer",
    [b"", b"gitdir: ", b"gitdir: /nowhere", b"\xff" * 9000, b"gitdir: \0", None],
    ids=repr,
)
def test_a_broken_pointer_of_git_leads_nowhere(
    tmp_path: Path, bare: Run, pointer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.chdir(tree)
    if pointer is None:
        os.mkfifo(".git")
    else:
        Path(".git").write_bytes(pointer)
    assert bare("where").code == 78


def test_in_a_folder_that_was_deleted_there_is_none(
    tmp_path: Path, bare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert state_place.chosen(None).why == "missing"


# --- the fast ways --------------------------------------------------------------------------------


def test_guard_finds_it_from_below(repository: Path, bare: Run) -> None:
    bare("init")
    bare("issue", "add", "first", "--id", "a")
    claim = bare("issue", "claim", "a", "--assignee", "ada", "--json").json
    below = repository / "below"
    below.mkdir()
    fence = claim["issue"]["lease"]["fence"]
    done = understudy("guard", "--resource", "issue/a", "--fence", str(fence), cwd=below)
    assert (done.returncode, done.stderr) == (0, b"")


def test_looking_for_it_imports_nothing_more() -> None:
    code = (
        "import sys, understudy.authority.service.fence_check, understudy.surfaces.cli.entry\n"
        "before = set(sys.modules)\n"
        "from understudy.surfaces.cli import state_place\n"
        "state_place.chosen(None)\n"
        "print(*(sys.modules.keys() - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"understudy.surfaces.cli.state_place", "stat"}


def test_a_command_under_a_lease_gets_the_absolute_path(repository: Path, bare: Run) -> None:
    bare("init")
    bare("issue", "add", "first", "--id", "a")
    below = repository / "below"
    below.mkdir()
    done = understudy("exec", "-q", "a", "--", "sh", "-c", "echo $UNDERSTUDY_STATE_DIR", cwd=below)
    assert (done.returncode, done.stdout.decode()) == (0, f"{repository}/.premath\n")


def _below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
