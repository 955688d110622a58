"""`understudy fiber`: concurrent parts of the work under a lease."""

from collections.abc import Iterator
from typing import Any

import click

from ..options import context, holder, issue_id, mutation, payload, with_holder
from ..request import Answer, held_change, read
from ..session import Session, common


@click.group()
def fiber() -> None:
    """Run parts of one piece of work side by side, and lose none of them.

    A fiber belongs to the lease that it was spawned under, and to the fiber that spawned it. It is
    joined when nothing below it runs any more; cancelling it cancels everything below it. An issue
    is closed when all its fibers have ended. When the lease is released, broken or taken over,
    fibers that still ran are orphaned: the next holder is told so, and spawns them again.

    \b
    understudy fiber spawn us-1 --task "lint the parser" --fiber-id lint
    understudy fiber spawn us-1 --task "lint one file" --parent lint
    understudy fiber list us-1
    understudy fiber cancel us-1 lint --reason "it takes too long"
    """


@fiber.command()
@issue_id
@click.option("--task", "task_ref", required=True, metavar="REF", help="What it does.")
@click.option("--fiber-id", help="Choose its id.  [fib- and the number of its row]")
@click.option("--parent", "parent_fiber_id", metavar="FIBER_ID", help="Spawn it below this fiber.")
@click.option("--scope-ref", metavar="REF", help="A name for what it is a part of.")
@held_change("fiber.spawn")
def spawn(said: Answer) -> str:
    """Start a fiber under the lease on issue ID, which you hold."""
    return f"spawned {said['fiberId']}"


@fiber.command()
@issue_id
@click.argument("fiber_id")
@click.argument("join_set", nargs=-1, metavar="[BELOW]...")
@click.option(
    "--result",
    "result_class",
    type=click.Choice(["accepted", "rejected"]),
    help="Whether what it did is good.  [accepted]",
)
@click.option("--result-ref", metavar="REF", help="Where its result lies.")
@held_change("fiber.join")
def join(said: Answer) -> str:
    """FIBER_ID of issue ID has ended, together with the fibers BELOW it that are named.

    It is refused while any other fiber runs below it.
    """
    return f"joined {', '.join(said['joinSet'])}"


@fiber.command()
@issue_id
@click.argument("fiber_id", required=False)
@click.option("--all", "whole_scope", is_flag=True, help="Cancel every fiber under the lease.")
@click.option("--reason", help="Why, for the record.")
@holder
@mutation
@common
def cancel(session: Session, **options: Any) -> None:
    """Cancel FIBER_ID of issue ID, and everything below it."""
    if (options["fiber_id"] is None) is not options["whole_scope"]:
        raise click.UsageError("name one fiber, or cancel them --all")
    options = with_holder(options | {"whole_scope": options["whole_scope"] or None})
    answer = session.ask("fiber.cancel", payload(options), context(options))
    session.finish(answer, lambda said: f"cancelled {', '.join(said['cancelled']) or 'nothing'}")


@fiber.command("list")
@issue_id
@read("issue.show")
def list_(said: Answer) -> str:
    """The fibers of issue ID as a tree: of this lease, and orphans of the one before."""
    return "\n".join(_tree(said["issue"]["fibers"])) or "no fibers"


def _tree(fibers: list[dict[str, Any]]) -> Iterator[str]:
    """A line each, below its parent; in the order of their spawns, which puts parents first."""
    known = {each["fiberId"] for each in fibers}
    below: dict[str | None, list[dict[str, Any]]] = {}
    for each in fibers:
        parent = each["parentFiberId"]
        below.setdefault(parent if parent in known else None, []).append(each)
    waiting = [(each, 0) for each in reversed(below.get(None, []))]
    while waiting:
        each, depth = waiting.pop()
        yield "  " * depth + _line(each)
        waiting += [(child, depth + 1) for child in reversed(below.get(each["fiberId"], []))]


def _line(one: dict[str, Any]) -> str:
    words = [one["fiberId"], one["state"]]
    if one.get("resultClass") == "rejected":
        words.append("rejected")
    return "  ".join([*words, one["taskRef"], *([one["reason"]] if "reason" in one else [])])
