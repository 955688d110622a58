"""`understudy job log`: the operation log out, folded, and in."""

from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from ....authority import open_journal
from ....authority.journal import journal
from ....authority.law.jobs import oplog
from ....authority.service import import_oplog
from ....authority.views import issues_file
from ....contracts import Operation, limits
from ..options import FILE, read_file
from ..session import Session, common


@click.group()
def log() -> None:
    """The operations that were admitted, for replicas and other readers."""


@log.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@common
def export_log(session: Session, file: Path) -> None:
    """Write every operation to FILE, a JSON object a line, in the order of their admission."""
    with open_journal(session.state_dir, read_only=True) as opened:
        found = journal.operations(opened)
        lines = [msgspec.json.encode(each, order="sorted") for each in found]
    issues_file.write_file(file, b"".join(line + b"\n" for line in lines))
    text = f"wrote {len(lines)} operations to {file}"
    session.accept(text, file=str(file), count=len(lines))


@log.command("fold")
@click.argument("file", type=FILE)
@common
def fold_log(session: Session, file: Path) -> None:
    """Say what the operations in FILE come to, whatever their order, with a digest of it."""
    log = _read_log(file)
    folded = oplog.fold(log)
    counts = Counter(each.state.value for each in folded.entries.values())
    states = ", ".join(f"{counts[name]} {name}" for name in ("pending", "claimed", "completed"))
    more = f"{len(folded.waiting)} wait, {len(folded.refused)} refused, {folded.digest}"
    session.accept(
        f"{len(log)} operations: {states}; {more}",
        operations=len(log),
        jobs=dict(sorted(counts.items())),
        waiting=folded.waiting,
        refused=folded.refused,
        digest=folded.digest,
    )


@log.command("import")
@click.argument("file", type=FILE)
@click.option(
    "--with-nodes", is_flag=True, help="Register its nodes and designate its coordinator too."
)
@common
def import_log(session: Session, file: Path, *, with_nodes: bool) -> None:
    """Take over the jobs, specs and routes of FILE, which another authority exported.

    What was completed there is completed here; what was claimed there is pending here. Done again,
    it changes nothing. Nodes and the coordinator are taken over where you say so: the
    author of FILE decides then which nodes may work here.
    """
    log = _read_log(file)
    with session.office() as office:
        try:
            taken = import_oplog.take_over(office, log, with_nodes=with_nodes)
        except import_oplog.Unsound as error:
            raise click.UsageError(f"{file} contradicts itself: {error}") from None
    for each in taken.problems if not session.as_json else ():
        click.echo(f"left out: {each}", err=True)
    said = msgspec.to_builtins(taken)
    session.accept(_taken(said, with_nodes=with_nodes), **said)


def _read_log(file: Path) -> list[Operation]:
    try:
        return import_oplog.read_log(read_file(file, limits.IMPORT_FILE_BYTES_MAX))
    except ValueError as error:
        raise click.UsageError(f"{file}: no operation log: {error}") from None


def _taken(said: dict[str, Any], *, with_nodes: bool) -> str:
    words = [f"scheduled {said['scheduled']}", f"completed {said['completed']}"]
    words.append(f"routed {said['routes']}")
    if said["specs"]:
        words.append(f"submitted {said['specs']}")
    if with_nodes:
        words.append(f"registered {said['nodes']}")
    if said["coordinator"]:
        words.append(f"designated {said['coordinator']}")
    return ", ".join(words)
