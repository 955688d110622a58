"""`understudy init` and `understudy policy`: the state directory and its rules."""

from typing import Any

import click

from ...authority import create_state_dir, place
from .options import context, journal, mutation, payload
from .session import Session, common, print_json

_MODES = click.Choice(["open", "instruction-linked"])


@click.command()
@click.option("--node", default="local", show_default=True, help="The name of this clock.")
@journal
@common
def init(session: Session, node: str, journal_url: str | None) -> None:
    """Make a state directory with an empty journal; one that exists is left alone.

    With --journal the journal is in PostgreSQL, where state directories on several hosts share it.
    The URL is remembered; a password is not: it comes from ~/.pgpass, PGPASSWORD or the URL in
    UNDERSTUDY_JOURNAL.
    """
    fresh = create_state_dir(session.state_dir, node, journal_url or place.given())
    if session.as_json:
        print_json({"result": "accepted", "stateDir": str(session.state_dir), "created": fresh})
    else:
        verb = "made" if fresh else "exists:"
        click.echo(f'{verb} {session.state_dir}\nnext: understudy issue add "..."')


@click.group()
def policy() -> None:
    """Show or set how strict this authority is."""


@policy.command()
@common
def show(session: Session) -> None:
    """Show the policy in force."""
    answer = session.ask("issue.backend_status", {}, writable=False)
    session.finish(answer, _said)


@policy.command("set")
@click.option("--mutation", type=_MODES, help="What a change must bring along.")
@click.option("--evidence-reads/--no-evidence-reads", default=None, help="Journal reads too.")
@mutation
@common
def set_(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Change the policy; the change is a row of the journal."""
    answer = session.ask("policy.set", payload(options), context(options))
    session.finish(answer, _said)


def _said(answer: dict[str, Any]) -> str:
    rules = answer["policy"]
    reads = "journaled" if rules["evidenceReads"] else "not journaled"
    return f"mutations: {rules['mutation']}; reads: {reads}"
