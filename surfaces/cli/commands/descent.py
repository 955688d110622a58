"""`understudy descent`: many workers on one repository, and how their work comes together."""

import secrets
import select
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from ....actors.descent import branch, glue_program, gluer, gluing, meeting
from ....actors.descent import git as gits
from ....actors.run import runner
from ....authority import Unavailable
from ....contracts import Exit, limits
from .. import descent_text, known_ids
from ..options import TTL, acting, context, evidence, mutation, payload
from ..session import LeaveCommand, Session, common, print_json
from ..signals import passed_signals
from .instruction import FOLDER

_LOOK_SECONDS = 1.0  # between looks whether something waits
_REST_SECONDS = 30.0  # of a tree's gluer that has to wait for a person
_SIGNALLED = 128  # and the number, as a shell has it
_OVER = ("closed", "cancelled", "blocked")
_SPEC_LABEL = "spec:{}"

_into = click.option(
    "--into", "target", metavar="BRANCH", help="The branch.  [what is checked out]"
)
_cwd = click.option("--cwd", type=FOLDER, default=".", help="The repository.  [here]")


@click.group()
def descent() -> None:
    """Bring the work of many agents on one repository together, without losing any of it.

    Each worker has a worktree and a branch of its own (`understudy up --worktrees`). What it
    leaves is a section: it waits until a gluer merges it, checks the result and moves the branch.
    Sections are glued in the order in which they came; those of a cover in the order of its issues.
    What does not fit is an obstruction, and its issue goes back with the reason.

    \b
    understudy descent start --label parser     # one order for these issues
    understudy descent status                   # what waits, and for what
    understudy descent glue                     # merge, check, move the branch
    understudy descent obstructions             # what did not fit, and why
    """


# --- covers ---------------------------------------------------------------------------------------


@descent.command()
@click.option("--issues", metavar="A,B,C", help="These issues.", shell_complete=known_ids.issues)
@click.option("--label", metavar="L", help="Every issue with this label that is not over.")
@click.option("--spec", metavar="NAME", help="Every issue with the label spec:NAME.")
@click.option(
    "--order",
    type=click.Choice(["priority", "journal"]),
    default="priority",
    show_default=True,
    help="Glue by priority and age, or by age alone.",
)
@click.option("--id", "cover_id", help="Name the cover so.  [cover-ROW]")
@_into
@_cwd
@mutation
@common
def start(session: Session, **options: Any) -> None:
    """Make a cover: these issues are glued in one order, whichever is done first.

    Name the issues, or a label, or a spec. Shows the order, and which issues may touch the same
    paths by the scopes that they name, before any work starts. Nothing is claimed.
    """
    git, target = _repository(session, options)
    given = payload({name: options[name] for name in ("cover_id", "order", "request_id")})
    asked = given | {
        "issues": _issues(session, options),
        "target": target,
        "base": _refusing(session, lambda: branch.head(git, target)),
    }
    answer = session.ask("descent.cover", asked, context(options))
    session.finish(answer, descent_text.cover_text)


@descent.command()
@click.argument("cover_id", metavar="COVER")
@click.option("--reason", help="Why.")
@mutation
@common
def abort(session: Session, **options: Any) -> None:
    """Give a cover up: what waits in it is open again. What is glued stays glued."""
    answer = session.ask("descent.abort", payload(options), context(options))
    session.finish(answer, _aborted_text)


# --- looking --------------------------------------------------------------------------------------


@descent.command()
@click.option("--into", "target", metavar="BRANCH", help="Only of this branch.")
@click.option("--cover", "cover_id", metavar="ID", help="Only of this cover.")
@common
def status(session: Session, **options: Any) -> None:
    """What waits, in the order in which it is glued, how it fits, and what it waits for."""
    shown = session.ask("descent.show", payload(options), writable=False)
    if shown["result"] == "accepted":
        shown |= {"counts": descent_text.counts(shown)}
    session.finish(shown, descent_text.status)


@descent.command()
@click.option("--check", is_flag=True, help="Ask git now, and record nothing.")
@_into
@_cwd
@common
def overlaps(session: Session, *, check: bool, **options: Any) -> None:
    """Who agrees with whom: sections that wait against each other, and against their branch.

    A gluer records this as it goes. With --check git is asked here and now, for all of them.
    """
    git, target = _repository(session, options)
    shown = session.ask("descent.show", {"target": target}, writable=False)
    if shown["result"] == "accepted":
        sections = shown["sections"]
        if check:
            click.echo(f"asking git about {len(sections)} sections", err=True)
            shown["overlaps"] = _refusing(
                session, lambda: meeting.Meetings().fresh(git, branch.head(git, target), sections)
            )
    ids = [each["sectionId"] for each in shown.get("sections", ())]
    session.finish(shown, lambda said: descent_text.overlaps(ids, said["overlaps"], target))


