"""Moves a branch for the newest gluer alone; git itself refuses every other.

A gluer's fence lies in the repository: `refs/understudy/fence/<branch>` names a blob, the fence as
decimal text. The branch moves in one transaction of references that also verifies that blob.

    I1  the fence of a branch only grows
    I2  a branch moves only while the fence of its mover is the one in the repository
    I3  a branch moves only from the commit that the mover has seen
    I4  a branch only moves to what is made from it: no commit is lost
    I5  a working tree that has the branch checked out is brought along, or the branch stays

A branch that is checked out moves as by a push with `receive.denyCurrentBranch=updateInstead`: the
references are locked and verified, the files are brought up, and only then is it committed. If the
mover dies in between, the files are ahead of the branch, nothing has moved, and the next one goes
on from there; the other order would leave a tree behind that undoes the merge at the next commit.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from .checkout import Checkout, brought_up
from .git import Git, GitRefused

FENCE_MAX: Final = (1 << 63) - 1
_REFS: Final = "refs/understudy"
_HEADS: Final = "refs/heads/"
_TRIES_MAX: Final = 3  # while nothing changes; each waits for a lock


class Deposed(GitRefused):
    """A greater fence is registered: another gluer is at work, and this one has to stop."""


class Moved(GitRefused):
    """The branch is not where the mover saw it last: somebody moved it by hand."""


def register(git: Git, target: str, fence: int) -> None:
    """Make this the fence of the branch; `Deposed` where a greater one is registered."""
    if not 0 < fence <= FENCE_MAX:
        raise GitRefused(f"{fence}: a fence is a number from 1 to {FENCE_MAX}")
    ref, blob = fence_ref(git, target), _blob(git, fence)
    tries = 0
    while (found := _read(git, ref)) != blob:
        registered = _fence_in(git, ref, found)
        if registered > fence:
            raise Deposed(_deposed(target, fence, registered))
        words = ("update-ref", "--no-deref", ref, blob, found or "0" * len(blob))
        ran = git.run(*words, allowed=(0, 1, 128))
        # Another fence that came first is looked at; a file in the way may go, or stay.
        tries = tries + 1 if ran.returncode and _read(git, ref) == found else 0
        if tries >= _TRIES_MAX:
            said = ran.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
            raise GitRefused(f"{target}: the fence could not be registered: {said}")


def move(git: Git, target: str, fence: int, old: str, new: str) -> None:
    """Move the branch, and every working tree that has it. Once done, doing it again is nothing.

    `Deposed` where the fence is not registered any more, `Moved` where the branch is not at `old`,
    `Dirty` where the branch is checked out and files would be lost.
    """
    old, new = _commit(git, old), _commit(git, new)
    branch, blob = branch_ref(git, target), _blob(git, fence)
    at = head(git, target)
    _check_fence(git, target, fence, blob)
    if at == new:
        return  # I5: files come first, so they are there
    if at != old:
        raise Moved(_moved(target, at, old))
    if git.run("merge-base", "--is-ancestor", old, new, allowed=(0, 1)).returncode:
        raise GitRefused(f"{new[:12]} is not made from {target}, which would lose commits")
    lines = [
        f"verify {fence_ref(git, target)} {blob}",
        f"update {branch} {new} {old}",
        f"delete {glue_ref(git, target)}",
    ]
    trees = [Checkout(each) for each in checked_out(git, target)]
    try:
        with _locked(git, lines) as transaction, brought_up(trees, old, new):
            try:
                transaction.commit()
            except _NotLocked:
                if head(git, target) != new:  # it may have been done, and only not been said
                    raise
    except _NotLocked as error:
        _check_fence(git, target, fence, blob)
        now = head(git, target)
        if now != old:
            raise Moved(_moved(target, now, old)) from None
        raise GitRefused(f"{target} did not move: {error}; try again") from None


def keep(git: Git, target: str, fence: int, commit: str) -> None:
    """Hold what is merged but has not moved the branch yet, so that no `git gc` takes it."""
    blob = _blob(git, fence)
    _check_fence(git, target, fence, blob)
    lines = [
        f"verify {fence_ref(git, target)} {blob}",
        f"update {glue_ref(git, target)} {_commit(git, commit)}",
    ]
    try:
        with _locked(git, lines) as transaction:
            transaction.commit()
    except _NotLocked as error:
        _check_fence(git, target, fence, blob)
        raise GitRefused(f"{target}: nothing could be kept: {error}; try again") from None


def head(git: Git, target: str) -> str:
    """The commit that the branch is at."""
    found = _read(git, branch_ref(git, target))
    if found is None:
        raise GitRefused(
            f"{target}: there is no such branch, or it has no commit yet; commit first"
        )
    return found


def registered_fence(git: Git, target: str) -> int:
    """The greatest fence that was ever registered; 0 where there is none."""
    ref = fence_ref(git, target)
    return _fence_in(git, ref, _read(git, ref))


def branch_ref(git: Git, target: str) -> str:
    """The branch's own reference; `GitRefused` for what is no branch or stands for another."""
    ref = _HEADS + target
    if git.run("check-ref-format", ref, allowed=(0, 1)).returncode or target.startswith("-"):
        raise GitRefused(f"{target!r} is no name of a branch; `git branch` lists them")
    behind = git.run("symbolic-ref", "--quiet", ref, allowed=(0, 1, 128)).stdout.decode().strip()
    if behind:
        other = behind.removeprefix(_HEADS)
        raise GitRefused(f"{target} only stands for another branch; name that one: {other}")
    return ref


