"""Now: the tree, who works on what, how much waits, and what needs a person."""

import asyncio
from collections.abc import Iterator
from typing import Any

from ....contracts import ALL_WORK, ESCALATION
from ...budget_use import BudgetUse, budget_uses
from ..desk import ConsoleDesk, Record
from ..markup import Child, Markup, joined, tag, url
from ..view import Page, PageView
from .layout import plain
from .parts import (
    button,
    cards,
    duration,
    moment,
    row_link,
    section,
    state,
    table,
    work_link,
)
from .tree_picture import tree_picture

_WAITING_MAX = 25  # of what needs a person
_REFUSALS_MAX = 8
_RESTS_MAX = 10


async def page(view: PageView) -> Page:
    """Everything that one person looks at first."""
    desk = view.desk
    picture, counts, pauses, budgets, people, refused = await asyncio.gather(
        desk.picture(),
        _counts(desk),
        desk.ask("pause.list"),
        desk.ask("spend.show", {}),
        _for_a_person(desk),
        desk.steps(None, _REFUSALS_MAX, result="refused"),
    )
    terms = _terms(picture) if picture else []
    resting = _rests(picture) if picture else []
    main = joined(
        tag("h1", "Now"),
        _cards(counts, len(resting)),
        tag(
            "figure",
            tag("canvas", id="rate", width=960, height=72, role="img", aria_label="Decisions"),
            tag("figcaption", "decisions and refusals a second, the last two minutes"),
            id="rate-box",
            hidden=True,
        ),
        _pauses(view, pauses.get("pauses", [])),
        section("Needs a person", _people(view, people), id_="people"),
        section("At work", _at_work(view, terms), id_="at-work"),
        section("Tree", _tree(picture), id_="tree"),
        section("Resting", _resting(resting)) if resting else None,
        section("Budgets", _budgets(budgets)),
        section("Refused last", _refused(refused)),
    )
    return Page("Now", main)


async def _counts(desk: ConsoleDesk) -> Record:
    """How much there is of everything; what is ready the authority itself says."""
    status, issues, jobs, held = await asyncio.gather(
        desk.ask("issue.backend_status"),
        desk.query("SELECT status, count(*) AS n FROM issue GROUP BY status"),
        desk.query("SELECT status, count(*) AS n FROM job GROUP BY status"),
        desk.query("SELECT count(*) AS n FROM lease WHERE resource LIKE 'issue/%'"),
    )
    return {
        "ready": status.get("readyCount", "?"),
        "held": held[0]["n"],
        "issues": {each["status"]: each["n"] for each in issues},
        "jobs": {each["status"]: each["n"] for each in jobs},
    }


def _cards(counts: Record, resting: int) -> Markup:
    issues, jobs = counts["issues"], counts["jobs"]
    waiting = issues.get("open", 0) - counts["ready"] if isinstance(counts["ready"], int) else "?"
    numbers: list[tuple[str, Child, str | None]] = [
        ("ready", counts["ready"], url("/work", status="open")),
        ("held", counts["held"], url("/work", status="in_progress")),
        ("waiting", waiting, url("/work", status="open")),
        ("resting", resting, None),
        ("blocked", issues.get("blocked", 0), url("/work", status="blocked")),
        ("done", issues.get("closed", 0), url("/work", status="closed")),
    ]
    if jobs:
        numbers += [
            ("jobs pending", jobs.get("pending", 0), url("/work", kind="jobs", status="pending")),
            ("jobs held", jobs.get("claimed", 0), url("/work", kind="jobs", status="claimed")),
            ("jobs done", jobs.get("completed", 0), url("/work", kind="jobs", status="completed")),
        ]
    return cards(numbers)


# --- pauses and people ----------------------------------------------------------------------------


def _pauses(view: PageView, pauses: list[Record]) -> Markup:
    if not pauses:
        asks = "Pause all work? What runs goes on."
        return tag(
            "div", button(view, "pause", "Pause all", scope=ALL_WORK, asks=asks), class_="bar"
        )
    rows = (
        [
            each["scope"],
            plain(each["byName"]),
            plain(each["reason"]),
            button(view, "unpause", "Let it go on", scope=each["scope"]),
        ]
        for each in pauses
    )
    made = table(("scope", "by", "why", ""), rows, caption="Paused")
    return tag("div", made, class_="told bad")


async def _for_a_person(desk: ConsoleDesk) -> list[Record]:
    """Escalations, what waits for an approval, and what is blocked: the newest of each.

    What the policy withholds by a label waits as well, and no column says so: those labels are
    looked for.
    """
    policy = (await desk.ask("issue.backend_status")).get("policy", {})
    labels = [each.removeprefix("label/") for each in policy.get("approve", [])]
    wanted = ["approval = 'waiting'", "status = 'blocked'", "(issue_type = ? AND status = 'open')"]
    where = " OR ".join(wanted)
    found = await desk.query(
        "SELECT id, title, status, issue_type, approval, labels, steered_by, steered_why, notes "
        f"FROM issue WHERE {where} ORDER BY updated_at DESC LIMIT {_WAITING_MAX}",
        ESCALATION,
    )
    rows = [{"resource": f"issue/{each['id']}", **each} for each in found]
    for label in labels:
        rows += await _withheld(desk, label, _WAITING_MAX - len(rows))
    jobs = await desk.query(
        "SELECT job_id, kind, status, approval, reason FROM job "
        f"WHERE approval = 'waiting' ORDER BY scheduled_ms DESC LIMIT {_WAITING_MAX}"
    )
    return rows + [
        {"resource": f"job/{each['job_id']}", "title": each["kind"], **each} for each in jobs
    ]


