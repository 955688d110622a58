"""`understudy harness`: sessions, features and steps of workers, and whether their work joins."""

from pathlib import Path
from typing import Any

import click
import orjson

from ....contracts import Exit, Unreadable, join_check
from .. import known_ids
from ..options import FILE, Decorator, about_issue, acting, read_file
from ..request import Answer, change, read
from ..session import LeaveCommand, Session, common, print_json


def _refs(name: str, text: str) -> Decorator:
    return click.option(f"--{name}-ref", f"{name}_refs", multiple=True, metavar="REF", help=text)


_worker = acting(
    "worker",
    "--worker",
    envvar="UNDERSTUDY_ASSIGNEE",
    required=True,
    shell_complete=known_ids.workers,
    help="Whose it is: the worker's name.",
)
_under = _refs("instruction", "An instruction that it follows.")


@click.group()
def harness() -> None:
    """Say where you stand, what you plan and what you did, so that others can go on.

    Everything is kept by worker, so workers that run side by side do not disturb one another.

    \b
    understudy harness session write --as ada-1 --issue us-1 --next-step "write the tests"
    understudy harness feature write lexer --as ada-1 --status in_progress
    understudy harness trajectory append --as ada-1 --action lint --result passed
    understudy harness session bootstrap --as ada-1
    """


# --- sessions -----------------------------------------------------------------------------------


@harness.group()
def session() -> None:
    """Where a worker stands."""


@session.command("write")
@_worker
@click.option("--session-id", help="Write only if the session has this id.")
@click.option("--state", type=click.Choice(["active", "stopped"]), help="Begin or end it.")
@about_issue
@click.option("--summary", help="How far it is.")
@click.option("--next-step", help="What comes next.")
@_under
@_refs("witness", "What shows that it is so.")
@_refs("lineage", "What it came from.")
@change("harness.session.write")
def session_write(said: Answer) -> str:
    """Begin a worker's session, or change it; what is not named stays, and "" clears."""
    return _session(said["session"])


@session.command("read")
@_worker
@read("harness.session.read")
def session_read(said: Answer) -> str:
    """Show a worker's session."""
    return _session(said["session"])


@session.command("bootstrap")
@_worker
@read("harness.session.bootstrap")
def session_bootstrap(said: Answer) -> str:
    """What a worker, or its successor, needs to begin with."""
    start = said["bootstrap"]
    lines = [f"{start['mode']} {start['sessionId']}"]
    for name, key in (
        ("issue", "resumeIssueId"), ("summary", "summary"), ("next step", "nextStep"),
        ("feature", "nextFeatureId"),
    ):  # fmt: skip
        if start.get(key):
            lines.append(f"  {name:<10}{start[key]}")
    if left := start.get("handover"):
        lines.append(f"  {'left':<10}{left['checkpoint']['summary']}")
    return "\n".join(lines)


def _session(one: dict[str, Any]) -> str:
    words = [one["sessionId"], one["state"], one.get("issueId", ""), one.get("summary", "")]
    return "  ".join(word for word in words if word)


# --- features -----------------------------------------------------------------------------------


@harness.group()
def feature() -> None:
    """What a worker plans, and what became of it."""


@feature.command("write")
@click.argument("feature_id")
@_worker
@click.option("--status", type=click.Choice(["pending", "in_progress", "blocked", "completed"]))
@about_issue
@click.option("--summary", help="What it is.")
@_under
@_refs("verification", "What shows that it is completed.")
@change("harness.feature.write")
def feature_write(said: Answer) -> str:
    """Plan FEATURE_ID, or change it; what is not named stays, and "" clears."""
    return _feature(said["feature"])


@feature.command("read")
@_worker
@read("harness.feature.read")
def feature_read(said: Answer) -> str:
    """Show a worker's ledger."""
    return "\n".join(map(_feature, said["ledger"]["features"])) or "no features"


