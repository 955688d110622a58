"""`understudy down`, `status`, `tree` and `top`: a tree that runs, from outside."""

import time
from pathlib import Path
from typing import Any

import click

from ....actors import tree as trees
from ....actors.tree import RUN_FOLDER
from ....contracts import ESCALATION, Exit, limits
from .. import descent_text, tree_text
from ..options import milliseconds, seconds
from ..session import LeaveCommand, Session, common, print_json

_STOP_SECONDS = 120.0
_SHOWN_MAX = 10  # of what waits for a person


@click.command()
@click.option(
    "--drain",
    type=seconds(most=f"{limits.TREE_DRAIN_MS_MAX}ms"),
    help="Let workers finish first, for so long.",
)
@click.option("--force", is_flag=True, help="Kill it; its leases are left to the next tree.")
@common
def down(session: Session, drain: int | None, *, force: bool) -> None:
    """Stop the tree: hand leases back, in reverse order of its start, and prove nothing is left.

    Exit 7 where no tree runs.
    """
    run_dir = session.state_dir.absolute() / RUN_FOLDER
    left = trees.end_by_force(run_dir) if force else _stop_tree(session, run_dir, drain or 0)
    answer = {"result": "rejected" if left else "accepted", "failureClasses": [], "left": left}
    if session.as_json:
        print_json(answer)
    elif left:
        click.echo(f"error: still there: {', '.join(map(str, left))}", err=True)
    else:
        click.echo("stopped; nothing is left")
    if left:
        raise LeaveCommand(Exit.FAILED)


@click.command()
@common
def status(session: Session) -> None:
    """Say in a line or two how the tree is. Exit 7 where none runs."""
    found = _look(session)
    waiting = _list_escalations(session)
    lines = [f"{session.state_dir}: {tree_text.summary(found)}"]
    lines += [f"  {line}" for line in tree_text.count_lines(found)]
    lines += [f"  {line}" for line in tree_text.pause_lines(found["pauses"])]
    if found["descent"]:
        lines.append(f"  descent: {descent_text.summary(found['descent'])}")
    lines += [
        f"  {each['id']}  waits for a person: {each['title']}" for each in waiting[:_SHOWN_MAX]
    ]
    if len(waiting) > _SHOWN_MAX:
        more = len(waiting) - _SHOWN_MAX
        lines.append(f"  and {more} more: `understudy issue list --type escalation`")
    lines += [f"  {line}" for line in tree_text.running_lines(found)]
    lines += [f"  {line}" for line in tree_text.rests(found)]
    waits = [each["id"] for each in waiting]
    session.accept("\n".join(lines), **found, waitsForPerson=waits)


@click.command()
@common
def tree(session: Session) -> None:
    """Draw the tree: who runs, since when, how often restarted, and what is worked on."""
    found = _look(session)
    session.accept(tree_text.painted(found), **found)


@click.command()
@click.option(
    "--every",
    "every_ms",
    type=milliseconds("100ms"),
    default="1s",
    show_default=True,
    help="How often.",
)
@common
def top(session: Session, every_ms: int) -> None:
    """Draw the tree again and again until Ctrl-C; with --json, a line each time."""
    while True:
        found = _look(session)
        if session.as_json:
            print_json(found)
        else:
            tree_text.draw(found)
        time.sleep(every_ms / 1_000)


def _look(session: Session) -> dict[str, Any]:
    found = _ask_tree(session, {"ask": "picture"})
    return found | around(session, found)


def around(session: Session, picture: dict[str, Any]) -> dict[str, Any]:
    """What the authority knows and a tree does not: pauses, how much there is of all work, and how
    sections stand."""
    pauses = session.ask("pause.list", {}, writable=False).get("pauses", [])
    descent = _descent_counts(session, picture)
    return {"pauses": pauses, "counts": _counts(session, picture), "descent": descent}


def _counts(session: Session, picture: dict[str, Any]) -> dict[str, dict[str, int]]:
    """By state; what rests is ready, but for the tree. Nothing where nobody can be asked."""
    counts = {}
    if latest := session.ask("observe.latest", {}, writable=False).get("latest"):
        total, resting = latest["totals"], picture["dispatcher"].get("resting", 0)
        counts["issues"] = {
            "ready": max(0, total["ready"] - resting),
            "held": total["inProgress"],
            "resting": resting,
            "waiting": max(0, total["open"] - total["ready"]),
            "blocked": total["blocked"],
            "done": total["closed"],
        }
        states = ("open", "inProgress", "blocked", "closed")
        if other := total["issues"] - sum(total[each] for each in states):
            counts["issues"]["other"] = other  # cancelled, or in a status of somebody's own
    page = {"query": "waiting", "limit": limits.ROSTER_PAGE_MAX}
    roster = session.ask("job.roster", page, writable=False)
    if roster.get("jobCounts", {}).get("total"):
        total, resting = roster["jobCounts"], (picture["jobs"] or {}).get("resting", 0)
        blocked = sum(each["state"] == "blocked" for each in roster["jobs"])  # of the first page
        waiting = total["waiting"] + total.get("delayed", 0)
        counts["jobs"] = {
            "ready": max(0, total["pending"] - resting),
            "held": total["claimed"],
            "resting": resting,
            "waiting": waiting - blocked,
            "blocked": blocked,
            "done": total["total"] - total["pending"] - total["claimed"] - waiting,
        }
    return counts


def _descent_counts(session: Session, picture: dict[str, Any]) -> dict[str, Any] | None:
    """How the sections stand, where there are any or a gluer waits for them."""
    shown = session.ask("descent.show", {}, writable=False)
    if shown["result"] != "accepted":
        return None
    has_gluer = any(child["id"] == "gluer" for child in picture["tree"])
    is_used = has_gluer or shown["targets"] or shown["sections"] or shown["obstructions"]
    return descent_text.counts(shown) if is_used else None


def _list_escalations(session: Session) -> list[dict[str, Any]]:
    """Escalations that are not closed, and what waits for an approval."""
    answer = session.ask("issue.list", {"issueType": ESCALATION}, writable=False)
    found = [each for each in answer.get("issues", []) if each["status"] != "closed"]
    names = session.ask("issue.ready", {}, writable=False).get("waitsForPerson", [])
    return found + [{"id": each, "title": f"`understudy approve {each}`"} for each in names]


def _ask_tree(session: Session, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return trees.ask(session.state_dir.absolute() / RUN_FOLDER, request, 10.0)
    except trees.NoTree:
        said = f"no tree runs on {session.state_dir}; start one with `understudy up`"
        session.refuse(Exit.UNREACHABLE, "tree_not_running", said)


def _stop_tree(session: Session, run_dir: Path, drain_seconds: int) -> list[int]:
    """Ask a tree to stop, and wait until it has; the processes that are left."""
    system = _ask_tree(session, {"ask": "picture"})["system"]
    stop = {"ask": "stop", "drainMs": drain_seconds * 1000}
    try:
        trees.ask(run_dir, stop, drain_seconds + _STOP_SECONDS)
    except trees.NoTree as error:
        click.echo(
            f"error: it does not stop: {error}; `understudy down --force` kills it", err=True
        )
        raise LeaveCommand(Exit.FAILED) from None
    return trees.left_of(system)
