"""Options for worktrees, and what they come to in the repository that the command is called in."""

import posixpath
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ...actors.descent import branch, checkout, git, leg, repository
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
) -> leg.LegSettings | None:
    """How worktrees are made, if any are wanted; a repository that is not fit is refused.

    `word` is what is run in them, as far as that is known.
    """
    if not options["worktrees"]:
        given = [name.replace("_", "-") for name in _NEEDING if options.get(name)]
        if given:
            raise click.UsageError(f"--{given[0]} is for work in worktrees, and none are asked for")
        return None
    try:
        found, base = _surveyed(session, options)
        _refuse_odd_folders(found, options["sparse"])
        if word is not None and not options["setup"]:  # which may make the command
            _refuse_uncommitted(found, word)
    except git.GitRefused as error:
        session.refuse(Exit.CONFIG, "worktrees_unfit", f"{error}\nnothing was claimed")
    for each in (*repository.warnings(found), *_delays(found)):
        click.echo(f"warning: {each}", err=True)
    return leg.LegSettings(
        folder=str(found.top),
        target=found.target,
        base=base,
        setup=options["setup"] or None,
        sparse=tuple(options["sparse"]),
        submodules=options["submodules"],
        record_on_stdin=record_on_stdin,
    )


def gluer_words(
    session: Session, settings: leg.LegSettings, options: dict[str, Any]
) -> tuple[str, ...]:
    """The gluer that a tree looks after."""
    words = [sys.executable, "-m", "understudy", "descent", "glue", "--follow", "--tree"]
    words += ["--state-dir", str(session.state_dir.absolute())]
    words += ["--cwd", settings.folder, "--into", settings.target]
    words += ["--ttl", "30s"]  # the next one waits for the lease of one that was killed
    for name in ("speculate", "glue_exec", "on_obstruction", "attempts", "setup"):
        if options[name]:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    return tuple(words)


def _surveyed(
    session: Session, options: dict[str, Any]
) -> tuple[repository.Repository, str | None]:
    """The repository, and where work starts if that is not the head of the target."""
    folder, state_dir = Path.cwd(), session.state_dir.absolute()
    base, into = options["base"], options["into"]
    known = repository.locate(folder, state_dir).git
    words = ("show-ref", "--verify", "--quiet", "--", f"refs/heads/{base}")
    is_branch = base is not None and not known.run(*words, allowed=(0, 1, 128)).returncode
    if is_branch and into in (None, base):
        base, into = None, base
    found = repository.survey(
        folder, state_dir, target=into, base=base, submodules=options["submodules"]
    )
    if base is None:
        return found, None
    return found, f"refs/heads/{base}" if is_branch else found.base


def _delays(found: repository.Repository) -> Iterator[str]:
    """Why nothing is merged for now: the branch is checked out, and not as it was committed."""
    head = found.git.commit(f"refs/heads/{found.target}") or ""
    for folder in branch.checked_out(found.git, found.target):
        try:
            checkout.Checkout(folder).ahead(head, head)
        except checkout.Dirty as error:
            yield f"until that is done, nothing is merged into {found.target}: {error}"


def _refuse_uncommitted(found: repository.Repository, word: str) -> None:
    """A command that is named by a path in the worktree is in a commit, or it is not there."""
    if "/" not in word or word.startswith("/"):
        return
    path = posixpath.normpath(word)
    if path.startswith("../"):
        said = f"{word} leads out of the worktree that it is run in"
        raise git.GitRefused(f"{said}; name it by its whole path")
    words = ("cat-file", "-e", f"{found.base}:{path}")
    if found.git.run(*words, allowed=(0, 1, 128)).returncode:
        said = f"{word} is not in commit {found.base[:12]}, and so not in a worktree"
        raise git.GitRefused(f"{said}; commit it, or name it by its whole path")


def _refuse_odd_folders(found: repository.Repository, folders: tuple[str, ...]) -> None:
    """What is checked out are folders of the commit that work starts from."""
    for each in folders:
        name = each.rstrip("/")
        ran = found.git.run("cat-file", "-t", f"{found.base}:{name}", allowed=(0, 1, 128))
        if path_problem(name) or ran.stdout != b"tree\n":
            said = f"--sparse {each}: no folder of commit {found.base[:12]}"
            raise git.GitRefused(f"{said}; name it as seen from {found.top}")
