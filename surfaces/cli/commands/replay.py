"""`understudy replay`, `verify` and `rebuild`: the journal is the truth, and can be proved."""

from collections.abc import Mapping
from contextlib import closing

import click

from ....authority import (
    GENESIS,
    TABLES,
    TRAJECTORY,
    Unavailable,
    evidence_locked,
    locked,
    open_journal,
)
from ....authority.journal import journal_url
from ....authority.service import lost_rows
from ....authority.views import high_water, trajectory
from ....authority.views import replay as replaying
from ....contracts import Exit, Reason
from ..progress import bar
from ..session import LeaveCommand, Session, common, print_json

_progress = click.option("--progress", is_flag=True, hidden=True, help="Lines ROWS/OF on stderr.")


@click.command()
@_progress
@common
def replay(session: Session, *, progress: bool) -> None:
    """Fold the journal from nothing: decide every request again and compare every byte.

    The first row that differs is named, and the exit code is 9.
    """
    # The journal alone: proof must not lean on the state that it is to prove.
    with (
        open_journal(session.state_dir, read_only=True) as journal,
        bar(journal.last_seq(), "replaying", as_lines=progress) as step,
    ):
        result = replaying.replay(journal, step)
    wrong = [] if result.reason is None else [result.reason.wire]
    report = {
        "result": "rejected" if wrong else "accepted",
        "failureClasses": wrong,
        "rows": result.rows,
        "head": result.head.digest,
        "stateDigest": result.head.state_digest,
        "mismatch": result.mismatch,
    }
    said = result.mismatch or f"{result.rows} rows replay to the same bytes ({result.head.digest})"
    _finish(session, report, said)


@click.command()
@_progress
@common
def verify(session: Session, *, progress: bool) -> None:
    """Hold the trajectory's hash chain against the journal, and replay the journal as well.

    The first line or row that differs is named, and the exit code is 9.
    """
    with (
        open_journal(session.state_dir, read_only=True) as journal,
        bar(journal.last_seq(), "verifying", as_lines=progress) as step,
    ):
        seen, problem = trajectory.verify(session.state_dir / TRAJECTORY, journal)
        reason = Reason.TRAJECTORY_MISMATCH
        replayed = replaying.replay(journal, step)
        if replayed.mismatch is not None and (problem is None or replayed.rows <= seen):
            seen, problem, reason = replayed.rows, replayed.mismatch, Reason.REPLAY_MISMATCH
        last = journal.row(journal.last_seq())
        head = last.digest if last else GENESIS
    report = {
        "result": "rejected" if problem else "accepted",
        "failureClasses": [reason.wire] if problem else [],
        "rows": seen,
        "head": head,
        "mismatch": problem,
    }
    _finish(session, report, problem or f"{seen} rows are chained without a gap ({head})")


@click.command()
@common
def rebuild(session: Session) -> None:
    """Make the SQL tables and the trajectory anew from the journal.

    Where the journal is an older one than was answered here, what it lost stays lost. Its rows are
    filled with ones that say so, so that no fence of a lost row is given out again.

    Tables in PostgreSQL are made anew by the active authority: no other host may be at work.
    """
    shared = journal_url.of(session.state_dir) is not None
    with (
        locked(session.state_dir),
        evidence_locked(session.state_dir),
        open_journal(session.state_dir, read_only=not shared) as journal,
    ):
        known = max(high_water.high_water_marks(session.state_dir).values(), default=0)
        with closing(high_water.AnsweredMark(session.state_dir)) as mark:
            mark.move(known)  # before the others go
        for suffix in ("", "-wal", "-shm"):
            (session.state_dir / (TABLES + suffix)).unlink(missing_ok=True)
        if shared and journal.stand_in() is None:
            raise Unavailable(Reason.AUTHORITY_STANDBY, journal.who())
        with closing(journal.tables(session.state_dir)) as fresh:
            fresh.clear()
            fresh.follow(journal)
        rows = trajectory.rewrite(session.state_dir / TRAJECTORY, journal)
    said, lost = f"rebuilt from {rows} rows", 0
    if known > rows:
        with bar(known - rows, "filling lost rows") as step:
            lost = lost_rows.fill_lost_rows(session.state_dir, known, step)
        said += f"; {lost} rows that were answered once are lost, and their fences are not reused"
    _finish(session, {"result": "accepted", "rows": rows, "lost": lost}, said)


def _finish(session: Session, report: Mapping[str, object], said: str) -> None:
    accepted = report["result"] == "accepted"
    if session.as_json:
        print_json(report)
    else:
        click.echo(said if accepted else f"error: {said}", err=not accepted)
    if not accepted:
        raise LeaveCommand(Exit.CHECK_FAILED)
