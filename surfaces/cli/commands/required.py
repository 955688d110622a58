"""`understudy required`: which checks a change requires, that they passed, and what follows."""

import os
import subprocess
from pathlib import Path
from typing import Any

import click

from ....actors.run import checks
from ....contracts import Exit
from .. import known_ids
from ..options import FILE, context, holder, mutation, payload, read_document, stack, with_holder
from ..session import LeaveCommand, Session, common
from .instruction import FOLDER, leave_by_verdict, teller, witness_text

_change = stack(
    click.argument("paths", nargs=-1, metavar="[PATH]..."),
    click.option("--from", "from_ref", metavar="REF", help="Changed since this commit.  [HEAD]"),
    click.option("--to", "to_ref", metavar="REF", help="Up to this commit.  [the working tree]"),
    click.option("--cwd", type=FOLDER, default=".", help="The working tree.  [here]"),
)


@click.group()
def required() -> None:
    """Find the checks that a change requires, run them, and decide by what they gave.

    A change is the PATHs that you name, or what git says has changed between two commits, or since
    one in the working tree. The check policy (`understudy policy show`) says what it requires.
    Where its closeRequires is `witness`, an issue is closed only after an accepted decision:

    \b
    understudy required projection --from main
    understudy required witness --from main --issue us-1
    understudy required decide .premath/ciwitness/required/us-1.json
    understudy issue close us-1
    """


@required.command()
@_change
@common
def projection(session: Session, **options: Any) -> None:
    """The checks that a change requires, and which path asks for each."""
    asked = {"changedPaths": _changed(session, options)["changedPaths"]}
    session.read("required.projection", asked, _projection_text)


@required.command()
@_change
@common
def delta(session: Session, **options: Any) -> None:
    """The changed paths, each once and in order, with a digest."""
    session.read("required.delta", _changed(session, options), _delta_text)


@required.command("gate-ref")
@click.argument("check_id", metavar="CHECK")
@click.argument("file", type=FILE)
@common
def gate_ref(session: Session, check_id: str, file: Path) -> None:
    """A reference to the JSON that CHECK left in FILE, bound to its content."""
    path = file.as_posix()
    asked = {"checkId": check_id, "artifactRelPath": path, "artifact": read_document(file)}
    session.read("required.gate_ref", asked, lambda said: f"{said['gateRef']['sha256']}  {path}")


@required.command()
@_change
@click.option(
    "--issue",
    "id",
    metavar="ID",
    shell_complete=known_ids.issues,
    help="For the lease on this issue, which you hold.",
)
@holder
@mutation
@common
def witness(session: Session, **options: Any) -> None:
    """Run the checks that a change requires, and record what they gave.

    The witness is a row of the journal, and is written to ciwitness/required in the state
    directory, under the issue's id or as `change`. Exit code 0 if all passed, 9 if one did not.
    Nothing is run for an issue that is not there, or whose lease another holder has.
    """
    cwd = options["cwd"]
    change = _changed(session, options)
    answer = session.ask(
        "required.projection", {"changedPaths": change["changedPaths"]}, writable=False
    )
    if answer["result"] != "accepted":
        session.finish(answer, _projection_text)
    options = {name: value for name, value in options.items() if name not in _LOCAL}
    options = with_holder(options) if options["id"] else options
    name = options["id"] or "change"
    results: list[dict[str, Any]] = []
    if not _is_hopeless(session, options):
        logs = checks.log_folder(session.state_dir, "required", name)
        results = checks.run_checks(answer["checks"], cwd, logs=logs, on_progress=teller(session))
    asked = payload(options) | change | {"results": results}
    answer = session.ask("required.witness", asked, context(options))
    if answer["result"] == "accepted":
        checks.write_artifact(_artifact(session, f"{name}.json"), answer["witness"])
    session.finish(answer, witness_text)
    leave_by_verdict(answer["witness"])


def _is_hopeless(session: Session, options: dict[str, Any]) -> bool:
    """Whether the witness will be refused, whatever the checks give: they need not run then."""
    if options["id"] is None:
        return False
    shown = session.ask("issue.show", {"id": options["id"]}, writable=False)
    if shown["result"] != "accepted" or shown["issue"]["status"] == "closed":
        return True
    lease = shown["issue"].get("lease")
    is_held = lease is not None and lease["state"] == "active" and not options.get("sublease_id")
    return is_held and lease["fence"] != options.get("fence")


