"""`understudy route`, `coordinator` and `node`: what the owner of a mesh says."""

from typing import Any

import click

from .. import known_ids
from ..options import node_name
from ..request import Answer, change, read


@click.group()
def route() -> None:
    """Say which node gets which kind of job."""


@route.command("set")
@click.argument("kind")
@click.option(
    "--to",
    "route",
    metavar="NODE",
    shell_complete=known_ids.nodes,
    help="The node that gets them.",
)
@click.option("--derivation", is_flag=True, help="Only the coordinator may do them.")
@click.option("--audited", is_flag=True, help="They are completed with a snapshot of inference.")
@change("route.set")
def set_(said: Answer) -> str:
    """Route or mark KIND; with a dot at its end, every kind below it."""
    return _directed(said)


@route.command()
@click.argument("kind", shell_complete=known_ids.kinds)
@change("route.set")
def clear(said: Answer) -> str:
    """Take back what was said about KIND: any worker may claim."""
    return _directed(said)


@route.command("list")
@read("route.list")
def list_routes(said: Answer) -> str:
    """List the kinds that go to one node, or are marked."""
    return "\n".join(map(_route, said["routes"])) or "no routes"


@click.group()
def coordinator() -> None:
    """Say which node runs the derivation pass."""


@coordinator.command()
@node_name
@change("coordinator.designate")
def designate(said: Answer) -> str:
    """NODE is the coordinator from now on."""
    return f"coordinator: {said['coordinator']['node']}"


@click.group()
def node() -> None:
    """Say which nodes take part, and what each may do."""


@node.command()
@node_name
@click.option("--public-key", metavar="HEX", help="Its Ed25519 key; then it has to sign.")
@click.option(
    "--may",
    "capabilities",
    multiple=True,
    type=click.Choice(["job.schedule", "job.claim", "job.complete"]),
    help="What it may do.",
)
@click.option(
    "--kinds",
    "kind_prefixes",
    multiple=True,
    metavar="KIND",
    help="Only with jobs of this kind, or with a dot at its end of all below it.  [all]",
)
@click.option("--quarantined", is_flag=True, help="Listen to it no longer.")
@change("node.register")
def register(said: Answer) -> str:
    """Let NODE take part. From the first one on, only registered nodes may."""
    return _member(said["member"])


@node.command()
@node_name
@click.option("--open", is_flag=True, help="Also the last one: then any name may work again.")
@change("node.unregister")
def unregister(said: Answer) -> str:
    """NODE takes part no longer; what it holds lapses."""
    return f"unregistered {said['member']['node']}"


@node.command("list")
@click.option("--cursor", help="Where the page before ended.")
@click.option("--limit", type=int, help="Nodes on a page, up to 256.  [64]")
@read("node.list")
def list_nodes(said: Answer) -> str:
    """List the nodes that take part, by name, and what each may do."""
    lines = [_member(each) for each in said["nodes"]] or ["no nodes: any name may work"]
    lines.append(f"coordinator: {said['coordinator']['node']}")
    return "\n".join([*lines, *([f"more: --cursor {said['cursor']}"] if "cursor" in said else [])])


# --- text for people ------------------------------------------------------------------------------


def _directed(said: dict[str, Any]) -> str:
    return _route(said["directive"])


def _route(one: dict[str, Any]) -> str:
    marks = [name for name in ("derivation", "audited") if one[name]]
    return "  ".join([one["kind"], f"to {one['route']}" if one["route"] else "to anybody", *marks])


def _member(one: dict[str, Any]) -> str:
    words = [one["node"], ", ".join(one["capabilities"]) or "may do nothing"]
    if one["kindPrefixes"]:
        words.append(f"only {', '.join(one['kindPrefixes'])}")
    return "  ".join([*words, *(["quarantined"] if one["quarantined"] else [])])
