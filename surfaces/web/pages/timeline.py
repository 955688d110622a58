"""What happened to one piece of work: every row about it, in words, and the terms as bars.

Rows of one sort that follow one another (renewals, mostly) are folded into one line.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from ....authority.journal import journal
from ....authority.views import evidence_index
from ....contracts import limits
from ..markup import Child, Markup, joined, tag, url
from ..view import PageView
from .layout import plain
from .parts import duration, moment, row_link, table

_WIDTH, _HEIGHT = 960, 56
_FOLDED = frozenset({"issue.lease_renew", "job.claim", "issue.claim", "spend.report"})
_WORDS = {
    "issue.add": "added",
    "issue.import": "imported",
    "issue.claim": "claimed",
    "issue.claim_next": "claimed",
    "issue.lease_renew": "renewed",
    "issue.lease_release": "released",
    "issue.lease_break": "lease broken",
    "issue.lease_reconcile": "leases reconciled",
    "issue.close": "closed",
    "issue.update": "changed",
    "issue.discover": "something was discovered",
    "issue.handover": "handed over",
    "issue.cancel": "cancelled",
    "issue.retry": "to be tried again",
    "issue.prioritize": "another priority",
    "approval.ask": "waits for a person",
    "approval.give": "a person decided",
    "pause.set": "paused",
    "pause.clear": "unpaused",
    "dep.add": "waits for another",
    "dep.remove": "waits no more for another",
    "spend.report": "cost reported",
    "descent.section": "section recorded",
    "descent.glue": "glue authorised",
    "descent.seal": "glued",
    "descent.obstruct": "obstructed",
    "descent.abort": "taken out",
    "descent.overlap": "overlap found",
    "job.schedule": "scheduled",
    "job.claim": "claimed",
    "job.complete": "completed",
    "job.yield": "yielded",
    "job.expire": "expired",
    "job.cancel": "cancelled",
    "job.retry": "to be tried again",
    "dispatch.claim": "dispatch claimed",
    "dispatch.complete": "dispatched",
    "spec.materialize": "made of its spec",
}
_BEGINS = frozenset({"issue.claim", "issue.claim_next", "job.claim"})
_ENDS = {
    "issue.close": "good", "job.complete": "good", "descent.section": "good",
    "issue.lease_release": "wait", "job.yield": "wait", "issue.handover": "wait",
    "issue.lease_break": "bad", "issue.cancel": "dim", "job.cancel": "dim", "job.expire": "bad",
    "issue.update": "wait", "approval.ask": "wait",
}  # fmt: skip

Step = evidence_index.EvidenceStep


class TermBar(NamedTuple):
    """One stretch under one fence, until the row that ended it; None where none is known."""

    fence: int
    begin_ms: int
    end_ms: int | None
    tone: str


async def timeline(view: PageView, work: str) -> Markup:
    """The newest rows first; an older part by `before`."""
    before = view.asked_number("before")
    steps = await view.desk.steps(before, limits.WEB_PAGE_ROWS + 1, work=work)
    shown = steps[: limits.WEB_PAGE_ROWS]
    refused = [each.seq for each in shown if each.is_refused]
    rows = await view.desk.rows(refused)
    made = table(
        ("row", "when", "what", "fence", "who", "why"),
        (_line(group, rows) for group in _folded(shown)),
        caption="Timeline, newest first",
        empty="Nothing is known yet.",
    )
    pager = None
    if len(steps) > len(shown):
        target = url(view.request.url.path, before=shown[-1].seq)
        pager = tag("p", tag("a", "Older", href=target, rel="next"), class_="pager")
    return joined(_bars(shown), made, pager)


def _folded(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Alone, but for rows of one sort under one fence that follow one another."""

    def sort(step: Step) -> tuple[object, ...]:
        is_folded = step.action in _FOLDED and not step.is_refused
        return (step.action, step.fence, step.who) if is_folded else (step.seq,)

    for _, group in groupby(steps, sort):
        yield list(group)


def _line(group: Sequence[Step], rows: Mapping[int, journal.Row]) -> list[Child]:
    first = group[0]
    what = _WORDS.get(first.action, first.action)
    if len(group) > 1:
        last = group[-1]
        word = "renewed" if first.action.endswith("claim") else what
        numbers = tag(
            "ul", (tag("li", row_link(each.seq), " ", moment(each.at_ms)) for each in group)
        )
        said = f"{word} {len(group)} times, rows {last.seq} to {first.seq}"
        shown: Child = tag("details", tag("summary", said), numbers)
    elif first.is_refused:
        shown = joined(tag("strong", "refused"), f" {what}")
    else:
        shown = what
    fence = "" if first.fence is None else first.fence
    return [
        row_link(first.seq),
        moment(first.at_ms),
        shown,
        fence,
        plain(first.who),
        _why(first, rows),
    ]


def _why(step: Step, rows: Mapping[int, journal.Row]) -> Child:
    if not step.is_refused:
        return ""
    found: dict[str, Any] = orjson.loads(rows[step.seq].response) if step.seq in rows else {}
    return joined(tag("code", step.result), " ", plain(str(found.get("diagnostic", ""))))


# --- the picture ----------------------------------------------------------------------------------


def terms_of(steps: Sequence[Step]) -> list[TermBar]:
    """The terms that rows tell of, oldest first; `steps` come newest first."""
    found: dict[int, TermBar] = {}
    for step in reversed(steps):
        if step.fence is None or step.is_refused:
            continue
        if step.action in _BEGINS and step.fence not in found:
            for fence, term in found.items():
                if term.end_ms is None:  # it had lapsed, or was lost
                    found[fence] = term._replace(end_ms=step.at_ms, tone="bad")
            found[step.fence] = TermBar(step.fence, step.at_ms, None, "busy")
        elif step.action in _ENDS and step.fence in found:
            found[step.fence] = found[step.fence]._replace(
                end_ms=step.at_ms, tone=_ENDS[step.action]
            )
    return list(found.values())


def _bars(steps: Sequence[Step]) -> Markup | None:
    terms = terms_of(steps)
    if not terms:
        return None
    begin_ms, end_ms = steps[-1].at_ms, max(steps[0].at_ms, steps[-1].at_ms + 1)
    scale = _WIDTH / (end_ms - begin_ms)

    def at(ms: int) -> int:
        return round((ms - begin_ms) * scale)

    bars = []
    for term in terms:
        x, to = at(term.begin_ms), at(term.end_ms or end_ms)
        lasted = duration((term.end_ms or end_ms) - term.begin_ms)
        said = f"fence {term.fence}, {lasted}" + ("" if term.end_ms else ", goes on")
        box = tag("rect", tag("title", said), x=x, y=8, width=max(2, to - x), height=22, rx=3)
        bars.append(tag("g", box, class_=f"bar {term.tone}"))
    marks = [
        tag(
            "path",
            tag("title", f"refused: {each.result}"),
            d=f"M{at(each.at_ms)} 34v14",
            class_="mark",
        )
        for each in steps
        if each.is_refused
    ]
    label = f"{len(terms)} terms and {len(marks)} refusals in {duration(end_ms - begin_ms)}"
    return tag(
        "figure",
        tag(
            "svg",
            tag("title", label),
            tag("path", d=f"M0 32H{_WIDTH}", class_="edge"),
            bars,
            marks,
            viewBox=f"-4 0 {_WIDTH + 8} {_HEIGHT}",
            class_="timeline",
            role="img",
            aria_label=label,
        ),
        tag("figcaption", f"{label}; a bar is a term, a mark a refusal"),
    )