@required.command()
@click.argument("file", type=FILE)
@common
def verify(session: Session, file: Path) -> None:
    """Recompute every digest of the witness in FILE, and hold it against the policy in force."""
    session.read("required.witness_verify", {"witness": read_document(file)}, _verified_text)


@required.command()
@click.argument("file", type=FILE)
@mutation
@common
def decide(session: Session, file: Path, **options: Any) -> None:
    """Accept or reject by the witness in FILE, which this authority has recorded.

    The decision is written beside the witness, as NAME.decision.json. Exit code 0 if it is to
    accept, 9 if it is to reject.
    """
    asked = payload(options) | {"witness": read_document(file)}
    answer = session.ask("required.witness_decide", asked, context(options))
    if answer["result"] == "accepted":
        checks.write_artifact(file.with_suffix(".decision.json"), answer["decision"])
    session.finish(answer, lambda said: f"{said['decision']['decision']}  {said['decisionRef']}")
    if answer["decision"]["decision"] != "accept":
        raise LeaveCommand(Exit.CHECK_FAILED)


@required.command("verify-decision")
@click.argument("decision", type=FILE)
@click.argument("witness", type=FILE)
@common
def verify_decision(session: Session, decision: Path, witness: Path) -> None:
    """Whether the decision in one file is the one that follows from the witness in the other."""
    asked = {"decision": read_document(decision), "witness": read_document(witness)}
    answer = session.ask("required.decision_verify", asked, writable=False)
    session.finish(answer, lambda said: f"{said['decisionClass']}  {said['decisionDigest']}")


# --- the change -----------------------------------------------------------------------------------

_LOCAL = ("paths", "from_ref", "to_ref", "cwd")


def _changed(session: Session, options: dict[str, Any]) -> dict[str, Any]:
    """What is asked about: the paths that are named, or what git knows."""
    paths, cwd = list(options["paths"]), options["cwd"]
    since, until = options["from_ref"], options["to_ref"]
    if paths and (since or until):
        raise click.UsageError("name the paths, or the commits between which they changed")
    if paths:
        return {"changedPaths": paths, "deltaSource": "given"}
    old = _commit(since or "HEAD", cwd)
    new = _commit(until, cwd) if until else None
    root = Path(os.fsdecode(_git(["rev-parse", "--show-toplevel"], cwd).removesuffix(b"\n")))
    ends = [old, new] if new else [old]
    # A file that moved is two changed paths, and its old one may be what a rule is about.
    found = _git(["diff", "--name-only", "--no-renames", "-z", *ends, "--"], root)
    if new is None:
        found += _git(["ls-files", "--others", "--exclude-standard", "-z"], root)
    ours = session.state_dir.resolve()
    named = {os.fsdecode(path) for path in found.split(b"\0") if path}
    changed = sorted(path for path in named if not (root / path).is_relative_to(ours))
    delta = {"changedPaths": changed, "deltaSource": "git", "fromRef": old}
    return delta | {"toRef": new or "worktree"}


def _commit(name: str, cwd: Path) -> str:
    words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    return _git(words, cwd, f"git knows no commit {name}").decode().strip()


def _git(words: list[str], cwd: Path, problem: str = "") -> bytes:
    try:
        ran = subprocess.run(  # noqa: S603 - no shell, and no word of it is an option of a caller
            ["git", *words],  # noqa: S607 - the caller's own git
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise click.UsageError("there is no git here; name the changed paths") from None
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip()
        raise click.UsageError(problem or f"git {words[0]}: {said}")
    return ran.stdout


def _artifact(session: Session, name: str) -> Path:
    return session.state_dir / checks.FOLDER / "required" / name


# --- words ----------------------------------------------------------------------------------------


def _projection_text(answer: dict[str, Any]) -> str:
    found = answer["projection"]
    lines = [
        f"{each['checkId']}  {each['ruleId']}  {each['changedPath']}" for each in found["reasons"]
    ]
    about = "documentation only" if found["docsOnly"] else f"{len(found['changedPaths'])} paths"
    return "\n".join([*lines, f"{len(lines)} required  {about}  {found['projectionDigest']}"])


def _delta_text(answer: dict[str, Any]) -> str:
    paths = answer["delta"]["changedPaths"]
    return "\n".join([*paths, f"{len(paths)} paths  {answer['delta']['deltaDigest']}"])


def _verified_text(answer: dict[str, Any]) -> str:
    known = "recorded" if answer["recorded"] else "not recorded here"
    return f"{answer['verdictClass']}  {known}  {answer['witnessDigest']}"
