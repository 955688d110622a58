"""A branch moves for the newest gluer, from where it was seen, and takes its checkouts along."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.actors.descent.sandbox import Body, Sandbox, lines
from tests.together import together
from understudy.actors.descent import branch
from understudy.actors.descent.branch import (
    FENCE_MAX,
    Deposed,
    Moved,
    checked_out,
    glue_ref,
    head,
    keep,
    move,
    register,
    registered_fence,
)
from understudy.actors.descent.checkout import Dirty
from understudy.actors.descent.git import Git, GitRefused

KILLED = -signal.SIGKILL


class Scene(Sandbox):
    """A branch at `old`, checked out, and a commit to move it to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        before = {"file": lines(), "gone": b"gone\n", "sub/deep": b"deep\n", "tool": b"x\n"}
        after = {
            "file": lines((5, "new")), "gone": None, "n/added": b"added\n",
            "tool": ("100755", b"x\n"), "link": ("120000", b"file"),
        }  # fmt: skip
        self.old = self.commit(before)
        self.new = self.commit(after, self.old)
        self.branch("main", self.old)
        self.check_out()
        register(self.git, "main", 3)

    def move(self, fence: int = 3) -> None:
        move(self.git, "main", fence, self.old, self.new)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "repository")


def test_a_fence_only_grows(scene: Scene) -> None:
    register(scene.git, "main", 3)
    register(scene.git, "main", 10)
    with pytest.raises(Deposed, match="fence 9 is over, 10 is registered"):
        register(scene.git, "main", 9)
    assert registered_fence(scene.git, "main") == 10
    assert registered_fence(scene.git, "other") == 0


@pytest.mark.parametrize("fence", [0, -1, FENCE_MAX + 1])
def test_what_is_no_fence_is_refused(scene: Scene, fence: int) -> None:
    with pytest.raises(GitRefused, match="a fence is a number"):
        register(scene.git, "main", fence)
    register(scene.git, "main", FENCE_MAX)


def test_a_fence_that_was_written_by_hand_is_refused_with_the_way_out(scene: Scene) -> None:
    scene.git.run("update-ref", "refs/understudy/fence/main", scene.old)
    with pytest.raises(GitRefused, match="git update-ref -d refs/understudy/fence/main"):
        register(scene.git, "main", 4)


def test_a_move_takes_the_checkout_along(scene: Scene) -> None:
    (scene.folder / "untracked").write_text("mine")
    scene.move()
    assert head(scene.git, "main") == scene.new
    assert scene.status() == "?? untracked"
    assert (scene.folder / "file").read_bytes() == lines((5, "new"))
    assert (scene.folder / "link").readlink() == Path("file")
    assert os.access(scene.folder / "tool", os.X_OK)
    assert "understudy: glue" in scene.git.text("reflog", "main")
    scene.move()  # again: nothing
    (scene.folder / "file").write_text("the user works on")
    scene.move()
    assert (scene.folder / "file").read_text() == "the user works on"


def test_an_old_fence_moves_nothing(scene: Scene) -> None:
    register(scene.git, "main", 4)
    with pytest.raises(Deposed, match="nothing was moved"):
        scene.move(fence=3)
    with pytest.raises(Deposed, match="fence 5 is not registered"):
        scene.move(fence=5)
    with pytest.raises(Deposed):
        keep(scene.git, "main", 3, scene.new)
    assert (head(scene.git, "main"), scene.status()) == (scene.old, "")


