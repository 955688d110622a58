"""`understudy issue`: work and the leases on it."""

import time
from itertools import count
from typing import Any

import click

from ....contracts import Exit, limits
from ..options import (
    acting,
    context,
    duration,
    holder,
    issue_id,
    mutation,
    payload,
    seconds,
    with_holder,
)
from ..render import claimed, detail, leases_table, one_line, table, withheld
from ..request import Answer, change, held_change, read
from ..session import LeaveCommand, Session, common
from .handover import handover
from .issue_search import ISSUE_TYPE, filters, search
from .steer import reopen

_claimer = acting(
    "assignee",
    "--assignee",
    envvar="UNDERSTUDY_ASSIGNEE",
    required=True,
    help="Who claims it.",
)
_SCOPE = "Which paths it means to touch, such as `src/**`; its section may touch no others."
_PAUSE_SECONDS = 0.1  # between two looks for work; doubled up to the next
_PAUSE_SECONDS_MAX = 2.0


@click.group()
def issue() -> None:
    """Add, find, claim, change and close work.

    A claim returns a lease and a fence. A change of a leased issue names the holder by
    --as, --lease-id and --fence; a holder that was replaced is refused.
    """


# --- finding work -------------------------------------------------------------------------------


@issue.command("list")
@filters
@read("issue.list")
def list_(said: Answer) -> str:
    """List issues, by id."""
    return table(said["issues"])


@issue.command()
@read("issue.ready")
def ready(said: Answer) -> str:
    """List what can be claimed now, in the order in which `next` hands it out."""
    return "\n".join([table(said["issues"]), *withheld(said)])


@issue.command()
@read("issue.blocked")
def blocked(said: Answer) -> str:
    """List what waits, and for what."""
    return table(said["issues"], waiting=True)


@issue.command()
@issue_id
@read("issue.show")
def show(said: Answer) -> str:
    """Show one issue whole."""
    return detail(said["issue"])


@issue.command()
@read("issue.lease_projection")
def leases(said: Answer) -> str:
    """List every lease with its fence; stale and contended ones are marked."""
    return leases_table(said["items"])


# --- leases -------------------------------------------------------------------------------------


@issue.command()
@issue_id
@_claimer
@click.option("--lease-id", help="Choose the lease's id.")
@click.option("--fence", type=int, help="To extend your own lease: its fence.")
@duration
@change("issue.claim")
def claim(said: Answer) -> str:
    """Take an issue, and get its lease and fence."""
    return claimed(said)


@issue.command("next")
@_claimer
@click.option("--lease-id", help="Choose the lease's id.")
@click.option("--label", "labels", multiple=True, help="Only issues with this label.")
@click.option("--type", "issue_type", type=ISSUE_TYPE)
@click.option("--assigned-to", help="Only issues that are assigned to this name.")
@click.option(
    "--wait",
    type=seconds(most=f"{limits.WAIT_SECONDS_MAX}s"),
    default="0s",
    help="Wait so long for work: 90s, 10m, 1h.  [0s]",
)
@duration
@mutation
@common
def next_(session: Session, wait: int, **options: Any) -> None:
    """Take the most urgent issue that is ready, or whose holder let its lease lapse.

    Exit code 10 if there is none. With --wait the command looks again until there is one; Ctrl-C
    ends that, and nothing is claimed.
    """
    answer = _claimed_next(session, options, time.monotonic() + wait)
    session.finish(answer, claimed)
    if "issue" not in answer:
        raise LeaveCommand(Exit.NOTHING_READY)


def _claimed_next(session: Session, options: dict[str, Any], until: float) -> dict[str, Any]:
    """The answer that grants a lease, or the last one before the time is over.

    A claim leaves a row, and a look leaves none: it is claimed again only where a look shows news,
    or where the answer may be an old one, which a repeated request got before.
    """
    asked, seen, pause = payload(options), None, _PAUSE_SECONDS
    for attempt in count():
        if attempt and "requestId" in asked:
            asked["requestId"] = f"{options['request_id']}-{attempt}"
        answer = session.ask("issue.claim_next", asked, context(options))
        if answer["result"] != "accepted" or "issue" in answer or time.monotonic() >= until:
            break
        if seen is None and not session.as_json:
            click.echo("nothing is ready; waiting for work", err=True)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(pause * 2, _PAUSE_SECONDS_MAX)
            last, seen = seen, _claimable(session)
            if seen != last or (seen[0] and "requestId" in asked):
                break
        else:
            break
    return answer


def _claimable(session: Session) -> tuple[Any, ...]:
    """What a claim would look through; the same as long as it would find the same."""
    answer = session.ask("issue.ready", {}, writable=False)
    stale = answer.get("leaseProjection", {})
    return answer.get("issues"), stale.get("staleCount"), stale.get("staleIssueIds")


