"""A git worktree for each lease: made, found again, and taken away without losing what is in it.

    create ---> (command works) ---> set_aside ---> remove
       ^                                  |
       '--- adopt <--- asides <-----------'  refs/understudy/aside/<issue>/<fence>

Beside the folder of a worktree lies its record, `<fence>.json`. It is written before git begins,
and once more when git is done: a record without `gitDir` is of one that is half made, or half
removed, in which no command has anything that is not kept.

I1  What is neither ignored nor in a commit that a ref keeps is set aside before it is removed.
I2  Git is told which worktree is meant. It never looks for one, and so never finds the main one,
    in whose folder ours lie, if a command has deleted `.git`.
I3  Setting aside leaves the worktree and its index as they are.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...authority.journal import private
from ...contracts import limits, regular_file
from ..process.own_folder import refuse_foreign_link
from . import names
from .git import Git, GitRefused, spelled
from .placement import spread
from .repository import Repository

__all__ = [
    "Aside",
    "Worktree",
    "adopt",
    "asides",
    "create",
    "find",
    "is_dirty",
    "list_worktrees",
    "occupied",
    "remove",
    "set_aside",
]

_GITLINK = "160000"  # the mode of a repository within a tree
_LOCK = "understudy-worktrees.lock"  # in the repository's own folder
_HALF_MADE = "initializing"  # as git locks what it has not finished
# What is set aside is on the disk before the worktree goes.
_DURABLE = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsync",
    "GIT_CONFIG_VALUE_0": "committed,loose-object",
    "GIT_CONFIG_KEY_1": "core.fsyncMethod",
    "GIT_CONFIG_VALUE_1": "batch",
}
_PATHS_MAX = 8  # in a text


@dataclass(frozen=True, slots=True)
class Worktree:
    """One worktree of ours; `git_dir` is the repository's own folder for it."""

    repository: Repository
    issue_id: str
    fence: int
    path: Path
    branch: str
    base: str
    git_dir: Path | None  # none while it is being made or removed

    @property
    def is_whole(self) -> bool:
        """Whether git finished it, and it is still there."""
        return self.git_dir is not None and self.git_dir.is_dir() and self.path.is_dir()

    @property
    def env(self) -> dict[str, str]:
        """What tells git which worktree is meant (I2)."""
        assert self.git_dir is not None, "the caller has looked"
        return {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.path)}

    @property
    def git(self) -> Git:
        return Git(self.path)


@dataclass(frozen=True, slots=True)
class Aside:
    """What a holder left: a commit with all that was not ignored, kept by a ref."""

    ref: str
    issue_id: str
    fence: int
    commit: str


def create(
    repository: Repository, issue_id: str, fence: int, base: str, *, sparse: Sequence[str] = ()
) -> Worktree:
    """A worktree on a branch of its own, from a commit; the one that is there, if it is whole.

    `sparse` names folders; with any, only those are checked out, and the files above them.
    """
    path = names.folder(repository.state_dir, issue_id, fence)
    found = find(repository, issue_id, fence)
    if found is not None and found.is_whole:
        return found
    commit = base if base == repository.base else repository.git.commit(base)
    if not commit:
        raise GitRefused(f"there is no commit `{base}` in {repository.top}; name another base")
    branch = names.branch(issue_id, fence)
    planned = Worktree(repository, issue_id, fence, path, branch, commit, None)
    _make_place(planned)
    if found or path.exists() or repository.git.commit(f"refs/heads/{branch}"):
        _clear(found or planned)
    _write_record(planned)
    made = _made(planned, sparse)
    _write_record(made)
    return made


def find(repository: Repository, issue_id: str, fence: int) -> Worktree | None:
    """The worktree of an issue under a fence, half made or whole."""
    path = names.folder(repository.state_dir, issue_id, fence)
    return _read_record(repository, path.with_name(f"{fence}.json"))


def list_worktrees(repository: Repository, issue_id: str | None = None) -> list[Worktree]:
    """All of ours in this repository, by issue and fence; half made ones and lost ones too."""
    records = names.worktrees(repository.state_dir).glob("*/*.json")
    known = filter(None, (_read_record(repository, path) for path in records))
    chosen = (each for each in known if issue_id in (None, each.issue_id))
    return sorted(chosen, key=lambda each: (each.issue_id, each.fence))


def is_dirty(worktree: Worktree) -> bool:
    """Whether anything in it is neither committed nor ignored."""
    return worktree.is_whole and bool(status(worktree))


