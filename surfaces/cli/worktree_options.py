"""Options for worktrees, and what they come to in the repository that the command is called in."""

import posixpath
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ...actors.descent.git import Git, GitRefused
from ...actors.descent.leg import LegSettings
from ...actors.descent.repository import Repository, locate, survey, warnings
from ...contracts import Exit, limits, path_problem
from .options import stack
from .session import Session

_NEEDING = (
    "base", "into", "setup", "sparse", "submodules", "speculate", "glue_exec", "on_obstruction",
)  # fmt: skip

glue_options = stack(
    click.option(
        "--speculate",
        type=click.IntRange(1, limits.GLUE_SECTIONS_MAX),
        metavar="N",
        help="Check the next N merges side by side.  [1]",
    ),
    click.option(
        "--glue-exec", metavar="CMD", help="Run this in place of moving the branch: pull requests."
    ),
    click.option(
        "--on-obstruction",
        type=click.Choice(["return", "file", "stop"]),
        help="What does not merge goes back, is filed as an issue, or is blocked.  [return]",
    ),
)


def worktree_options(flag: str) -> Callable[..., Any]:
    """The flag that asks for worktrees, and how they are made."""
    return stack(
        click.option(
            flag,
            "worktrees",
            is_flag=True,
            help="Work in a git worktree and a branch of its own for each claim.",
        ),
        click.option(
            "--base",
            metavar="BRANCH|COMMIT",
            help="Where the work in a worktree starts.  [the current branch]",
        ),
        click.option(
            "--into", metavar="BRANCH", help="Where it is glued to.  [--base if that is a branch]"
        ),
        click.option(
            "--setup", metavar="CMD", help="Run this in each worktree first: dependencies, caches."
        ),
        click.option(
            "--sparse", multiple=True, metavar="DIR", help="Check out only this; repeatable."
        ),
        click.option("--submodules", is_flag=True, help="Check out submodules too."),
    )


def leg_settings(
    session: Session, options: dict[str, Any], word: str | None, *, record_on_stdin: bool = True
) -> LegSettings | None:
    """How worktrees are made, if any are wanted; a repository that is not fit is refused.

    `word` is what is run in them, as far as that is known.
    """
    if not options["worktrees"]:
        given = [name.replace("_", "-") for name in _NEEDING if options.get(name)]
        if given:
            raise click.UsageError(f"--{given[0]} is for work in worktrees, and none are asked for")
        return None
    try:
        repository, base = _surveyed(session, options)
        _refuse_odd_folders(repository, options["sparse"])
        _refuse_uncommitted(repository, word or "")
    except GitRefused as error:
        session.refuse(Exit.CONFIG, "worktrees_unfit", f"{error}\nnothing was claimed")
    for each in warnings(repository):
        click.echo(f"warning: {each}", err=True)
    return LegSettings(
        folder=str(repository.top),
        target=repository.target,
        base=base,
        setup=options["setup"] or None,
        sparse=tuple(options["sparse"]),
        submodules=options["submodules"],
        record_on_stdin=record_on_stdin,
    )


def gluer_words(session: Session, leg: LegSettings, options: dict[str, Any]) -> tuple[str, ...]:
    """The gluer that a tree looks after."""
    words = [sys.executable, "-m", "understudy", "descent", "glue", "--follow", "--tree"]
    words += ["--state-dir", str(session.state_dir.absolute())]
    words += ["--cwd", leg.folder, "--into", leg.target]
    for name in ("speculate", "glue_exec", "on_obstruction"):
        if options[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    return tuple(words)


def _surveyed(session: Session, options: dict[str, Any]) -> tuple[Repository, str | None]:
    """The repository, and where work starts if that is not the head of the target."""
    folder, state_dir = Path.cwd(), session.state_dir.absolute()
    base, into = options["base"], options["into"]
    is_branch = base is not None and _is_branch(locate(folder, state_dir).git, base)
    if is_branch and into in (None, base):
        base, into = None, base
    found = survey(folder, state_dir, target=into, base=base, submodules=options["submodules"])
    if base is None:
        return found, None
    return found, f"refs/heads/{base}" if is_branch else found.base


def _refuse_uncommitted(repository: Repository, word: str) -> None:
    """A command that is named by a path in the worktree is in a commit, or it is not there."""
    if "/" not in word or word.startswith("/"):
        return
    path = posixpath.normpath(word)
    if path.startswith("../"):
        said = f"{word} leads out of the worktree that it is run in"
        raise GitRefused(f"{said}; name it by its whole path")
    words = ("cat-file", "-e", f"{repository.base}:{path}")
    if repository.git.run(*words, allowed=(0, 1, 128)).returncode:
        said = f"{word} is not in commit {repository.base[:12]}, and so not in a worktree"
        raise GitRefused(f"{said}; commit it, or name it by its whole path")


def _is_branch(git: Git, name: str) -> bool:
    return git.commit(f"refs/heads/{name}") is not None


def _refuse_odd_folders(repository: Repository, folders: tuple[str, ...]) -> None:
    """What is checked out are folders of the commit that work starts from."""
    for each in folders:
        name = each.rstrip("/")
        ran = repository.git.run("cat-file", "-t", f"{repository.base}:{name}", allowed=(0, 1, 128))
        if path_problem(name) or ran.stdout != b"tree\n":
            said = f"--sparse {each}: no folder of commit {repository.base[:12]}"
            raise GitRefused(f"{said}; name it as seen from {repository.top}")
