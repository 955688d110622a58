"""`understudy hooks`: git hooks that refuse a commit or a push under a lease that is gone."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from ....actors.descent import git
from ....authority.journal import state_files
from ....contracts import Exit, Reason
from .. import hook_folder, hook_scripts
from ..hook_folder import FoundHook, HookFolder
from ..hook_scripts import HookSettings
from ..session import Session, common

_REPOSITORY = click.argument(
    "repository", type=click.Path(path_type=Path), default=Path(), metavar="[REPOSITORY]"
)


@click.group()
def hooks() -> None:
    """Have git refuse a commit or a push by a worker whose lease is gone.

    \b
    understudy hooks install                         in a working repository: pre-push
    understudy hooks install --pre-commit            pre-commit too
    understudy hooks install /srv/git/project.git    in a bare one: update, the server's side
    understudy hooks list
    understudy hooks remove
    """


@hooks.command()
@_REPOSITORY
@click.option(
    "--guard",
    multiple=True,
    metavar="BRANCH",
    help="A branch that only moves under a current fence; may be repeated.  [the target branch]",
)
@click.option("--strict", is_flag=True, help="People need a fence for guarded branches as well.")
@click.option("--pre-commit", is_flag=True, help="Also ask before a commit.")
@click.option("--chain", is_flag=True, help="Keep a hook that is there, and call it first.")
@click.option("--shared", is_flag=True, help="Also where other repositories share the hooks.")
@common
def install(
    session: Session,
    repository: Path,
    guard: tuple[str, ...],
    *,
    strict: bool,
    pre_commit: bool,
    chain: bool,
    shared: bool,
) -> None:
    """Write hooks that ask `understudy guard`, into REPOSITORY or the one of this folder.

    In a working repository, pre-push refuses every push of a process that has UNDERSTUDY_FENCE, as
    workers do, unless that fence is current. People have none and push as before; with --strict
    they need one for guarded branches. The authority of the worker is asked, or the one that
    --state-dir names.

    In a bare repository, update refuses a push to a guarded branch, whoever pushes, unless the
    newest commit names a lease by trailers (Understudy-Issue and Understudy-Fence, or
    Understudy-Glue and Understudy-Glue-Fence), and that fence is current now. The state directory
    is the one in use at the installation. If it cannot be asked, nothing moves.

    A hook that is there already is left alone, unless --chain keeps it and calls it first. To
    install twice changes nothing.

    Exit codes: 0 installed, or there already; 3 no git repository; 4 may not write there;
    5 another hook is in the way; 78 no state directory.
    """
    with _refusals(session):
        place = hook_folder.find(repository)
        if place.shared_by and not shared:
            session.refuse(Exit.CONFLICT, "hooks_shared", _shared(place))
        settings = HookSettings(
            _branches(place, guard), strict or place.is_bare, _state_dir(session, place), _program()
        )
        found = [hook_folder.look(place, name) for name in _wanted(place, pre_commit=pre_commit)]
        for each in found:  # all, or none
            hook_folder.refuse_loss(each, chain=chain)
        became = [hook_folder.put_in(each, settings, chain=chain) for each in found]
        after = [hook_folder.look(place, each.name) for each in found]
    lines = [f"{done}: {each.path}" for done, each in zip(became, after, strict=True)]
    reports = [each.as_json() | {"done": done} for done, each in zip(became, after, strict=True)]
    text = "\n".join([*lines, *_meaning(place, settings)])
    session.accept(text, repository=str(place.root), bare=place.is_bare, hooks=reports)


@hooks.command("list")
@_REPOSITORY
@common
def list_(session: Session, repository: Path) -> None:
    """Say which hooks are there for REPOSITORY, whose they are, and what they guard."""
    with _refusals(session):
        place = hook_folder.find(repository)
        names = ("update",) if place.is_bare else ("pre-commit", "pre-push")
        found = [hook_folder.look(place, name) for name in names]
    reports = [each.as_json() for each in found]
    text = "\n".join(map(_line, found))
    session.accept(text, repository=str(place.root), bare=place.is_bare, hooks=reports)


@hooks.command()
@_REPOSITORY
@common
def remove(session: Session, repository: Path) -> None:
    """Take our hooks out of REPOSITORY, and put back those that --chain has kept.

    A hook that is not ours, or that was edited by hand, stays. The fences that a bare repository
    remembers stay too: an older one is refused again when the hook is back.
    """
    with _refusals(session):
        place = hook_folder.find(repository)
        found = [hook_folder.look(place, name) for name in hook_scripts.NAMES]
        became = [(hook_folder.take_out(each), each) for each in found]
    said = [(done, each) for done, each in became if done != "absent"]
    reports = [{"name": each.name, "path": str(each.path), "done": done} for done, each in said]
    text = "\n".join(map(_taken, said)) or "there is no hook of ours"
    session.accept(text, repository=str(place.root), bare=place.is_bare, hooks=reports)


# --- what is wanted -------------------------------------------------------------------------------


def _wanted(place: HookFolder, *, pre_commit: bool) -> Sequence[str]:
    if place.is_bare and pre_commit:
        raise click.UsageError(f"nobody commits in {place.root}, which is bare; leave --pre-commit")
    if place.is_bare:
        return ("update",)
    return ("pre-commit", "pre-push") if pre_commit else ("pre-push",)


def _branches(place: HookFolder, named: Sequence[str]) -> tuple[str, ...]:
    """The branches to guard, once each."""
    branches = [each.removeprefix("refs/heads/") for each in named]
    if not branches and (found := hook_folder.target(place)) is not None:
        branches = [found]
    if not branches:
        raise click.UsageError("no branch is checked out here; say which to guard: --guard main")
    for each in branches:
        if not hook_folder.is_branch(place, each):
            raise click.UsageError(f"`{each}` is no name of a branch; guard one as in --guard main")
    return tuple(dict.fromkeys(branches))


def _state_dir(session: Session, place: HookFolder) -> str | None:
    """The authority to ask: for a bare repository always, otherwise if it was named."""
    if not place.is_bare and session.place.why != "--state-dir":
        return None
    if not state_files.is_state_dir(session.state_dir):
        said = f"{session.state_dir.absolute()} is no state directory, and the hook has to ask one"
        wire = Reason.STATE_DIR_MISSING.wire
        session.refuse(Exit.CONFIG, wire, f"{said}; name it with --state-dir, or `understudy init`")
    return str(session.state_dir.absolute())


def _program() -> str:
    """`understudy` as it is installed; the hook looks in PATH when it has moved."""
    beside = Path(sys.executable).with_name("understudy")
    return str(beside) if beside.exists() else shutil.which("understudy") or "understudy"


@contextmanager
def _refusals(session: Session) -> Iterator[None]:
    """What is in the way, said with its next step."""
    try:
        yield
    except git.GitRefused as error:
        session.refuse(Exit.NOT_FOUND, "git_refused", str(error))
    except hook_folder.HookInTheWay as error:
        session.refuse(Exit.CONFLICT, "hook_exists", str(error))
    except PermissionError as error:
        said = f"{error.filename}: {error.strerror}; run it as the owner of the repository"
        session.refuse(Exit.DENIED, "os_error", said)


# --- text for people ------------------------------------------------------------------------------


def _shared(place: HookFolder) -> str:
    own = shlex.quote(str(place.common_dir / "hooks"))
    return (
        f"core.hooksPath is {place.hooks}, set in the {place.shared_by} configuration of git, so "
        "other repositories have the same hooks; install there all the same with --shared, or give "
        f"this one its own: `git config core.hooksPath {own}`"
    )


def _meaning(place: HookFolder, settings: HookSettings) -> Iterator[str]:
    branches = ", ".join(settings.guard)
    if place.is_bare:
        yield f"A push moves {branches} only under a fence that is current at {settings.state_dir}."
        yield "People need one too: they commit under a lease, with the trailers of docs/hooks.md."
        return
    yield "Workers push while their fence is current."
    if settings.strict:
        yield f"People need a current fence too for {branches}, as --strict says."
    else:
        yield f"People push as before; with --strict they need a fence for {branches}."
    if place.is_in_working_tree:
        yield f"note: {place.hooks} is in the working tree; do not commit what names this machine."


def _line(found: FoundHook) -> str:
    said = {
        "none": "none",
        "ours": "installed",
        "edited": "edited by hand",
        "foreign": "not ours",
    }[found.kind]
    words = [found.name, said]
    if found.settings is not None:
        words.append(f"guards {', '.join(found.settings.guard)}")
        words += ["strict"] if found.settings.strict else []
    return "  ".join([*words, *([f"before it {found.before.name}"] if found.chained else [])])


def _taken(said: tuple[str, FoundHook]) -> str:
    done, found = said
    if done == "kept":
        return f"kept: {found.path}, which is not as we wrote it"
    return f"{done}: {found.path}"
