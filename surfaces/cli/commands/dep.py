"""`understudy dep`: which issue waits for which."""

import click

from ..request import Answer, held_change, read

_TYPES = click.Choice(
    ["blocks", "parent-child", "conditional-blocks", "related", "discovered-from", "relates-to",
     "duplicates", "supersedes", "waits-for", "replies-to"]
)  # fmt: skip
_type = click.option("--type", "type", type=_TYPES, help="The kind of dependency.  [blocks]")


@click.group()
def dep() -> None:
    """Say which issue waits for which.

    An issue is ready when everything that it blocks on (blocks, parent-child,
    conditional-blocks, waits-for) is closed. Cycles are refused.
    """


@dep.command()
@click.argument("id")
@click.argument("depends_on_id")
@_type
@click.option("--created-by")
@held_change("dep.add")
def add(said: Answer) -> str:
    """ID depends on DEPENDS_ON_ID from now on."""
    return _said(said)


@dep.command()
@click.argument("id")
@click.argument("depends_on_id")
@_type
@held_change("dep.remove")
def remove(said: Answer) -> str:
    """ID does not depend on DEPENDS_ON_ID any more."""
    return "no longer: " + _said(said)


@dep.command()
@click.argument("id")
@click.argument("depends_on_id")
@click.argument("new_depends_on_id")
@_type
@click.option("--new-type", type=_TYPES)
@held_change("dep.replace")
def replace(said: Answer) -> str:
    """ID depends on NEW_DEPENDS_ON_ID instead, in one step."""
    return _said(said)


@dep.command()
@read("dep.diagnostics")
def diagnostics(said: Answer) -> str:
    """Look for cycles and for targets that do not exist."""
    lines = [f"cycle: {' -> '.join(path)}" for path in said["cycles"]]
    lines += [f"missing: {link['issueId']} -> {link['dependsOnId']}" for link in said["missing"]]
    return "\n".join(lines) or "no cycles, nothing missing"


def _said(answer: Answer) -> str:
    link = answer["dependency"]
    return f"{link['issueId']} {link['type']} {link['dependsOnId']}"
