"""`understudy issue search`: issues by the words in them, from the SQL tables."""

import time
from collections.abc import Iterator
from heapq import nsmallest
from typing import Any

import click

from ....authority.views import sql
from ....contracts import ESCALATION, limits, rfc3339
from ..options import stack
from ..render import table
from ..session import Session, common

ISSUE_TYPE = click.Choice(["epic", "task", ESCALATION])  # the last waits for a person

filters = stack(
    click.option("--status", help="open, in_progress, blocked or closed."),
    click.option("--label", help="Issues with this label."),
    click.option("--type", "issue_type", type=ISSUE_TYPE),
    click.option("--assignee", help="Issues of this assignee."),
)

_TIMEOUT_SECONDS, _WAIT_SECONDS = 60.0, 2.0
# column -> the member of an issue
_SEARCHED = {
    "id": "id",
    "title": "title",
    "description": "description",
    "design": "design",
    "acceptance_criteria": "acceptanceCriteria",
    "notes": "notes",
    "labels": "labels",
}
_SHOWN = ("status", "priority", "issue_type", "assignee", "owner", "attempts")
_LEASE = ("lease_id", "fence", "deadline_ms")
_COLUMNS = (
    *(f"issue.{name}" for name in (*_SEARCHED, *_SHOWN)),
    "lease.owner AS holder",
    *(f"lease.{name}" for name in _LEASE),
)
_QUESTION = (
    f"SELECT {', '.join(_COLUMNS)} FROM issue "  # noqa: S608 - our own names
    "LEFT JOIN lease ON lease.resource = 'issue/' || issue.id"
)


@click.command()
@click.argument("words", nargs=-1, required=True)
@filters
@click.option("--cursor", help="Where the page before ended.")
@click.option(
    "--limit",
    type=click.IntRange(1, limits.ROSTER_PAGE_MAX),
    default=limits.ROSTER_PAGE_DEFAULT,
    show_default=True,
    help="Issues on a page.",
)
@common
def search(session: Session, words: tuple[str, ...], limit: int, **options: Any) -> None:
    """Find issues that have all WORDS in their id, title, texts or labels, by id.

    Large and small letters count as equal, and a part of a word is enough; words in quotes are
    looked for as they stand.

    \b
    understudy issue search parser
    understudy issue search "end of file" crash --status open
    """
    if not all(word.strip() for word in words):
        raise click.UsageError("a word is empty: say what to look for")
    try:
        with sql.opened(session.state_dir, _TIMEOUT_SECONDS, _WAIT_SECONDS) as inquiry:
            fresh = inquiry.freshen()
            answer = inquiry.reader.ask(_QUESTION)
            rows = (dict(zip(answer.columns, row, strict=True)) for row in answer.rows)
            wanted = (row for row in rows if _fits(row, options))
            found = nsmallest(limit + 1, _matching(wanted, words), key=lambda each: each["id"])
    except sql.BadQuery as error:
        raise click.ClickException(str(error)) from None
    page = found[:limit]
    more = {"cursor": page[-1]["id"]} if len(found) > limit else {}
    text = "\n".join([table(page), *(f"more: --cursor {each}" for each in more.values())])
    if fresh.behind and not session.as_json:
        click.echo(f"the tables are {fresh.behind} rows behind the journal", err=True)
    session.accept(text, issues=page, count=len(page), behind=fresh.behind, **more)


def _fits(row: dict[str, Any], options: dict[str, Any]) -> bool:
    same = all(options[name] in (None, row[name]) for name in ("status", "issue_type", "assignee"))
    has_label = options["label"] is None or options["label"] in row["labels"].split("\n")
    return same and has_label and row["id"] > (options["cursor"] or "")


def _matching(rows: Iterator[dict[str, Any]], words: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The issues with every word somewhere, and the members in which one of them is."""
    folded = [word.casefold() for word in words]
    for row in rows:
        texts = {name: row[name].casefold() for name in _SEARCHED}
        if all(any(word in text for text in texts.values()) for word in folded):
            places = [name for name, text in texts.items() if any(map(text.__contains__, folded))]
            yield _view(row) | {"matched": [_SEARCHED[name] for name in places]}


def _view(row: dict[str, Any]) -> dict[str, Any]:
    """As `issue list` shows it."""
    view = {name: row[name] for name in ("id", "title", *_SHOWN)}
    view["issueType"] = view.pop("issue_type")
    if row["labels"]:
        view["labels"] = row["labels"].split("\n")
    if row["holder"] is not None:
        is_active = time.time_ns() // 1_000_000 <= row["deadline_ms"]
        view["lease"] = {
            "leaseId": row["lease_id"],
            "owner": row["holder"],
            "fence": row["fence"],
            "state": "active" if is_active else "stale",
            "expiresAt": rfc3339.answer_text(row["deadline_ms"]),
        }
    return view
