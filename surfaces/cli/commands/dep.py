"""`understudy dep`: which issue waits for which."""

from typing import Any

import click

from ..options import context, holder, mutation, payload, with_holder
from ..session import Session, common

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
@holder
@mutation
@common
def add(session: Session, **options: Any) -> None:
    """ID depends on DEPENDS_ON_ID from now on."""
    options = with_holder(options)
    answer = session.ask("dep.add", payload(options), context(options))
    session.finish(answer, _said)


@dep.command()
@click.argument("id")
@click.argument("depends_on_id")
@_type
@holder
@mutation
@common
def remove(session: Session, **options: Any) -> None:
    """ID does not depend on DEPENDS_ON_ID any more."""
    options = with_holder(options)
    answer = session.ask("dep.remove", payload(options), context(options))
    session.finish(answer, lambda said: "no longer: " + _said(said))


@dep.command()
@click.argument("id")
@click.argument("depends_on_id")
@click.argument("new_depends_on_id")
@_type
@click.option("--new-type", type=_TYPES)
@holder
@mutation
@common
def replace(session: Session, **options: Any) -> None:
    """ID depends on NEW_DEPENDS_ON_ID instead, in one step."""
    options = with_holder(options)
    answer = session.ask("dep.replace", payload(options), context(options))
    session.finish(answer, _said)


@dep.command()
@common
def diagnostics(session: Session) -> None:
    """Look for cycles and for targets that do not exist."""
    answer = session.ask("dep.diagnostics", {}, writable=False)
    session.finish(answer, _diagnosis)


def _said(answer: dict[str, Any]) -> str:
    link = answer["dependency"]
    return f"{link['issueId']} {link['type']} {link['dependsOnId']}"


def _diagnosis(answer: dict[str, Any]) -> str:
    lines = [f"cycle: {' -> '.join(path)}" for path in answer["cycles"]]
    lines += [f"missing: {link['issueId']} -> {link['dependsOnId']}" for link in answer["missing"]]
    return "\n".join(lines) or "no cycles, nothing missing"
