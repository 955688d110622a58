"""`understudy issue handover` and `understudy resume`: what one holder leaves for the next."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ....actors.descent import git, repository, worktree
from .. import known_ids
from ..options import context, holder, issue_id, mutation, payload, with_holder
from ..render import one_line
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
@click.argument("issue_id", metavar="ISSUE", shell_complete=known_ids.issues)
@common
def resume(session: Session, issue_id: str) -> None:
    """Show what the last holder of ISSUE left for you: its hand-over, and work set aside in git."""
    answer = session.ask("issue.show", {"id": issue_id}, writable=False)
    if answer["result"] == "accepted" and (left := _asides(session, issue_id)):
        answer["asides"] = left
    session.finish(answer, _left_text)


def _asides(session: Session, issue_id: str) -> list[dict[str, Any]]:
    """What was set aside of its worktrees, if this is a repository; the newest first."""
    with suppress(git.GitRefused):
        place = repository.locate(Path.cwd(), session.state_dir)
        found = reversed(worktree.asides(place, issue_id))
        return [{"ref": each.ref, "fence": each.fence, "commit": each.commit} for each in found]
    return []


def _left_text(said: dict[str, Any]) -> str:
    issue, asides = said["issue"], said.get("asides", ())
    lines = [one_line(issue)]
    if "handover" in issue:
        lines += _checkpoint_lines(issue["handover"])
    if asides:
        how = "`understudy worktree adopt` brings it into the worktree of its holder"
        lines += ["", f"set aside in git; {how}:", *(f"  - {each['ref']}" for each in asides)]
    return "\n".join(lines if len(lines) > 1 else [*lines, "  no holder left anything"])


def _checkpoint_lines(left: dict[str, Any]) -> list[str]:
    checkpoint = left["checkpoint"]
    lines = [f"  left by {left['owner']}, fence {left['fence']}, {left['at']}"]
    lines += ["", checkpoint["summary"]]
    for name in ("done", "next", "artifacts"):
        if items := checkpoint.get(name):
            lines += ["", f"{name}:", *(f"  - {item}" for item in items)]
    if notes := checkpoint.get("notes"):
        lines += ["", notes]
    return lines