@feature.command("check")
@_worker
@click.option("--require-closure", is_flag=True, help="Refuse a ledger that is not completed.")
@read("harness.feature.check")
def feature_check(said: Answer) -> str:
    """Check a worker's ledger. Exit code 0, or 9 and every law that it breaks."""
    return f"{said['check']['featureCount']} features, sound"


@feature.command("next")
@_worker
@read("harness.feature.next")
def feature_next(said: Answer) -> str:
    """What to go on with: what was begun, else the first that waits."""
    return said["plan"]["nextFeatureId"] or "nothing is left"


def _feature(one: dict[str, Any]) -> str:
    summary = one.get("summary", "")
    return f"{one['featureId']}  {one['status']}" + (f"  {summary}" if summary else "")


# --- steps --------------------------------------------------------------------------------------


@harness.group()
def trajectory() -> None:
    """What workers did, beside what the authority decided."""


@trajectory.command("append")
@_worker
@click.option("--action", required=True, help="What was done; no host action has this name.")
@click.option("--result", "result_class", required=True, metavar="CLASS", help="How it ended.")
@about_issue
@click.option("--summary", help="What there is to say about it.")
@_under
@_refs("witness", "What shows that it is so.")
@_refs("lineage", "What it came from.")
@click.option("--started-at", metavar="TIME", help="RFC 3339.")
@click.option("--finished-at", metavar="TIME", help="RFC 3339.  [now]")
@change("harness.trajectory.append")
def trajectory_append(said: Answer) -> str:
    """Join a step of your own to the trajectory."""
    return f"{said['step']['stepId']}"


@trajectory.command("query")
@click.option("--mode", type=click.Choice(["latest", "failed", "retry-needed"]), default="latest")
@click.option("--limit", type=click.IntRange(1, 100), help="At most so many.  [20]")
@about_issue
@click.option(
    "--worker", shell_complete=known_ids.workers, help="Only steps and requests of this worker."
)
@read("harness.trajectory.query")
def trajectory_query(said: Answer) -> str:
    """The newest steps and decisions, or those that failed; the newest first."""
    return "\n".join(map(step_line, said["trajectory"]["items"])) or "nothing"


def step_line(one: dict[str, Any]) -> str:
    words = [str(one["seq"]), one["finishedAt"], one["action"], one["resultClass"]]
    words += [one.get("issueId", ""), one.get("worker", "")]
    return "  ".join(word for word in words if word)


# --- joins --------------------------------------------------------------------------------------


@harness.command("join-check")
@click.argument("file", type=FILE, required=False)
@click.option(
    "--issue",
    "issue_ids",
    multiple=True,
    shell_complete=known_ids.issues,
    help="Compare the hand-overs of issues.",
)
@common
def join_check_(session: Session, file: Path | None, issue_ids: tuple[str, ...]) -> None:
    """Whether what parallel parts did can be put together.

    FILE has the evidence of one turn (its tool calls, their results and uses), constraints, and
    the paths that sections changed; it needs no state directory. With --issue twice or more, what
    the newest hand-overs name as `path:` artifacts is compared. Exit code 0, or 9 and every class
    that applies; 2 for what cannot be read.
    """
    if file is None and len(issue_ids) < 2:
        raise click.UsageError("name a FILE, or two issues with --issue")
    try:
        document = orjson.loads(read_file(file)) if file else None
    except orjson.JSONDecodeError as error:
        raise click.UsageError(f"{file} is not JSON: {error}") from None
    if issue_ids:
        asked = {"issueIds": list(issue_ids)} | ({"input": document} if file else {})
        session.read("harness.join.check", asked, lambda _: "the join is closed")
        return
    joined = join_check(document)
    if isinstance(joined, Unreadable):
        raise click.UsageError(f"harness_join_check_invalid: {joined.detail}")
    if session.as_json:
        print_json(joined.report)
    else:
        for each in joined.overlaps:
            click.echo(f"{each.left} and {each.right} changed {each.path}", err=True)
        for reason in joined.reasons:
            click.echo(reason.wire, err=True)
        click.echo(f"join: {joined.report['result']}")
    if joined.reasons:
        raise LeaveCommand(Exit.CHECK_FAILED)
