"""A repository is fit for worktrees, or a text says what to do."""

import shutil
from pathlib import Path

import pytest

from tests.actors.descent.conftest import Place
from understudy.actors.descent import repository
from understudy.actors.descent.git import GitRefused


def test_a_survey_tells_target_and_base(place: Place) -> None:
    found = place.survey()
    assert found.top == place.top
    assert found.common_dir == place.top / ".git"
    assert (found.target, found.base) == ("main", place.git("rev-parse", "HEAD"))
    assert found.version >= (2, 38)
    assert repository.warnings(found) == []


def test_a_survey_from_a_folder_below_or_a_linked_worktree_finds_the_same_repository(
    place: Place, tmp_path: Path
) -> None:
    (place.top / "below").mkdir()
    below = repository.survey(place.top / "below", place.state_dir)
    assert below.top == place.top
    place.git("worktree", "add", "--quiet", "-b", "side", tmp_path / "side")
    side = repository.survey(tmp_path / "side", place.state_dir)
    assert (side.common_dir, side.target) == (place.top / ".git", "side")


def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GitRefused, match="is in no git repository; `git init` makes one"):
        repository.survey(tmp_path, tmp_path / "state")
    with pytest.raises(GitRefused, match="there is no such folder"):
        repository.survey(tmp_path / "missing", tmp_path / "state")


def test_a_bare_repository_is_refused(place: Place, tmp_path: Path) -> None:
    place.git("clone", "--quiet", "--bare", ".", tmp_path / "bare.git")
    with pytest.raises(GitRefused, match=r"bare repository.*git clone"):
        repository.survey(tmp_path / "bare.git", place.state_dir)
    assert repository.locate(tmp_path / "bare.git", place.state_dir).is_bare
    with pytest.raises(GitRefused, match="inside of a git directory"):
        repository.survey(place.top / ".git", place.state_dir)


def test_a_branch_without_a_commit_is_refused(tmp_path: Path) -> None:
    fresh = Place(tmp_path)
    fresh.git("init", "--quiet")
    fresh.state_dir.mkdir()
    (fresh.state_dir / ".gitignore").write_text("*\n")
    with pytest.raises(GitRefused, match=r"main .* has no commit yet; make the first one"):
        fresh.survey()


def test_a_detached_head_is_refused_unless_a_branch_is_named(place: Place) -> None:
    place.git("switch", "--quiet", "--detach")
    with pytest.raises(GitRefused, match=r"detached.*--into"):
        place.survey()
    assert place.survey(target="main").target == "main"


@pytest.mark.parametrize("target", ["nowhere", "main~0", "-x", "a b", "", "HEAD"])
def test_a_branch_that_does_not_exist_is_refused(place: Place, target: str) -> None:
    with pytest.raises(GitRefused, match=r"there is no branch .*`git branch NAME` makes one"):
        place.survey(target=target)


@pytest.mark.parametrize("base", ["nowhere", "--help", "HEAD:one", "HEAD~5"])
def test_a_base_that_does_not_exist_is_refused(place: Place, base: str) -> None:
    with pytest.raises(GitRefused, match="there is no commit"):
        place.survey(base=base)


def test_an_old_git_is_refused_with_its_version(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "version", lambda: (2, 37))
    with pytest.raises(GitRefused, match=r"git 2\.37 is too old.*2\.38"):
        place.survey()


def test_a_state_directory_that_git_sees_is_refused(place: Place) -> None:
    (place.state_dir / ".gitignore").unlink()
    with pytest.raises(GitRefused, match=r"does not ignore .*; echo '\*' > "):
        place.survey()
    (place.state_dir / "journal.db").write_text("")
    place.commit()
    with pytest.raises(GitRefused, match=r"git tracks files .*git rm -r --cached"):
        place.survey()


def test_a_state_directory_elsewhere_need_not_be_ignored(place: Place, tmp_path: Path) -> None:
    assert repository.survey(place.top, tmp_path / "state").state_dir == tmp_path / "state"


def test_uncommitted_changes_are_allowed_and_said_not_to_be_in_it(place: Place) -> None:
    place.write(one="changed\n", three="3\n")
    found = place.survey()
    (said,) = repository.warnings(found)
    assert said.startswith(f"2 uncommitted changes in {place.top}: not in the worktrees")
    assert found.base[:12] in said


def test_submodules_are_refused_unless_asked_for(place: Place, tmp_path: Path) -> None:
    place.git("clone", "--quiet", ".", tmp_path / "inner")
    place.git("submodule", "--quiet", "add", tmp_path / "inner", "inner")
    place.commit()
    with pytest.raises(GitRefused, match=r"submodules .*say --submodules"):
        place.survey()
    assert place.survey(submodules=True).has_submodules
    assert not place.survey(base="HEAD~1").has_submodules


def test_lfs_is_refused_where_it_is_not_installed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.top / "below").mkdir()
    (place.top / "below" / ".gitattributes").write_text("*.bin filter=lfs diff=lfs -text\n")
    place.commit()
    monkeypatch.setenv("PATH", f"{_git_alone(tmp_path)}")
    with pytest.raises(GitRefused, match=r"git-lfs is missing; install git-lfs"):
        place.survey()


def test_lfs_goes_as_it_is_once_it_is_installed_and_set_up(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.top / ".gitattributes").write_text("*.bin filter=lfs\n")
    place.commit()
    programs = _git_alone(tmp_path)
    (programs / "git-lfs").write_text("#!/bin/sh\nexit 0\n")
    (programs / "git-lfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}")
    with pytest.raises(GitRefused, match=r"not set up; git lfs install"):
        place.survey()
    place.git("config", "filter.lfs.process", "git-lfs filter-process")
    assert place.survey().target == "main"


def _git_alone(tmp_path: Path) -> Path:
    """A folder of programs without git-lfs, whatever is installed here."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "sh"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    return programs