def status(worktree: Worktree) -> list[tuple[str, bytes]]:
    """What is not committed: two letters, as `git status` has them, and a path."""
    words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    said = worktree.git.run(*words, env=worktree.env).stdout
    rows = said.removesuffix(b"\0").split(b"\0") if said else []
    return [(row[:2].decode(), row[3:]) for row in rows]


# --- making ---------------------------------------------------------------------------------------


def _make_place(worktree: Worktree) -> None:
    issue_folder = worktree.path.parent
    for folder in (issue_folder.parent, issue_folder):
        refuse_foreign_link(folder)
        private.make_folder(folder)
        spread(folder)


def _made(worktree: Worktree, sparse: Sequence[str]) -> Worktree:
    """Have git make it, and check it out while others are made. Several workers for the files of
    one, and no flushing, were no faster where nothing else was written."""
    words = ("worktree", "add", "--quiet", "--no-track", "--no-checkout", "-b", worktree.branch)
    try:
        with _alone(worktree.repository):
            worktree.repository.git.run(*words, worktree.path, worktree.base)
    except GitRefused as error:
        if name := _branch_in_the_way(worktree):
            said = f"branch `{name}` takes the place of {worktree.branch}"
            raise GitRefused(f"{said}; git branch -m {name} OTHER") from error
        raise
    git_dir = _admin(worktree)
    assert git_dir is not None, "git has made it"
    made = replace(worktree, git_dir=git_dir)
    if sparse:
        _restrict(made, sparse)
    made.git.run("read-tree", "-m", "-u", "HEAD", env=made.env)
    if worktree.repository.has_submodules:
        _check_out_submodules(made)
    return made


def _branch_in_the_way(worktree: Worktree) -> str | None:
    """Git keeps `a` as a file, and `a/b` below a folder; it cannot have both."""
    *above, _ = worktree.branch.split("/")
    shorter = ("/".join(above[: count + 1]) for count in range(len(above)))
    is_there = worktree.repository.git.commit
    return next((name for name in shorter if is_there(f"refs/heads/{name}")), None)


