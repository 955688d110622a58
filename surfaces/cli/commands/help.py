"""`understudy help`: what a command does, or which commands there are."""

import click

from ..main import PLUMBING
from ..session import Session, common


def _commands(ctx: click.Context, _: click.Parameter, typed: str) -> list[str]:
    """What the Tab key completes: the commands behind the words so far."""
    command = ctx.find_root().command
    for word in ctx.params.get("words") or ():
        found = command.get_command(ctx, word) if isinstance(command, click.Group) else None
        command = found or click.Group()
    names = command.list_commands(ctx) if isinstance(command, click.Group) else []
    return [name for name in (*names, "all") if name.startswith(typed)]


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=_commands)
@common
@click.pass_context
def help_(ctx: click.Context, /, session: Session, words: tuple[str, ...]) -> None:
    """Show the help of COMMAND, as `COMMAND --help` does; of all commands, with `all`.

    \b
    understudy help issue claim
    understudy help all
    """
    shown = ctx.find_root()
    if words == ("all",):
        shown.meta[PLUMBING], words = True, ()
    for word in words:
        command = shown.command
        if not isinstance(command, click.Group):
            raise click.UsageError(f"`{shown.command_path}` has no commands of its own", shown)
        _, found, _ = command.resolve_command(shown, [word])
        assert found is not None, "an unknown one was refused"
        shown = click.Context(found, info_name=word, parent=shown)
    text = shown.get_help()
    session.accept(text, command=" ".join(words), help=text)