def fence_ref(git: Git, target: str) -> str:
    """Where the branch's fence lies."""
    return f"{_REFS}/fence/{branch_ref(git, target).removeprefix(_HEADS)}"


def glue_ref(git: Git, target: str) -> str:
    """What holds the merges that have not moved the branch yet."""
    return f"{_REFS}/glue/{branch_ref(git, target).removeprefix(_HEADS)}"


def checked_out(git: Git, target: str) -> list[Path]:
    """The working trees that have the branch; those whose folder is gone do not count."""
    found: list[Path] = []
    for block in git.run("worktree", "list", "--porcelain", "-z").stdout.split(b"\0\0"):
        rows = block.split(b"\0")
        path = Path(os.fsdecode(rows[0].removeprefix(b"worktree ")))
        if b"bare" in rows or not path.is_dir():
            continue
        if os.fsencode(f"branch {_HEADS}{target}") in rows:
            found.append(path)
    return found


class _NotLocked(Exception):
    """Git did not prepare the transaction; the text is git's own."""


class _Transaction:
    """References that are verified and locked, until it is committed or its git ends."""

    def __init__(self, running: subprocess.Popen[bytes]) -> None:
        self._running = running

    def say(self, *lines: str) -> None:
        """Send lines; each of the last one's kind is answered with `<word>: ok`."""
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        word = lines[-1].encode()
        with suppress(BrokenPipeError):  # what git said before it ended is read below
            self._running.stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._running.stdin.flush()
        if self._running.stdout.readline() != word + b": ok\n":
            raise _NotLocked(self._why())

    def commit(self) -> None:
        """Everything moves, at once."""
        self.say("commit")

    def _why(self) -> str:
        assert self._running.stderr is not None
        text = self._running.stderr.read().decode(errors="replace").strip()
        return text.removeprefix("fatal: ") or "git gave no reason"


@contextmanager
def _locked(git: Git, lines: Sequence[str]) -> Iterator[_Transaction]:
    """A transaction that is prepared; left without a commit, or by a kill, it is undone."""
    with git.asked("update-ref", "--no-deref", "-m", "understudy: glue", "--stdin") as running:
        transaction = _Transaction(running)
        transaction.say("start")
        transaction.say(*lines, "prepare")
        yield transaction


def _read(git: Git, ref: str) -> str | None:
    """The object that a reference names; its name is never guessed at."""
    ran = git.run("show-ref", "--verify", "--hash", "--", ref, allowed=(0, 1, 128))
    return ran.stdout.decode().strip() or None


def _blob(git: Git, fence: int) -> str:
    return (
        git.run("hash-object", "-w", "--stdin", stdin=f"{fence}\n".encode()).stdout.decode().strip()
    )


def _fence_in(git: Git, ref: str, blob: str | None) -> int:
    if blob is None:
        return 0
    text = git.run("cat-file", "blob", blob, allowed=(0, 128)).stdout
    if not text.endswith(b"\n") or not text[:-1].isdigit() or len(text) > len(str(FENCE_MAX)) + 1:
        raise GitRefused(
            f"{ref} holds no fence; where no gluer runs, remove it: git update-ref -d {ref}"
        )
    return int(text)


def _check_fence(git: Git, target: str, fence: int, blob: str) -> None:
    ref = fence_ref(git, target)
    found = _read(git, ref)
    if found != blob:
        raise Deposed(_deposed(target, fence, _fence_in(git, ref, found)))


def _commit(git: Git, name: str) -> str:
    found = git.commit(name)
    if found is None:
        raise GitRefused(f"{name}: git knows no such commit; `git log --all` shows what there is")
    return found


def _deposed(target: str, fence: int, registered: int) -> str:
    if registered < fence:
        return f"{target}: fence {fence} is not registered, but {registered}; nothing was moved"
    return (
        f"{target}: fence {fence} is over, {registered} is registered; nothing was moved. "
        "Another gluer is at work; this one has to stop"
    )


def _moved(target: str, at: str, old: str) -> str:
    return (
        f"{target} is at {at[:12]} and not at {old[:12]}: somebody moved it by hand. "
        "Nothing was changed; glue again, and the sections are merged to where it is now"
    )
