"""`understudy logs`: what commands printed, attempt by attempt."""

import time
from typing import Any

import click

from ....actors.run import attempts
from ....contracts import Exit, Reason
from .. import known_ids
from ..session import Session, common, print_bytes, print_json

_PAUSE_SECONDS = 0.1


@click.command()
@click.argument("work", shell_complete=known_ids.issues_and_jobs)
@click.option("--follow", "-f", is_flag=True, help="Go on while it is written, until it ends.")
@click.option("--attempt", type=click.IntRange(min=1), help="Which one.  [default: the newest]")
@common
def logs(session: Session, work: str, attempt: int | None, *, follow: bool) -> None:
    """Show what the commands of WORK printed, under `understudy exec` and in workers.

    WORK is the id of an issue, or `job/ID`.

    Of a long output the beginning and the end are kept; a line says how much is missing between
    them. With --json, which attempts there are, how they ended, and where their output lies; what
    is said there of an attempt's end is missing where its process was killed.
    """
    if follow and session.as_json:
        raise click.UsageError("--follow shows output, and --json does not")
    found = attempts.attempts_of(session.state_dir, work)
    chosen = [each for each in found if attempt in (None, each.number)]
    if not chosen:
        _refuse(session, work, attempt, [each.number for each in found])
    if session.as_json:
        rows = [_row(each) for each in chosen]
        print_json({"result": "accepted", "failureClasses": [], **_named(work), "attempts": rows})
        return
    output = chosen[-1].output()
    while True:
        going_on = follow and output.is_written()
        _print(output)
        if not going_on:
            return
        time.sleep(_PAUSE_SECONDS)


def _named(work: str) -> dict[str, str]:
    job = work.removeprefix("job/")
    return {"issueId": work} if job == work else {"jobId": job}


def _print(output: attempts.Transcript) -> None:
    for part in output.read():
        if isinstance(part, attempts.Gap):
            print_bytes(b"\n[... %d bytes are not kept ...]\n" % part.size)
        else:
            print_bytes(part)


def _row(attempt: attempts.Attempt) -> dict[str, Any]:
    output = attempt.output()
    size, dropped = output.extent()
    return {
        "attempt": attempt.number,
        "run": attempt.run,
        "log": str(attempt.path),
        "bytes": size,
        "bytesDropped": dropped,
        "running": output.is_written(),
        "record": attempt.record() or None,
    }


def _refuse(session: Session, work: str, attempt: int | None, there: list[int]) -> None:
    which = "no output" if attempt is None else f"no output of attempt {attempt}"
    (name,) = _named(work).values()
    words = f"{'issue' if name == work else 'job'} {name}: {which} is kept"
    if there:
        words += f"; there is {', '.join(map(str, sorted(set(there))))}"
    failure = Reason.ISSUE_NOT_FOUND if name == work else Reason.JOB_NOT_FOUND
    session.refuse(Exit.NOT_FOUND, failure.wire, words)
