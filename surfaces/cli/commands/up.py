"""`understudy up`: a supervision tree in this process, until it ends or is told to."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from ....actors import tree as trees
from ....actors.agents import gateway_lock
from ....actors.otp import ExitReason as Ending
from ....actors.otp import OtpError
from ....actors.tree import Plan, gateway, handler_command, shell_command
from ....contracts import Exit, Reason, limits
from ...mcp import wire
from .. import tree_text
from ..options import FILE, journal
from ..session import LeaveCommand, Session, common, print_json
from ..until_done import is_done
from .mcp import policy, web
from .running import draw
from .spend import capped, set_budgets

_TURN_MS = 200
_DRAW_SECONDS = 0.5
_DETACH_SECONDS = 90.0
_LOG = "up.log"
_ENDS = ("stopping", "stopped")  # reports that need no line where the last line says so


@click.command()
@click.option("--exec", "command", metavar="CMD", help="A shell command that works on one issue.")
@click.option("--handler", metavar="MODULE:NAME", help="Or a handler in Python.")
@click.option(
    "--workers", "-w", type=click.IntRange(1, 4_096), default=1, show_default=True, help="At most."
)
@click.option(
    "--ttl",
    type=click.IntRange(limits.TTL_SECONDS_MIN, limits.TTL_SECONDS_MAX),
    default=60,
    show_default=True,
    help="Seconds that a lease holds; renewed at a third of it while its worker lives.",
)
@click.option(
    "--grace",
    type=click.IntRange(0, 3_600),
    default=5,
    show_default=True,
    help="Seconds between SIGTERM and SIGKILL; at most a third of the lease.",
)
@click.option("--job-timeout", type=click.IntRange(1), help="Seconds that one attempt may take.")
@click.option("--label", multiple=True, help="Only issues with this label; repeatable.")
@click.option("--type", "issue_type", help="Only issues of this type.")
@click.option("--name", default="coord", show_default=True, help="The coordinator's name.")
@click.option(
    "--job", "jobs", multiple=True, metavar="KIND=CMD", help="A shell command for jobs; repeatable."
)
@click.option(
    "--job-handler", "job_handlers", multiple=True, metavar="KIND=MODULE:NAME", help="Or a handler."
)
@click.option("--job-workers", type=click.IntRange(1, 4_096), help="For jobs.  [as --workers]")
@click.option("--node", help="The name that claims jobs, for routes.  [as --name]")
@click.option("--mcp", is_flag=True, help="Serve agents too; alone, that is all it does.")
@policy
@web
@click.option("--specs", is_flag=True, help="Make the jobs of specs, and write their job files.")
@click.option(
    "--job-files",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where job files are written.  [default: runtime/narrative]",
)
@capped("issue", "attempt", "day")
@click.option(
    "--on-escalation", multiple=True, metavar="CMD", help="Run this when work waits for a person."
)
@click.option("--on-done", multiple=True, metavar="CMD", help="Run this when work is done.")
@click.option("--webhook", multiple=True, metavar="URL", help="Post both to this URL.")
@click.option(
    "--webhook-secret", type=FILE, help="Sign what is posted with the secret in this file."
)
@click.option("--until-done", is_flag=True, help="End when nothing is left to do.")
@click.option("--detach", is_flag=True, help="Go on in the background.")
@journal
@common
def up(session: Session, **options: Any) -> None:
    """Start the supervision tree, and keep it until Ctrl-C or `understudy down`.

    For every issue that is ready the tree claims a lease, runs the command, renews while it runs,
    and closes the issue when it ends with 0. Exit 75 hands the issue back; any other end is a
    failed attempt, tried again by the retry policy and then escalated. The command finds what it
    works on in UNDERSTUDY_ISSUE, _LEASE, _FENCE, _ASSIGNEE, _SOCKET and _STATE_DIR, and the whole
    issue as JSON on its standard input. A worker whose lease is lost is stopped with everything
    that it started.

    \b
      understudy up --workers 4 --exec 'my-agent --task "$UNDERSTUDY_ISSUE"'
      understudy up --handler my_package.work:handle --until-done
      understudy up --job 'ci.build=make' --job 'ci.=./ci.sh' --until-done
      understudy up --mcp

    With --job and --job-handler it works on jobs of these kinds: KIND is exact, a prefix that ends
    with a dot, or *; the exact one goes first, then the longest. The command finds UNDERSTUDY_JOB,
    _KIND, _LEASE, _FENCE, _WORKER and the job as JSON on its standard input, and leaves artefacts
    as JSON lines in the file UNDERSTUDY_ARTIFACTS. Exit 0 completes the job; whatever else yields
    it, with the reason.

    With --mcp agents are served on `mcp.sock`: `understudy mcp` connects them, and finds the next
    gateway when this one is started again. Without --exec and --handler it works on no issues.

    What --on-escalation and --on-done run finds the issue or job in UNDERSTUDY_ISSUE or _JOB, and
    all that is known as JSON on its standard input. A hook may take 30 seconds, and whatever it
    does, the tree goes on.

    With --specs it makes a job of every step of the specs that were submitted, and writes the file
    of every such job that is free to run. Any number of trees may do so on one authority.
    """
    session.settle(options["journal_url"])
    plan = _plan(session, options)
    set_budgets(session, "*", options)
    if options["detach"]:
        _detach(session, plan)
        return
    _keep(session, plan, until_done=options["until_done"])


# --- the tree in this process ---------------------------------------------------------------------


def _plan(session: Session, options: dict[str, Any]) -> Plan:
    argv = _labour(options)
    door = _door(session, options) if options["mcp"] or options["port"] is not None else ()
    if options["job_files"] is not None and not options["specs"]:
        raise click.UsageError("--job-files is for trees with --specs")
    timeout = options["job_timeout"]
    try:
        kinds = trees.Kinds.of(_handlers(options))
        if options["until_done"] and not (argv or kinds or options["specs"]):
            raise click.UsageError("--until-done is for trees with workers, or with --specs")
        return Plan(
            state_dir=session.state_dir.absolute(),
            argv=argv,
            slots=options["workers"],
            name=options["name"],
            ttl_seconds=options["ttl"],
            grace_ms=options["grace"] * 1000,
            job_ms=None if timeout is None else timeout * 1000,
            wanted=trees.Wanted(tuple(options["label"]), options["issue_type"]),
            boundary=session.boundary if session.boundary != "sidecar" else None,
            door=door,
            kinds=kinds,
            job_slots=options["job_workers"],
            node=options["node"],
            job_files=_job_files(options),
            hooks=tuple(_hooks(options)),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _labour(options: dict[str, Any]) -> tuple[str, ...]:
    """What a worker runs; nothing in a tree that only serves agents."""
    command, handler = options["command"], options["handler"]
    has_more = options["jobs"] or options["job_handlers"] or options["specs"]
    has_more = has_more or options["mcp"] or options["port"] is not None
    if command is None and handler is None and has_more:
        return ()
    if (command is None) == (handler is None):
        raise click.UsageError(
            "say what a worker runs: either --exec or --handler; or --job, --specs or --mcp"
        )
    return shell_command(command) if command is not None else handler_command(handler)


def _handlers(options: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a worker runs for which kind of job."""
    for option, given in (("--job", options["jobs"]), ("--job-handler", options["job_handlers"])):
        for text in given:
            kind, _, words = text.partition("=")
            if not kind.strip() or not words.strip():
                raise click.UsageError(f"{option} {text}: it takes KIND=WHAT TO RUN")
            yield kind, shell_command(words) if option == "--job" else handler_command(words)