async def _withheld(desk: ConsoleDesk, label: str, most: int) -> list[Record]:
    """Open issues that the policy withholds by a label until a person has approved them."""
    found = await desk.query(
        "SELECT id, title, status, issue_type, 'waiting' AS approval, labels FROM issue "
        "WHERE status = 'open' AND coalesce(approval, '') = '' AND labels LIKE ? LIMIT ?",
        f"%{label}%",
        max(0, most),
    )
    return [
        {"resource": f"issue/{each['id']}", **each}
        for each in found
        if label in (each["labels"] or "").splitlines()
    ]


def _people(view: PageView, people: list[Record]) -> Markup:
    rows = (
        [
            work_link(each["resource"]),
            state(_need(each)),
            plain(each["title"]),
            joined(_ways_out(view, each)),
        ]
        for each in people
    )
    return table(
        ("work", "why", "title", "actions"), rows, caption="Needs a person", empty="Nothing does."
    )


def _need(each: Record) -> str:
    if each.get("approval") == "waiting":
        return "waiting"
    return "blocked" if each["status"] == "blocked" else "escalation"


def _ways_out(view: PageView, each: Record) -> Iterator[Markup]:
    work = each["resource"]
    if each.get("approval") == "waiting":
        yield button(view, "approve", "Approve", work=work)
        yield button(view, "reject", "Reject", work=work, danger=True, asks=f"Reject {work}?")
    elif each["status"] == "blocked":
        yield button(view, "retry", "Retry", work=work)
        yield button(view, "cancel", "Cancel", work=work, danger=True, asks=f"Cancel {work}?")


# --- the tree -------------------------------------------------------------------------------------


def _terms(picture: Record) -> list[tuple[str, Record]]:
    jobs = picture.get("jobs") or {}
    found = [(f"issue/{each['issue']}", each) for each in picture["dispatcher"].get("terms", [])]
    return found + [(f"job/{each['job']}", each) for each in jobs.get("terms", [])]


def _at_work(view: PageView, terms: list[tuple[str, Record]]) -> Markup:
    rows = (
        [
            work_link(work),
            plain(term.get("title") or ""),
            state(term["phase"]),
            duration(term.get("runsMs")),
            term["attempt"],
            term["fence"],
            duration(term.get("remainingMs")),
            plain(term["worker"]),
            joined(
                button(
                    view, "cancel", "Cancel", work=work, danger=True,
                    asks=f"Cancel {work}? Its command is stopped.",
                ),
                button(view, "pause", "Pause", scope=work),
                button(view, "break", "Break", work=work, danger=True, asks=f"Break {work}?")
                if work.startswith("issue/")
                else None,
            ),
        ]
        for work, term in terms
    )  # fmt: skip
    columns = ("work", "title", "phase", "runs", "attempt", "fence", "lease", "worker", "actions")
    return table(columns, rows, caption="At work", empty="No worker of a tree is at work.")


def _tree(picture: Record | None) -> Markup:
    if picture is None:
        return tag("p", "No tree runs here. ", tag("code", "understudy up"), " starts one.")
    return tree_picture(picture)


def _rests(picture: Record) -> list[tuple[str, Record]]:
    jobs = picture.get("jobs") or {}
    found = [(f"issue/{each['issue']}", each) for each in picture["dispatcher"].get("rests", [])]
    return found + [(f"job/{each['job']}", each) for each in jobs.get("rests", [])]


def _resting(rests: list[tuple[str, Record]]) -> Markup:
    rows = (
        [work_link(work), duration(rest["restMs"]), plain(rest["why"])]
        for work, rest in rests[:_RESTS_MAX]
    )
    return table(("work", "for", "why"), rows, caption=f"Resting: {len(rests)}")


# --- money and refusals ---------------------------------------------------------------------------


def _budgets(answer: Record) -> Markup:
    rows = (_budget(each) for each in budget_uses(answer))
    columns = ("scope", "for each", "at most", "used")
    return table(columns, rows, caption="Budgets", empty="None is set.")


def _budget(use: BudgetUse) -> list[Child]:
    caps = ", ".join(f"{cap:,} {unit}" for unit, cap in use.caps.items())
    if use.ratio is None:
        return [plain(use.scope), use.per, caps, ""]
    percent = round(100 * use.ratio)
    bar = tag("meter", f"{percent} %", min=0, max=100, value=min(100, percent), aria_label="used")
    return [plain(use.scope), use.per, caps, joined(bar, f" {percent} %")]


def _refused(steps: list[Any]) -> Markup:
    rows = (
        [
            row_link(each.seq),
            moment(each.at_ms),
            each.action,
            work_link(each.work) if each.work else "",
            tag("code", each.result),
            plain(each.who),
        ]
        for each in steps
    )
    columns = ("row", "when", "action", "work", "class", "who")
    return table(columns, rows, caption="Refused last", empty="Nothing was refused.")
