"""`understudy observe`: what there is to see, and what needs attention."""

from typing import Any

import click

from ..request import Answer, read
from ..session import Session, common
from .harness import step_line


@click.group()
def observe() -> None:
    """Look at the whole without touching it.

    \b
    understudy observe attention      what does not mend itself, and what to do next
    understudy observe latest         the newest decision, and how much there is of everything
    understudy observe projection     leases, sessions and features as one picture
    """


@observe.command()
@read("observe.latest")
def latest(said: Answer) -> str:
    """The newest decision, and how much there is of everything."""
    seen = said["latest"]
    newest = step_line(seen["decision"]) if seen["decision"] else "nothing was decided yet"
    return "\n".join([newest, *_counts(seen)])


@observe.command()
@read("observe.needs_attention")
def attention(said: Answer) -> str:
    """What needs attention: worn-out work, lapsed leases, contention, blocked and refused work."""
    return "\n".join(map(_trouble, said["attention"]["items"])) or "nothing"


@observe.command()
@click.argument("instruction", metavar="REF")
@common
def instruction(session: Session, instruction: str) -> None:
    """Everything known of the instruction REF: what was done under it, and who names it."""
    answer = session.ask("observe.instruction", {"instructionRef": instruction}, writable=False)
    session.finish(answer, lambda said: "\n".join(_known(said["observed"])))


@observe.command()
@read("observe.projection")
def projection(said: Answer) -> str:
    """Counts, leases, sessions and features as one picture."""
    seen = said["picture"]
    trouble = ", ".join(f"{count} {kind}" for kind, count in seen["attention"].items())
    lines = [f"row {seen['seq']}", *_counts(seen), f"  trouble   {trouble or 'none'}"]
    lines += [
        f"{one['resource']}  {one['lease']['owner']}  fence {one['lease']['fence']}"
        for one in seen["leases"]
    ]
    lines += [
        f"{one['sessionId']}  {one['state']}  {one['featureCount']} features"
        for one in seen["sessions"]
    ]
    return "\n".join(lines)


def _counts(seen: dict[str, Any]) -> list[str]:
    totals, recent = seen["totals"], seen["recent"]
    issues = "{issues}: {open} open, {inProgress} in progress, {blocked} blocked, {closed} closed"
    leases = "{leases}: {staleLeases} stale, {contendedLeases} contended"
    sessions = (
        "{sessions}: {activeSessions} active; {completedFeatures} of {features} features done"
    )
    return [
        f"  issues    {issues.format(**totals)}",
        f"  leases    {leases.format(**totals)}",
        f"  sessions  {sessions.format(**totals)}",
        f"  lately    {recent['accepted']} accepted, {recent['failed']} failed",
    ]


def _trouble(item: dict[str, Any]) -> str:
    return f"{item['issueId']}  {item['kind']}  {item['detail']}; {item['next']}"


def _known(seen: dict[str, Any]) -> list[str]:
    lines = [f"{seen['acceptedCount']} accepted, {seen['failedCount']} failed"]
    lines += [f"  session   {one['sessionId']}  {one['state']}" for one in seen["sessions"]]
    lines += [f"  feature   {one['featureId']}  {one['status']}" for one in seen["features"]]
    return lines + [f"  {step_line(one)}" for one in seen["items"]]
