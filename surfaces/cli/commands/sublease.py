"""`understudy sublease` and `understudy instance`: what hangs on a lease."""

from typing import Any

import click

from ..options import duration, issue_id
from ..request import Answer, held_change


@click.group()
def sublease() -> None:
    """Lend parts of a lease to subagents. A sublease dies with its lease."""


@sublease.command()
@issue_id
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
@held_change("sublease.grant", duration)
def grant(said: Answer) -> str:
    """Let a subagent act on issue ID, within a scope and a time."""
    return _sublease(said)


@sublease.command()
@issue_id
@click.argument("revoked_sublease_id", metavar="SUBLEASE_ID")
@held_change("sublease.revoke")
def revoke(said: Answer) -> str:
    """End a sublease on issue ID."""
    return "revoked " + _sublease(said)


@click.group()
def instance() -> None:
    """Name the worktree or runtime that works under a lease. It dies with the lease."""


@instance.command("open")
@issue_id
@click.argument("instance_id")
@click.option("--worktree-ref")
@click.option("--runtime-ref")
@held_change("instance.open")
def open_(said: Answer) -> str:
    """Bind INSTANCE_ID to the lease on issue ID."""
    return f"opened {said['instance']['instanceId']}"


@instance.command()
@issue_id
@click.argument("instance_id")
@held_change("instance.close")
def close(said: Answer) -> str:
    """INSTANCE_ID works no more on issue ID."""
    return f"closed {said['instance']['instanceId']}"


def _sublease(answer: dict[str, Any]) -> str:
    lent = answer["sublease"]
    return f"{lent['subleaseId']} of {lent['holder']}: {', '.join(lent['capabilityScope'])}"