def test_a_fence_that_comes_at_the_last_moment_is_seen_by_git(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gluer looked, and all was well; then another registered."""
    looked = branch.checked_out

    def late(git: Git, target: str) -> list[Path]:
        register(git, target, 4)
        return looked(git, target)

    monkeypatch.setattr(branch, "checked_out", late)
    with pytest.raises(Deposed):
        scene.move()
    assert (head(scene.git, "main"), scene.status()) == (scene.old, "")


def test_a_branch_that_was_moved_by_hand_stays_there(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = scene.commit({"file": b"by hand"}, scene.old)
    looked = branch.checked_out

    def late(git: Git, target: str) -> list[Path]:
        scene.branch("main", theirs)
        return looked(git, target)

    with monkeypatch.context() as patched:
        patched.setattr(branch, "checked_out", late)
        with pytest.raises(Moved, match="moved it by hand"):
            scene.move()
    with pytest.raises(Moved, match="glue again"):
        scene.move()
    assert head(scene.git, "main") == theirs
    assert (scene.folder / "file").read_bytes() == lines()


def _edit(folder: Path) -> None:
    (folder / "file").write_text("mine")


def _edit_elsewhere(folder: Path) -> None:
    (folder / "sub" / "deep").write_text("mine")


def _stage_file(folder: Path) -> None:
    (folder / "mine").write_text("mine")
    Git(folder).run("add", "mine")


def _delete(folder: Path) -> None:
    (folder / "file").unlink()


def _in_the_way(folder: Path) -> None:
    (folder / "n").mkdir()
    (folder / "n" / "added").write_text("mine")


def _ignored_in_the_way(folder: Path) -> None:
    (folder / ".git" / "info" / "exclude").write_text("n\nlink\n")
    _in_the_way(folder)


def _file_for_folder(folder: Path) -> None:
    (folder / ".git" / "info" / "exclude").write_text("n\n")
    (folder / "n").write_text("mine")


def _folder_for_file(folder: Path) -> None:
    (folder / ".git" / "info" / "exclude").write_text("link\n")
    (folder / "link").mkdir()
    (folder / "link" / "mine").write_text("mine")


def _through_link(folder: Path) -> None:
    (folder.parent / "outside").mkdir()
    (folder / "n").symlink_to(folder.parent / "outside")


def _merging(folder: Path) -> None:
    (folder / ".git" / "MERGE_HEAD").write_text(Git(folder).text("rev-parse", "HEAD") + "\n")


TROUBLE: list[Callable[[Path], None]] = [
    _edit, _edit_elsewhere, _stage_file, _delete, _in_the_way, _ignored_in_the_way,
    _file_for_folder, _folder_for_file, _through_link, _merging,
]  # fmt: skip


@together("trouble", TROUBLE, ids=lambda each: each.__name__)
def test_a_dirty_checkout_keeps_its_branch_and_every_byte(
    tmp_path: Path, trouble: Callable[[Path], None]
) -> None:
    scene = Scene(tmp_path / "repository")
    trouble(scene.folder)
    before = _bytes_in(scene.folder)
    with pytest.raises(Dirty):
        scene.move()
    assert head(scene.git, "main") == scene.old
    assert _bytes_in(scene.folder) == before


def test_of_two_checkouts_both_move_or_none(scene: Scene, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    scene.git.run("worktree", "add", "--force", "-q", linked, "main")
    assert len(checked_out(scene.git, "main")) == 2
    (linked / "file").write_text("mine")
    with pytest.raises(Dirty, match="linked has the branch checked out"):
        scene.move()
    assert (scene.status(), head(scene.git, "main")) == ("", scene.old)
    Git(linked).run("checkout", "-q", "--", "file")
    Git(linked).run("read-tree", "HEAD")
    scene.move()
    assert scene.status() == Git(linked).text("status", "--porcelain") == ""


def test_a_submodule_comes_as_an_empty_folder_and_overwrites_nothing(scene: Scene) -> None:
    new = scene.commit({"module": ("160000", b"1" * 40)}, scene.old)
    exclude = scene.folder / ".git" / "info" / "exclude"
    exclude.write_text("module\n")
    (scene.folder / "module").write_text("mine")
    with pytest.raises(Dirty, match="module"):
        move(scene.git, "main", 3, scene.old, new)
    assert (scene.folder / "module").read_text() == "mine"
    (scene.folder / "module").unlink()
    move(scene.git, "main", 3, scene.old, new)
    assert (scene.folder / "module").is_dir()
    assert head(scene.git, "main") == new


def test_a_file_becomes_a_folder_and_a_folder_a_file(scene: Scene) -> None:
    swapped: dict[str, Body] = {
        "sub/deep": None, "sub": b"file\n", "file": None, "file/deep": b"deep\n",
    }  # fmt: skip
    new = scene.commit(swapped, scene.old)
    move(scene.git, "main", 3, scene.old, new)
    assert scene.status() == ""
    assert (scene.folder / "file" / "deep").read_text() == "deep\n"
    assert (scene.folder / "sub").read_text() == "file\n"


def test_a_transaction_that_fails_at_the_end_puts_the_files_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> None:
        raise branch._NotLocked("no space left on device")

    monkeypatch.setattr(branch._Transaction, "commit", fail)
    with pytest.raises(GitRefused, match="did not move: no space left on device; try again"):
        scene.move()
    assert (head(scene.git, "main"), scene.status()) == (scene.old, "")
    monkeypatch.undo()
    scene.move()
    assert scene.status() == ""


def test_a_commit_that_is_said_to_fail_and_did_not_is_done(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = branch._Transaction.commit

    def fail(self: branch._Transaction) -> None:
        commit(self)
        raise branch._NotLocked("git was killed")

    monkeypatch.setattr(branch._Transaction, "commit", fail)
    scene.move()
    assert (head(scene.git, "main"), scene.status()) == (scene.new, "")


def test_a_branch_does_not_move_away_from_its_commits(scene: Scene) -> None:
    aside = scene.commit({"file": b"aside"})
    with pytest.raises(GitRefused, match="would lose commits"):
        move(scene.git, "main", 3, scene.old, aside)
    assert head(scene.git, "main") == scene.old


def test_a_lock_that_was_left_behind_is_named(scene: Scene) -> None:
    lock = scene.folder / ".git/refs/understudy/fence/main.lock"
    lock.touch()
    with pytest.raises(GitRefused, match=r"fence/main\.lock"):
        register(scene.git, "main", 4)
    lock.unlink()
    (scene.folder / ".git/refs/heads/main.lock").touch()
    with pytest.raises(GitRefused, match=r"main\.lock"):
        scene.move()
    assert (head(scene.git, "main"), scene.status()) == (scene.old, "")


KILL = """
    import os, signal, sys
    from pathlib import Path
    from understudy.actors.descent import branch, checkout
    from understudy.actors.descent.git import Git

    def die(*words):
        os.killpg(0, signal.SIGKILL)  # and every git that is in its group

    def die_half_way(self, *words):  # some files are new, the index is not
        (self.folder / "file").write_bytes(self._git.run("show", new + ":file").stdout)
        (self.folder / "gone").unlink()
        (self.folder / "n").mkdir()
        (self.folder / "n" / "added").write_text("added\\n")
        (self.folder / "link").symlink_to("file")
        die()

    where, folder, old, new = sys.argv[1:]
    if where == "before the files":
        checkout.Checkout.bring_up = die
    elif where == "amid the files":
        checkout.Checkout.bring_up = die_half_way
    elif where == "before the commit":
        branch._Transaction.commit = die
    else:
        commit = branch._Transaction.commit
        branch._Transaction.commit = lambda self: (commit(self), die())
    branch.move(Git(Path(folder)), "main", 3, old, new)
"""


@together("where", ["before the files", "amid the files", "before the commit", "at the end"])
def test_a_mover_that_is_killed_is_finished_by_the_next(tmp_path: Path, where: str) -> None:
    scene = Scene(tmp_path / "repository")
    words = [sys.executable, "-c", textwrap.dedent(KILL), where]
    words += [str(scene.folder), scene.old, scene.new]
    ran = subprocess.run(words, check=False, start_new_session=True)
    assert ran.returncode == KILLED
    register(scene.git, "main", 4)
    # The git of the dead mover lets go of its locks as soon as it sees that nobody talks to it.
    while list((scene.folder / ".git").rglob("*.lock")):
        os.sched_yield()
    assert head(scene.git, "main") == (scene.new if where == "at the end" else scene.old)
    scene.move(fence=4)
    assert (head(scene.git, "main"), scene.status()) == (scene.new, "")
    assert (scene.folder / "n" / "added").read_text() == "added\n"


def test_files_that_a_killed_mover_left_are_not_taken_for_the_users(scene: Scene) -> None:
    """C2 does not cover C1: among files that are half way, one of the user's still counts."""
    (scene.folder / "file").write_bytes(lines((5, "new")))
    (scene.folder / "tool").write_text("mine")
    with pytest.raises(Dirty, match="tool"):
        scene.move()


def test_what_is_merged_is_kept_until_the_branch_moves(scene: Scene) -> None:
    keep(scene.git, "main", 3, scene.new)
    scene.git.run("reflog", "expire", "--expire=now", "--all")
    scene.git.run("gc", "-q", "--prune=now")
    assert scene.git.commit("refs/understudy/glue/main") == scene.new
    scene.move()
    assert scene.git.commit(glue_ref(scene.git, "main")) is None
    assert registered_fence(scene.git, "main") == 3


def test_a_branch_that_is_checked_out_nowhere_just_moves(scene: Scene) -> None:
    scene.git.run("checkout", "-q", "--detach")
    (scene.folder / "file").write_text("mine")
    scene.move()
    assert head(scene.git, "main") == scene.new
    assert (scene.folder / "file").read_text() == "mine"


def test_names_that_are_no_branch_are_refused(scene: Scene) -> None:
    scene.git.run("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    with pytest.raises(GitRefused, match="name that one: main"):
        move(scene.git, "alias", 3, scene.old, scene.new)
    for bad in ("", "a..b", "-d", "a b", "x\ny", "/etc", "a.lock", "HEAD@{1}"):
        with pytest.raises(GitRefused, match="no name of a branch"):
            head(scene.git, bad)
    with pytest.raises(GitRefused, match="no such branch"):
        head(scene.git, "unborn")
    with pytest.raises(GitRefused, match="no such commit"):
        move(scene.git, "main", 3, scene.old, "0" * 39 + "1")


def test_a_bare_repository_and_a_name_with_a_slash_will_do(tmp_path: Path, scene: Scene) -> None:
    bare = tmp_path / "bare.git"
    scene.branch("release/1", scene.old)
    scene.branch("new", scene.new)
    subprocess.run(["git", "clone", "-q", "--bare", scene.folder, bare], check=True)
    git = Git(bare)
    register(git, "release/1", 1)
    move(git, "release/1", 1, scene.old, scene.new)
    assert head(git, "release/1") == scene.new


def test_a_hook_of_the_user_is_not_run(scene: Scene) -> None:
    hook = scene.folder / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    scene.move()
    assert head(scene.git, "main") == scene.new


def _glue(folder: str, fences: list[int], log: str) -> None:
    """A gluer that takes the branch one commit further under each of its fences, if it may."""
    git = Git(Path(folder))
    for fence in fences:
        try:
            register(git, "main", fence)
            old = head(git, "main")
            words = ("commit-tree", "-p", old, "-m", f"fence {fence}", f"{old}^{{tree}}")
            new = git.text(*words)
            move(git, "main", fence, old, new)
        except (Deposed, Moved) as error:
            line = f"{fence} {type(error).__name__}\n"
        else:
            line = f"{fence} moved\n"
        with Path(log).open("a") as out:
            out.write(line)


def test_gluers_that_race_leave_one_line_of_growing_fences(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "repository")
    scene.git.run("checkout", "-q", "--detach")
    log = tmp_path / "log"
    fences = [list(range(4 + each, 64, 3)) for each in range(3)]
    context = multiprocessing.get_context("spawn")
    racers = [
        context.Process(target=_glue, args=(str(scene.folder), each, str(log))) for each in fences
    ]
    for each in racers:
        each.start()
    for each in racers:
        each.join()
    said = [line.split() for line in log.read_text().splitlines()]
    assert len(said) == 60
    moved = sorted(int(fence) for fence, what in said if what == "moved")
    subjects = scene.git.text("log", "--format=%s", "--reverse", f"{scene.old}..main").split("\n")
    assert subjects == [f"fence {each}" for each in moved]
    assert registered_fence(scene.git, "main") == 63
    assert 63 in moved


def _bytes_in(folder: Path) -> dict[str, bytes]:
    found = {}
    for each in sorted(folder.rglob("*")):
        if ".git" not in each.parts and not each.is_dir():
            body = os.fsencode(each.readlink()) if each.is_symlink() else each.read_bytes()
            found[str(each)] = body
    return found
