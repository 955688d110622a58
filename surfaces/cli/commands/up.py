"""`understudy up`: a supervision tree in this process, until it ends or is told to."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ....actors import tree as trees
from ....actors.agents import gateway_lock
from ....actors.otp import ExitReason as Ending
from ....actors.otp import OtpError
from ....actors.tree import Plan, gateway, handler_command, shell_command
from ....authority.journal import private
from ....contracts import Exit, Reason, RetryPolicy, documents, retry
from ...mcp import wire
from ...web import link_socket
from ..options import FILE, GRACE, TTL, acting, journal, pauses, read_file, seconds
from ..session import LeaveCommand, Session, common, print_json
from ..tree_log import TreeLog
from ..until_done import Outlook, is_done, tally_text
from ..web_options import console_address, console_options, console_words, taken
from ..worktree_options import glue_options, gluer_words, leg_settings, worktree_options
from .mcp import tree_policy, web
from .running import around
from .spend import capped, set_budgets
from .trace import check_endpoint, tracer_words
from .worktree import put_away

if TYPE_CHECKING:
    from ...web.serve import ConsoleAddress

_TURN_MS = 200
_DETACH_SECONDS = 90.0
_CONSOLE_SECONDS = 10.0  # for its server to listen, once the gateway answers
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
    type=TTL,
    default="60s",
    show_default=True,
    help="How long a lease holds; renewed at a third of it while its worker lives.",
)
@click.option(
    "--grace",
    type=GRACE,
    default="5s",
    show_default=True,
    help="From SIGTERM to SIGKILL; at most a third of the lease.",
)
@worktree_options("--worktrees")
@glue_options
@click.option("--job-timeout", type=seconds("1s"), help="How long one attempt may take.")
@click.option("--attempts", type=click.IntRange(1), help="At most, for an issue.  [by the policy]")
@click.option(
    "--backoff",
    "pause_ms",
    type=pauses,
    metavar="FROM[..TO]",
    help="Pauses between attempts, as 5s..5m.  [by the policy]",
)
@click.option(
    "--retry-policy",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Another retry policy than ours.",
)
@click.option(
    "--stop-after",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Stop when so many issues fail in the same way, one after another; 0 for never.",
)
@click.option("--label", multiple=True, help="Only issues with this label; repeatable.")
@click.option("--type", "issue_type", help="Only issues of this type.")
@acting("name", "--name", default="coord", show_default=True, help="The coordinator's name.")
@click.option(
    "--job", "jobs", multiple=True, metavar="KIND=CMD", help="A shell command for jobs; repeatable."
)
@click.option(
    "--job-handler", "job_handlers", multiple=True, metavar="KIND=MODULE:NAME", help="Or a handler."
)
@click.option("--job-workers", type=click.IntRange(1, 4_096), help="For jobs.  [as --workers]")
@click.option(
    "--limit", "limits", multiple=True, metavar="KIND=N", help="Hold so many at once; repeatable."
)
@click.option("--node", help="The name that claims jobs, for routes.  [as --as]")
@click.option("--mcp", is_flag=True, help="Serve agents too; alone, that is all it does.")
@tree_policy
@web
@console_options("--web", about="Serve the console: a page to see and steer all of it.")
@click.option("--specs", is_flag=True, help="Make the jobs of specs, and write their job files.")
@click.option(
    "--job-files",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where job files are written; `seed` for runtime/narrative.  [default: in --state-dir]",
)
@click.option("--schedules", is_flag=True, help="Make the jobs and specs of schedules when due.")
@click.option(
    "--until-done", is_flag=True, help="End when nothing is left to do; exit 11 if any is blocked."
)
@click.option(
    "--approve",
    multiple=True,
    metavar="LABEL",
    help="Issues with it wait for a person; repeatable.",
)
@capped("issue", "attempt", "label", "tree", "day")
@click.option(
    "--on-escalation", multiple=True, metavar="CMD", help="Run this when work waits for a person."
)
@click.option("--on-done", multiple=True, metavar="CMD", help="Run this when work is done.")
@click.option("--webhook", multiple=True, metavar="URL", help="Post both to this URL.")
@click.option(
    "--webhook-secret", type=FILE, help="Sign what is posted with the secret in this file."
)
@click.option(
    "--traces",
    is_flag=False,
    flag_value="",
    metavar="[URL]",
    help="Send traces of all work to a collector.  [OTEL_EXPORTER_OTLP_ENDPOINT]",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="A line for each event, also on a terminal.  [text without one]",
)
@click.option("--quiet", "-q", is_flag=True, help="Say nothing of our own but errors.")
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

    With --web it serves a page for your browser, from which you see and steer all of it. It prints
    a link that opens once; `understudy web --link` prints another.

    With --mcp agents are served on `mcp.sock`: `understudy mcp` connects them, and finds the next
    gateway when this one is started again. Without --exec and --handler it works on no issues.

    With --worktrees the command starts in a git worktree of its own, on a branch of its own, and
    finds both in UNDERSTUDY_WORKTREE and _BRANCH, and the commit it begins from in _BASE. When it
    ends with 0, all that it changed is committed and checked, and waits as a *section*. The tree
    merges sections into the branch --into, one after the other, runs the required checks on each
    result, and closes the issue. What does not merge goes back to a worker, which is told why as
    `obstruction` on its standard input. After any other end what was changed is kept under a ref,
    and the next worker on the issue is told of it as `asides`; `understudy worktree adopt` brings
    it in. Nothing that is not committed is deleted.

    \b
      understudy up --workers 8 --worktrees --setup 'npm ci' --exec 'my-agent'

    What --on-escalation and --on-done run finds the issue or job in UNDERSTUDY_ISSUE or _JOB, and
    all that is known as JSON on its standard input. A hook may take 30 seconds, and whatever it
    does, the tree goes on.

    With --traces what is done is sent to a collector of OpenTelemetry, as spans (`understudy help
    trace`). Commands find the span that they are a part of in TRACEPARENT, with or without it.

    With --specs it makes a job of every step of the specs that were submitted, and writes the file
    of every such job that is free to run. With --schedules it makes what `understudy schedule`
    says, when it is due. Any number of trees may do both on one authority.

    \b
    Exit codes:
      0    told to stop; or with --until-done, everything is done
      11   with --until-done: something was blocked, or escalated to a person
      12   --stop-after issues failed in the same way; the last one was handed back
      78   the command, handler or folder cannot be run, the repository is not fit for worktrees,
           or --setup has failed; nothing was claimed, or it was handed back
      1    the tree has given up; 75 where another process has the state directory
    """
    session.settle(options["journal_url"])
    plan = _plan(session, options)
    if options["approve"]:
        _withhold(session, options["approve"])
    for text in options["limits"]:
        _limit(session, text)
    set_budgets(session, "*", options)
    if options["detach"]:
        _detach(session, plan)
        return
    log_format, is_quiet = options["log_format"], options["quiet"]
    log = TreeLog(plan.state_dir, log_format, is_quiet=is_quiet, as_json=session.as_json)
    _keep(session, plan, log, until_done=options["until_done"])


