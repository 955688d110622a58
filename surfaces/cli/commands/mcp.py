"""`understudy mcp`, which an agent launches, and `understudy gateway`, which serves all of them."""

import asyncio
import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ....actors.tree import RUN_FOLDER
from ....contracts import limits
from ..log_format import log_format, set_up
from ..options import Decorator, Respelled, acting, milliseconds, seconds, stack
from ..session import LeaveCommand, Session, common
from ..web_options import console_address, console_options

_LOG = logging.getLogger(__name__)


def _policy(*once: str) -> Decorator:
    return stack(
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
        click.option("--max-hold", type=seconds("30s"), help="Hold a lease so long at most.  [4h]"),
        click.option(
            "--silence",
            cls=Respelled,
            once=once,
            type=seconds("10s"),
            help="How long a silence, for --keep heartbeat.  [5m]",
        ),
        click.option(
            "--max-held",
            type=click.IntRange(1, limits.MCP_HOLDS_MAX),
            help=f"Pieces of work that one agent holds at once.  [{limits.MCP_HELD_DEFAULT}]",
        ),
        click.option(
            "--allow-break", is_flag=True, default=None, help="Agents may break leases of others."
        ),
        click.option(
            "--no-elicitation",
            "asks_person",
            flag_value=False,
            type=bool,
            default=None,
            help="Ask no person at a client to approve work.",
        ),
        click.option(
            "--operator",
            is_flag=True,
            default=None,
            help="For a person's own client: it may cancel, pause, approve, limit, set budgets.",
        ),
        click.option(
            "--tools", metavar="WHICH", help="core, all, or names with commas between.  [core]"
        ),
    )


policy = _policy("--quiet")
tree_policy = _policy()  # where --quiet is about what is printed


@click.command()
@acting("name", "--name", help="What this agent is called; a number makes it unique.  [agent]")
@policy
@common
def mcp(session: Session, **options: Any) -> None:
    """Serve MCP on standard input and output: this is what an agent's settings name.

    Carries the agent to the gateway of the state directory. Where none runs, one is started, which
    other agents share and which ends after the last of them. Leases that the agent claims are
    renewed while it lives, and handed back when it goes.

    \b
      claude mcp add understudy -- understudy mcp --state-dir /path/to/.premath
    """
    from ...mcp import pump  # no other command needs it

    raise LeaveCommand(pump.run(str(session.state_dir), wishes(options)))


def wishes(options: dict[str, Any]) -> dict[str, Any]:
    """What an agent says of itself in its hello."""
    names = {
        "name": "name",
        "on_leave": "onLeave",
        "keep": "keep",
        "max_hold": "maxHoldSeconds",
        "silence": "quietSeconds",
        "max_held": "maxHeld",
        "allow_break": "allowBreak",
        "asks_person": "asksPerson",
        "operator": "operator",
        "tools": "tools",
    }
    return {word: options[name] for name, word in names.items() if options.get(name) is not None}


web = stack(
    click.option("--http", "port", type=click.IntRange(0, 65_535), help="Serve HTTP here too."),
    click.option("--host", default="127.0.0.1", show_default=True, help="Where, for --http."),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="With the bearer token that any other host needs.  [UNDERSTUDY_HTTP_TOKEN]",
    ),
)


@click.command()
@policy
@web
@console_options("--web", about="Serve the console too.")
@click.option(
    "--linger", "linger_ms", type=milliseconds(), help="End so long after the last agent left."
)
@click.option(
    "--traces",
    is_flag=False,
    flag_value="",
    metavar="[URL]",
    help="Send spans of calls to a collector.  [if OTEL_EXPORTER_OTLP_ENDPOINT is set]",
)
@log_format
@click.option("--stop", is_flag=True, help="Have the one that runs leave, and its own sidecar.")
@click.option("--tree", "in_tree", is_flag=True, hidden=True, help="It is the gateway of a tree.")
@click.option("--lock", type=int, hidden=True, help="The descriptor of the lock, if it is held.")
@click.option("--mount", hidden=True, metavar="MODULE:NAME", help="What tests mount beside it.")
@common
def gateway(session: Session, **options: Any) -> None:
    """Serve MCP to agents on `mcp.sock`: what `mcp` and `up --mcp` start by themselves.

    Uses the sidecar that runs, and otherwise starts one. SIGTERM stops it after everything that it
    took in is answered; agents go on with the next one. Exit 75 where a gateway serves already.
    """
    from ....actors.agents import gateway_lock  # no other command needs it
    from ...mcp import wire

    if find_spec("mcp") is None:
        raise click.UsageError("the MCP SDK is missing: pip install 'understudy[mcp]'")
    session.office(writable=False).close()  # says what is wrong with the state directory
    folder = session.state_dir.absolute()
    lock = folder / wire.LOCK
    if options["stop"]:
        _announce("it has left" if gateway_lock.clear(lock) else "no gateway serves here")
        return
    set_up(options["log_format"], folder)
    handle = options["lock"]
    with (
        gateway_lock.take(lock, by_force=options["in_tree"])
        if handle is None
        else gateway_lock.inherit(handle)
    ):
        _serve(folder, options)


def _serve(folder: Path, options: dict[str, Any]) -> None:
    from ....actors.agents import KeepPolicy
    from ...mcp.gateway import http  # the SDK takes a second
    from ...mcp.gateway.gateway import loop_factory
    from ...mcp.gateway.serve import Offer, serve_all
    from ...mcp.tools.catalogue import UnknownTool, chosen

    address = None
    if options["port"] is not None:
        try:
            token = http.read_token(options["token_file"])
            address = http.Address(options["host"], options["port"], token)
        except http.Unguarded as error:
            raise click.UsageError(str(error)) from None
    tools = options["tools"] or "core"
    try:
        chosen(tools)
    except UnknownTool as error:
        raise click.UsageError(str(error)) from None
    linger_ms = options["linger_ms"]
    offer = Offer(
        folder,
        folder / RUN_FOLDER,
        policy=KeepPolicy().set(wishes(options)),
        house="tree" if options["in_tree"] else "alone",
        linger_seconds=None if linger_ms is None else linger_ms / 1_000,
        http=address,
        console=console_address(options),
        tools=tools,
        mount=options["mount"],
        send=_send(options["traces"]),
    )
    announce = _LOG.info if options["log_format"] == "json" else _announce
    announce(f"serving agents of {folder}, process {os.getpid()}")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve_all(offer, announce))


def _send(traces: str | None) -> Any:
    """Where spans of calls go: where an option says, or else where the environment does."""
    from ....actors.run import otlp  # no other command needs them
    from .trace import check_endpoint

    if traces is None and not (otlp.is_configured() and otlp.is_installed()):
        return None
    check_endpoint(traces or None)
    return otlp.OtlpExporter(traces or None).send


def _announce(text: str) -> None:
    click.echo(text, err=True)