@descent.command()
@click.option("--into", "target", metavar="BRANCH", help="Only of this branch.")
@click.option("--cover", "cover_id", metavar="ID", help="Only of this cover.")
@common
def obstructions(session: Session, **options: Any) -> None:
    """What did not fit, the newest first: with what, in which paths or by which check."""
    session.read("descent.show", payload(options), _obstructions_text)


# --- gluing ---------------------------------------------------------------------------------------


@descent.command()
@_into
@_cwd
@acting("owner", help="Who glues.  [default: a new name]")
@click.option("--follow", is_flag=True, help="Go on with what comes, until a signal.")
@click.option(
    "--speculate",
    type=click.IntRange(1, limits.GLUE_SECTIONS_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Run the checks of the next N sections side by side.",
)
@click.option(
    "--glue-exec",
    "command",
    metavar="CMD",
    default="",
    help="Run this in place of moving the branch, for instance to open pull requests.",
)
@click.option(
    "--on-obstruction",
    type=click.Choice(["return", "file", "stop"]),
    default="return",
    show_default=True,
    help="Give the issue back, file another for it, or block it.",
)
@click.option(
    "--attempts",
    type=click.IntRange(1),
    help="Block an issue that was tried so often, instead of giving it back.  [by the policy]",
)
@click.option(
    "--setup",
    metavar="CMD",
    default="",
    help="Run this in each worktree before its checks: dependencies, caches.",
)
@click.option("--accept-moved", is_flag=True, help="Go on though the branch was rewritten by hand.")
@click.option("--ttl", type=TTL, default="60s", show_default=True, help="Of the lease, renewed.")
@click.option("--tree", "in_tree", is_flag=True, hidden=True, help="It is the gluer of a tree.")
@evidence
@common
def glue(session: Session, **options: Any) -> None:
    """Glue what waits: merge in order, run the required checks on the result, move the branch.

    The gluer holds the lease glue/BRANCH. Git itself refuses to move the branch for a gluer whose
    fence is not the newest. What a killed gluer had begun is settled first. Checks run in worktrees
    of their own; no working tree is touched but one that has the branch, and only if it is clean.

    What does not merge, or fails a check, is an obstruction; the rest goes on without it. An issue
    goes back to the workers as often as the retry policy allows, and is blocked then.

    \b
    CMD of --glue-exec runs in the repository, with the sections as JSON on standard input and in
    UNDERSTUDY_SECTIONS, the merge in UNDERSTUDY_NEW, what it is made upon in UNDERSTUDY_OLD and
    the gluer's fence in UNDERSTUDY_FENCE. It ends with
      0     the sections are glued
      75    later: they wait as before
      else  the glue stops, and says so

    \b
    Exit codes: 0 all that waited is glued, 1 a person has to look, 5 something was obstructed,
      6 the lease was lost, 75 try later.
    """
    git, target = _repository(session, options)
    _refusing(session, lambda: branch.branch_ref(git, target))
    if not options["in_tree"]:
        _refusing(session, lambda: branch.head(git, target))
    settings = gluing.GlueSettings(
        speculate=options["speculate"],
        command=options["command"],
        on_obstruction=options["on_obstruction"],
        accepts_moved=options["accept_moved"],
        setup=options["setup"],
        attempts=options["attempts"],
    )
    with passed_signals() as wake, closing(runner.keeper()):
        hand = gluer.Gluer(
            ask=_asking(session, context(options)),
            state_dir=session.state_dir.absolute(),
            folder=git.folder,
            target=target,
            owner=options["owner"] or f"gluer-{secrets.token_hex(4)}",
            settings=settings,
            ttl_seconds=options["ttl"],
            boundary=session.boundary,
            wake=wake,
            echo=(2, 2),
            tell=(lambda _: None) if session.as_json else _tell,
        )
        if options["follow"]:
            raise LeaveCommand(_follow(session, hand, wake, in_tree=options["in_tree"]))
        ended = hand.run() if hand.look() != "nothing" else gluer.PassEnd(0)
    _finish(session, target, ended)


def _follow(session: Session, hand: gluer.Gluer, wake: int, *, in_tree: bool) -> int:
    """Pass after pass; the code to leave with."""
    said, pause = "", _LOOK_SECONDS
    while True:
        ended = _next_pass(hand)
        if session.as_json and ended.report:
            print_json(ended.report)
        if ended.code >= _SIGNALLED:
            return ended.code
        if ended.code and ended.diagnostic != said:
            said = ended.diagnostic
            _tell(f"{hand.target}: {said}")
        # Every claim is a row of the journal: what does not get on is tried ever less often.
        pause = min(_REST_SECONDS, 2 * pause) if ended.code else _LOOK_SECONDS
        if ended.code and not _goes_on(ended):
            if not in_tree:
                return ended.code
            pause = _REST_SECONDS  # a tree that ends for this would take the workers along
        if select.select([wake], [], [], pause)[0]:
            return 0


def _next_pass(hand: gluer.Gluer) -> gluer.PassEnd:
    """A pass, if something waits and the branch is free."""
    try:
        if hand.look() == "something":  # a claim of what is taken would only be refused
            return hand.run()
    except (Unavailable, OSError) as error:
        return gluer.PassEnd(int(Exit.UNREACHABLE), str(error))
    return gluer.PassEnd(0)


def _goes_on(ended: gluer.PassEnd) -> bool:
    """Whether it may be better by itself."""
    return ended.is_contended or ended.code in (Exit.TRY_LATER, Exit.LEASE_LOST, Exit.UNREACHABLE)


def _finish(session: Session, target: str, ended: gluer.PassEnd) -> None:
    report = ended.report
    code = ended.code
    if not code and report.get("obstructions"):
        code = int(Exit.CONFLICT)
    if session.as_json:
        result = "rejected" if ended.code else "accepted"
        found = {"result": result, "failureClasses": [], "target": target, "glued": []} | report
        print_json(found | ({"diagnostic": ended.diagnostic} if ended.diagnostic else {}))
    else:
        if report or not ended.code:
            click.echo(_report_text(target, report))
        if ended.code:
            click.echo(f"error: {target}: {ended.diagnostic}", err=True)
    if code:
        raise LeaveCommand(code)


# --- what they share ------------------------------------------------------------------------------


def _asking(session: Session, given: dict[str, Any]) -> runner.Ask:
    def ask(action: str, asked: dict[str, Any]) -> dict[str, Any]:
        return session.ask(action, asked, given, writable=action not in glue_program.READS)

    return ask


def _repository(session: Session, options: dict[str, Any]) -> tuple[gits.Git, str]:
    """The repository, and the branch that is meant."""
    git = gits.Git(Path(options["cwd"]).absolute())
    return git, _refusing(session, lambda: options["target"] or _checked_out(git))


def _checked_out(git: gits.Git) -> str:
    git.run("rev-parse", "--git-dir")
    said = git.run("symbolic-ref", "--quiet", "--short", "HEAD", allowed=(0, 1))
    if said.returncode:
        raise gits.GitRefused("HEAD is detached: it is at no branch. Name the branch: --into main")
    return said.stdout.decode().strip()


def _refusing(session: Session, ask: Any) -> Any:
    """What git says; its refusal is ours."""
    try:
        return ask()
    except gits.GitRefused as error:
        session.refuse(Exit.CONFIG, "git_refused", str(error))


def _issues(session: Session, options: dict[str, Any]) -> list[str]:
    named = [options[name] for name in ("issues", "label", "spec") if options[name]]
    if len(named) != 1:
        raise click.UsageError("name the issues in one way: --issues A,B, --label L or --spec NAME")
    if options["issues"]:
        return [each.strip() for each in options["issues"].split(",") if each.strip()]
    label = options["label"] or _SPEC_LABEL.format(options["spec"])
    answer = session.ask("issue.list", {"label": label}, writable=False)
    if answer["result"] != "accepted":
        session.finish(answer, str)
    found = [each["id"] for each in answer["issues"] if each["status"] not in _OVER]
    if not found:
        said = f"no issue with the label {label} is left to do; `understudy issue list` shows all"
        session.refuse(Exit.NOTHING_READY, None, said)
    return found


# --- words ----------------------------------------------------------------------------------------


def _report_text(target: str, report: dict[str, Any]) -> str:
    glued = report.get("glued", [])
    lines = list(report.get("notes", ()))
    lines += [descent_text.obstruction_line(each) for each in report.get("obstructions", ())]
    if glued:
        lines.append(f"{target}: glued {', '.join(glued)}")
    return "\n".join(lines) or f"{target}: nothing waits"


def _obstructions_text(answer: dict[str, Any]) -> str:
    found = answer["obstructions"]
    lines = [f"{each['at']}  {descent_text.obstruction_line(each)}" for each in found]
    return "\n".join(lines) or "nothing was in the way"


def _aborted_text(answer: dict[str, Any]) -> str:
    back = answer["handedBack"]
    said = f"open again: {', '.join(back)}" if back else "nothing waited in it"
    return f"{answer['cover']['coverId']} is aborted; {said}"


def _tell(words: str) -> None:
    click.echo(f"understudy: {words}", err=True)
