"""`understudy route`, `coordinator` and `node`: what the owner of a mesh says."""

from typing import Any

import click

from ..options import context, mutation, payload
from ..session import Session, common


@click.group()
def route() -> None:
    """Say which node gets which kind of job."""


@route.command("set")
@click.argument("kind")
@click.option("--to", "route", metavar="NODE", help="The node that gets them.")
@click.option("--derivation", is_flag=True, help="Only the coordinator may do them.")
@click.option("--audited", is_flag=True, help="They are completed with a snapshot of inference.")
@mutation
@common
def set_(session: Session, **options: Any) -> None:
    """Route or mark KIND; with a dot at its end, every kind below it."""
    answer = session.ask("route.set", payload(options), context(options))
    session.finish(answer, _directed)


@route.command()
@click.argument("kind")
@mutation
@common
def clear(session: Session, **options: Any) -> None:
    """Take back what was said about KIND: any worker may claim."""
    answer = session.ask("route.set", payload(options), context(options))
    session.finish(answer, _directed)


@route.command("list")
@common
def list_routes(session: Session) -> None:
    """List the kinds that go to one node, or are marked."""
    answer = session.ask("route.list", {}, writable=False)
    session.finish(answer, lambda said: "\n".join(map(_route, said["routes"])) or "no routes")


@click.group()
def coordinator() -> None:
    """Say which node runs the derivation pass."""


@coordinator.command()
@click.argument("node")
@mutation
@common
def designate(session: Session, **options: Any) -> None:
    """NODE is the coordinator from now on."""
    answer = session.ask("coordinator.designate", payload(options), context(options))
    session.finish(answer, lambda said: f"coordinator: {said['coordinator']['node']}")


@click.group()
def node() -> None:
    """Say which nodes take part, and what each may do."""


@node.command()
@click.argument("node")
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
@mutation
@common
def register(session: Session, **options: Any) -> None:
    """Let NODE take part. From the first one on, only registered nodes may."""
    answer = session.ask("node.register", payload(options), context(options))
    session.finish(answer, lambda said: _member(said["member"]))


@node.command()
@click.argument("node")
@click.option("--open", is_flag=True, help="Also the last one: then any name may work again.")
@mutation
@common
def unregister(session: Session, **options: Any) -> None:
    """NODE takes part no longer; what it holds lapses."""
    answer = session.ask("node.unregister", payload(options), context(options))
    session.finish(answer, lambda said: f"unregistered {said['member']['node']}")


@node.command("list")
@click.option("--cursor", help="Where the page before ended.")
@click.option("--limit", type=int, help="Nodes on a page, up to 256.  [64]")
@common
def list_nodes(session: Session, **options: Any) -> None:
    """List the nodes that take part, by name, and what each may do."""
    answer = session.ask("node.list", payload(options), writable=False)
    session.finish(answer, _nodes)


# --- text for people ------------------------------------------------------------------------------


def _directed(said: dict[str, Any]) -> str:
    return _route(said["directive"])


def _route(one: dict[str, Any]) -> str:
    marks = [name for name in ("derivation", "audited") if one[name]]
    return "  ".join([one["kind"], f"to {one['route']}" if one["route"] else "to anybody", *marks])


def _nodes(said: dict[str, Any]) -> str:
    lines = [_member(each) for each in said["nodes"]] or ["no nodes: any name may work"]
    lines.append(f"coordinator: {said['coordinator']['node']}")
    return "\n".join([*lines, *([f"more: --cursor {said['cursor']}"] if "cursor" in said else [])])


def _member(one: dict[str, Any]) -> str:
    words = [one["node"], ", ".join(one["capabilities"]) or "may do nothing"]
    if one["kindPrefixes"]:
        words.append(f"only {', '.join(one['kindPrefixes'])}")
    return "  ".join([*words, *(["quarantined"] if one["quarantined"] else [])])
