"""`understudy dep`: which issue waits for which."""

import click

from ....contracts import BLOCKING_TYPES
from .. import known_ids
from ..options import issue_id
from ..request import Answer, held_change, read

_TYPES = click.Choice(
    ["blocks", "parent-child", "conditional-blocks", "related", "discovered-from", "relates-to",
     "duplicates", "supersedes", "waits-for", "replies-to"]
)  # fmt: skip
_type = click.option("--type", "type", type=_TYPES, help="The kind of dependency.  [blocks]")

_target = click.argument("depends_on_id", shell_complete=known_ids.issues)


@click.group()
def dep() -> None:
    """Say which issue waits for which.

    An issue is ready when everything that it waits for is closed. With the types blocks,
    parent-child, conditional-blocks and waits-for it waits; the others say how it is related.
    Cycles are refused.
    """


@dep.command()
@issue_id
@_target
@_type
@click.option("--created-by")
@held_change("dep.add")
def add(said: Answer) -> str:
    """ID waits for DEPENDS_ON_ID from now on, or is related to it as --type says."""
    return _said(said)


@dep.command()
@issue_id
@_target
@_type
@held_change("dep.remove")
def remove(said: Answer) -> str:
    """ID does not wait for DEPENDS_ON_ID any more."""
    return "no longer: " + _said(said)


@dep.command()
@issue_id
@_target
@click.argument("new_depends_on_id", shell_complete=known_ids.issues)
@_type
@click.option("--new-type", type=_TYPES)
@held_change("dep.replace")
def replace(said: Answer) -> str:
    """ID waits for NEW_DEPENDS_ON_ID instead, in one step."""
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
    issue, kind, other = link["issueId"], link["type"], link["dependsOnId"]
    if kind not in BLOCKING_TYPES:
        return f"{issue} {kind} {other}"
    return f"{issue} waits for {other}" + (f" ({kind})" if kind != "blocks" else "")
