"""`understudy dep`: which issue waits for which."""

from typing import Any

import click

from ....contracts import BLOCKING_TYPES
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

    An issue is ready when everything that it waits for is closed. With the types blocks,
    parent-child, conditional-blocks and waits-for it waits; the others say how it is related.
    Cycles are refused.
    """


@dep.command()
@click.argument("id")
@click.argument("depends_on_id")
@_type
@click.option("--created-by")
@holder
@mutation
@common
def add(session: Session, **options: Any) -> None:  # noqa: ANN401
    """ID waits for DEPENDS_ON_ID from now on, or is related to it as --type says."""
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
def remove(session: Session, **options: Any) -> None:  # noqa: ANN401
    """ID does not wait for DEPENDS_ON_ID any more."""
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
def replace(session: Session, **options: Any) -> None:  # noqa: ANN401
    """ID waits for NEW_DEPENDS_ON_ID instead, in one step."""
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
    issue, kind, other = link["issueId"], link["type"], link["dependsOnId"]
    if kind not in BLOCKING_TYPES:
        return f"{issue} {kind} {other}"
    return f"{issue} waits for {other}" + (f" ({kind})" if kind != "blocks" else "")


def _diagnosis(answer: dict[str, Any]) -> str:
    lines = [f"cycle: {' -> '.join(path)}" for path in answer["cycles"]]
    lines += [f"missing: {link['issueId']} -> {link['dependsOnId']}" for link in answer["missing"]]
    return "\n".join(lines) or "no cycles, nothing missing"
