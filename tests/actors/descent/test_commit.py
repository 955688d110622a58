"""What a command changed becomes one line of commits, or a text says what to do."""

import os
import shutil
from pathlib import Path

import pytest

from tests.actors.descent.conftest import Place
from understudy.actors.descent import commit
from understudy.actors.descent.commit import Commit, commit_all
from understudy.actors.descent.git import GitRefused
from understudy.actors.descent.worktree import Worktree, create, set_aside

TRAILERS = "Understudy-Issue: us-1\nUnderstudy-Fence: 3\nUnderstudy-Lease: lease-9"


@pytest.fixture
def tree(place: Place) -> Worktree:
    found = place.survey()
    return create(found, "us-1", 3, found.base)


def committed(tree: Worktree, title: str = "Write it") -> Commit | None:
    return commit_all(tree, "us-1", title, 3, "lease-9")


def said(place: Place, tree: Worktree, shape: str = "%B") -> str:
    return place.git("show", "--no-patch", f"--format={shape}", "HEAD", cwd=tree.path).strip()


def test_what_changed_is_committed_with_issue_fence_and_lease(place: Place, tree: Worktree) -> None:
    (tree.path / "one").write_text("changed\n")
    (tree.path / "two").unlink()
    (tree.path / "three").write_text("3\n")
    (tree.path / "cache.o").write_text("ignored\n")
    found = committed(tree)
    assert found is not None
    assert found.paths == ("one", "three", "two")
    assert found.base == tree.base
    assert found.commit == place.git("rev-parse", tree.branch)
    assert found.tree == place.git("rev-parse", f"{tree.branch}^{{tree}}")
    assert said(place, tree) == f"Write it\n\n{TRAILERS}"
    assert said(place, tree, "%an <%ae> %P") == f"Ada <ada@example.org> {tree.base}"
    assert said(place, tree, "%(trailers:key=Understudy-Fence,valueonly)") == "3"
    assert committed(tree) == found, "asked again, nothing is new"
    assert place.git("status", "--porcelain") == "", "the main tree"


def test_an_empty_section_is_none(place: Place, tree: Worktree) -> None:
    (tree.path / "empty").mkdir()
    (tree.path / "cache.o").write_text("ignored\n")
    (tree.path / "one").touch()
    assert committed(tree) is None
    assert place.git("rev-parse", tree.branch) == tree.base


def test_what_is_taken_back_in_the_end_is_an_empty_section(place: Place, tree: Worktree) -> None:
    (tree.path / "one").write_text("changed\n")
    place.git("commit", "--quiet", "-am", "there", cwd=tree.path)
    place.git("revert", "--no-edit", "HEAD", cwd=tree.path)
    assert committed(tree) is None
    assert set_aside(tree) is not None, "its commits are kept all the same"


def test_what_the_command_committed_stays_and_the_rest_comes_behind(
    place: Place, tree: Worktree
) -> None:
    (tree.path / "one").write_text("changed\n")
    place.git("commit", "--quiet", "-am", "by the command", cwd=tree.path)
    own = place.git("rev-parse", "HEAD", cwd=tree.path)
    (tree.path / "three").write_text("3\n")
    found = committed(tree)
    assert found is not None
    assert found.paths == ("one", "three")
    assert said(place, tree, "%P") == own


def test_the_last_commit_of_a_command_gets_the_trailers(place: Place, tree: Worktree) -> None:
    (tree.path / "one").write_text("changed\n")
    author = ("-c", "user.name=Bob", "-c", "user.email=bob@example.org")
    place.git(*author, "commit", "--quiet", "-am", "by the command\n\nwhy", cwd=tree.path)
    found = committed(tree)
    assert found is not None
    assert said(place, tree) == f"by the command\n\nwhy\n\n{TRAILERS}"
    assert said(place, tree, "%an %P") == f"Bob {tree.base}"
    assert committed(tree) == found


