"""The parts that pages are made of: tables, states, buttons that change something, ways onward."""

import secrets
import time
from collections.abc import Iterable, Sequence

from ..markup import Child, Markup, joined, part, tag, url
from ..view import PageView
from .layout import csrf, plain

# which colour a state has; what is not here is plain
_TONES = {
    "accepted": "good", "running": "good", "ready": "good", "completed": "good", "closed": "good",
    "glued": "good", "ok": "good", "done": "good", "active": "good",
    "in_progress": "busy", "claimed": "busy", "held": "busy", "gluing": "busy", "starting": "busy",
    "dispatched": "busy", "stopping": "busy", "resting": "busy",
    "blocked": "bad", "obstructed": "bad", "refused": "bad", "problem": "bad", "stale": "bad",
    "failed": "bad", "cancelled": "dim", "withdrawn": "dim", "waiting": "wait", "note": "wait",
    "open": "plain", "pending": "plain",
}  # fmt: skip


def state(word: str) -> Markup:
    """A state, with a colour and with its word: colour alone says nothing to many."""
    return tag("span", word.replace("_", " "), class_=f"state {_TONES.get(word, 'plain')}")


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Child]], *, caption: str, empty: str = "none"
) -> Markup:
    """A table with a name. A cell is a child of `td`, or a whole cell."""
    lines = [tag("tr", (_cell(each) for each in row)) for row in rows]
    if not lines:
        return tag("p", empty, class_="empty")
    head = tag("thead", tag("tr", (tag("th", _heading(name), scope="col") for name in columns)))
    made = tag("table", tag("caption", caption), head, tag("tbody", lines))
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _heading(name: str) -> Child:
    """What a column is called; one of buttons has a name for those who cannot see them."""
    return name or tag("span", "actions", class_="unseen")


def _cell(value: Child) -> Markup:
    is_cell = isinstance(value, Markup) and value.startswith(("<td", "<th"))
    if is_cell:
        assert isinstance(value, Markup)
        return value
    kind = "number" if isinstance(value, int) else None
    return tag("td", value, class_=kind)


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Names and what they are; what is empty is left out."""
    shown = [(name, value) for name, value in pairs if value not in (None, "", [])]
    return tag("dl", ((tag("dt", name), tag("dd", value)) for name, value in shown))


def work_link(resource: str, text: str | None = None) -> Markup:
    """The page of `issue/ID` or `job/ID`; plain text for what has none."""
    family, _, name = resource.partition("/")
    shown = text or (name if family == "issue" else resource)
    if family not in ("issue", "job"):
        return tag("span", plain(shown))
    return tag("a", plain(shown), href=f"/work/{family}/{part(name)}")


def row_link(seq: int) -> Markup:
    return tag("a", f"{seq}", href=f"/evidence/{seq}", class_="number")


def button(
    view: PageView,
    verb: str,
    text: str,
    *,
    danger: bool = False,
    asks: str | None = None,
    **fields: str | int,
) -> Markup:
    """A form of one button, which goes to `actions` and comes back here.

    The form has a request id, so that what is sent twice is done once. `asks` is what a script has
    the person confirm first; without scripts the page that follows says what was done.
    """
    hidden = [tag("input", type="hidden", name=name, value=value) for name, value in fields.items()]
    return tag(
        "form",
        csrf(view.visitor),
        tag("input", type="hidden", name="back", value=view.here),
        tag("input", type="hidden", name="request", value=f"web-{secrets.token_hex(8)}"),
        hidden,
        tag("button", text, class_="danger" if danger else None, data_asks=asks),
        method="post",
        action=f"/act/{verb}",
        class_="action",
    )


def moment(at_ms: int) -> Markup:
    """A moment, in UTC; a script shows how long ago it was."""
    whole = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms / 1000))
    iso = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03d}Z"
    return tag("time", f"{whole}", datetime=iso)


def duration(milliseconds: int | None) -> str:
    """A stretch of time, in at most two units."""
    if milliseconds is None:
        return "?"
    seconds = max(0, milliseconds) // 1000
    for size, unit, rest, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // rest}{below}"
    return f"{seconds // 60}m {seconds % 60}s" if seconds >= 60 else f"{seconds}s"


def older(view: PageView, cursor: str | int | None, **kept: str | int | None) -> Markup | None:
    """The way to the next part of a list, where there is one."""
    if cursor is None:
        return None
    target = url(view.request.url.path, **kept, before=cursor)
    return tag("p", tag("a", "Older", href=target, rel="next"), class_="pager")


def section(title: str, *children: Child, id_: str | None = None) -> Markup:
    return tag("section", tag("h2", title), children, id=id_)


def cards(numbers: Iterable[tuple[str, Child, str | None]]) -> Markup:
    """A few numbers, large: name, value, and where one leads."""
    made = []
    for name, value, target in numbers:
        inside = joined(tag("strong", value), tag("span", name))
        made.append(tag("a", inside, href=target) if target else tag("div", inside))
    return tag("div", made, class_="cards")


def told(text: str, *, is_bad: bool = False) -> Markup:
    """What became of something that was asked for."""
    return tag("p", text, class_="told bad" if is_bad else "told", role="status")
