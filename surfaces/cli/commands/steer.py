"""`understudy cancel`, `retry`, `reopen`, `pause`, `approve` and their like: what operators say."""

import os
from collections.abc import Callable
from typing import Any

import click

from ....contracts import ALL_WORK, Reason
from .. import known_ids
from ..options import Decorator, acting, context, mutation, payload, stack
from ..render import one_line, withheld_job
from ..session import Session, common
from ..tree_text import pause_lines

_said = stack(
    click.option("--reason", help="Why; it stays in the evidence."),
    acting("by_name", help="Who says so.  [$USER]"),
)
_scope = stack(
    click.option("--label", metavar="LABEL", help="Issues with this label."),
    click.option("--kind", metavar="KIND", help="Jobs of this kind, or with a dot at its end."),
    click.option("--issue", metavar="ID", shell_complete=known_ids.issues, help="This issue."),
    click.option("--job", metavar="ID", shell_complete=known_ids.jobs, help="This job."),
)


def _steers(issue_action: str, job_action: str, verb: str, **fixed: str) -> Decorator:
    """A command about one issue or job, which ID names."""

    def decorate(command: Callable[[], None]) -> Callable[..., Any]:
        @click.command(verb, help=command.__doc__)
        @click.argument("work", metavar="ID", shell_complete=known_ids.issues_and_jobs)
        @_said
        @mutation
        @common
        def steer(session: Session, work: str, **options: Any) -> None:
            family, name = _family(session, work)
            action = issue_action if family == "issue" else job_action
            named = {"id" if family == "issue" else "job_id": name}
            asked = payload(_by(options) | named | fixed)
            answer = session.ask(action, asked, context(options))
            session.finish(answer, lambda said: f"{verb}: {_shown(said)}")

        return steer

    return decorate


@_steers("issue.cancel", "job.cancel", "cancel")
def cancel() -> None:
    """Give work up: its command is stopped with all that it started, and its lease ends.

    ID is an issue or a job; `job/ID` is the job where both have the name. An issue comes back by
    `understudy retry`, a job never.
    """


@_steers("issue.retry", "job.retry", "retry")
def retry() -> None:
    """Bring back what is blocked, cancelled or resting, at once and with attempts anew.

    ID is an issue or a job; `job/ID` is the job where both have the name.
    """


@click.command()
@click.argument("issue", metavar="ID", shell_complete=known_ids.issues)
@mutation
@common
def reopen(session: Session, issue: str, **options: Any) -> None:
    """Open an issue again that is closed, cancelled or blocked, with attempts anew."""
    found = session.ask("issue.show", {"id": issue}, writable=False).get("issue", {})
    asked = options | {"id": issue}
    if found.get("status") == "closed":
        action, asked = "issue.update", asked | {"status": "open", "afresh": True}
    else:
        action, asked = "issue.retry", _by(asked | {"by_name": None})
    answer = session.ask(action, payload(asked), context(options))
    session.finish(answer, lambda said: f"reopened {_shown(said)}")


@_steers("approval.give", "approval.give", "approve", decision="approved")
def approve() -> None:
    """Let an issue or a job go on that waits for a person."""


@_steers("approval.give", "approval.give", "reject", decision="rejected")
def reject() -> None:
    """Refuse an issue or a job that waits for a person; it is blocked until `understudy retry`."""


@click.command()
@_scope
@click.option("--now", is_flag=True, help="Hand back what runs, too.")
@click.option("--list", "lists", is_flag=True, help="Show what is paused, and change nothing.")
@_said
@mutation
@common
def pause(session: Session, *, now: bool, lists: bool, **options: Any) -> None:
    """Claim nothing new: nowhere, or not with a label, a kind or an id. What runs goes on.

    It holds until `understudy unpause` with the same options, restarts or not.
    """
    if lists:
        session.read("pause.list", {}, _listed)
        return
    asked = payload(_by(_scoped(options)) | {"now": now or None})
    session.finish(session.ask("pause.set", asked, context(options)), _paused)


@click.command()
@_scope
@mutation
@common
def unpause(session: Session, **options: Any) -> None:
    """Let work go on that was paused with the same options."""
    answer = session.ask("pause.clear", payload(_scoped(options)), context(options))
    session.finish(answer, lambda said: f"goes on: {said['pause']['scope']}")


def _family(session: Session, work: str) -> tuple[str, str]:
    """Whether an issue or a job is meant. A name that neither has is told of as an issue's."""
    family, slash, name = work.partition("/")
    if slash and family in ("issue", "job"):
        return family, name
    if ":" in work:  # of the step of a spec
        return "job", work
    shown = session.ask("issue.show", {"id": work}, writable=False)
    if shown["failureClasses"] != [Reason.ISSUE_NOT_FOUND.wire]:
        return "issue", work
    found = session.ask("job.show", {"jobId": work}, writable=False)
    return ("job" if found["result"] == "accepted" else "issue"), work


def _by(options: dict[str, Any]) -> dict[str, Any]:
    return options | {"by_name": options["by_name"] or os.environ.get("USER", "")}


def _scoped(options: dict[str, Any]) -> dict[str, Any]:
    given = {name: options.pop(name) for name in ("label", "kind", "issue", "job")}
    named = [f"{name}/{value}" for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise click.UsageError("name one scope: --label, --kind, --issue or --job")
    return options | {"scope": named[0] if named else ALL_WORK}


# --- text for people ----------------------------------------------------------------------------


def _shown(said: dict[str, Any]) -> str:
    if "issue" in said:
        return one_line(said["issue"])
    found = said["job"]
    return "  ".join([found["jobId"], found["state"], found["kind"], *withheld_job(found)])


def _paused(said: dict[str, Any]) -> str:
    (line,) = pause_lines([said["pause"]])
    count = said["handedBackCount"]
    return f"{line}; {count} handed back" if count else line


def _listed(said: dict[str, Any]) -> str:
    return "\n".join(pause_lines(said["pauses"])) or "nothing is paused"
