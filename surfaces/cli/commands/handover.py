"""`understudy issue handover` and `understudy resume`: what one holder leaves for the next."""

from typing import Any

import click

from .. import known_ids
from ..options import context, holder, issue_id, mutation, payload, with_holder
from ..render import one_line
from ..request import Answer, read
from ..session import Session, common

_CHECKPOINT = ("summary", "done", "next", "artifacts", "notes")


@click.command()
@issue_id
@click.option("--summary", required=True, help="How far the work is.")
@click.option("--done", multiple=True, help="A thing that is done.")
@click.option("--next", multiple=True, help="A thing to do next.")
@click.option("--artifact", "artifacts", multiple=True, metavar="REF", help="Where a part lies.")
@click.option("--notes", help="Whatever else the next one should know.")
@holder
@mutation
@common
def handover(session: Session, **options: Any) -> None:
    """Leave a checkpoint on issue ID, which you hold, for its next holder.

    The lease goes on: release it, close the issue, or work on and leave a newer one. The next
    holder reads it with `understudy resume ID`.

    \b
    understudy issue handover us-1 --summary "The parser reads all but strings" \\
      --done "numbers" --next "strings" --artifact branch:parser
    """
    options = with_holder(options)
    checkpoint = payload({name: options.pop(name, None) for name in _CHECKPOINT})
    asked = payload(options) | {"checkpoint": checkpoint}
    answer = session.ask("issue.handover", asked, context(options))
    session.finish(answer, lambda said: f"left for {options['id']}, row {said['handover']['seq']}")


@click.command()
@click.argument("id", metavar="ISSUE", shell_complete=known_ids.issues)
@read("issue.show")
def resume(said: Answer) -> str:
    """Show what the last holder of ISSUE left for you."""
    issue = said["issue"]
    lines = [one_line(issue)]
    if "handover" not in issue:
        return "\n".join([*lines, "  no holder left anything"])
    left = issue["handover"]
    checkpoint = left["checkpoint"]
    lines.append(f"  left by {left['owner']}, fence {left['fence']}, {left['at']}")
    lines += ["", checkpoint["summary"]]
    for name in ("done", "next", "artifacts"):
        if items := checkpoint.get(name):
            lines += ["", f"{name}:", *(f"  - {item}" for item in items)]
    if notes := checkpoint.get("notes"):
        lines += ["", notes]
    return "\n".join(lines)
