"""Asks git, and says what it refused. The only place of this room where git is run.

What a caller hands in is never read as an option, no hook and no pager of the user runs, and
nothing waits for a terminal. Paths are bytes to git; `spelled` has the one text for each.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MERGE_TREE: Final = (2, 38)  # the first git whose `merge-tree` writes trees
_ALONE: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": "true",
    "LC_ALL": "C",
}
# No program of the user's starts beside git: a hook, a watcher, a collector, an agent that signs.
_SETTINGS: Final = (
    "core.quotePath=false",
    f"core.hooksPath={os.devnull}",
    "core.filesRefLockTimeout=1000",  # git waits 100 ms, which a busy machine may take
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "maintenance.auto=false",
    "gc.auto=0",
)
_WORDS: Final = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))
_USERS_WORDS: Final = _WORDS[:3]
# What points at another repository than the one that is named; a hook or an alias leaves it behind.
ELSEWHERE: Final = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_QUARANTINE_PATH",
)


class GitRefused(Exception):
    """Git could not do it, or the repository is not fit for it; the text says what to do."""


class Git:
    """One repository, or one worktree of it, by a folder in it; asked as the user would ask, what
    is set there counts."""

    def __init__(self, folder: Path, *, as_user: bool = False) -> None:
        self.folder = folder
        self._words = _USERS_WORDS if as_user else _WORDS

    def run(
        self,
        *words: str | os.PathLike[str],
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        allowed: Sequence[int] = (0,),
        is_apart: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """What git answered; `GitRefused` for an exit code that is not allowed.

        Set apart, it is not hit by a kill of our group, and leaves no lock behind it.
        """
        try:
            ran = subprocess.run(  # noqa: S603 - no shell, and options end before a caller's words
                [*self._words, *words],
                cwd=self.folder,
                input=stdin,
                env=_around(env),
                capture_output=True,
                check=False,
                start_new_session=is_apart,
            )
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise GitRefused(f"{self.folder}: there is no such folder") from None
            raise GitRefused("there is no git here; install git 2.38 or newer") from None
        if ran.returncode not in allowed:
            said = ran.stderr.decode(errors="replace").strip() or f"exit code {ran.returncode}"
            raise GitRefused(f"git {words[0]}: {said}")
        return ran

    @contextmanager
    def asked(self, *words: str | os.PathLike[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A git that is talked to line by line, set apart; it ends when its standard input does."""
        with subprocess.Popen(  # noqa: S603 - no shell, and options end before a caller's words
            [*self._words, *words],
            cwd=self.folder,
            env=_around(None),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as running:
            yield running

    def text(self, *words: str | os.PathLike[str], **more: Mapping[str, str] | None) -> str:
        """What git printed, without the last newline."""
        return os.fsdecode(self.run(*words, env=more.get("env")).stdout.removesuffix(b"\n"))

    def commit(self, name: str) -> str | None:
        """The commit that a name stands for, if git knows one."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        ran = self.run(*words, allowed=(0, 1, 128))
        return ran.stdout.decode().strip() if ran.returncode == 0 else None


def _around(env: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a git that finds the repository by its folder, unless `env` says more."""
    around = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    return around | _ALONE | dict(env or {})


def version() -> tuple[int, ...]:
    """Of the git that is found; `GitRefused` where there is none."""
    said = Git(Path("/")).text("version").split()[2]
    return tuple(int(part) for part in said.split(".")[:2])


def spelled(path: bytes) -> str:
    """A path as text, one for each path: itself, or as git quotes it where it is no plain text."""
    try:
        text = path.decode()
    except UnicodeDecodeError:
        text = ""
    is_plain = text and text.isprintable() and not text.startswith('"')
    return text if is_plain else '"' + "".join(map(_quoted, path)) + '"'


def _quoted(byte: int) -> str:
    """A byte as git quotes it in a path."""
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"  # printable ASCII