@issue.command()
@issue_id
@held_change("issue.lease_renew", duration, escalated=True)
def renew(said: Answer) -> str:
    """Hold on to an issue for longer. Goes through the MCP door, and the evidence says so."""
    return claimed(said)


@issue.command()
@issue_id
@held_change("issue.lease_release", escalated=True)
def release(said: Answer) -> str:
    """Give an issue back, open. Goes through the MCP door, and the evidence says so."""
    return f"released {one_line(said['issue'])}"


@issue.command()
@issue_id
@held_change("issue.lease_reconcile")
def reconcile(said: Answer) -> str:
    """Make a record that disagrees with your lease follow the lease again."""
    return f"reconciled {one_line(said['issue'])}"


@issue.command("break")
@issue_id
@click.option("--reason", required=True, help="Why; it stays in the evidence.")
@change("issue.lease_break")
def break_(said: Answer) -> str:
    """Take a lease away from its holder. For operators; the holder's fence dies with it."""
    return f"broke the lease of {one_line(said['issue'])}"


@issue.command()
@issue_id
@click.argument("priority", type=int)
@change("issue.prioritize")
def prioritize(said: Answer) -> str:
    """Give an issue another PRIORITY, held or not; small is urgent. For operators."""
    return f"priority {said['issue']['priority']}: {one_line(said['issue'])}"


@issue.command()
@issue_id
@click.option("--reason", help="What a person should know before saying yes.")
@held_change("approval.ask")
def ask(said: Answer) -> str:
    """Let an issue wait for a person; its holder hands it back by asking."""
    return f"waits for a person: {one_line(said['issue'])}"


# --- changing work ------------------------------------------------------------------------------


@issue.command()
@click.argument("title")
@click.option("--id", "id", help="Choose the id; otherwise it is us-N.")
@click.option("--description", help="What is to be done.")
@click.option("--design", help="How it is to be done.")
@click.option("--acceptance-criteria", help="When it is done.")
@click.option("--notes")
@click.option("--priority", type=int, help="Small is urgent.  [2]")
@click.option("--type", "issue_type", type=ISSUE_TYPE)
@click.option("--assignee", help="Reserve it for this name.")
@click.option("--owner", help="Who answers for it.")
@click.option("--label", "labels", multiple=True)
@click.option("--scope", "scope", multiple=True, metavar="GLOB", help=_SCOPE)
@change("issue.add")
def add(said: Answer) -> str:
    """Add an open issue."""
    return f"added {one_line(said['issue'])}"


@issue.command()
@issue_id
@click.option("--title")
@click.option("--description")
@click.option("--design")
@click.option("--acceptance-criteria")
@click.option("--notes")
@click.option("--status", help="open, blocked or closed; each ends the lease.")
@click.option("--priority", type=int, help="Of work that others hold: `issue prioritize`.")
@click.option("--type", "issue_type", type=ISSUE_TYPE)
@click.option("--new-assignee", help="Reserve it for another name.")
@click.option("--owner")
@click.option("--label", "labels", multiple=True, help="The labels from now on.")
@click.option(
    "--scope", "scope", multiple=True, metavar="GLOB", help="The scope from now on; '' for none."
)
@holder
@mutation
@common
def update(session: Session, **options: Any) -> None:
    """Change members of an issue; what is not named stays.

    Who opens an issue without holding it has it tried afresh: no attempt so far counts any more,
    and it does not rest.
    """
    options = with_holder(options)
    if options.get("status") == "open" and not (options.get("lease_id") or options.get("fence")):
        options["afresh"] = True
    asked = payload(options)
    if asked.get("scope") == [""]:
        asked["scope"] = []
    answer = session.ask("issue.update", asked, context(options))
    session.finish(answer, lambda said: f"updated {one_line(said['issue'])}")


@issue.command()
@issue_id
@click.argument("title")
@click.option("--new-id", help="Choose the new issue's id.")
@click.option("--description")
@click.option("--priority", type=int)
@click.option("--type", "issue_type", type=ISSUE_TYPE)
@click.option("--label", "labels", multiple=True)
@held_change("issue.discover")
def discover(said: Answer) -> str:
    """Add an issue that was found while working on another."""
    return f"discovered {one_line(said['issue'])}"


@issue.command()
@issue_id
@click.option("--reason", help="Why; it stays in the evidence.")
@held_change("issue.close")
def close(said: Answer) -> str:
    """The work is done; its lease ends."""
    return f"closed {one_line(said['issue'])}"


issue.add_command(handover)
issue.add_command(reopen)
issue.add_command(search)
