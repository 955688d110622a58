"""`understudy exec`: run one command under one lease."""

import os
import secrets
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from ....actors.run import runner
from ....authority.service import fence_check
from ....contracts import limits
from .. import known_ids
from ..options import GRACE, TTL, acting, context, evidence
from ..session import LeaveCommand, Session, common, print_json
from ..signals import passed_signals
from ..worktree_options import leg_settings, worktree_options
from .spend import capped, set_budgets

_READS = frozenset({"issue.show", "job.show"})
_MCP_ONLY = frozenset({"issue.lease_renew", "issue.lease_release"})
_WORDS = {
    "completed": "completed",
    "handed_back": "handed back, as the command asked",
    "failed": "handed back after a failed attempt",
    "interrupted": "handed back after a signal",
    "not_started": "handed back; the command could not be started",
    "lost": "the lease is lost, and the command was stopped",
    "unrecorded": "the command ended, and the authority does not know",
}


@click.command("exec")
@click.argument("work", shell_complete=known_ids.issues_and_jobs)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@acting(
    "owner",
    "--assignee",
    "--worker",
    envvar=["UNDERSTUDY_ASSIGNEE", "UNDERSTUDY_WORKER"],
    help="Who claims it.  [default: a new name]",
)
@click.option(
    "--ttl",
    type=TTL,
    help="How long a claim or a renewal holds, 30s to 24h.  [1h]",
)
@click.option(
    "--grace",
    type=GRACE,
    default="5s",
    show_default=True,
    help="From SIGTERM to SIGKILL; at most a third of the lease.",
)
@click.option("--lease-id", help="Go on with this lease instead of a claim; needs --fence.")
@click.option(
    "--fence", type=click.IntRange(1, limits.INTEGER_MAX), help="The fence of that lease."
)
@click.option(
    "--issue-on-stdin",
    "--job-on-stdin",
    "record_on_stdin",
    is_flag=True,
    help="Give the command the issue or job as JSON on stdin.",
)
@worktree_options("--worktree")
@click.option("--no-log", is_flag=True, help="Keep no copy of the output.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing of our own but errors.")
@capped("issue", "attempt")
@evidence
@common
def exec_(session: Session, work: str, command: tuple[str, ...], **options: Any) -> None:
    """Claim WORK, run COMMAND, renew while it runs, then complete the work or hand it back.

    WORK is the id of an issue, or `job/ID`.

    \b
    The command ends with
      0         the issue is closed, the job completed
      75        it is handed back
      else      it is handed back, and the attempt has failed
    and so does exec, with the same code; 128 and the number for a signal.

    \b
    Codes of our own:
      6         the lease was lost (broken, expired); the command was stopped
      126, 127  the command cannot be run, or there is none; nothing was claimed
      130, 143  a signal to us, which was passed on; the work is handed back
      and 3, 4, 5, 7, 75, 78 as everywhere, where there was no lease to begin with

    The command and all its descendants are stopped, with SIGTERM and then SIGKILL, before the lease
    ends, whatever becomes of this process or of the authority. It runs in a session of its own, and
    its output is kept, within bounds, for `understudy logs`. It finds its lease in
    UNDERSTUDY_ISSUE, _ASSIGNEE, _LEASE, _FENCE, _SOCKET and _STATE_DIR, so that `understudy issue
    update` and `understudy guard` need no options in it; for a job in UNDERSTUDY_JOB, _KIND and
    _WORKER instead of the first two. A command says what it produced for a job in the file that
    UNDERSTUDY_ARTIFACTS names, one JSON object a line, and what it spends in the file that
    UNDERSTUDY_SPEND_FILE names, in lines such as `tokens=1200 usd=0.012`.

    With --worktree the command starts in a git worktree and on a branch of its own, which it finds
    in UNDERSTUDY_WORKTREE and _BRANCH, with the commit it begins from in _BASE. When it ends with
    0, all that it changed is committed and checked, and waits as a *section* for `understudy
    descent glue` to merge it; the issue is closed then. After any other end what it changed is kept
    under a ref, which `understudy worktree list` shows.

    With --json the object stands alone on stdout, and all output of the command goes to stderr.
    """
    _fill_standard_streams()
    family, name = _named(work)
    _require_command(session, command[0])
    if (options["lease_id"] is None) != (options["fence"] is None):
        raise click.UsageError("--lease-id and --fence belong together")
    if options["worktrees"] and family != "issue":
        raise click.UsageError("--worktree is for issues")
    leg = leg_settings(session, options, command[0], record_on_stdin=options["record_on_stdin"])
    set_budgets(session, f"{family}/{name}", options)
    task = runner.Task(
        name=name,
        owner=options["owner"] or f"exec-{secrets.token_hex(4)}",
        argv=(*leg.words(), *command) if leg else command,
        family=family,
        ttl_seconds=options["ttl"],
        lease_id=options["lease_id"],
        fence=options["fence"],
        stdin=0,
        record_on_stdin=options["record_on_stdin"],
        echo=(2, 2) if session.as_json else (1, 2),
        keep_log=not options["no_log"],
        grace_ms=options["grace"] * 1000,
        has_worktree=leg is not None,
    )
    with passed_signals() as wake, closing(runner.keeper()):
        outcome = runner.Runner(
            task,
            _asking(session, context(options)),
            session.state_dir,
            boundary=session.boundary,
            wake=wake,
            tell=(lambda _: None) if options["quiet"] or session.as_json else _tell,
        ).run()
    _finish(session, outcome, quiet=options["quiet"])


def _named(work: str) -> tuple[runner.Family, str]:
    """What to claim: an issue by its id, anything by its resource."""
    family, slash, name = work.partition("/")
    if not slash:
        return "issue", work
    if not fence_check.is_resource(work):
        known = " or ".join(f"{each}/ID" for each in fence_check.families())
        raise click.UsageError(f"no work `{work}`; say the id of an issue, {known}")
    return ("job" if family == "job" else "issue"), name


def _asking(session: Session, evidence: dict[str, Any]) -> runner.Ask:
    """Through our own door; through the MCP door, and the evidence says so, where it must be."""

    def ask(action: str, payload: dict[str, Any]) -> dict[str, Any]:
        if action in _MCP_ONLY:
            escalated = evidence | {"escalatedFrom": "cli"}
            return session.ask(action, payload, escalated, transport="mcp")
        return session.ask(action, payload, evidence, writable=action not in _READS)

    return ask


def _finish(session: Session, outcome: runner.Outcome, *, quiet: bool) -> None:
    if session.as_json:
        print_json(runner.report(outcome))
    elif outcome.result == "refused":
        click.echo(f"error: {outcome.diagnostic} ({outcome.failure})", err=True)
    elif not quiet or outcome.result in ("lost", "unrecorded", "not_started"):
        assert outcome.held is not None
        detail = f": {outcome.diagnostic}" if outcome.diagnostic else ""
        _tell(f"{outcome.held.title}: {_WORDS[outcome.result]}{detail}")
    if outcome.code:
        raise LeaveCommand(outcome.code)


def _require_command(session: Session, word: str) -> None:
    """Claim nothing for a command that is not there: attempts are counted at the claim."""
    if shutil.which(word) is not None:
        return
    exists = "/" in word and Path(word).exists()
    words = f"{word}: {'cannot be executed' if exists else 'no such command'}; nothing was claimed"
    code = 126 if exists else 127
    session.refuse(code, None, words, outcome="not_started", exitCode=code)


def _fill_standard_streams() -> None:
    """Where our parent closed one, nothing else may get its number."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(file)


def _tell(words: str) -> None:
    click.echo(f"understudy: {words}", err=True)
