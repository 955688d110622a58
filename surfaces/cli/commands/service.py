"""`understudy service`: have systemd keep a tree running."""

import os
import pwd
from pathlib import Path
from typing import Any

import click

from ....authority.journal import private
from ....contracts import Exit
from ..session import Session, common
from ..systemd_unit import MARK, UnitPlan, unit_text

_NAME = "understudy"
_SYSTEM_FOLDER = Path("/etc/systemd/system")
_SECRETS = "service.env"  # in the state directory


@click.group()
def service() -> None:
    """Have systemd start `understudy up`, and start it again."""


def _unit_options(command: Any) -> Any:
    for option in (
        click.option("--system", "is_system", is_flag=True, help="For the machine, not for you."),
        click.option("--name", default=_NAME, show_default=True, help="Of the unit."),
        click.option(
            "--folder",
            type=click.Path(path_type=Path, file_okay=False),
            help="Where units lie.  [~/.config/systemd/user, or /etc/systemd/system]",
        ),
    ):
        command = option(command)
    return command


@service.command(context_settings={"ignore_unknown_options": True})
@_unit_options
@click.option("--run-as", metavar="USER", help="Whom a unit of the machine runs as.")
@click.option("--print", "prints", is_flag=True, help="Print the unit, and write nothing.")
@click.option("--force", is_flag=True, help="Write over a unit that is not ours.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] OPTIONS OF UP...")
@common
def install(session: Session, words: tuple[str, ...], **options: Any) -> None:
    """Write a unit that runs `understudy up` with OPTIONS, hardened; start nothing.

    It runs in this folder, on this state directory, with this Python. Tokens and passwords go into
    `service.env` in the state directory, as NAME=VALUE lines.

    \b
      understudy service install -- --workers 4 --exec 'my-agent' --web
      sudo understudy service install --system --run-as ada -- --workers 4 --exec 'my-agent'

    A unit that you have changed is left alone, and so is one that we did not write: exit 1.
    """
    session.office(writable=False).close()  # says what is wrong with the state directory
    _check(words)
    plan = _plan(session, words, options)
    try:
        text = unit_text(plan)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    path = _path(options)
    if options["prints"]:
        session.accept(text.rstrip("\n"), unit=text, path=str(path))
        return
    _refuse_foreign(session, path, text, force=options["force"])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o644)  # systemd wants to read it; there is no secret in it
        if not plan.secrets.exists():
            private.touch(plan.secrets)
    except OSError as error:
        session.refuse(Exit.FAILED, "unit_not_written", f"{path}: {error.strerror}")
    control = "systemctl" if plan.is_system else "systemctl --user"
    said = (
        f"wrote {path}\nnext: {control} daemon-reload && {control} enable --now {options['name']}"
    )
    if not plan.is_system:
        said += "\nso that it runs without you being signed in: loginctl enable-linger"
    session.accept(said, path=str(path), unit=text)


@service.command()
@_unit_options
@common
def uninstall(session: Session, **options: Any) -> None:
    """Remove the unit that `service install` wrote; stop it first."""
    path = _path(options)
    if not path.exists():
        session.refuse(Exit.NOT_FOUND, "unit_not_found", f"{path}: there is no such unit")
    if not path.read_text("utf-8", "replace").startswith(MARK):
        session.refuse(Exit.FAILED, "unit_not_ours", f"{path}: we did not write it; it stays")
    try:
        path.unlink()
    except OSError as error:
        session.refuse(Exit.FAILED, "unit_not_removed", f"{path}: {error.strerror}")
    control = "systemctl" if options["is_system"] else "systemctl --user"
    session.accept(f"removed {path}\nnext: {control} daemon-reload", path=str(path))


@service.command()
@_unit_options
@common
def show(session: Session, **options: Any) -> None:
    """Print the unit that is installed."""
    path = _path(options)
    if not path.exists():
        said = f"{path}: there is no such unit; `understudy service install` writes one"
        session.refuse(Exit.NOT_FOUND, "unit_not_found", said)
    text = path.read_text("utf-8", "replace")
    session.accept(text.rstrip("\n"), path=str(path), unit=text)


def _check(words: tuple[str, ...]) -> None:
    """Whether `up` takes these; a unit that cannot start helps no one."""
    from .up import up  # its options, and nothing else of it

    if "--detach" in words:
        raise click.UsageError("--detach: systemd itself keeps it in the background")
    if "--state-dir" in words:
        raise click.UsageError("--state-dir goes before the words of `up`")
    up.make_context("up", list(words), resilient_parsing=False)


def _plan(session: Session, words: tuple[str, ...], options: dict[str, Any]) -> UnitPlan:
    state_dir = session.state_dir.absolute()
    run_as = options["run_as"]
    if options["is_system"]:
        if run_as is None:
            raise click.UsageError("--system needs --run-as USER: workers should not be root")
        try:
            pwd.getpwnam(run_as)
        except KeyError:
            raise click.UsageError(f"--run-as {run_as}: there is no such user") from None
    elif run_as is not None:
        raise click.UsageError("--run-as is for --system; a unit of yours runs as you")
    return UnitPlan(words, state_dir, Path.cwd(), state_dir / _SECRETS, run_as)


def _path(options: dict[str, Any]) -> Path:
    name = options["name"].removesuffix(".service")
    if not name or not all(each.isalnum() or each in "-_.@" for each in name):
        raise click.UsageError(f"--name {options['name']}: letters, digits, - _ . @")
    folder: Path | None = options["folder"]
    if folder is None:
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        folder = _SYSTEM_FOLDER if options["is_system"] else config / "systemd" / "user"
    return folder / f"{name}.service"


def _refuse_foreign(session: Session, path: Path, text: str, *, force: bool) -> None:
    if force or not path.exists():
        return
    known = path.read_text("utf-8", "replace")
    if known == text:
        return
    why = "it was changed, or is of other options" if known.startswith(MARK) else "it is not ours"
    said = f"{path}: {why}; `understudy service show` prints it, --force writes over it"
    session.refuse(Exit.FAILED, "unit_exists", said)
