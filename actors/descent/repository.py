"""Whether a folder's git repository is fit for worktrees of ours, and what is not in them.

`locate` finds the repository; `survey` also looks at the branch that work goes to, and at the
commit that it starts from. Both refuse with the next step in the text.
"""

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from . import names
from .git import MERGE_TREE, Git, GitRefused, version


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository, and where our worktrees of it lie. `survey` has filled in the rest."""

    top: Path  # of its own working tree, or of the linked one that was named; the git dir if bare
    common_dir: Path  # what all worktrees share
    state_dir: Path
    version: tuple[int, ...]
    is_bare: bool
    target: str = ""  # the branch that work goes to
    base: str = ""  # the commit that work starts from
    has_submodules: bool = False

    @property
    def git(self) -> Git:
        return Git(self.top)


def survey(
    folder: Path,
    state_dir: Path,
    *,
    target: str | None = None,
    base: str | None = None,
    submodules: bool = False,
) -> Repository:
    """The repository, if worktrees can be made from `base`, which is the target's head if unsaid.

    The target is the current branch, if unsaid.
    """
    found = locate(folder, state_dir)
    if found.is_bare:
        said = f"{found.top} is a bare repository, and work needs a working tree"
        raise GitRefused(f"{said}; go to a clone of it (git clone)")
    _refuse_seen_state(found)
    target = _target(found, target)
    commit = found.git.commit(base or f"refs/heads/{target}")
    if commit is None:
        said = f"there is no commit `{base}` in {found.top}"
        raise GitRefused(f"{said}; name a branch, a tag or a commit that `git log` shows")
    has_submodules = _has_submodules(found.git, commit)
    if has_submodules and not submodules:
        raise GitRefused(
            f"{found.top} has submodules (.gitmodules), which worktrees do not bring along; "
            "say --submodules to have them checked out in each"
        )
    _refuse_missing_lfs(found.git, commit)
    return replace(found, target=target, base=commit, has_submodules=has_submodules)


def locate(folder: Path, state_dir: Path) -> Repository:
    """The repository that a folder is in; `GitRefused` where there is none, or git is too old."""
    known = version()
    if known < MERGE_TREE:
        said = ".".join(map(str, known))
        raise GitRefused(f"git {said} is too old to merge without a working tree; install 2.38")
    git = Git(folder)
    words = ("rev-parse", "--path-format=absolute", "--is-bare-repository", "--git-common-dir")
    ran = git.run(*words, allowed=(0, 128))
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip()
        if "not a git repository" in said:
            said = f"{folder.absolute()} is in no git repository; `git init` makes one there"
        raise GitRefused(said)
    bare, common = os.fsdecode(ran.stdout.removesuffix(b"\n")).split("\n", 1)
    common_dir = Path(common)
    is_bare = bare == "true"
    top = common_dir if is_bare else _top(git, folder)
    return Repository(top, common_dir, state_dir.resolve(), known, is_bare)


def warnings(repository: Repository) -> list[str]:
    """What a person may think is in the worktrees, and is not."""
    words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
    changed = repository.git.run(*words).stdout.count(b"\0")
    if not changed:
        return []
    counted = f"{changed} uncommitted change{'s' * (changed != 1)} in {repository.top}"
    return [f"{counted}: not in the worktrees, which start from commit {repository.base[:12]}"]


# --- what is not fit ------------------------------------------------------------------------------


def _top(git: Git, folder: Path) -> Path:
    ran = git.run("rev-parse", "--show-toplevel", allowed=(0, 128))
    if ran.returncode:
        said = f"{folder.absolute()} is inside of a git directory"
        raise GitRefused(f"{said}; go to the working tree that it belongs to")
    return Path(os.fsdecode(ran.stdout.removesuffix(b"\n")))


def _target(repository: Repository, target: str | None) -> str:
    """The branch that is named or checked out, which has a commit."""
    git = repository.git
    if target is None:
        head = git.run("symbolic-ref", "--quiet", "HEAD", allowed=(0, 1))
        if head.returncode:
            said = f"HEAD of {repository.top} is detached, so no branch is meant"
            raise GitRefused(f"{said}; name one with --into, or `git switch` to it")
        ref = os.fsdecode(head.stdout.removesuffix(b"\n"))
        if git.commit(ref) is None:
            said = f"branch {ref.removeprefix('refs/heads/')} of {repository.top} has no commit yet"
            raise GitRefused(f"{said}; make the first one: git commit --allow-empty -m start")
        return ref.removeprefix("refs/heads/")
    words = ("show-ref", "--verify", "--quiet", "--", f"refs/heads/{target}")
    if git.run(*words, allowed=(0, 1, 128)).returncode:
        said = f"there is no branch `{target}` in {repository.top}"
        raise GitRefused(f"{said}; `git branch` lists them, and `git branch NAME` makes one")
    return target


def _refuse_seen_state(repository: Repository) -> None:
    """Git would take worktrees below the state directory for untracked files of the main one."""
    state_dir, git = repository.state_dir, repository.git
    path = shlex.quote(str(state_dir))
    if not state_dir.exists() or not state_dir.is_relative_to(repository.top.resolve()):
        return
    if git.run("ls-files", "-z", "--", state_dir).stdout:
        said = f"git tracks files of the state directory {state_dir}"
        raise GitRefused(f"{said}; `git rm -r --cached {path}`, and commit that")
    inner = state_dir / names.WORKTREES / "any"
    if git.run("check-ignore", "--quiet", "--", inner, allowed=(0, 1)).returncode:
        said = f"git does not ignore the state directory {state_dir}, where worktrees would lie"
        raise GitRefused(f"{said}; echo '*' > {path}/.gitignore")


def _has_submodules(git: Git, commit: str) -> bool:
    return bool(git.run("ls-tree", "-z", commit, "--", ":/.gitmodules").stdout)


def _refuse_missing_lfs(git: Git, commit: str) -> None:
    """Without its filter, files of LFS are short texts, and would be committed as such."""
    words = ("grep", "--quiet", "--fixed-strings", "--word-regexp", "-e", "filter=lfs", commit)
    if git.run(*words, "--", ":(top,glob)**/.gitattributes", allowed=(0, 1)).returncode:
        return
    if git.run("lfs", "version", allowed=(0, 1)).returncode:
        said = "files of this repository are in git LFS (.gitattributes), and git-lfs is missing"
        raise GitRefused(f"{said}; install git-lfs, then: git lfs install")
    if git.run("config", "--get", "filter.lfs.process", allowed=(0, 1)).returncode:
        said = "files of this repository are in git LFS (.gitattributes), which is not set up"
        raise GitRefused(f"{said}; git lfs install, then: git lfs pull")
