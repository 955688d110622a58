"""Work: issues, jobs and specs, by filters that stand in the address, a page at a time."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ....contracts import limits
from ..desk import Record
from ..markup import Child, Markup, joined, tag, url
from ..view import Page, PageView
from .graph import issues_graph
from .layout import plain
from .parts import button, duration, moment, section, state, table, work_link

_KINDS = {"issues": "Issues", "jobs": "Jobs", "specs": "Specs"}
_CURSOR_SEPARATOR = "~"


class Filter(NamedTuple):
    """One way to narrow a list: its name in the address, its words for people, its condition."""

    name: str
    label: str
    where: str  # with a `?` for each value


class WorkListing(NamedTuple):
    """How one kind of work is listed, newest first by two columns."""

    source: str
    columns: str
    newest: str  # a column that falls from page to page
    key: str
    filters: tuple[Filter, ...]


_LISTINGS = {
    "issues": WorkListing(
        "issue LEFT JOIN lease ON lease.resource = 'issue/' || issue.id "
        "LEFT JOIN spend ON spend.resource = 'issue/' || issue.id",
        "issue.id, title, status, priority, issue_type, labels, attempts, approval, "
        "issue.updated_at AS newest, issue.id AS key, lease.owner AS holder, lease.fence, "
        "lease.deadline_ms, spend.usd_micros, spend.tokens",
        "issue.updated_at",
        "issue.id",
        (
            Filter("status", "Status", "status = ?"),
            Filter("q", "Id or title", "(issue.id LIKE ? OR title LIKE ?)"),
            Filter("label", "Label", "labels LIKE ?"),
            Filter("type", "Type", "issue_type = ?"),
            Filter("holder", "Holder", "lease.owner LIKE ?"),
        ),
    ),
    "jobs": WorkListing(
        "job LEFT JOIN lease ON lease.resource = 'job/' || job.job_id",
        "job_id, kind, status, spec_id, step_key, attempts, approval, priority, job.reason, "
        "scheduled_ms AS newest, job_id AS key, lease.owner AS holder, lease.fence, "
        "lease.deadline_ms",
        "scheduled_ms",
        "job_id",
        (
            Filter("status", "Status", "status = ?"),
            Filter("q", "Id", "job_id LIKE ?"),
            Filter("of", "Kind", "job.kind LIKE ?"),
            Filter("spec", "Spec", "spec_id = ?"),
            Filter("holder", "Holder", "lease.owner LIKE ?"),
        ),
    ),
    "specs": WorkListing(
        "chain_spec",
        "spec_id, title, status, steps, materialized, author, submitted_ms AS newest, "
        "spec_id AS key",
        "submitted_ms",
        "spec_id",
        (
            Filter("status", "Status", "status = ?"),
            Filter("q", "Id or title", "(spec_id LIKE ? OR title LIKE ?)"),
        ),
    ),
}
_TABLES = {"issues": "issue", "jobs": "job", "specs": "chain_spec"}


async def page(view: PageView) -> Page:
    """A list, or the graph of the same."""
    kind = view.asked("kind") if view.asked("kind") in _KINDS else "issues"
    listing = _LISTINGS[kind]
    given = {each.name: view.asked(each.name) for each in listing.filters}
    counts, rows = await asyncio.gather(_counts(view, kind), _rows(view, kind, given))
    shown, cursor = _cut(rows)
    main = [
        tag("h1", "Work"),
        _tabs(kind),
        _filters(kind, listing, given, counts),
        _quick(kind, given, counts),
    ]
    if kind == "issues" and view.asked("view") == "graph":
        ids = [each["id"] for each in shown]
        main.append(section("What waits for what", await issues_graph(view, ids)))
    else:
        main.append(_TABLE[kind](view, shown))
    main.append(_pager(kind, given, cursor, is_later=bool(view.asked("before"))))
    return Page("Work", joined(main))


# --- asking ---------------------------------------------------------------------------------------


async def _counts(view: PageView, kind: str) -> dict[str, int]:
    query = f"SELECT status, count(*) AS n FROM {_TABLES[kind]} GROUP BY status ORDER BY status"
    return {each["status"]: each["n"] for each in await view.desk.query(query)}


async def _rows(view: PageView, kind: str, given: dict[str, str]) -> list[Record]:
    """One more than a page has, so that it is known whether there are more."""
    listing = _LISTINGS[kind]
    conditions, values = [], list[str | int]()
    for each in listing.filters:
        if given[each.name]:
            conditions.append(each.where)
            values += [_value(each, given[each.name])] * each.where.count("?")
    before = _cursor(view.asked("before"), is_number=kind != "issues")
    if before is not None:
        newest, key = listing.newest, listing.key
        conditions.append(f"({newest} < ? OR ({newest} = ? AND {key} < ?))")
        values += [before[0], before[0], before[1]]
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    return await view.desk.query(
        f"SELECT {listing.columns} FROM {listing.source} {where}"
        f"ORDER BY {listing.newest} DESC, {listing.key} DESC LIMIT {limits.WEB_PAGE_ROWS + 1}",
        *values,
    )


def _value(each: Filter, text: str) -> str:
    """As the condition wants it: a part of a text, or with a dot at its end a beginning."""
    text = text[: limits.NAME_LENGTH_MAX].replace("\x00", "")
    if "LIKE" not in each.where:
        return text
    if each.name == "of":
        return f"{text}%" if text.endswith(".") else text
    return f"%{text}%"


def _cursor(text: str, *, is_number: bool) -> tuple[str | int, str] | None:
    """Where the page before ended; None for what is no cursor of ours."""
    newest, separator, key = text.partition(_CURSOR_SEPARATOR)
    if not separator or not key or "\x00" in text:
        return None
    if not is_number:
        return newest, key
    return (int(newest), key) if newest.isdecimal() and len(newest) <= 16 else None


def _cut(rows: list[Record]) -> tuple[list[Record], str | None]:
    shown = rows[: limits.WEB_PAGE_ROWS]
    if len(rows) == len(shown):
        return shown, None
    return shown, f"{shown[-1]['newest']}{_CURSOR_SEPARATOR}{shown[-1]['key']}"


# --- around the list ------------------------------------------------------------------------------


def _tabs(kind: str) -> Markup:
    links = (
        tag("a", name, href=url("/work", kind=each), aria_current="page" if each == kind else None)
        for each, name in _KINDS.items()
    )
    return tag("nav", links, class_="tabs", aria_label="Kinds of work")


def _filters(
    kind: str, listing: WorkListing, given: dict[str, str], counts: dict[str, int]
) -> Markup:
    fields = [_field(each, given[each.name], counts) for each in listing.filters]
    graph = None
    if kind == "issues":
        graph = tag("button", "As a graph", name="view", value="graph", class_="quiet")
    return tag(
        "form",
        tag("input", type="hidden", name="kind", value=kind),
        fields,
        tag("button", "Show"),
        graph,
        tag("a", "All", href=url("/work", kind=kind)) if any(given.values()) else None,
        method="get",
        action="/work",
        class_="filters",
        role="search",
    )


def _field(each: Filter, value: str, counts: dict[str, int]) -> Markup:
    if each.name == "status":
        choices = ["", *counts]
        options = (
            tag("option", choice or "any", value=choice, selected=choice == value)
            for choice in choices
        )
        return tag("label", each.label, " ", tag("select", options, name=each.name))
    field = tag("input", type="search", name=each.name, value=value, size=14)
    return tag("label", each.label, " ", field)


def _quick(kind: str, given: dict[str, str], counts: dict[str, int]) -> Markup:
    kept = {name: value for name, value in given.items() if name != "status"}
    links = (
        tag(
            "a",
            state(word),
            f" {count}",
            href=url("/work", kind=kind, status=word, **kept),
            aria_current="true" if given["status"] == word else None,
        )
        for word, count in counts.items()
    )
    return tag("p", links, class_="quick")


def _pager(kind: str, given: dict[str, str], cursor: str | None, *, is_later: bool) -> Markup:
    first = tag("a", "Newest", href=url("/work", kind=kind, **given)) if is_later else None
    older = None
    if cursor is not None:
        older = tag("a", "Older", href=url("/work", kind=kind, **given, before=cursor), rel="next")
    return tag("p", first, " ", older, class_="pager")


# --- the lists ------------------------------------------------------------------------------------


def _issues(view: PageView, rows: Sequence[Record]) -> Markup:
    columns = ("id", "state", "title", "prio", "labels", "holder", "tries", "cost", "changed", "")
    return table(
        columns, (_issue(view, each) for each in rows), caption="Issues", empty="No issue is so."
    )


def _issue(view: PageView, each: Record) -> list[Child]:
    work = f"issue/{each['id']}"
    return [
        work_link(work),
        _states(each),
        plain(each["title"])[:200],
        each["priority"],
        plain((each["labels"] or "").replace("\n", ", ")),
        _holder(each),
        each["attempts"],
        _cost(each),
        (each["newest"] or "")[:19].replace("T", " "),
        ways(view, work, each["status"], each["approval"]),
    ]


def _jobs(view: PageView, rows: Sequence[Record]) -> Markup:
    columns = ("id", "state", "kind", "spec", "prio", "holder", "tries", "scheduled", "")
    made = (
        [
            work_link(f"job/{each['job_id']}", each["job_id"]),
            _states(each),
            plain(each["kind"]),
            plain(each["spec_id"] or ""),
            each["priority"],
            _holder(each),
            each["attempts"],
            moment(each["newest"]),
            ways(view, f"job/{each['job_id']}", each["status"], each["approval"]),
        ]
        for each in rows
    )
    return table(columns, made, caption="Jobs", empty="No job is so.")


def _specs(view: PageView, rows: Sequence[Record]) -> Markup:
    del view
    made = (
        [
            tag("a", plain(each["spec_id"]), href=url("/work", kind="jobs", spec=each["spec_id"])),
            state(each["status"]),
            plain(each["title"]),
            f"{each['materialized']} of {each['steps']}",
            plain(each["author"] or ""),
            moment(each["newest"]),
        ]
        for each in rows
    )
    columns = ("id", "state", "title", "jobs made", "author", "submitted")
    return table(columns, made, caption="Specs", empty="No spec is so.")


_TABLE = {"issues": _issues, "jobs": _jobs, "specs": _specs}


def ways(view: PageView, work: str, status: str, approval: str | None) -> Markup:
    """What may be done with a piece of work in this state; the authority has the last word."""
    made = []
    if approval == "waiting":
        made.append(button(view, "approve", "Approve", work=work))
        asks = f"Reject {work}?"
        made.append(button(view, "reject", "Reject", work=work, danger=True, asks=asks))
    if status in ("blocked", "cancelled") and not (work.startswith("job/") and status != "blocked"):
        made.append(button(view, "retry", "Retry", work=work))
    if status in ("open", "in_progress", "blocked", "pending", "claimed", "dispatched", "gluing"):
        asks = f"Cancel {work}? What runs for it is stopped."
        made.append(button(view, "cancel", "Cancel", work=work, danger=True, asks=asks))
    return joined(made)


def _states(each: Record) -> Markup:
    waits = state("waiting") if each["approval"] == "waiting" else None
    return joined(state(each["status"]), " " if waits else None, waits)


def _holder(each: Record) -> Child:
    if not each["holder"]:
        return ""
    import time  # only for what is held

    left_ms = each["deadline_ms"] - time.time_ns() // 1_000_000
    lapsed = duration(left_ms) if left_ms > 0 else "lapsed"
    return joined(plain(each["holder"]), tag("small", f" fence {each['fence']}, {lapsed}"))


def _cost(each: Record) -> str:
    if each.get("usd_micros"):
        return f"${each['usd_micros'] / 1_000_000:.2f}"
    return f"{each['tokens']} tokens" if each.get("tokens") else ""
