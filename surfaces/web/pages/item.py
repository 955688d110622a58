"""One piece of work: how it stands, what may be done with it, and everything that happened."""

import asyncio
from collections.abc import Iterator
from typing import Any

from ....actors.run import attempts
from ..desk import Record
from ..markup import Child, Markup, joined, part, tag, url
from ..view import Page, PageView
from .graph import neighbourhood
from .layout import plain
from .parts import button, facts, section, state, table, told, work_link
from .timeline import timeline
from .work import ways

_TEXTS = (
    ("description", "Description"),
    ("design", "Design"),
    ("acceptanceCriteria", "Accepted when"),
    ("notes", "Notes"),
)
_TEXT_LENGTH_MAX = 65_536  # shown of one text
_PLAIN_FACTS = (
    ("issueType", "type"), ("priority", "priority"), ("assignee", "assignee"),
    ("owner", "owner"), ("attempts", "attempts"), ("approval", "approval"),
    ("steeredBy", "steered by"), ("steeredWhy", "because"), ("createdAt", "created"),
    ("updatedAt", "changed"), ("closedAt", "closed"), ("kind", "kind"), ("specId", "spec"),
    ("stepKey", "step"), ("author", "author"), ("reason", "reason"), ("worker", "worker"),
    ("timeoutMs", "time out, ms"), ("runAt", "not before"),
)  # fmt: skip


async def issue_page(view: PageView) -> Page:
    issue_id = view.request.path_params["name"]
    answer = await view.desk.ask("issue.show", {"id": issue_id})
    if answer["result"] != "accepted":
        return _missing("issue", issue_id, answer)
    issue, work = answer["issue"], f"issue/{issue_id}"
    row = await view.desk.query("SELECT * FROM issue WHERE id = ?", issue_id)
    issue = _camel(row[0]) | issue if row else issue
    parts = await asyncio.gather(
        timeline(view, work),
        neighbourhood(view, issue_id),
        _attempts(view, issue_id),
        _cost(view, work),
        _descent(view, issue_id),
        view.desk.ask("pause.list"),
    )
    story, graph, logs, cost, descent, pauses = parts
    main = joined(
        _head(view, work, issue["title"], issue["status"], issue),
        _pause(view, work, pauses.get("pauses", [])),
        facts([*_plain(issue), ("labels", _labels(issue)), ("scope", _lines(issue.get("scope")))]),
        section("Lease", _lease(view, work, issue.get("lease"))),
        _texts(issue),
        section("Dependencies", graph) if graph else None,
        section("Attempts and logs", logs),
        section("Cost", cost) if cost else None,
        section("On the branch", descent) if descent else None,
        section("Timeline", story, id_="timeline"),
    )
    return Page(plain(issue_id), main)


async def job_page(view: PageView) -> Page:
    job_id = view.request.path_params["name"]
    answer = await view.desk.ask("job.show", {"jobId": job_id})
    if answer["result"] != "accepted":
        return _missing("job", job_id, answer)
    job, work = answer["job"], f"job/{job_id}"
    story, logs, cost, pauses = await asyncio.gather(
        timeline(view, work), _attempts(view, work), _cost(view, work), view.desk.ask("pause.list")
    )
    main = joined(
        _head(view, work, job.get("kind", ""), job["state"], job),
        _pause(view, work, pauses.get("pauses", [])),
        facts(_plain(job)),
        section("What was asked", _text(job.get("payload"))),
        section("Artefacts", _text(job.get("artifacts"))) if job.get("artifacts") else None,
        section("Attempts and logs", logs),
        section("Cost", cost) if cost else None,
        section("Timeline", story, id_="timeline"),
    )
    return Page(plain(job_id), main)


def _missing(kind: str, name: str, answer: Record) -> Page:
    why = told(str(answer.get("diagnostic", "")), is_bad=True)
    near = tag(
        "p",
        tag("a", "Look for it", href=url("/work", kind=f"{kind}s", q=name[:100])),
        " among all work.",
    )
    return Page("Not found", joined(tag("h1", f"No such {kind}"), why, near), 404)


def _head(view: PageView, work: str, title: str, status: str, record: Record) -> Markup:
    name = plain(work.partition("/")[2])
    return joined(
        tag("h1", tag("span", name, class_="id"), " ", plain(title)),
        tag(
            "p", state(status), " ", ways(view, work, status, record.get("approval")), class_="bar"
        ),
    )


def _pause(view: PageView, work: str, pauses: list[Record]) -> Markup:
    if any(each["scope"] == work for each in pauses):
        return tag("p", button(view, "unpause", "Let it go on", scope=work), class_="bar")
    return tag("p", button(view, "pause", "Pause this one", scope=work), class_="bar")


