"""`understudy down`, `status`, `tree` and `top`: a tree that runs, from outside."""

import time
from pathlib import Path
from typing import Any

import click

from ....actors import tree as trees
from ....actors.tree import RUN_FOLDER
from ....contracts import ESCALATION, Exit
from .. import tree_text
from ..session import LeaveCommand, Session, common, print_json

_STOP_SECONDS = 120.0
_SHOWN_MAX = 10  # of what waits for a person
_CLEAR = "\033[H\033[J"


@click.command()
@click.option("--drain", type=click.IntRange(0), help="Seconds for workers to finish first.")
@click.option("--force", is_flag=True, help="Kill it; its leases are left to the next tree.")
@common
def down(session: Session, drain: int | None, *, force: bool) -> None:
    """Stop the tree: hand leases back, in reverse order of its start, and prove nothing is left.

    Exit 7 where no tree runs.
    """
    run_dir = session.state_dir.absolute() / RUN_FOLDER
    left = trees.end_by_force(run_dir) if force else _stopped(session, run_dir, drain or 0)
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
    found = _asked(session, {"ask": "picture"})
    waiting = _for_people(session)
    if session.as_json:
        waits = {"waitsForPerson": [each["id"] for each in waiting]}
        print_json({"result": "accepted", "failureClasses": []} | found | waits)
        return
    click.echo(f"{session.state_dir}: {tree_text.summary(found)}")
    for each in waiting[:_SHOWN_MAX]:
        click.echo(f"  {each['id']}  waits for a person: {each['title']}")
    if len(waiting) > _SHOWN_MAX:
        click.echo(
            f"  and {len(waiting) - _SHOWN_MAX} more: `understudy issue list --type escalation`"
        )
    for name, term in tree_text.terms(found):
        attempt = f"attempt {term['attempt']}, fence {term['fence']}"
        click.echo(f"  {name}  {term['phase']}, {attempt}, {term['worker']}")


@click.command()
@common
def tree(session: Session) -> None:
    """Draw the tree: who runs, since when, how often restarted, and what is worked on."""
    found = _asked(session, {"ask": "picture"})
    if session.as_json:
        print_json({"result": "accepted", "failureClasses": []} | found)
        return
    for line, colour in tree_text.drawn(found):
        click.echo(tree_text.painted(line, colour))


@click.command()
@click.option(
    "--every", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds."
)
@common
def top(session: Session, every: float) -> None:
    """Draw the tree again and again until Ctrl-C; with --json, a line each time."""
    while True:
        found = _asked(session, {"ask": "picture"})
        if session.as_json:
            print_json(found)
        else:
            draw(found)
        time.sleep(every)


def draw(found: dict[str, Any]) -> None:
    lines = [tree_text.painted(line, colour) for line, colour in tree_text.drawn(found)]
    click.echo(_CLEAR + "\n".join(lines))


def _for_people(session: Session) -> list[dict[str, Any]]:
    """Escalations that are not closed."""
    answer = session.ask("issue.list", {"issueType": ESCALATION}, writable=False)
    return [each for each in answer.get("issues", []) if each["status"] != "closed"]


def _asked(session: Session, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return trees.ask(session.state_dir.absolute() / RUN_FOLDER, request, 10.0)
    except trees.NoTree:
        said = f"no tree runs on {session.state_dir}; start one with `understudy up`"
        if session.as_json:
            failure = {"result": "rejected", "failureClasses": ["tree_not_running"]}
            print_json(failure | {"diagnostic": said})
        else:
            click.echo(f"error: {said}", err=True)
        raise LeaveCommand(Exit.UNREACHABLE) from None


def _stopped(session: Session, run_dir: Path, drain_seconds: int) -> list[int]:
    """Ask a tree to stop, and wait until it has; the processes that are left."""
    system = _asked(session, {"ask": "picture"})["system"]
    stop = {"ask": "stop", "drainMs": drain_seconds * 1000}
    try:
        trees.ask(run_dir, stop, drain_seconds + _STOP_SECONDS)
    except trees.NoTree as error:
        click.echo(
            f"error: it does not stop: {error}; `understudy down --force` kills it", err=True
        )
        raise LeaveCommand(Exit.FAILED) from None
    return trees.left_of(system)
