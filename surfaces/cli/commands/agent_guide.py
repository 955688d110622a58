"""`understudy agent-guide`: the page that an agent reads before it takes work."""

import click

from ...mcp.reading.guide import page
from ..session import Session, common


@click.command()
@common
def agent_guide(session: Session) -> None:
    """How an agent takes, keeps, hands over and finishes work, as Markdown."""
    session.accept(page(), guide=page())
