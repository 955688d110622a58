"""What a command changed in its worktree, as one line of commits on the worktree's branch.

What the command committed stays as it is; the rest becomes a commit behind it. The last commit
names issue, fence and lease in its trailers. Hooks do not run, and nothing is signed.
"""

import os
from dataclasses import dataclass

from .git import GitRefused, spelled
from .worktree import Worktree, status

FILE_BYTES_MAX = 100 * 1024 * 1024  # what hosts of git take
_PATHS_MAX = 8  # in a text


@dataclass(frozen=True, slots=True)
class Commit:
    """What a section is made of; paths are spelled as `git.spelled` spells them, and sorted."""

    commit: str
    tree: str
    base: str
    paths: tuple[str, ...]


def commit_all(
    worktree: Worktree,
    issue_id: str,
    title: str,
    fence: int,
    lease_id: str,
    *,
    author: str = "understudy",
    file_bytes_max: int = FILE_BYTES_MAX,
) -> Commit | None:
    """Commit all that changed; None if nothing did, taken together.

    `author` is a name, and counts where the repository's settings name nobody.
    """
    _refuse_odd_branch(worktree)
    changed = status(worktree)
    _refuse_unresolved(worktree, changed)
    _refuse_repositories(worktree, changed)
    _refuse_huge(worktree, [path for _, path in changed], file_bytes_max)
    env = worktree.env | _author(worktree, author)
    git = worktree.git
    git.run("add", "--all", "--sparse", "--", ":/", env=env)
    trailers = _trailers(issue_id, fence, lease_id)
    how = ("commit", "--quiet", "--no-verify", "--cleanup=verbatim", "--file=-")
    if git.run("diff-index", "--cached", "--quiet", "HEAD", env=env, allowed=(0, 1)).returncode:
        subject = " ".join(title.split()) or issue_id
        git.run(*how, stdin=f"{subject}\n\n{trailers}".encode(errors="replace"), env=env)
    elif git.text("rev-parse", "HEAD", env=env) != worktree.base:
        said = git.run("show", "--no-patch", "--format=%B", "HEAD", env=env).stdout
        if trailers.encode(errors="replace") not in said + b"\n":
            message = said.rstrip(b"\n") + b"\n\n" + trailers.encode(errors="replace")
            git.run(*how, "--amend", "--allow-empty", stdin=message, env=env)
    return _described(worktree)


def _described(worktree: Worktree) -> Commit | None:
    git, env = worktree.git, worktree.env
    commit, tree = git.text("rev-parse", "HEAD", "HEAD^{tree}", env=env).split()
    words = ("diff-tree", "-r", "--name-only", "--no-renames", "-z", worktree.base, commit)
    touched = git.run(*words, env=env).stdout.removesuffix(b"\0")
    if not touched:
        return None
    return Commit(commit, tree, worktree.base, tuple(sorted(map(spelled, touched.split(b"\0")))))


def _trailers(issue_id: str, fence: int, lease_id: str) -> str:
    issue, lease = (spelled(each.encode(errors="surrogatepass")) for each in (issue_id, lease_id))
    return f"Understudy-Issue: {issue}\nUnderstudy-Fence: {fence}\nUnderstudy-Lease: {lease}\n"


def _author(worktree: Worktree, name: str) -> dict[str, str]:
    """Who commits, where the settings do not say so; git would guess, or refuse."""
    git, env = worktree.git, worktree.env
    keys = ("user.name", "user.email")
    known = [
        git.run("config", "--get", key, env=env, allowed=(0, 1)).stdout.strip() for key in keys
    ]
    if all(known):
        return {}
    plain = "".join(each for each in name if each.isprintable() and each not in "<>").strip()
    who = {"NAME": plain or "understudy", "EMAIL": "understudy@localhost"}
    return {f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who}


# --- what a command may have done -----------------------------------------------------------------


def _refuse_odd_branch(worktree: Worktree) -> None:
    """HEAD is where it was put, and what it has comes after the base."""
    git, env, path = worktree.git, worktree.env, worktree.path
    ran = git.run("symbolic-ref", "--quiet", "HEAD", env=env, allowed=(0, 1))
    head = os.fsdecode(ran.stdout.strip())
    back = f"to keep its commits: git -C {path} switch -C {worktree.branch}"
    if ran.returncode:
        raise GitRefused(f"the command left HEAD of {path} detached; {back}")
    if head != f"refs/heads/{worktree.branch}":
        other = head.removeprefix("refs/heads/")
        raise GitRefused(
            f"the command left {path} on branch {other}, not on {worktree.branch}; {back}"
        )
    words = ("merge-base", "--is-ancestor", worktree.base, "HEAD")
    if git.run(*words, env=env, allowed=(0, 1, 128)).returncode:
        raise GitRefused(
            f"{worktree.branch} no longer comes after {worktree.base[:12]}, from which the work "
            f"began; to put it there: git -C {path} rebase {worktree.base[:12]}"
        )


def _refuse_unresolved(worktree: Worktree, changed: list[tuple[str, bytes]]) -> None:
    torn = [path for letters, path in changed if "U" in letters or letters in ("AA", "DD")]
    if torn:
        said = ", ".join(map(spelled, torn[:_PATHS_MAX]))
        raise GitRefused(
            f"a merge in {worktree.path} is not resolved: {said}; resolve it and `git add` them"
        )


def _refuse_repositories(worktree: Worktree, changed: list[tuple[str, bytes]]) -> None:
    """Of a repository within, only the name of its commit would be committed."""
    inner = [path for letters, path in changed if letters == "??" and path.endswith(b"/")]
    if inner:
        said = ", ".join(map(spelled, inner[:_PATHS_MAX]))
        raise GitRefused(
            f"in {worktree.path} is a git repository of its own: {said}; have it ignored "
            "(.gitignore), or delete its .git to commit its files"
        )


def _refuse_huge(worktree: Worktree, paths: list[bytes], bytes_max: int) -> None:
    """Before it is hashed: what is in a repository once, stays there."""
    top = os.fsencode(worktree.path)
    for path in paths:
        try:
            found = os.lstat(os.path.join(top, path))  # noqa: PTH118 - a path is bytes
        except OSError:
            continue  # deleted
        if found.st_size > bytes_max and not _is_lfs(worktree, path):
            raise GitRefused(
                f"{spelled(path)} has {found.st_size} bytes, and {bytes_max} are allowed; "
                "have it ignored (.gitignore), or keep it in git LFS"
            )


def _is_lfs(worktree: Worktree, path: bytes) -> bool:
    words = ("check-attr", "-z", "--stdin", "filter")
    said = worktree.git.run(*words, stdin=path + b"\0", env=worktree.env).stdout
    return said.split(b"\0")[2:3] == [b"lfs"]