@contextmanager
def _alone(repository: Repository) -> Iterator[None]:
    """Keep others of us out: git reads what it keeps of all worktrees, and fails where one of them
    is being made or removed (`failed to read .git/worktrees/5/commondir: Success`)."""
    handle = private.opener(repository.common_dir / _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _restrict(worktree: Worktree, folders: Sequence[str]) -> None:
    lines = b"".join(os.fsencode(each) + b"\n" for each in folders)
    worktree.git.run("sparse-checkout", "set", "--cone", "--stdin", stdin=lines, env=worktree.env)


def _check_out_submodules(worktree: Worktree) -> None:
    try:
        worktree.git.run("submodule", "--quiet", "update", "--init", "--recursive")
    except GitRefused as error:
        said = "a submodule could not be checked out; without a network its URL must be reachable"
        raise GitRefused(f"{said} from here (git submodule update --init): {error}") from None


def _clear(worktree: Worktree) -> None:
    """Make room where a worktree of this name was removed by hand, or half made."""
    admin = _admin(worktree)
    if admin is None and worktree.path.is_dir() and any(worktree.path.iterdir()):
        _move_away(worktree.path)
    _forget(worktree, admin)


def _move_away(path: Path) -> None:
    """No record tells what it is, so it is kept."""
    number = 1
    while (other := path.with_name(f"{path.name}.left-{number}")).exists():
        number += 1
    path.rename(other)


def _forget(worktree: Worktree, admin: Path | None) -> None:
    """Let git forget it, and drop its branch, whose commits are kept first."""
    git = worktree.repository.git
    _keep_tip(worktree)
    if admin is not None:
        _delete(worktree.path)
        (admin / "locked").unlink(missing_ok=True)
    with _alone(worktree.repository):
        if admin is not None:
            git.run("worktree", "remove", "--force", worktree.path)
        _drop_branch(worktree)
    _record_path(worktree).unlink(missing_ok=True)


def _delete(folder: Path) -> None:
    """With what a command has made unwritable, such as a cache of modules."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except PermissionError:
        for inner, *_ in os.walk(folder):
            Path(inner).chmod(private.FOLDER_MODE)
        shutil.rmtree(folder)


def _keep_tip(worktree: Worktree) -> None:
    """Commits of the branch that nothing else keeps go under the aside ref."""
    git, ref = worktree.repository.git, names.aside_ref(worktree.issue_id, worktree.fence)
    tip = git.commit(f"refs/heads/{worktree.branch}")
    if tip is None or _is_kept(worktree, tip):
        return
    before = git.commit(ref)
    if before is not None and not _is_ancestor(git, before, tip):
        tree = git.text("rev-parse", f"{tip}^{{tree}}")
        tip = _committed(worktree, tree, [tip, before])
    git.run("update-ref", "-m", "set aside", ref, tip)


def _drop_branch(worktree: Worktree) -> None:
    git = worktree.repository.git
    tip = git.commit(f"refs/heads/{worktree.branch}")
    if tip is not None and _is_kept(worktree, tip):
        git.run("branch", "--quiet", "-D", "--", worktree.branch)


def _is_kept(worktree: Worktree, commit: str) -> bool:
    """Whether a commit is reached from the base, the section or what was set aside."""
    git, named = worktree.repository.git, (worktree.issue_id, worktree.fence)
    keepers = (worktree.base, names.section_ref(*named), names.aside_ref(*named))
    known = filter(None, map(git.commit, keepers))
    return any(_is_ancestor(git, commit, each) for each in known)


def _is_ancestor(git: Git, older: str, newer: str) -> bool:
    words = ("merge-base", "--is-ancestor", older, newer)
    return older == newer or git.run(*words, allowed=(0, 1)).returncode == 0


# --- setting aside, and taking away ---------------------------------------------------------------


def set_aside(worktree: Worktree) -> str | None:
    """Keep all that is not ignored under the aside ref, and name it; None if nothing is unkept.

    Asked again, it keeps what came since, together with what it kept before.
    """
    ref = names.aside_ref(worktree.issue_id, worktree.fence)
    if not worktree.is_whole:
        _keep_tip(worktree)
        return ref if worktree.repository.git.commit(ref) else None
    _repair_pointer(worktree)
    with _borrowed_index(worktree) as env:
        staged = _written(worktree, env)
        worktree.git.run("add", "--all", "--sparse", "--", ":/", env=env)
        tree = worktree.git.text("write-tree", env=env)
    _refuse_unkept_repositories(worktree, tree)
    commit = _snapshot(worktree, tree, staged)
    git = worktree.repository.git
    if commit is None:
        return ref if git.commit(ref) else None
    if git.commit(ref) != commit:
        git.run("update-ref", "-m", "set aside", ref, commit, env=_DURABLE)
    return ref


def remove(worktree: Worktree) -> str | None:
    """Set aside what is in it, and take it away; the ref, if there was anything to keep.

    The branch goes where its commits are kept by the base, the section or the aside.
    """
    _refuse_occupied(worktree)
    _refuse_locked(worktree)
    _refuse_unknown(worktree)
    kept = set_aside(worktree)
    admin, emptied = _admin(worktree), replace(worktree, git_dir=None)
    _write_record(emptied)  # who is killed now leaves files out, and has not deleted them
    _forget(emptied, admin)
    with suppress(OSError):  # of an issue that has others
        worktree.path.parent.rmdir()
    return kept


@contextmanager
def occupied(worktree: Worktree) -> Iterator[int]:
    """Nobody takes it away as long as this descriptor is open, in us or in whom it is handed to."""
    handle = os.open(_record_path(worktree), os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(worktree, handle)
        yield handle
    finally:
        os.close(handle)


def _lock(worktree: Worktree, handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        said = f"a process is still at work in {worktree.path}"
        raise GitRefused(f"{said}; it is ended with its lease: try again then") from None


def _refuse_occupied(worktree: Worktree) -> None:
    with suppress(FileNotFoundError), occupied(worktree):
        pass


def _refuse_locked(worktree: Worktree) -> None:
    admin = _admin(worktree)
    if admin is None:
        return
    with suppress(FileNotFoundError):
        why = (admin / "locked").read_text(errors="replace").strip()
        if why != _HALF_MADE:
            said = f"{worktree.path} is locked{f' ({why})' if why else ''}"
            raise GitRefused(f"{said}; git worktree unlock {worktree.path}")


def _refuse_unknown(worktree: Worktree) -> None:
    """Git has forgotten it, so it cannot say what in there is kept."""
    if _admin(worktree) is None and worktree.git_dir is not None and worktree.path.is_dir():
        said = f"git does not know {worktree.path} any more, and so cannot set it aside"
        raise GitRefused(f"{said}; move it to another place, and try again")


def _repair_pointer(worktree: Worktree) -> None:
    """A command may have deleted `.git`; if it made another one, what is in there is not ours."""
    pointer, line = worktree.path / ".git", f"gitdir: {worktree.git_dir}"
    if not os.path.lexists(pointer):
        pointer.write_text(f"{line}\n")
    elif pointer.is_symlink() or not pointer.is_file():
        said = f"{pointer} was replaced by another repository, whose commits would be lost"
        raise GitRefused(f"{said}; move it away, and try again")
    elif os.fsdecode(pointer.read_bytes()).strip() != line:
        pointer.write_text(f"{line}\n")


@contextmanager
def _borrowed_index(worktree: Worktree) -> Iterator[dict[str, str]]:
    """A copy of the index, with all that it knows about files, to be changed freely (I3)."""
    assert worktree.git_dir is not None, "the caller has looked"
    with tempfile.TemporaryDirectory(prefix="understudy-", dir=worktree.git_dir) as folder:
        index = Path(folder, "index")
        env = worktree.env | _DURABLE | {"GIT_INDEX_FILE": str(index)}
        try:
            shutil.copyfile(worktree.git_dir / "index", index)
            worktree.git.run("ls-files", "--unmerged", env=env)
        except (FileNotFoundError, GitRefused):  # deleted, or not readable
            index.unlink(missing_ok=True)
            worktree.git.run("read-tree", worktree.base, env=env)
        yield env


def _written(worktree: Worktree, env: dict[str, str]) -> str | None:
    """The tree that is staged; none while a merge is not resolved."""
    ran = worktree.git.run("write-tree", env=env, allowed=(0, 128))
    return ran.stdout.decode().strip() if ran.returncode == 0 else None


def _refuse_unkept_repositories(worktree: Worktree, tree: str) -> None:
    """Of a repository within, a tree has only the commit's name; its files would be lost."""
    rows = worktree.git.run("ls-tree", "-r", "-z", tree, env=worktree.env).stdout.split(b"\0")
    links = [row.split(b"\t", 1) for row in rows if row.startswith(_GITLINK.encode())]
    for about, name in links:
        inner = worktree.path / os.fsdecode(name)
        if not os.path.lexists(inner / ".git"):
            continue
        words = ("ls-tree", "-z", worktree.base, "--", os.fsdecode(name))
        known = worktree.git.run(*words, env=worktree.env).stdout
        changed = Git(inner).run("status", "--porcelain", "-z").stdout
        if about.split()[2] not in known or changed:
            said = f"{inner} is a git repository of its own, with work that is nowhere else"
            raise GitRefused(f"{said}; push it or move it away, and try again")


def _snapshot(worktree: Worktree, tree: str, staged: str | None) -> str | None:
    """The commit that keeps it all; none if everything is kept by other refs."""
    ref = names.aside_ref(worktree.issue_id, worktree.fence)
    head, before = _resolved(worktree, "HEAD"), _resolved(worktree, ref)
    tip = _resolved(worktree, f"refs/heads/{worktree.branch}")
    first = head or tip or worktree.base
    clean = worktree.repository.git.text("rev-parse", f"{first}^{{tree}}")
    also = [tip] if tip and not _is_ancestor(worktree.repository.git, tip, first) else []
    if staged not in (None, tree, clean):
        assert staged is not None
        also.append(_committed(worktree, staged, [first]))
    if tree == clean and not also:
        if _is_kept(worktree, first):
            return None
        if before is None:
            return first
    if before is not None and _holds(worktree, before, tree, [first, *also]):
        return before
    parents = [first, *also, *([before] if before else [])]
    return _committed(worktree, tree, list(dict.fromkeys(parents)))


def _holds(worktree: Worktree, before: str, tree: str, parents: list[str]) -> bool:
    """Whether what was set aside before is this very state."""
    words = ("show", "--no-patch", "--format=%T %P", before)
    known, *older = worktree.git.text(*words, env=worktree.env).split()
    return known == tree and older[: len(parents)] == parents


def _resolved(worktree: Worktree, name: str) -> str | None:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    ran = worktree.git.run(*words, env=worktree.env, allowed=(0, 1, 128))
    return ran.stdout.decode().strip() if ran.returncode == 0 else None


def _committed(worktree: Worktree, tree: str, parents: list[str]) -> str:
    """A commit that is the same one whenever it is made from the same things."""
    git = worktree.repository.git
    when = git.text("show", "--no-patch", "--format=%ct +0000", parents[0])
    who = {
        f"GIT_{role}_{member}": value
        for role in ("AUTHOR", "COMMITTER")
        for member, value in (
            ("NAME", "understudy"), ("EMAIL", "understudy@localhost"), ("DATE", when),
        )
    }  # fmt: skip
    issue = spelled(worktree.issue_id.encode(errors="surrogatepass"))
    text = (
        f"set aside: {issue}, fence {worktree.fence}\n\n"
        f"Understudy-Issue: {issue}\nUnderstudy-Fence: {worktree.fence}\n"
    )
    words = [word for parent in parents for word in ("-p", parent)]
    ran = git.run("commit-tree", *words, tree, stdin=text.encode(), env=_DURABLE | who)
    return ran.stdout.decode().strip()


# --- what was left --------------------------------------------------------------------------------


def asides(repository: Repository, issue_id: str | None = None) -> list[Aside]:
    """What earlier holders left, of one issue or of all, oldest fence first."""
    below = names.ASIDES if issue_id is None else f"{names.ASIDES}/{names.encoded(issue_id)}"
    words = ("for-each-ref", "--format=%(objectname) %(refname)", f"{below}/")
    found = []
    for line in repository.git.text(*words).splitlines():
        commit, ref = line.split(" ", 1)
        if (lease := names.lease_of(ref)) is not None:
            found.append(Aside(ref, *lease, commit))
    return sorted(found, key=lambda each: (each.issue_id, each.fence))


def adopt(worktree: Worktree, aside_ref: str) -> list[str]:
    """Bring what was left into a clean worktree, merged and not committed; the paths it changed.

    Where it does not merge, the worktree stays as it is, and the text names the paths.
    """
    git, env = worktree.git, worktree.env
    left = worktree.repository.git.commit(aside_ref)
    if left is None:
        said = f"nothing was left under {aside_ref}"
        raise GitRefused(f"{said}; `understudy worktree list` shows what was")
    if status(worktree):
        said = f"{worktree.path} has changes of its own"
        raise GitRefused(f"{said}; commit them first, then adopt what was left")
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "HEAD", left)
    ran = git.run(*words, env=env, allowed=(0, 1))
    tree, *paths = ran.stdout.removesuffix(b"\0").split(b"\0")
    if ran.returncode:
        raise GitRefused(
            f"what was left does not merge with {worktree.branch}: {_few(paths)}; "
            f"nothing was changed. By hand: git merge --no-commit {aside_ref}"
        )
    git.run("read-tree", "-m", "-u", "HEAD", tree.decode(), env=env)
    words = ("diff-tree", "-r", "--name-only", "--no-renames", "-z", "HEAD", tree.decode())
    changed = git.run(*words, env=env).stdout.removesuffix(b"\0")
    return sorted(map(spelled, changed.split(b"\0"))) if changed else []