def _plain(record: Record) -> Iterator[tuple[str, Child]]:
    for member, name in _PLAIN_FACTS:
        value = record.get(member)
        if value not in (None, ""):
            yield name, plain(str(value))


def _labels(issue: Record) -> Markup | None:
    found = _lines(issue.get("labels"))
    links = (tag("a", plain(each), href=url("/work", label=each), class_="label") for each in found)
    return joined(links) if found else None


def _lines(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    return [each for each in str(value or "").split("\n") if each]


def _lease(view: PageView, work: str, lease: Record | None) -> Markup:
    if not lease:
        return tag("p", "No one holds it.")
    asks = f"Take {work} away from {lease.get('owner', '')}?"
    return joined(
        facts(
            [
                ("state", state(str(lease.get("state", "")))),
                ("holder", plain(str(lease.get("owner", "")))),
                ("fence", str(lease.get("fence", ""))),
                ("since", str(lease.get("acquiredAt", ""))),
                ("until", str(lease.get("expiresAt", ""))),
                ("lease", tag("code", plain(str(lease.get("leaseId", ""))))),
            ]
        ),
        button(view, "break", "Break the lease", work=work, danger=True, asks=asks),
    )


def _texts(issue: Record) -> Markup:
    made = [
        section(name, tag("pre", str(issue[member])[:_TEXT_LENGTH_MAX], class_="text"))
        for member, name in _TEXTS
        if issue.get(member)
    ]
    if issue.get("handover"):
        made.append(section("Hand-over", _text(issue["handover"])))
    return joined(made)


def _text(value: Any) -> Markup:
    import json  # indented, for people

    shown = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return tag("pre", shown[:_TEXT_LENGTH_MAX], class_="text", tabindex="0")


async def _attempts(view: PageView, name: str) -> Markup:
    found = await view.desk.in_thread(lambda: attempts.attempts_of(view.desk.state_dir, name))
    work = name if name.startswith("job/") else f"issue/{name}"
    rows = await view.desk.in_thread(lambda: [_attempt(work, each) for each in reversed(found)])
    columns = ("attempt", "output", "bytes", "ended")
    return table(columns, rows, caption="Attempts", empty="No output is kept.")


def _attempt(work: str, each: attempts.Attempt) -> list[Child]:
    output, record = each.output(), each.record()
    target = url(f"/logs/read/{part(work)}", attempt=each.number, run=each.run)
    size, _ = output.extent()
    ended = (
        "is written" if output.is_written() else str(record.get("ended", record.get("exit", "")))
    )
    name = f"{each.number}" if each.run == 1 else f"{each.number}.{each.run}"
    return [name, tag("a", "read", href=target), size, plain(ended)]


async def _cost(view: PageView, work: str) -> Markup | None:
    rows = await view.desk.query("SELECT * FROM spend WHERE resource = ?", work)
    if not rows:
        return None
    (row,) = rows
    return facts(
        [
            ("tokens", f"{row['tokens']:,}"),
            ("dollars", f"{row['usd_micros'] / 1_000_000:.4f}"),
            ("seconds", f"{row['milliseconds'] / 1000:,.1f}"),
        ]
    )


async def _descent(view: PageView, issue_id: str) -> Markup | None:
    sections, obstructions = await asyncio.gather(
        view.desk.query("SELECT * FROM section WHERE issue_id = ?", issue_id),
        view.desk.query(
            "SELECT * FROM obstruction WHERE section_id = ? ORDER BY seq DESC LIMIT 20", issue_id
        ),
    )
    if not sections and not obstructions:
        return None
    made = [
        facts(
            [
                ("section", state(each["status"])),
                ("to", plain(each["target"])),
                ("commit", tag("code", plain(each["commit_id"]))),
                ("paths", str(each["path_count"])),
                ("fence", str(each["fence"])),
            ]
        )
        for each in sections
    ]
    rows = (
        [
            plain(each["kind"]),
            plain((each["paths"] or "").replace("\n", ", "))[:500],
            plain(each["ended"] or "open"),
            work_link(f"issue/{each['new_id']}") if each["new_id"] else "",
        ]
        for each in obstructions
    )
    columns = ("kind", "paths", "ended with", "filed as")
    return joined(made, table(columns, rows, caption="Obstructions") if obstructions else None)


def _camel(row: Record) -> Record:
    """A row of the tables as answers spell it; what is empty is left out."""
    return {_joined(name): value for name, value in row.items() if value not in (None, "", 0)}


def _joined(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
