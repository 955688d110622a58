"""`understudy doctor`: which mode is in use and why, and whether everything is in order."""

from collections import Counter

import click

from ....contracts import Exit
from ...doctor import DoctorFinding, Status, examine, mend
from ..render import coloured
from ..session import LeaveCommand, Session, common, print_json

_COLOURS: dict[Status, str] = {"ok": "green", "note": "yellow", "problem": "red"}
SCHEMA = 1  # of the report; members may be added to it


@click.command()
@click.option("--fix", is_flag=True, help="First close to other users what is open to them.")
@click.option("--deep", is_flag=True, help="Look at every row too, as verify does: takes as long.")
@common
def doctor(session: Session, *, fix: bool, deep: bool) -> None:
    """Look at the installation, the state directory and its sidecar, and say what is wrong.

    Without --fix nothing is changed, and no state directory is needed. Each finding is ok, a note
    or a problem, with what to do about it. Exit code 0, or 9 if there is a problem.
    """
    if fix and (count := mend(session.state_dir)) and not session.as_json:
        click.echo(f"closed {count} files and folders to other users")
    findings = list(examine(session.state_dir, session.boundary, deep=deep))
    counts = Counter(each.status for each in findings)
    if session.as_json:
        print_json(_report(session, findings, counts))
    else:
        _say(findings, counts)
    if counts["problem"]:
        raise LeaveCommand(Exit.CHECK_FAILED)


def _report(session: Session, findings: list[DoctorFinding], counts: Counter[Status]) -> object:
    classes = [each.failure for each in findings if each.status == "problem" and each.failure]
    return {
        "schema": SCHEMA,
        "result": "rejected" if counts["problem"] else "accepted",
        "failureClasses": list(dict.fromkeys(classes)),
        "stateDir": str(session.state_dir),
        "counts": {status: counts[status] for status in _COLOURS},
        "findings": [each.as_json() for each in findings],
    }


def _say(findings: list[DoctorFinding], counts: Counter[Status]) -> None:
    width = max(len(each.check) for each in findings)
    for each in findings:
        status = coloured(f"{each.status:<7}", _COLOURS[each.status])
        click.echo(f"{status}  {each.check:<{width}}  {each.detail}")
        if each.remedy is not None:
            click.echo(f"{'':<7}  {'':<{width}}  -> {each.remedy}")
    click.echo(f"{counts['ok']} ok, {counts['note']} noted, {counts['problem']} wrong")
