"""`understudy instruction`: have checks run that the policy allows, and keep the witness."""

from pathlib import Path
from typing import Any

import click
import orjson

from ....actors.run import checks
from ....contracts import Exit
from ..options import FILE, context, mutation, payload, read_document
from ..session import LeaveCommand, Session, common

FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.group()
def instruction() -> None:
    """Have checks run that the check policy allows, and keep the witness of what they gave.

    An envelope is a JSON file that says what is to be checked, and under which policy:

    \b
    {"schema": 1, "intent": "is the parser sound", "scope": "contracts/",
     "normalizerId": "nf.understudy.v1", "policyDigest": "pol1_...",
     "requestedChecks": ["lint", "tests"], "typingPolicy": {"allowUnknown": true}}

    \b
    understudy policy set --checks checks.json     says which checks there are
    understudy policy show                         says the digest that envelopes name
    """


@instruction.command()
@click.argument("file", type=FILE)
@click.option("--id", "instruction_id", help="Its id.  [the file's name without .json]")
@common
def check(session: Session, file: Path, instruction_id: str | None) -> None:
    """Whether the policy in force allows the envelope in FILE. Nothing is run."""
    asked = {"instructionId": instruction_id or file.stem, "envelope": read_document(file)}
    session.read("instruction.check", asked, _allowed)


@instruction.command()
@click.argument("file", type=FILE)
@click.option("--id", "instruction_id", help="Its id.  [the file's name without .json]")
@click.option("--cwd", type=FOLDER, default=".", help="Where the checks run.  [here]")
@mutation
@common
def run(
    session: Session,
    file: Path,
    instruction_id: str | None,
    cwd: Path,
    **options: Any,
) -> None:
    """Run the checks that the envelope in FILE asks for, and record what they gave.

    The commands and their time limits are the policy's. The witness is a row of the journal, and is
    written to ciwitness/ID.json in the state directory; what the checks printed lies in
    ciwitness/logs. Exit code 0 if all passed, 9 if one did not.
    """
    asked = {"instructionId": instruction_id or file.stem, "envelope": read_document(file)}
    answer = checks.run_instruction(
        lambda action, members: session.ask(action, members, context(options)),
        session.state_dir,
        payload(options) | asked,
        cwd,
        on_progress=teller(session),
    )
    session.finish(answer, witness_text)
    leave_by_verdict(answer["witness"])


# --- what `required` needs too --------------------------------------------------------------------


def teller(session: Session) -> checks.OnProgress:
    """Tells people how it goes, and programs nothing."""

    def tell(done: int, count: int, result: dict[str, Any] | None, check_id: str) -> None:
        words = f"{result['status']} after {result['durationMs']} ms" if result else "..."
        click.echo(f"understudy: check {check_id} ({done} of {count}): {words}", err=True)

    return (lambda *_: None) if session.as_json else tell


def witness_text(answer: dict[str, Any]) -> str:
    witness = answer["witness"]
    classes = ", ".join(witness["failureClasses"])
    return f"{witness['verdictClass']}{f' ({classes})' if classes else ''}  {answer['witnessRef']}"


def leave_by_verdict(witness: dict[str, Any]) -> None:
    if witness["verdictClass"] != "accepted":
        raise LeaveCommand(Exit.CHECK_FAILED)


def _allowed(answer: dict[str, Any]) -> str:
    found = answer["instruction"]
    lines = [f"{found['executionDecision']['state']}  {found['instructionDigest']}"]
    lines += [f"  {each['checkId']}  {orjson.dumps(each['command']).decode()}"
              for each in answer["checks"]]  # fmt: skip
    return "\n".join(lines)