def test_without_settings_a_name_of_ours_commits(
    place: Place, tree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    (tree.path / "one").write_text("changed\n")
    assert commit_all(tree, "us-1", "t", 3, "l", author="wor<ker>\n1")
    both = "%an <%ae> %cn <%ce>"
    who = "worker1 <understudy@localhost>"
    assert said(place, tree, both) == f"{who} {who}"


def test_hooks_and_signing_are_left_out(place: Place, tree: Worktree) -> None:
    for name in ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit"):
        hook = place.top / ".git" / "hooks" / name
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    place.git("config", "commit.gpgSign", "true")
    place.git("config", "gpg.program", "false")
    (tree.path / "one").write_text("changed\n")
    assert committed(tree) is not None


@pytest.mark.parametrize(
    ("title", "subject"), [("a\nb\r\n c", "a b c"), ("# hash", "# hash"), (" ", "us-1")]
)
def test_a_title_is_one_line(place: Place, tree: Worktree, title: str, subject: str) -> None:
    (tree.path / "one").write_text("changed\n")
    assert committed(tree, title) is not None
    assert said(place, tree, "%s") == subject


def test_files_of_every_kind_are_committed(place: Place, tree: Worktree) -> None:
    for name in (b"new\nline", b"latin-\xe9", b'quo"te', "ü".encode(), b"-x", b":(top)y"):
        (tree.path / os.fsdecode(name)).write_bytes(b"\0\xff binary")
    (tree.path / "one").chmod(0o755)
    (tree.path / "two").unlink()
    (tree.path / "two").symlink_to("one")
    found = committed(tree)
    assert found is not None
    odd = {'"new\\012line"', '"latin-\\351"', 'quo"te', "ü", "-x", ":(top)y"}
    assert set(found.paths) == odd | {"one", "two"}
    modes = place.git("ls-tree", found.commit, "one", "two")
    assert modes.startswith("100755 ")
    assert "120000 " in modes


def test_a_rename_touches_both_paths(tree: Worktree) -> None:
    (tree.path / "one").rename(tree.path / "uno")
    found = committed(tree)
    assert found is not None
    assert found.paths == ("one", "uno")


def test_nothing_is_committed_through_a_link_that_leaves_the_worktree(
    place: Place, tree: Worktree, tmp_path: Path
) -> None:
    """A link is committed as a link; what lies behind it is not in the section."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tree.path / "away").symlink_to(tmp_path / "outside")
    (tree.path / "away" / "through").write_text("written outside")
    found = committed(tree)
    assert found is not None
    assert found.paths == ("away",)
    text = place.git("cat-file", "blob", f"{found.commit}:away")
    assert text == str(tmp_path / "outside")


def test_a_folder_that_became_a_link_loses_its_files(place: Place, tmp_path: Path) -> None:
    (place.top / "folder").mkdir()
    (place.top / "folder" / "file").write_text("f")
    place.commit()
    found = place.survey()
    tree = create(found, "us-1", 3, found.base)
    shutil.rmtree(tree.path / "folder")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("other")
    (tree.path / "folder").symlink_to(tmp_path / "outside")
    made = committed(tree)
    assert made is not None
    assert made.paths == ("folder", "folder/file")


@pytest.mark.parametrize("size", [64, 65])
def test_a_huge_file_is_refused_before_it_is_hashed(
    place: Place, tree: Worktree, size: int
) -> None:
    (tree.path / "big").write_bytes(b"x" * size)
    objects = place.git("count-objects")
    if size == 64:
        assert commit_all(tree, "us-1", "t", 3, "l", file_bytes_max=64) is not None
        return
    with pytest.raises(GitRefused, match=r"big has 65 bytes, and 64 are allowed; .*LFS"):
        commit_all(tree, "us-1", "t", 3, "l", file_bytes_max=64)
    assert place.git("count-objects") == objects
    assert commit.FILE_BYTES_MAX == 100 * 1024 * 1024


def test_a_huge_file_of_lfs_is_not_huge_for_git(tree: Worktree) -> None:
    (tree.path / ".gitattributes").write_text("big filter=lfs\n")
    (tree.path / "big").write_bytes(b"x" * 65)
    assert commit_all(tree, "us-1", "t", 3, "l", file_bytes_max=64) is not None


def test_a_detached_head_is_refused(place: Place, tree: Worktree) -> None:
    place.git("switch", "--quiet", "--detach", cwd=tree.path)
    with pytest.raises(GitRefused, match=r"left HEAD of .* detached; .* switch -C understudy/us-1"):
        committed(tree)


def test_another_branch_is_refused(place: Place, tree: Worktree) -> None:
    place.git("switch", "--quiet", "-c", "mine", cwd=tree.path)
    with pytest.raises(GitRefused, match=r"on branch mine, not on understudy/us-1/3; .* switch -C"):
        committed(tree)


def test_a_branch_that_no_longer_comes_after_its_base_is_refused(place: Place) -> None:
    place.write(one="newer\n")
    place.commit()
    found = place.survey()
    tree = create(found, "us-1", 3, found.base)
    place.git("reset", "--quiet", "--hard", "HEAD~1", cwd=tree.path)
    with pytest.raises(GitRefused, match=r"no longer comes after .* rebase "):
        committed(tree)
    place.git("switch", "--quiet", "--orphan", "x", cwd=tree.path)
    with pytest.raises(GitRefused, match="on branch x"):
        committed(tree)


def test_a_merge_that_is_not_resolved_is_refused(place: Place, tree: Worktree) -> None:
    place.write(one="theirs\n")
    place.commit()
    (tree.path / "one").write_text("ours\n")
    place.git("commit", "--quiet", "-am", "ours", cwd=tree.path)
    with pytest.raises(Exception, match="merge"):
        place.git("merge", "main", cwd=tree.path)
    with pytest.raises(GitRefused, match=r"is not resolved: one; resolve it"):
        committed(tree)
    (tree.path / "one").write_text("both\n")
    place.git("add", "one", cwd=tree.path)
    assert committed(tree) is not None
    assert len(said(place, tree, "%P").split()) == 2, "it is the merge that the command began"


def test_a_repository_within_is_refused(place: Place, tree: Worktree) -> None:
    place.git("clone", "--quiet", place.top, tree.path / "inner")
    with pytest.raises(GitRefused, match=r"repository of its own: inner/; have it ignored"):
        committed(tree)


def test_a_command_that_deletes_the_git_file_commits_nothing_to_the_main_branch(
    place: Place, tree: Worktree
) -> None:
    (tree.path / ".git").unlink()
    (tree.path / "one").write_text("changed\n")
    place.write(main="not committed")
    found = committed(tree)
    assert found is not None
    assert found.paths == ("one",)
    assert place.git("status", "--porcelain") == "?? main"
