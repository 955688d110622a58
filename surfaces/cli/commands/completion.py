"""`understudy completion`: what makes a shell complete our commands, options and ids."""

import click
from click.shell_completion import get_completion_class

from ..session import Session, common

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@common
@click.pass_context
def completion(ctx: click.Context, /, session: Session, shell: str) -> None:
    """Print a script for SHELL; once it is read, the Tab key completes commands, options and ids.

    \b
    bash: echo 'eval "$(understudy completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(understudy completion zsh)"' >> ~/.zshrc
    fish: understudy completion fish > ~/.config/fish/completions/understudy.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    root = ctx.find_root()
    script = found(root.command, {}, "understudy", "_UNDERSTUDY_COMPLETE").source()
    said = {"result": "accepted", "failureClasses": [], "shell": shell, "script": script}
    session.finish(said, lambda _: script)
