"""`understudy journal`: where the journal is, and how it gets elsewhere."""

from pathlib import Path
from shlex import quote

import click

from ....authority import open_journal
from ....authority.journal import journal_url, move, state_files
from ..progress import bar
from ..session import Session, common


@click.group()
def journal() -> None:
    """Say where the journal is, or copy it to another engine."""


@journal.command()
@common
def where(session: Session) -> None:
    """Say where the journal is, how long it is, and who writes it."""
    shared = journal_url.of(session.state_dir)
    with open_journal(session.state_dir, read_only=True) as found:
        said = {
            "engine": "sqlite" if shared is None else "postgresql",
            "place": str(
                (session.state_dir / state_files.JOURNAL).absolute() if shared is None else shared
            ),
            "node": found.node(),
            "rows": found.last_seq(),
            "epoch": found.epoch(),
            "active": found.who(),
        }
    words = f"{said['rows']} rows, epoch {said['epoch']}, node {said['node']}"
    text = f"{said['engine']}  {said['place']}\n{words}\nactive: {said['active']}"
    session.accept(text, **said)


@journal.command()
@click.option("--to", "target", required=True, metavar="URL|DIR", help="Where to.")
@common
def copy(session: Session, target: str) -> None:
    """Copy the journal to an empty schema in PostgreSQL, or to a new state directory.

    The same rows, byte by byte, with the newest snapshot, or nothing; the chain is verified on the
    way. No authority may be at work. The old journal stays as it is: set it aside before work goes
    on with the new one, so that no two give out the same fences.

    \b
    understudy journal copy --to postgresql://db.example/work
    understudy journal copy --to /srv/understudy
    """
    with open_journal(session.state_dir, read_only=True) as found:
        rows = found.last_seq()
    with bar(rows, "copying") as step:
        done = move.copy(session.state_dir, target, step)
    then = _next(session.state_dir, target)
    lines = [f"copied {done.head.seq} rows to {target} ({done.head.digest})", "next:"]
    said = {
        "from": str(session.state_dir),
        "to": target,
        "rows": done.head.seq,
        "head": done.head.digest,
        "epoch": done.epoch,
        "snapshotSeq": done.snapshot_seq,
        "next": then,
    }
    session.accept("\n".join([*lines, *(f"  {each}" for each in then)]), **said)


def _next(state_dir: Path, target: str) -> list[str]:
    """What is left to do, in commands."""
    here, there, aside = map(quote, (str(state_dir), target, f"{state_dir}.old"))
    if not move.is_url(target):
        return [f"understudy replay --state-dir {there}", f"mv {here} {aside}"]
    return [
        f"mv {here} {aside}",
        f"understudy init --state-dir {here} --journal {there}",
        f"understudy replay --state-dir {here}",
    ]
