"""Where git looks for the hooks of a repository, and what is there: puts ours in, and takes it out.

    none      nothing, or nothing but what was set aside for a hook of ours
    ours      written by `understudy hooks install`, and not changed since
    edited    ours once, and then changed by a person
    foreign   another hook

I1  A hook that is not ours is never overwritten or removed; `chain` sets it aside under another
    name, from which ours calls it and `take_out` brings it back.
I2  A hook is whole or not there: it is written beside its place, and moved.
I3  Only its owner can change it, whatever the umask says.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...actors.descent import git
from ...contracts import regular_file
from . import hook_scripts
from .hook_scripts import BEFORE, HookSettings

HookKind = Literal["none", "ours", "edited", "foreign"]
_MODE = 0o755  # others push and commit too
_HOOK_BYTES_MAX = 1_048_576


class HookInTheWay(Exception):
    """There is a hook that is not ours; the text says what to do."""


@dataclass(frozen=True, slots=True)
class HookFolder:
    """A repository, as far as hooks go."""

    root: Path  # its working tree, or the bare repository itself
    common_dir: Path  # what all worktrees share
    hooks: Path
    is_bare: bool
    shared_by: str | None  # where `core.hooksPath` is set for other repositories too

    @property
    def is_in_working_tree(self) -> bool:
        """Whether the hooks are among the files that could be committed."""
        inside = self.hooks.is_relative_to(self.root)
        return inside and not self.is_bare and not self.hooks.is_relative_to(self.common_dir)


@dataclass(frozen=True, slots=True)
class FoundHook:
    """What is in the place of a hook."""

    name: str
    path: Path
    kind: HookKind
    settings: HookSettings | None  # of ours
    chained: bool  # another one is set aside for it

    @property
    def before(self) -> Path:
        return self.path.with_name(self.name + BEFORE)

    def as_json(self) -> dict[str, object]:
        said = self.settings
        return {
            "name": self.name,
            "path": str(self.path),
            "state": self.kind,
            "chained": self.chained,
            "guard": list(said.guard) if said else [],
            "strict": said.strict if said else False,
            "stateDir": said.state_dir if said else None,
        }


def find(folder: Path) -> HookFolder:
    """The hooks of the repository that a folder is in; raise `GitRefused` where there is none."""
    here = git.Git(folder, as_user=True)
    try:
        is_bare = here.text("rev-parse", "--is-bare-repository") == "true"
        top = "--absolute-git-dir" if is_bare else "--show-toplevel"
        root = Path(here.text("rev-parse", top))
    except git.GitRefused as error:
        raise git.GitRefused(_advised(folder, str(error))) from None
    # A relative core.hooksPath counts from there.
    asked = git.Git(root, as_user=True)
    places = ("--git-path", "hooks"), ("--git-common-dir",)
    hooks, common = (
        Path(asked.text("rev-parse", "--path-format=absolute", *words)) for words in places
    )
    return HookFolder(root, common, hooks, is_bare, _shared_by(asked))


def target(place: HookFolder) -> str | None:
    """The branch that others build on: the remote's, or else the one of the main worktree."""
    asked = git.Git(place.common_dir, as_user=True)
    for name, prefix in (
        ("refs/remotes/origin/HEAD", "refs/remotes/origin/"),
        ("HEAD", "refs/heads/"),
    ):
        found = asked.run("symbolic-ref", "-q", name, allowed=(0, 1))
        branch = os.fsdecode(found.stdout.removesuffix(b"\n"))
        if branch.startswith(prefix):
            return branch.removeprefix(prefix)
    return None


def is_branch(place: HookFolder, name: str) -> bool:
    """Whether git would take it as the name of a branch."""
    words = ("check-ref-format", f"refs/heads/{name}")
    return (
        "\0" not in name
        and git.Git(place.root, as_user=True).run(*words, allowed=(0, 1)).returncode == 0
    )


def look(place: HookFolder, name: str) -> FoundHook:
    """What is there for a hook of this name."""
    path = place.hooks / name
    chained = os.path.lexists(path.with_name(name + BEFORE))
    if not os.path.lexists(path):
        return FoundHook(name, path, "none", None, chained)
    try:
        text = b"" if path.is_symlink() else regular_file.read(path, _HOOK_BYTES_MAX)
    except OSError:  # a folder, a device, another user's, or far too long
        text = b""
    settings = hook_scripts.settings_of(name, text)
    if settings is not None:
        return FoundHook(name, path, "ours", settings, chained)
    kind: HookKind = "edited" if hook_scripts.is_marked(text) else "foreign"
    return FoundHook(name, path, kind, None, chained)


def refuse_loss(found: FoundHook, *, chain: bool) -> None:
    """Raise `HookInTheWay` where to install would lose a hook of somebody else (I1)."""
    if found.kind in ("none", "ours"):
        return
    if not chain:
        raise HookInTheWay(_in_the_way(found))
    if found.chained:
        words = f"{found.path} is not ours, and {found.before} is there already"
        raise HookInTheWay(f"{words}: make one of the two, and install again")


def put_in(found: FoundHook, settings: HookSettings, *, chain: bool) -> str:
    """Install a hook; what became of it, in a word."""
    refuse_loss(found, chain=chain)
    text = hook_scripts.written(found.name, settings)
    if found.kind == "ours" and regular_file.read(found.path, _HOOK_BYTES_MAX) == text:
        return "unchanged"
    is_chained_now = found.kind in ("edited", "foreign")
    fresh = _written(found.path, text)
    try:
        if is_chained_now:
            found.path.rename(found.before)
        fresh.replace(found.path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if is_chained_now:
        return "chained"
    return "installed" if found.kind == "none" else "rewritten"


def take_out(found: FoundHook) -> str:
    """Remove a hook of ours, and bring back what was set aside for it; what became of it."""
    if found.kind not in ("none", "ours"):
        return "kept"
    if found.chained:
        found.before.replace(found.path)
        return "restored"
    if found.kind == "none":
        return "absent"
    found.path.unlink()
    return "removed"


def _written(path: Path, text: bytes) -> Path:
    """A new file beside a hook, ready to take its place."""
    if path.parent.exists() and not path.parent.is_dir():
        raise git.GitRefused(
            f"hooks are switched off here: core.hooksPath names {path.parent}, which is no folder; "
            "`git config --show-origin core.hooksPath` says where it is set"
        )
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
        path.parent.chmod(_MODE)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        fresh.unlink()
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    with os.fdopen(handle, "wb") as file:
        file.write(text)
        file.flush()
        os.fchmod(handle, _MODE)
        os.fsync(handle)
    return fresh


def _in_the_way(found: FoundHook) -> str:
    whose = "a hook that was edited by hand" if found.kind == "edited" else "another hook"
    return (
        f"{found.path} is {whose}, and stays as it is; with --chain it is kept as "
        f"{found.before.name} and called before ours"
    )


def _shared_by(asked: git.Git) -> str | None:
    """The kind of configuration that names the folder of hooks, if it is of more repositories."""
    words = ("config", "--show-scope", "--get", "core.hooksPath")
    said = os.fsdecode(asked.run(*words, allowed=(0, 1)).stdout).partition("\t")[0]
    return said if said not in ("", "local", "worktree") else None


def _advised(folder: Path, said: str) -> str:
    if "not a git repository" in said:
        return (
            f"{folder.absolute()} is in no git repository; name one, "
            "as in `understudy hooks install PATH`, or make one with `git init`"
        )
    if "must be run in a work tree" in said:
        return f"{folder.absolute()} is inside a git folder; name the working tree that it is of"
    return said
