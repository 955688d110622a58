"""`understudy init` and `understudy policy`: the state directory and its rules."""

import shlex
from pathlib import Path
from typing import Any

import click

from ....authority import create_state_dir
from ....authority.journal import journal_url as urls
from ....contracts import Reason, check, policy_digest
from .. import state_place
from ..options import FILE, context, journal, mutation, payload, read_document
from ..request import Answer, read
from ..session import Session, common, print_json

_MODES = click.Choice(["open", "instruction-linked"])


@click.command()
@click.option("--node", default="local", show_default=True, help="The name of this clock.")
@click.option("--here", is_flag=True, help="Make one in this folder, though another is in use.")
@journal
@common
def init(session: Session, node: str, journal_url: str | None, *, here: bool) -> None:
    """Make a state directory with an empty journal; one that exists is left alone.

    Commands in the folders below use it too, and so do linked git worktrees. Where another one is
    in use already, or in a linked worktree, one is made in this folder with --here only: two would
    hand out the same work.

    With --journal the journal is in PostgreSQL, where state directories on several hosts share it.
    The URL is remembered; a password is not: it comes from ~/.pgpass, PGPASSWORD or the URL in
    UNDERSTUDY_JOURNAL.
    """
    folder = session.state_dir
    if not here:
        _refuse_another(session)
    elif session.place.why in state_place.ELSEWHERE:
        folder = Path(state_place.NAME)
    for each in session.place.passed_over:
        click.echo(f"note: passed over {each}", err=True)
    fresh = create_state_dir(folder, node, journal_url or urls.given())
    if session.as_json:
        print_json({"result": "accepted", "stateDir": str(folder), "created": fresh})
    else:
        verb = "made" if fresh else "exists:"
        click.echo(f'{verb} {folder}\nnext: understudy issue add "..."')


def _refuse_another(session: Session) -> None:
    """Where the repository has one, or where its other worktrees would not see this one."""
    if session.place.why in state_place.ELSEWHERE:
        found = f"{session.state_dir} is in use here already"
        raise click.UsageError(f"{found}; `understudy init --here` makes a second one")
    main = state_place.main_worktree() if session.place.why == "missing" else None
    if main is not None:
        shared = shlex.quote(f"{main}/{state_place.NAME}")
        raise click.UsageError(
            f"this is a linked git worktree; `understudy init --state-dir {shared}` makes one for "
            "all worktrees, and `understudy init --here` one for this worktree alone"
        )


@click.group()
def policy() -> None:
    """Show or set how strict this authority is."""


@policy.command()
@read("issue.backend_status")
def show(said: Answer) -> str:
    """Show the policy in force."""
    return _said(said)


@policy.command("set")
@click.option("--mutation", type=_MODES, help="What a change must bring along.")
@click.option("--evidence-reads/--no-evidence-reads", default=None, help="Journal reads too.")
@click.option(
    "--checks",
    type=FILE,
    help="A file with the check policy; its digest is filled in, where it has none.",
)
@click.option(
    "--approve",
    multiple=True,
    metavar="SCOPE",
    help="Work that waits for a person: label/L, kind/K or *.",
)
@click.option("--approve-none", is_flag=True, help="No work waits for a person by its scope.")
@mutation
@common
def set_(session: Session, **options: Any) -> None:
    """Change the policy; the change is a row of the journal, and a replay needs no file.

    A check policy says which checks there are, which changed paths require which of them, what
    instructions may ask for, and whether an issue is closed only with a witness: docs/checks.md.
    """
    if options.pop("approve_none"):
        options["approve"] = []
    if options["checks"]:
        options["checks"] = _checks(session, options["checks"])
    answer = session.ask("policy.set", payload(options), context(options))
    session.finish(answer, _said)


def _checks(session: Session, path: Path) -> dict[str, Any]:
    """The check policy in a file, as its schema has it."""
    document = read_document(path)
    document.setdefault("policyDigest", policy_digest(document))
    found = check.document_findings("check-policy", document, path.name)
    if found:
        words = "; ".join(f"{each.path}: {each.message}" for each in found)
        wire = Reason.INSTRUCTION_POLICY_SHAPE.wire
        refusal = {"result": "rejected", "failureClasses": [wire], "diagnostic": words}
        session.finish(refusal, _said)
    return document


def _said(answer: dict[str, Any]) -> str:
    rules = answer["policy"]
    reads = "journaled" if rules["evidenceReads"] else "not journaled"
    said = f"mutations: {rules['mutation']}; reads: {reads}"
    if rules.get("approve"):
        said += f"; waits for a person: {', '.join(rules['approve'])}"
    if (found := answer.get("checkPolicy")) is None:
        return said
    names = ", ".join(each["checkId"] for each in found["checks"]) or "none"
    closing = f"closing requires: {found['closeRequires']}"
    return f"{said}\nchecks: {names}; {closing}\n{found['policyId']}  {found['policyDigest']}"
