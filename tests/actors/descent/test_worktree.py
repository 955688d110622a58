"""Worktrees are made, found again and taken away, and nothing in them is lost."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.actors.descent.conftest import Place
from understudy.actors.descent import names, worktree
from understudy.actors.descent.git import GitRefused
from understudy.actors.descent.worktree import Worktree, create, remove, set_aside


def made(place: Place, issue_id: str = "us-1", fence: int = 3) -> Worktree:
    found = place.survey()
    return create(found, issue_id, fence, found.base)


def kept(place: Place, ref: str | None) -> dict[str, str]:
    """Paths and texts of what a ref keeps."""
    assert ref is not None
    paths = place.git("ls-tree", "-r", "-z", "--name-only", ref).strip("\0").split("\0")
    return {path: place.git("cat-file", "blob", f"{ref}:{path}") for path in paths}


# --- making ---------------------------------------------------------------------------------------


def test_a_worktree_has_the_base_s_files_on_a_branch_of_its_own(place: Place) -> None:
    tree = made(place)
    assert tree.path == place.state_dir / "worktrees" / "us-1" / "3"
    assert (tree.path / "one").read_text() == "1\n"
    assert place.git("symbolic-ref", "HEAD", cwd=tree.path) == "refs/heads/understudy/us-1/3"
    assert place.git("rev-parse", "HEAD", cwd=tree.path) == tree.base
    assert place.git("status", "--porcelain", cwd=tree.path) == ""
    assert place.git("status", "--porcelain", "--untracked-files=all") == "", "the main tree"
    assert place.git("symbolic-ref", "HEAD") == "refs/heads/main"


def test_a_worktree_starts_from_the_commit_that_is_named(place: Place) -> None:
    place.write(one="newer\n")
    place.commit()
    tree = create(place.survey(), "us-1", 3, "HEAD~1")
    assert (tree.path / "one").read_text() == "1\n"
    with pytest.raises(GitRefused, match="there is no commit `nowhere`"):
        create(place.survey(), "us-2", 4, "nowhere")


def test_hooks_of_the_user_do_not_run(place: Place, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = place.top / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >> {trace}\nexit 1\n")
        hook.chmod(0o755)
    tree = made(place)
    (tree.path / "three").write_text("3\n")
    assert remove(tree) is not None
    assert not trace.exists()


def test_only_the_folders_that_are_asked_for_are_checked_out(place: Place) -> None:
    for name in ("in", "out"):
        (place.top / name).mkdir()
        (place.top / name / "file").write_text(name)
    place.commit()
    found = place.survey()
    tree = create(found, "us-1", 3, found.base, sparse=["in"])
    assert (tree.path / "in" / "file").exists()
    assert (tree.path / "one").exists(), "files above are there"
    assert not (tree.path / "out").exists()
    assert set_aside(tree) is None, "what is not checked out is not deleted"
    (tree.path / "out").mkdir()
    (tree.path / "out" / "fresh").write_text("fresh")
    files = kept(place, set_aside(tree))
    assert (files["out/fresh"], files["out/file"]) == ("fresh", "out")
    assert (place.top / "out" / "file").exists(), "the main tree stays whole"


def test_submodules_are_checked_out_where_asked_for(place: Place, tmp_path: Path) -> None:
    place.git("clone", "--quiet", ".", tmp_path / "inner")
    place.git("submodule", "--quiet", "add", tmp_path / "inner", "inner")
    place.commit()
    found = place.survey(submodules=True)
    tree = create(found, "us-1", 3, found.base)
    assert (tree.path / "inner" / "one").read_text() == "1\n"
    assert set_aside(tree) is None
    (tree.path / "inner" / "one").write_text("work")
    with pytest.raises(GitRefused, match="a git repository of its own"):
        remove(tree)
    (tree.path / "inner" / "one").write_text("1\n")
    remove(tree)
    shutil.rmtree(tmp_path / "inner")
    shutil.rmtree(place.top / ".git" / "modules")
    with pytest.raises(GitRefused, match="its URL must be reachable"):
        create(found, "us-1", 4, found.base)


def test_asked_again_the_same_worktree_is_handed_back_as_it_is(place: Place) -> None:
    tree = made(place)
    (tree.path / "three").write_text("3\n")
    assert made(place) == tree
    assert (tree.path / "three").exists()


def test_a_worktree_that_was_removed_by_hand_is_made_again(place: Place) -> None:
    tree = made(place)
    (tree.path / "three").write_text("3\n")
    place.git("add", "three", cwd=tree.path)
    place.git("commit", "--quiet", "-m", "three", cwd=tree.path)
    shutil.rmtree(tree.path)
    again = made(place)
    assert again.is_whole
    assert not (again.path / "three").exists()
    assert kept(place, names.aside_ref("us-1", 3))["three"] == "3", "its commit is not lost"


@pytest.mark.parametrize("locked", [False, True])
def test_a_locked_worktree_stays_until_it_is_unlocked(place: Place, locked: bool) -> None:
    tree = made(place)
    if locked:
        place.git("worktree", "lock", "--reason", "mine", tree.path)
        with pytest.raises(GitRefused, match=r"is locked \(mine\); git worktree unlock "):
            remove(tree)
        shutil.rmtree(tree.path)
        assert made(place).is_whole, "gone, it is made again all the same"
    else:
        assert remove(tree) is None
        assert not tree.path.exists()


def test_a_worktree_that_git_was_killed_in_is_made_again(place: Place) -> None:
    """The filter of a file kills git in the midst of the checkout."""
    (place.top / ".gitattributes").write_text("two filter=slow\n")
    place.commit()
    place.git("config", "filter.slow.smudge", "kill -9 $PPID")
    with pytest.raises(GitRefused):
        made(place)
    (half,) = worktree.list_worktrees(place.survey())
    assert not half.is_whole
    assert (place.top / ".git" / "worktrees").exists()
    place.git("config", "--unset", "filter.slow.smudge")
    again = made(place)
    assert again.is_whole
    assert (again.path / "two").read_text() == "2\n"
    assert set_aside(again) is None


def test_a_worktree_whose_maker_was_killed_before_its_record_is_made_again(place: Place) -> None:
    tree = made(place)
    record = tree.path.with_name("3.json")
    record.write_bytes(record.read_bytes().replace(str(tree.git_dir).encode(), b""))
    (half,) = worktree.list_worktrees(place.survey())
    assert half.git_dir is None
    assert made(place) == tree


def test_a_folder_that_nothing_tells_of_is_moved_and_not_deleted(place: Place) -> None:
    path = names.folder(place.state_dir, "us-1", 3)
    path.mkdir(parents=True)
    (path / "work").write_text("mine")
    tree = made(place)
    assert not (tree.path / "work").exists()
    assert (path.with_name("3.left-1") / "work").read_text() == "mine"


def test_a_branch_that_takes_the_place_of_ours_is_named(place: Place) -> None:
    place.git("branch", "understudy")
    with pytest.raises(GitRefused) as caught:
        made(place)
    assert "git branch -m understudy OTHER" in str(caught.value)


def test_a_branch_that_is_checked_out_elsewhere_is_not_deleted(place: Place) -> None:
    place.git("switch", "--quiet", "-c", names.branch("us-1", 3))
    with pytest.raises(GitRefused, match=r"checked out at|already used|used by"):
        made(place)
    assert place.git("symbolic-ref", "HEAD") == f"refs/heads/{names.branch('us-1', 3)}"


@pytest.mark.parametrize("issue_id", ["a..b", "x.lock", "ü/..", "-x", "a" + "." * 127])
def test_an_odd_id_has_a_worktree_as_well(place: Place, issue_id: str) -> None:
    tree = made(place, issue_id)
    assert worktree.find(place.survey(), issue_id, 3) == tree
    (tree.path / "three").write_text("3\n")
    assert remove(tree) == names.aside_ref(issue_id, 3)
    assert [each.issue_id for each in worktree.asides(place.survey(), issue_id)] == [issue_id]


def test_many_worktrees_are_made_and_removed_at_once(place: Place) -> None:
    found = place.survey()

    def life(number: int) -> str | None:
        tree = create(found, f"us-{number}", number, found.base)
        (tree.path / f"f{number}").write_text("x")
        return remove(tree)

    with ThreadPoolExecutor(8) as pool:
        refs = list(pool.map(life, range(1, 33)))
    assert refs == [names.aside_ref(f"us-{number}", number) for number in range(1, 33)]
    assert place.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_worktrees_are_listed_by_issue_and_fence(place: Place, tmp_path: Path) -> None:
    trees = [made(place, "b", 2), made(place, "a", 10), made(place, "a", 9)]
    place.git("worktree", "add", "--quiet", "-b", "side", tmp_path / "side")
    found = place.survey()
    assert worktree.list_worktrees(found) == [trees[2], trees[1], trees[0]]
    assert worktree.list_worktrees(found, "b") == [trees[0]]
    assert worktree.find(found, "c", 1) is None
    (trees[0].path.parent / "7.json").write_text("no record")
    assert len(worktree.list_worktrees(found)) == 3


# --- setting aside --------------------------------------------------------------------------------


def test_all_that_is_not_ignored_is_set_aside_and_the_worktree_stays_as_it_is(
    place: Place,
) -> None:
    tree = made(place)
    (tree.path / "one").write_text("changed\n")
    (tree.path / "two").unlink()
    (tree.path / "new\nline").write_text("odd\n")
    (tree.path / "link").symlink_to("/etc")
    (tree.path / "cache.o").write_text("ignored\n")
    (tree.path / "staged").write_text("staged\n")
    place.git("add", "staged", cwd=tree.path)
    before = place.git("status", "--porcelain", cwd=tree.path)
    ref = set_aside(tree)
    assert ref == "refs/understudy/aside/us-1/3"
    assert place.git("status", "--porcelain", cwd=tree.path) == before
    files = kept(place, ref)
    assert set(files) == {".gitignore", "one", "new\nline", "link", "staged"}
    assert (files["one"], files["link"]) == ("changed", "/etc")
    commit = place.git("rev-parse", ref)
    assert set_aside(tree) == ref
    assert place.git("rev-parse", ref) == commit, "the second time it is the same"


def test_nothing_is_set_aside_where_nothing_changed(place: Place) -> None:
    tree = made(place)
    (tree.path / "cache.o").write_text("ignored\n")
    (tree.path / "empty").mkdir()
    assert set_aside(tree) is None
    assert place.git("for-each-ref", "refs/understudy") == ""


def test_commits_beyond_the_base_are_set_aside(place: Place) -> None:
    tree = made(place)
    (tree.path / "one").write_text("committed\n")
    place.git("commit", "--quiet", "-am", "mine", cwd=tree.path)
    tip = place.git("rev-parse", "HEAD", cwd=tree.path)
    assert place.git("rev-parse", str(set_aside(tree))) == tip
    assert not worktree.is_dirty(tree)


def test_what_came_later_is_kept_together_with_what_was_kept_before(place: Place) -> None:
    tree = made(place)
    (tree.path / "three").write_text("first\n")
    first = place.git("rev-parse", str(set_aside(tree)))
    (tree.path / "three").write_text("second\n")
    second = str(set_aside(tree))
    assert kept(place, second)["three"] == "second"
    place.git("merge-base", "--is-ancestor", first, second)


def test_what_was_staged_and_then_deleted_is_kept_too(place: Place) -> None:
    tree = made(place)
    (tree.path / "three").write_text("staged\n")
    place.git("add", "three", cwd=tree.path)
    (tree.path / "three").unlink()
    ref = str(set_aside(tree))
    assert "three" not in kept(place, ref)
    assert kept(place, f"{ref}^2")["three"] == "staged"


def test_commits_on_a_detached_head_and_on_the_branch_are_both_kept(place: Place) -> None:
    tree = made(place)
    for name in ("branch", "detached"):
        if name == "detached":
            place.git("switch", "--quiet", "--detach", tree.base, cwd=tree.path)
        (tree.path / name).write_text(name)
        place.git("add", name, cwd=tree.path)
        place.git("commit", "--quiet", "-m", name, cwd=tree.path)
    tips = [place.git("rev-parse", each, cwd=tree.path) for each in ("HEAD", tree.branch)]
    ref = str(remove(tree))
    for tip in tips:
        place.git("merge-base", "--is-ancestor", tip, ref)


def test_an_unresolved_merge_is_set_aside_with_its_marks(place: Place) -> None:
    tree = made(place)
    place.write(one="theirs\n")
    place.commit()
    (tree.path / "one").write_text("ours\n")
    place.git("commit", "--quiet", "-am", "ours", cwd=tree.path)
    with pytest.raises(subprocess.CalledProcessError):
        place.git("merge", "main", cwd=tree.path)
    files = kept(place, remove(tree))
    assert "<<<<<<<" in files["one"]


def test_a_lost_index_does_not_stop_it(place: Place) -> None:
    tree = made(place)
    (tree.path / "three").write_text("3\n")
    assert tree.git_dir is not None
    (tree.git_dir / "index").write_bytes(b"torn")
    assert kept(place, set_aside(tree))["three"] == "3"


def test_a_worktree_without_its_git_file_is_not_taken_for_the_main_one(place: Place) -> None:
    tree = made(place)
    (tree.path / "three").write_text("3\n")
    (tree.path / ".git").unlink()
    place.write(main="not committed")
    assert kept(place, remove(tree))["three"] == "3"
    assert place.git("status", "--porcelain") == "?? main"
    assert not tree.path.exists()


def test_another_repository_in_its_place_is_refused(place: Place) -> None:
    tree = made(place)
    (tree.path / ".git").unlink()
    place.git("init", "--quiet", cwd=tree.path)
    with pytest.raises(GitRefused, match=r"replaced by another repository.*move it away"):
        remove(tree)
    assert tree.path.exists()


def test_a_repository_within_is_not_lost(place: Place, tmp_path: Path) -> None:
    tree = made(place)
    place.git("clone", "--quiet", place.top, tree.path / "inner")
    with pytest.raises(GitRefused, match=r"inner is a git repository of its own"):
        remove(tree)
    assert (tree.path / "inner" / "one").exists()
    shutil.move(tree.path / "inner", tmp_path / "inner")
    assert remove(tree) is None


# --- taking away ----------------------------------------------------------------------------------


def test_a_removed_worktree_leaves_only_what_was_set_aside(place: Place) -> None:
    tree = made(place)
    (tree.path / "three").write_text("3\n")
    assert kept(place, remove(tree))["three"] == "3"
    assert list((place.state_dir / "worktrees").iterdir()) == []
    assert place.git("branch", "--list", "understudy/*") == ""
    assert place.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert worktree.list_worktrees(place.survey()) == []


def test_a_remover_that_is_killed_is_not_taken_for_a_command_that_deletes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = made(place)
    (tree.path / "three").write_text("3\n")

    def killed(*_: object) -> None:
        (tree.path / "one").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(worktree, "_forget", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(tree)
    (half,) = worktree.list_worktrees(place.survey())
    files = kept(place, remove(half))
    assert (files["one"], files["three"]) == ("1", "3")
    assert not tree.path.exists()


def test_a_section_is_kept_by_its_own_ref(place: Place) -> None:
    tree = made(place)
    (tree.path / "one").write_text("committed\n")
    place.git("commit", "--quiet", "-am", "mine", cwd=tree.path)
    place.git("update-ref", names.section_ref("us-1", 3), "HEAD", cwd=tree.path)
    assert remove(tree) is None
    assert place.git("for-each-ref", names.ASIDES) == ""
    assert place.git("branch", "--list", "understudy/*") == ""


def test_what_git_has_forgotten_is_left_alone(place: Place) -> None:
    tree = made(place)
    assert tree.git_dir is not None
    shutil.rmtree(tree.git_dir)
    with pytest.raises(GitRefused, match="move it to another place"):
        remove(tree)
    assert (tree.path / "one").exists()


def test_a_worktree_that_is_gone_is_forgotten(place: Place) -> None:
    tree = made(place)
    shutil.rmtree(tree.path)
    assert not worktree.is_dirty(tree)
    assert remove(tree) is None
    assert worktree.list_worktrees(place.survey()) == []
    assert place.git("worktree", "list", "--porcelain").count("worktree ") == 1


# --- adopting -------------------------------------------------------------------------------------


def test_what_was_left_is_brought_into_the_next_worktree(place: Place) -> None:
    first = made(place)
    (first.path / "one").write_text("left\n")
    (first.path / "three").write_text("3\n")
    ref = str(remove(first))
    place.write(two="moved on\n")
    place.commit()
    second = made(place, fence=5)
    (left,) = worktree.asides(place.survey(), "us-1")
    assert (left.ref, left.fence) == (ref, 3)
    assert worktree.adopt(second, left.ref) == ["one", "three"]
    assert (second.path / "one").read_text() == "left\n"
    assert (second.path / "two").read_text() == "moved on\n"
    assert place.git("rev-parse", "HEAD", cwd=second.path) == second.base, "it is not committed"
    with pytest.raises(GitRefused, match="commit them first"):
        worktree.adopt(second, left.ref)


def test_what_does_not_merge_is_refused_and_changes_nothing(place: Place) -> None:
    first = made(place)
    (first.path / "one").write_text("left\n")
    (first.path / "b\nin").write_bytes(b"\0left")
    ref = str(remove(first))
    (place.top / "b\nin").write_bytes(b"\0other")
    place.write(one="other\n")
    place.commit()
    second = made(place, fence=5)
    with pytest.raises(GitRefused) as caught:
        worktree.adopt(second, ref)
    assert '"b\\012in", one; nothing was changed' in str(caught.value)
    assert not worktree.is_dirty(second)
    with pytest.raises(GitRefused, match="nothing was left under refs/understudy/aside/x/1"):
        worktree.adopt(second, "refs/understudy/aside/x/1")


def test_two_worktrees_at_once_do_not_meet(place: Place) -> None:
    one, two = made(place, "a", 1), made(place, "b", 1)
    (one.path / "one").write_text("of a\n")
    assert (two.path / "one").read_text() == "1\n"
    assert worktree.is_dirty(one)
    assert not worktree.is_dirty(two)