def _few(paths: list[bytes]) -> str:
    said = ", ".join(spelled(path) for path in paths[:_PATHS_MAX])
    more = len(paths) - _PATHS_MAX
    return f"{said} and {more} more" if more > 0 else said


# --- records --------------------------------------------------------------------------------------


def _record_path(worktree: Worktree) -> Path:
    return worktree.path.with_name(f"{worktree.fence}.json")


def _write_record(worktree: Worktree) -> None:
    """Whole or not at all."""
    record = {
        "issueId": worktree.issue_id,
        "fence": worktree.fence,
        "base": worktree.base,
        "branch": worktree.branch,
        "target": worktree.repository.target,
        "commonDir": str(worktree.repository.common_dir),
        "gitDir": str(worktree.git_dir) if worktree.git_dir else None,
    }
    path = _record_path(worktree)
    fresh = path.with_suffix(".json.new")
    private.write(fresh, json.dumps(record, sort_keys=True).encode())  # a path may be no UTF-8
    fresh.replace(path)


def _read_record(repository: Repository, path: Path) -> Worktree | None:
    """What a record says, if it is one, and of this repository."""
    try:
        found: Any = json.loads(regular_file.read(path, limits.REQUEST_BYTES_MAX))
        if Path(found["commonDir"]) != repository.common_dir:
            return None
        git_dir = Path(found["gitDir"]) if found["gitDir"] else None
        issue_id, fence = str(found["issueId"]), int(found["fence"])
        branch, base = str(found["branch"]), str(found["base"])
        repository = replace(repository, target=str(found.get("target") or repository.target))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Worktree(repository, issue_id, fence, path.with_suffix(""), branch, base, git_dir)


def _admin(worktree: Worktree) -> Path | None:
    """The repository's own folder for a worktree; git has one for each, made or half made."""
    if worktree.git_dir is not None:
        return worktree.git_dir if worktree.git_dir.is_dir() else None
    pointer = os.fsencode(worktree.path / ".git")
    for gitdir in worktree.repository.common_dir.glob("worktrees/*/gitdir"):
        with suppress(OSError):
            if gitdir.read_bytes().strip() == pointer:
                return gitdir.parent
    return None
