"""Which state directory a command uses, and why: the one that is named, or else the nearest one.

    --state-dir             as it is named
    UNDERSTUDY_STATE_DIR    as it is named
    here                    `.premath` in this folder
    main-worktree           where the main worktree of this linked one would find it
    above                   `.premath` in a folder above, up to the root of the filesystem

I1  One that is found elsewhere than here belongs to us, and is not open to the world: what another
    user may have put in our way is passed over.

`guard` and `mcp` begin here, so nothing is imported that they would wait for; git is not asked.
"""

from __future__ import annotations

import os
import stat

from ...authority.journal import state_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = ".premath"
ELSEWHERE = ("main-worktree", "above")
_POINTER_BYTES_MAX = 8_192  # a path, and a word before it


class StatePlace:
    """A state directory, or where one would be; `why` is the first column above, or `missing`."""

    __slots__ = ("passed_over", "path", "why")

    def __init__(self, path: str, why: str, passed_over: tuple[str, ...] = ()) -> None:
        self.path = path
        self.why = why
        self.passed_over = passed_over  # what was found and not taken, with the reason


def chosen(named: str | None) -> StatePlace:
    """The one that an option names, or the environment, or that is nearest to this folder."""
    if named:
        return StatePlace(named, "--state-dir")
    if named := os.environ.get("UNDERSTUDY_STATE_DIR"):
        return StatePlace(named, "UNDERSTUDY_STATE_DIR")
    if state_files.is_state_dir(NAME):
        return StatePlace(NAME, "here")
    return _elsewhere()


def _elsewhere() -> StatePlace:
    """The nearest one that is not in this folder itself."""
    passed_over: list[str] = []
    for folder, why in _around():
        path = f"{folder.rstrip('/')}/{NAME}"
        if not state_files.is_state_dir(path):
            continue
        problem = _problem(path)
        if problem is None:
            return StatePlace(path, why, tuple(passed_over))
        passed_over.append(f"{path}: {problem}")
    return StatePlace(NAME, "missing", tuple(dict.fromkeys(passed_over)))


def main_worktree() -> str | None:
    """The main worktree of the linked one that this folder is in."""
    try:
        return next(filter(None, map(_main_worktree, _upwards(os.getcwd()))), None)
    except OSError:
        return None


def _around() -> Iterator[tuple[str, str]]:
    """The folders to look into but this one, the nearest first."""
    try:
        here = os.getcwd()
    except OSError:
        return  # it was deleted
    for folder in _upwards(here):
        if folder != here:
            yield folder, "above"
        if main := _main_worktree(folder):
            yield from ((each, "main-worktree") for each in _upwards(main))


def _upwards(folder: str) -> Iterator[str]:
    """A folder and those above it, as far as they are on its filesystem."""
    device = None
    while True:
        try:
            found = os.stat(folder).st_dev
        except OSError:
            return
        if found != (device := device or found):
            return
        yield folder
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return


def _main_worktree(folder: str) -> str | None:
    """Where the repository has its own working tree, if this is the top of a linked one.

    There `.git` is a file that names a folder of the repository, and that names the repository.
    """
    kept = _pointer(f"{folder}/.git")
    if kept is None or not kept.startswith("gitdir: "):
        return None
    kept = os.path.join(folder, kept.removeprefix("gitdir: "))
    shared = _pointer(f"{kept}/commondir")
    if shared is None:
        return None  # a submodule's
    above, name = os.path.split(os.path.realpath(os.path.join(kept, shared)))
    return above if name == ".git" else None


def _pointer(path: str) -> str | None:
    """The line in a small file of ours."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        return os.fsdecode(os.read(handle, _POINTER_BYTES_MAX)).rstrip("\n")
    finally:
        os.close(handle)


def _problem(path: str) -> str | None:
    """Why a state directory is not taken, if it is not."""
    link, found = os.lstat(path), os.stat(path)
    if {link.st_uid, found.st_uid} != {os.geteuid()}:
        return "it belongs to another user"
    return "everybody can write in it" if found.st_mode & stat.S_IWOTH else None
