"""`understudy sublease` and `understudy instance`: what hangs on a lease."""

from typing import Any

import click

from ..options import context, duration, holder, mutation, payload, with_holder
from ..session import Session, common


@click.group()
def sublease() -> None:
    """Lend parts of a lease to subagents. A sublease dies with its lease."""


@sublease.command()
@click.argument("id")
@click.option("--holder", required=True, help="The subagent.")
@click.option(
    "--scope",
    "capability_scope",
    multiple=True,
    required=True,
    metavar="ACTION",
    help="May do: issue.update, issue.close, issue.discover, dep.add, dep.remove, dep.replace.",
)
@click.option("--new-sublease-id", help="Choose its id.")
@holder
@duration
@mutation
@common
def grant(session: Session, **options: Any) -> None:
    """Let a subagent act on issue ID, within a scope and a time."""
    options = with_holder(options)
    answer = session.ask("sublease.grant", payload(options), context(options))
    session.finish(answer, _sublease)


@sublease.command()
@click.argument("id")
@click.argument("revoked_sublease_id", metavar="SUBLEASE_ID")
@holder
@mutation
@common
def revoke(session: Session, **options: Any) -> None:
    """End a sublease on issue ID."""
    options = with_holder(options)
    answer = session.ask("sublease.revoke", payload(options), context(options))
    session.finish(answer, lambda said: "revoked " + _sublease(said))


@click.group()
def instance() -> None:
    """Name the worktree or runtime that works under a lease. It dies with the lease."""


@instance.command("open")
@click.argument("id")
@click.argument("instance_id")
@click.option("--worktree-ref")
@click.option("--runtime-ref")
@holder
@mutation
@common
def open_(session: Session, **options: Any) -> None:
    """Bind INSTANCE_ID to the lease on issue ID."""
    options = with_holder(options)
    answer = session.ask("instance.open", payload(options), context(options))
    session.finish(answer, lambda said: f"opened {said['instance']['instanceId']}")


@instance.command()
@click.argument("id")
@click.argument("instance_id")
@holder
@mutation
@common
def close(session: Session, **options: Any) -> None:
    """INSTANCE_ID works no more on issue ID."""
    options = with_holder(options)
    answer = session.ask("instance.close", payload(options), context(options))
    session.finish(answer, lambda said: f"closed {said['instance']['instanceId']}")


def _sublease(answer: dict[str, Any]) -> str:
    lent = answer["sublease"]
    return f"{lent['subleaseId']} of {lent['holder']}: {', '.join(lent['capabilityScope'])}"