def _withhold(session: Session, labels: Sequence[str]) -> None:
    """Issues with these labels wait for a person from now on, beside what the policy names."""
    known = session.ask("issue.backend_status", {}, writable=False)["policy"].get("approve", [])
    wanted = [*known, *(f"label/{label}" for label in labels)]
    session.finish(session.ask("policy.set", {"approve": wanted}), lambda _: "")


# --- the tree in this process ---------------------------------------------------------------------


def _plan(session: Session, options: dict[str, Any]) -> Plan:
    argv = _labour(options)
    console = console_address(options)
    if console is not None and (why := taken(console)) is not None:
        raise click.UsageError(f"--web: {why}; name another port: --web PORT")
    is_served = options["mcp"] or options["port"] is not None or console is not None
    door = _door(session, options, console) if is_served else ()
    if options["job_files"] is not None and not options["specs"]:
        raise click.UsageError("--job-files is for trees with --specs")
    timeout = options["job_timeout"]
    word = trees.first_word(options["command"] or "")
    leg = leg_settings(session, options, word)
    if leg is not None and not argv:
        raise click.UsageError("--worktrees is for trees with --exec or --handler")
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
            job_files=_job_files(session, options),
            schedules=options["schedules"],
            stop_after=options["stop_after"],
            policy=_retry_policy(options),
            hooks=tuple(_hooks(options)),
            leg=leg.words() if leg else (),
            gluer=gluer_words(session, leg, options) if leg else (),
            json_logs=options["log_format"] == "json",
            tracer=_tracer(session, options),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _limit(session: Session, text: str) -> None:
    """Limit how many jobs of a kind are held at once; what else limits it stays."""
    kind, _, number = text.rpartition("=")
    if not kind.strip() or not number.isdecimal():
        raise click.UsageError(f"--limit {text}: it takes KIND=NUMBER")
    there = session.ask("limit.list", {}, writable=False)["limits"]
    names = ("ratePerMinute", "burst", "timeoutMs")
    plain = kind.removesuffix("*") if kind.endswith(".*") else kind
    known = [each for each in there if each["kind"] == plain]
    kept = {name: each[name] for each in known for name in names if each[name] is not None}
    answer = session.ask("limit.set", kept | {"kind": kind, "concurrency": int(number)})
    session.finish(answer, lambda _: "")