def _hooks(options: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is run when something has become of work."""
    for event in ("escalation", "done"):
        for text in options[f"on_{event}"]:
            if not text.strip():
                raise click.UsageError(f"--on-{event}: there is nothing to run")
            yield event, shell_command(text)
        for url in options["webhook"]:
            if problem := trees.webhook_problem(url):
                raise click.UsageError(f"--webhook {problem}")
            secret: Path | None = options["webhook_secret"]
            yield event, trees.webhook_command(url, secret and secret.absolute())


def _job_files(options: dict[str, Any]) -> Path | None:
    """Where the files of jobs go; nowhere in a tree without specs."""
    folder: Path = options["job_files"] or trees.JOB_FOLDER
    return folder.absolute() if options["specs"] else None


def _door(session: Session, options: dict[str, Any]) -> tuple[str, ...]:
    """The gateway that the tree looks after."""
    words = [sys.executable, "-m", "understudy", "gateway", "--tree"]
    words += ["--state-dir", str(session.state_dir.absolute())]
    if options["port"] is not None:
        words += ["--http", str(options["port"]), "--host", options["host"]]
    for name in ("on_leave", "keep", "max_hold", "quiet", "token_file"):
        if options[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    return tuple(words)


def _keep(session: Session, plan: Plan, *, until_done: bool) -> None:
    """Start it, show it, and stay until it ends or is told to."""
    session.office(writable=False).close()  # says what is wrong with the state directory
    _make_room(plan)
    running = trees.Tree(plan)
    with _catch_signals() as signals:
        try:
            running.start()
        except OtpError as error:
            _refuse(session, error)
        view = _View(session)
        view.say(f"up: {plan.state_dir}, {_labour_of(plan)}")
        reason: Ending | None = None
        try:
            while reason is None and not signals and not running.is_told_to_stop:
                reason = running.wait(_TURN_MS)
                found = running.picture()
                view.show(found)
                if until_done and is_done(session, plan, found):
                    break
        finally:
            view.end()
            running.stop()
            view.tell([row for row in running.reports() if row["what"] not in _ENDS])
    if reason is not None:
        said = f"the tree has given up: {reason.kind} {reason.detail}".rstrip()
        session.refuse(Exit.FAILED, "tree_gave_up", said)
    elif session.as_json:
        print_json({"result": "accepted", "failureClasses": [], "ended": "told to"})
    else:
        view.say("stopped; nothing is left")


def _labour_of(plan: Plan) -> str:
    """What a tree does, in a line."""
    words = [f"{_workers(plan.slots)}, {shlex.join(plan.argv)}"] if plan.argv else []
    if plan.kinds:
        settings = plan.job_settings("any")
        kinds = " ".join(kind or "*" for kind, _ in plan.kinds.handlers)
        words.append(f"{_workers(settings.slots)} for jobs as {settings.name}: {kinds}")
    words = words or ["no workers"]
    words += ["agents on mcp.sock"] if plan.door else []
    words += [f"job files in {plan.job_files}"] if plan.job_files else []
    return ", ".join(words)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _make_room(plan: Plan) -> None:
    """End a gateway that agents had started, with its sidecar; that of a tree is the tree's."""
    is_up = _found(plan) is not None or gateway.look(plan.state_dir).get("house") == "tree"
    if not is_up and gateway_lock.clear(plan.state_dir / wire.LOCK):
        click.echo(
            "a gateway that agents had started made room; they go on with the next", err=True
        )


def _refuse(session: Session, error: OtpError) -> NoReturn:
    """It did not start; a state directory that is taken is told apart."""
    is_taken = isinstance(error, trees.AlreadyRunning | trees.Occupied)
    failure = Reason.AUTHORITY_BUSY.wire if is_taken else "tree_not_started"
    if session.as_json:
        said = {"result": "rejected", "failureClasses": [failure], "diagnostic": str(error)}
        print_json(said)
    else:
        click.echo(f"error: {error} ({failure})", err=True)
    raise LeaveCommand(Exit.TRY_LATER if is_taken else Exit.FAILED) from None


@contextmanager
def _catch_signals() -> Iterator[list[int]]:
    """The signals that came, where each would else end us in the middle of something."""
    heard: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: heard.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _View:
    """On a terminal a picture that moves, elsewhere a line for what happens."""

    def __init__(self, session: Session) -> None:
        self._moves = sys.stdout.isatty() and not session.as_json
        self._as_json = session.as_json
        self._drawn = 0.0
        self._said: list[dict[str, Any]] = []  # of the reports, those of the last look

    def say(self, text: str) -> None:
        if not self._as_json:
            click.echo(text, err=True)

    def show(self, found: dict[str, Any]) -> None:
        if self._moves:
            if time.monotonic() >= self._drawn + _DRAW_SECONDS:
                self._drawn = time.monotonic()
                draw(found)
            return
        self.tell(tree_text.reports(found))

    def tell(self, reports: list[dict[str, Any]]) -> None:
        """A line for each that is new."""
        for row in reports:
            if row not in self._said and not self._moves:
                self.say(f"{row['what']}  {tree_text.about(row)}{row['detail']}")
        self._said = reports or self._said

    def end(self) -> None:
        if self._moves:
            click.echo()


# --- in the background ----------------------------------------------------------------------------


def _detach(session: Session, plan: Plan) -> None:
    """The same command again, without a terminal; return when it is up, or has failed."""
    words = [word for word in sys.argv[1:] if word != "--detach"]
    plan.run_dir.mkdir(parents=True, exist_ok=True)
    log = plan.run_dir / _LOG
    with log.open("ab") as output:
        start = output.tell()
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "understudy", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=Path.cwd(),
            env=os.environ,
        )
    give_up = time.monotonic() + _DETACH_SECONDS
    while time.monotonic() < give_up:
        if process.poll() is not None:
            with log.open("rb") as said:
                said.seek(start)
                text = said.read().decode("utf-8", "replace").strip()
            click.echo(text, err=True)
            raise LeaveCommand(process.returncode)
        found = _found(plan)
        if found is None or found["pid"] != process.pid:
            time.sleep(0.05)
            continue
        text = f"up: process {process.pid}; `understudy status`, `understudy down`"
        session.accept(text, **found)
        return
    process.terminate()
    click.echo(f"error: it was not up in {_DETACH_SECONDS:.0f} s; see {log}", err=True)
    raise LeaveCommand(Exit.FAILED)


def _found(plan: Plan) -> dict[str, Any] | None:
    try:
        return trees.ask(plan.run_dir, {"ask": "picture"}, 10.0)
    except trees.NoTree:
        return None
