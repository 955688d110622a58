"""`understudy where`: which state directory is used here, and why."""

from pathlib import Path

import click

from ....authority.journal import state_files
from ....contracts import FAILURES, Exit, Reason
from ..session import LeaveCommand, Session, common, print_json

_WHY = {
    "--state-dir": "the option --state-dir names it",
    "UNDERSTUDY_STATE_DIR": "UNDERSTUDY_STATE_DIR names it",
    "here": "it is in this folder",
    "main-worktree": "this is a linked git worktree, and its main one uses it",
    "above": "it is the nearest one above this folder",
    "missing": "there is none here, none above, and none of a main git worktree",
}


@click.command()
@common
def where(session: Session) -> None:
    """Say which state directory commands use in this folder, and why.

    It is the one that --state-dir or UNDERSTUDY_STATE_DIR names. Otherwise it is `.premath` in this
    folder, or the one that the main worktree uses, if this is a linked git worktree, or the nearest
    one above on the same filesystem. One that belongs to another user, or that everybody can write
    in, is passed over. Exit code 78 where there is none.
    """
    place, exists = session.place, state_files.is_state_dir(session.state_dir)
    path = str(Path(place.path).absolute())
    if session.as_json:
        missing = [] if exists else [Reason.STATE_DIR_MISSING.wire]
        report = {
            "result": "accepted" if exists else "rejected",
            "failureClasses": missing,
            "stateDir": path,
            "exists": exists,
            "why": place.why,
            "passedOver": list(place.passed_over),
        }
        print_json(report)
    else:
        click.echo(f"{path}\n{_WHY[place.why]}")
        for each in place.passed_over:
            click.echo(f"passed over {each}")
        if not exists:
            failure = FAILURES[Reason.STATE_DIR_MISSING]
            click.echo(f"error: {failure.meaning}; `understudy init` makes one", err=True)
    if not exists:
        raise LeaveCommand(Exit.CONFIG)
