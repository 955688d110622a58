"""`understudy issue`: work and the leases on it."""

from typing import Any

import click

from ....contracts import ESCALATION
from ..options import context, duration, holder, mutation, payload, with_holder
from ..render import claimed, detail, leases_table, one_line, table
from ..session import Session, common
from .handover import handover

_TYPE = click.Choice(["epic", "task", ESCALATION])  # the last waits for a person


@click.group()
def issue() -> None:
    """Add, find, claim, change and close work.

    A claim returns a lease and a fence. A change of a leased issue names the holder by
    --assignee, --lease-id and --fence; a holder that was replaced is refused.
    """


# --- finding work -------------------------------------------------------------------------------


@issue.command("list")
@click.option("--status", help="open, in_progress, blocked or closed.")
@click.option("--label", help="Issues with this label.")
@click.option("--type", "issue_type", type=_TYPE)
@click.option("--assignee", help="Issues of this assignee.")
@common
def list_(session: Session, **options: Any) -> None:  # noqa: ANN401
    """List issues, by id."""
    answer = session.ask("issue.list", payload(options), writable=False)
    session.finish(answer, lambda said: table(said["issues"]))


@issue.command()
@common
def ready(session: Session) -> None:
    """List what can be claimed now, in the order in which `next` hands it out."""
    answer = session.ask("issue.ready", {}, writable=False)
    session.finish(answer, lambda said: table(said["issues"]))


@issue.command()
@common
def blocked(session: Session) -> None:
    """List what waits, and for what."""
    answer = session.ask("issue.blocked", {}, writable=False)
    session.finish(answer, lambda said: table(said["issues"], waiting=True))


@issue.command()
@click.argument("id")
@common
def show(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Show one issue whole."""
    answer = session.ask("issue.show", payload(options), writable=False)
    session.finish(answer, lambda said: detail(said["issue"]))


@issue.command()
@common
def leases(session: Session) -> None:
    """List every lease with its fence; stale and contended ones are marked."""
    answer = session.ask("issue.lease_projection", {}, writable=False)
    session.finish(answer, lambda said: leases_table(said["items"]))


# --- leases -------------------------------------------------------------------------------------


@issue.command()
@click.argument("id")
@click.option("--assignee", envvar="UNDERSTUDY_ASSIGNEE", required=True, help="Who claims it.")
@click.option("--lease-id", help="Choose the lease's id.")
@click.option("--fence", type=int, help="To extend your own lease: its fence.")
@duration
@mutation
@common
def claim(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Take an issue, and get its lease and fence."""
    answer = session.ask("issue.claim", payload(options), context(options))
    session.finish(answer, claimed)


@issue.command("next")
@click.option("--assignee", envvar="UNDERSTUDY_ASSIGNEE", required=True, help="Who claims it.")
@click.option("--lease-id", help="Choose the lease's id.")
@click.option("--label", "labels", multiple=True, help="Only issues with this label.")
@click.option("--type", "issue_type", type=_TYPE)
@click.option("--assigned-to", help="Only issues that are assigned to this name.")
@duration
@mutation
@common
def next_(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Take the most urgent issue that is ready, or whose holder let its lease lapse."""
    answer = session.ask("issue.claim_next", payload(options), context(options))
    session.finish(answer, claimed)


@issue.command()
@click.argument("id")
@holder
@duration
@mutation
@common
def renew(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Hold on to an issue for longer. Goes through the MCP door, and the evidence says so."""
    options = with_holder(options)
    answer = _escalated(session, "issue.lease_renew", options)
    session.finish(answer, claimed)


@issue.command()
@click.argument("id")
@holder
@mutation
@common
def release(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Give an issue back, open. Goes through the MCP door, and the evidence says so."""
    options = with_holder(options)
    answer = _escalated(session, "issue.lease_release", options)
    session.finish(answer, lambda said: f"released {one_line(said['issue'])}")


@issue.command()
@click.argument("id")
@holder
@mutation
@common
def reconcile(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Make a record that disagrees with your lease follow the lease again."""
    options = with_holder(options)
    answer = session.ask("issue.lease_reconcile", payload(options), context(options))
    session.finish(answer, lambda said: f"reconciled {one_line(said['issue'])}")


@issue.command("break")
@click.argument("id")
@click.option("--reason", required=True, help="Why; it stays in the evidence.")
@mutation
@common
def break_(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Take a lease away from its holder. For operators; the holder's fence dies with it."""
    answer = session.ask("issue.lease_break", payload(options), context(options))
    session.finish(answer, lambda said: f"broke the lease of {one_line(said['issue'])}")


# --- changing work ------------------------------------------------------------------------------


@issue.command()
@click.argument("title")
@click.option("--id", "id", help="Choose the id; otherwise it is us-N.")
@click.option("--description", help="What is to be done.")
@click.option("--design", help="How it is to be done.")
@click.option("--acceptance-criteria", help="When it is done.")
@click.option("--notes")
@click.option("--priority", type=int, help="Small is urgent.  [2]")
@click.option("--type", "issue_type", type=_TYPE)
@click.option("--assignee", help="Reserve it for this name.")
@click.option("--owner", help="Who answers for it.")
@click.option("--label", "labels", multiple=True)
@mutation
@common
def add(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Add an open issue."""
    answer = session.ask("issue.add", payload(options), context(options))
    session.finish(answer, lambda said: f"added {one_line(said['issue'])}")


@issue.command()
@click.argument("id")
@click.option("--title")
@click.option("--description")
@click.option("--design")
@click.option("--acceptance-criteria")
@click.option("--notes")
@click.option("--status", help="open, blocked or closed; each ends the lease.")
@click.option("--priority", type=int)
@click.option("--type", "issue_type", type=_TYPE)
@click.option("--new-assignee", help="Reserve it for another name.")
@click.option("--owner")
@click.option("--label", "labels", multiple=True, help="The labels from now on.")
@holder
@mutation
@common
def update(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Change members of an issue; what is not named stays."""
    options = with_holder(options)
    answer = session.ask("issue.update", payload(options), context(options))
    session.finish(answer, lambda said: f"updated {one_line(said['issue'])}")


@issue.command()
@click.argument("id")
@click.argument("title")
@click.option("--new-id", help="Choose the new issue's id.")
@click.option("--description")
@click.option("--priority", type=int)
@click.option("--type", "issue_type", type=_TYPE)
@click.option("--label", "labels", multiple=True)
@holder
@mutation
@common
def discover(session: Session, **options: Any) -> None:  # noqa: ANN401
    """Add an issue that was found while working on another."""
    options = with_holder(options)
    answer = session.ask("issue.discover", payload(options), context(options))
    session.finish(answer, lambda said: f"discovered {one_line(said['issue'])}")


@issue.command()
@click.argument("id")
@click.option("--reason", help="Why; it stays in the evidence.")
@holder
@mutation
@common
def close(session: Session, **options: Any) -> None:  # noqa: ANN401
    """The work is done; its lease ends."""
    options = with_holder(options)
    answer = session.ask("issue.close", payload(options), context(options))
    session.finish(answer, lambda said: f"closed {one_line(said['issue'])}")


issue.add_command(handover)


def _escalated(session: Session, action: str, options: dict[str, Any]) -> dict[str, Any]:
    evidence = context(options) | {"escalatedFrom": "cli"}
    return session.ask(action, payload(options), evidence, transport="mcp")
