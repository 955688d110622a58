"""`understudy mcp`, which an agent launches, and `understudy gateway`, which serves all of them."""

import asyncio
import logging
import os
from contextlib import nullcontext
from typing import Any

import click

from ...actors.tree import RUN_FOLDER
from .options import stack
from .session import Leave, Session, common

policy = stack(
    click.option(
        "--on-leave",
        type=click.Choice(["release", "expire"]),
        help="What becomes of leases when their client goes.  [release]",
    ),
    click.option(
        "--keep",
        type=click.Choice(["alive", "heartbeat"]),
        help="Renew while the client lives, or only while it says something.  [alive]",
    ),
    click.option("--max-hold", type=click.IntRange(30), help="Seconds, at most.  [14400]"),
    click.option(
        "--quiet", type=click.IntRange(10), help="Seconds of silence for --keep heartbeat.  [300]"
    ),
)


@click.command()
@click.option("--name", help="What this agent is called; a number makes it unique.  [agent]")
@policy
@common
def mcp(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Serve MCP on standard input and output: this is what an agent's settings name.

    Carries the agent to the gateway of the state directory. Where none runs, one is started, which
    other agents share and which ends after the last of them. Leases that the agent claims are
    renewed while it lives, and handed back when it goes.

    \b
      claude mcp add understudy -- understudy mcp --state-dir /path/to/.premath
    """
    from ..mcp import pump  # noqa: PLC0415 - no other command needs it

    raise Leave(pump.run(str(session.state_dir), wishes(options)))


def wishes(options: dict[str, Any]) -> dict[str, Any]:
    """What an agent says of itself in its hello."""
    names = {
        "name": "name",
        "on_leave": "onLeave",
        "keep": "keep",
        "max_hold": "maxHoldSeconds",
        "quiet": "quietSeconds",
    }
    return {names[key]: value for key, value in options.items() if value is not None}


@click.command()
@policy
@click.option("--linger", type=click.FloatRange(0), help="End so many seconds after the last.")
@click.option("--tree", "in_tree", is_flag=True, help="It is the gateway of a tree.", hidden=True)
@common
def gateway(session: Session, *, linger: float | None, in_tree: bool, **options: Any) -> None:  # noqa: ANN401
    """Serve MCP to agents on `mcp.sock`: what `mcp` and `up --mcp` start by themselves.

    Uses the sidecar that runs, and otherwise starts one. SIGTERM stops it after everything that it
    took in is answered; agents go on with the next one. Exit 75 where a gateway serves already.
    """
    from ..mcp import gateway as gateways  # noqa: PLC0415 - the SDK takes a second
    from ..mcp import lock  # noqa: PLC0415
    from ..mcp.holds import Policy  # noqa: PLC0415
    from ..mcp.household import Household  # noqa: PLC0415
    from ..mcp.server import build  # noqa: PLC0415

    session.office(writable=False).close()  # says what is wrong with the state directory
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    folder = session.state_dir.absolute()
    wish = wishes(options)

    async def serve() -> None:
        running = gateways.Gateway(
            folder,
            build,
            policy=Policy().set(wish),
            house="tree" if in_tree else "alone",
            linger_seconds=linger,
        )
        await gateways.serve(
            running, nullcontext() if in_tree else Household(folder, folder / RUN_FOLDER)
        )

    with lock.taken(folder, by_force=in_tree):
        click.echo(f"serving agents of {folder}, process {os.getpid()}", err=True)
        with asyncio.Runner(loop_factory=gateways.loop_factory()) as runner:
            runner.run(serve())