def _labour(options: dict[str, Any]) -> tuple[str, ...]:
    """What a worker runs; nothing in a tree that only serves agents."""
    command, handler = options["command"], options["handler"]
    has_more = options["jobs"] or options["job_handlers"] or options["specs"]
    has_more = has_more or options["schedules"]
    has_more = has_more or options["mcp"] or options["port"] is not None
    has_more = has_more or options["web_port"] is not None
    if command is None and handler is None and has_more:
        return ()
    if (command is None) == (handler is None):
        raise click.UsageError(
            "say what a worker runs: either --exec or --handler; "
            "or --job, --schedules, --specs, --mcp or --web"
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
    secret: Path | None = options["webhook_secret"]
    if secret and not options["webhook"]:
        raise click.UsageError("--webhook-secret signs what is posted: say where to with --webhook")
    if secret and not read_file(secret).strip():
        raise click.UsageError(f"--webhook-secret {secret}: it is empty; write a secret to it")
    for event in ("escalation", "done"):
        for text in options[f"on_{event}"]:
            if not text.strip():
                raise click.UsageError(f"--on-{event}: there is nothing to run")
            yield event, shell_command(text)
        for url in options["webhook"]:
            if problem := trees.webhook_problem(url):
                raise click.UsageError(f"--webhook {problem}")
            yield event, trees.webhook_command(url, secret and secret.absolute())


def _job_files(session: Session, options: dict[str, Any]) -> Path | None:
    """Where the files of jobs go; nowhere in a tree without specs."""
    folder: Path = options["job_files"] or session.state_dir / "job-files"
    if folder == Path("seed"):
        folder = trees.JOB_FOLDER
    return folder.absolute() if options["specs"] else None


def _retry_policy(options: dict[str, Any]) -> RetryPolicy:
    """The policy in a file, or ours; with other numbers, where some are given."""
    path: Path = options["retry_policy"] or documents.ROOT / documents.RETRY_POLICY
    found = retry.adjusted(path.read_bytes(), options["attempts"], options["pause_ms"])
    if isinstance(found, retry.PolicyRefused):
        raise click.UsageError(f"--retry-policy: {found.message} ({found.failure_class})")
    return found


def _door(
    session: Session, options: dict[str, Any], console: "ConsoleAddress | None"
) -> tuple[str, ...]:
    """The gateway that the tree looks after."""
    words = [sys.executable, "-m", "understudy", "gateway", "--tree"]
    words += ["--state-dir", str(session.state_dir.absolute())]
    if options["port"] is not None:
        words += ["--http", str(options["port"]), "--host", options["host"]]
    if console is not None:
        words += console_words(console)
    words += [
        f"--{name.replace('_', '-')}" for name in ("allow_break", "operator") if options[name]
    ]
    if options["asks_person"] is False:
        words.append("--no-elicitation")
    for name in ("on_leave", "keep", "max_hold", "silence", "max_held", "tools", "token_file"):
        if options[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    if options["log_format"] == "json":
        words += ["--log-format", "json"]
    if options["traces"] is not None:
        words += ["--traces", *([options["traces"]] if options["traces"] else [])]
    return tuple(words)


def _tracer(session: Session, options: dict[str, Any]) -> tuple[str, ...]:
    """What sends spans, where that was asked for."""
    if options["traces"] is None:
        return ()
    check_endpoint(options["traces"] or None)
    return tracer_words(session.state_dir.absolute(), options["traces"] or None)


def _keep(session: Session, plan: Plan, log: TreeLog, *, until_done: bool) -> None:
    """Start it, show it, and stay until it ends or is told to."""
    session.office(writable=False).close()  # says what is wrong with the state directory
    problem = trees.problem(plan)
    if problem is not None:
        session.refuse(Exit.CONFIG, "tree_cannot_run", f"{problem}\nnothing was claimed")
    _make_room(plan)
    _put_away(session, plan)
    running = trees.Tree(plan)
    with _catch_signals() as signals:
        try:
            running.start()
        except OtpError as error:
            _refuse(session, error)
        log.say(f"up: {plan.state_dir}, {_labour_of(plan)}")
        if link := _console_link(plan):
            log.say(f"console, once: {link}")
        reason: Ending | None = None
        tally, over = Outlook(session, plan, asks=until_done), False
        try:
            while reason is None and not signals and not running.is_told_to_stop and not over:
                reason = running.wait(_TURN_MS)
                found = running.picture()
                log.show(found, running.news(), lambda seen: around(session, seen))
                over = tally.take(found) or (until_done and is_done(session, plan, found))
            total = tally.total() if reason is None else {}
        finally:
            running.stop()
            log.end([row for row in running.news() if row["what"] not in _ENDS])
            _put_away(session, plan)
    if reason is not None:
        said = f"the tree has given up: {reason.kind} {reason.detail}".rstrip()
        session.refuse(Exit.FAILED, "tree_gave_up", said)
    works = plan.argv or plan.kinds
    log.say("stopped; nothing is left" + (f": {tally_text(total)}" if works else ""))
    if tally.fault is not None:
        _faulty(session, tally.fault, total)
    is_blocked = over and bool(total["blocked"])
    if session.as_json:
        failures = ["work_blocked"] if is_blocked else []
        answer = {"result": "rejected" if is_blocked else "accepted", "failureClasses": failures}
        print_json(answer | {"ended": "done" if over else "told to", "tally": total})
    if is_blocked:
        raise LeaveCommand(Exit.WORK_BLOCKED)


def _put_away(session: Session, plan: Plan) -> None:
    """Worktrees of workers that were killed, and that no other worker has found."""
    for line in put_away(session, plan.cwd) if plan.leg else ():
        click.echo(f"worktree {line}", err=True)


def _faulty(session: Session, fault: dict[str, Any], total: dict[str, int]) -> NoReturn:
    """Something is wrong with what the tree runs, and not with what it works on."""
    said = f"{fault['name']}: {fault['detail']}"
    if fault["cannotRun"]:
        said = f"what the workers run cannot be run: {said}"
        said += "\nthe attempt was handed back and counts for nothing; mend it, and start again"
        session.refuse(Exit.CONFIG, "tree_cannot_run", said, tally=total)
    said = f"{fault['failed']} failed in the same way, one after another; the last one, {said}"
    said += f"\n`understudy logs {fault['name']}` shows more; `--stop-after 0` goes on regardless"
    session.refuse(Exit.WORK_FAILING, "work_failing", said, tally=total)


def _labour_of(plan: Plan) -> str:
    """What a tree does, in a line."""
    words = [f"{_workers(plan.slots)}, {shlex.join(plan.argv)}"] if plan.argv else []
    if plan.kinds:
        settings = plan.job_settings("any")
        kinds = " ".join(kind or "*" for kind, _ in plan.kinds.handlers)
        words.append(f"{_workers(settings.slots)} for jobs as {settings.name}: {kinds}")
    words = words or ["no workers"]
    words += ["a worktree for each"] if plan.leg else []
    words += ["agents on mcp.sock"] if plan.door else []
    words += ["a console"] if "--web" in plan.door else []
    words += [f"job files in {plan.job_files}"] if plan.job_files else []
    words += ["schedules"] if plan.schedules else []
    words += ["traces"] if plan.tracer else []
    return ", ".join(words)


def _console_link(plan: Plan) -> str | None:
    """What opens the console once; None in a tree without one."""
    give_up = time.monotonic() + (_CONSOLE_SECONDS if "--web" in plan.door else 0)
    while time.monotonic() < give_up:
        if link := link_socket.find_link(plan.run_dir):
            return link
        time.sleep(0.05)
    return None


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _make_room(plan: Plan) -> None:
    """End a gateway that agents had started, with its sidecar; that of a tree is the tree's."""
    link_socket.ask_console(plan.run_dir, {"ask": "room"})  # what `understudy web` may have started
    is_up = _found(plan) is not None or gateway.look(plan.state_dir).get("house") == "tree"
    if not is_up and gateway_lock.clear(plan.state_dir / wire.LOCK):
        click.echo(
            "a gateway that agents had started made room; they go on with the next", err=True
        )


def _refuse(session: Session, error: OtpError) -> NoReturn:
    """It did not start; a state directory that is taken is told apart."""
    is_taken = isinstance(error, trees.AlreadyRunning | trees.Occupied)
    failure = Reason.AUTHORITY_BUSY.wire if is_taken else "tree_not_started"
    session.refuse(Exit.TRY_LATER if is_taken else Exit.FAILED, failure, str(error))


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


# --- in the background ----------------------------------------------------------------------------


def _detach(session: Session, plan: Plan) -> None:
    """The same command again, without a terminal; return when it is up, or has failed."""
    words = [word for word in sys.argv[1:] if word != "--detach"]
    private.make_folder(plan.run_dir)
    log = plan.run_dir / _LOG
    with open(log, "ab", opener=private.opener) as output:
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
        link = _console_link(plan)
        session.accept(f"{text}\nconsole, once: {link}" if link else text, **found, console=link)
        return
    process.terminate()
    click.echo(f"error: it was not up in {_DETACH_SECONDS:.0f} s; see {log}", err=True)
    raise LeaveCommand(Exit.FAILED)


def _found(plan: Plan) -> dict[str, Any] | None:
    try:
        return trees.ask(plan.run_dir, {"ask": "picture"}, 10.0)
    except trees.NoTree:
        return None
