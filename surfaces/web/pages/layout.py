"""The frame around every page: its head, the way to the others, and how fresh it is."""

from typing import Final

from ..desk import DeskTime
from ..markup import Markup, tag
from ..sessions import Visitor

# what stands in the navigation: path, name, the key that goes there after `g`
PAGES: Final = (
    ("/", "Now", "n"),
    ("/work", "Work", "w"),
    ("/descent", "Descent", "d"),
    ("/evidence", "Evidence", "e"),
    ("/logs", "Logs", "l"),
    ("/doctor", "Doctor", "o"),
)
_DOCTYPE = "<!doctype html>\n"


def document(
    title: str, main: Markup, *, visitor: Visitor, time: DeskTime, path: str, place: str
) -> bytes:
    """A whole page. `#main` is what a script replaces when something has changed."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="csrf", content=visitor.csrf),
        tag("title", f"{title} · Understudy"),
        tag("link", rel="stylesheet", href="/static/console.css"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("script", src="/static/console.js", type="module"),
    )
    body = tag(
        "body",
        tag("a", "To the content", class_="skip", href="#main"),
        _header(visitor, path, place),
        tag("main", main, id="main", tabindex="-1", data_seq=time.index_high),
        _footer(time),
        data_seq=time.index_high,
    )
    return (_DOCTYPE + tag("html", head, body, lang="en")).encode(errors="replace")


def _header(visitor: Visitor, path: str, place: str) -> Markup:
    links = [
        tag(
            "a",
            name,
            href=target,
            aria_current="page" if _is_current(target, path) else None,
            data_key=key,
        )
        for target, name, key in PAGES
    ]
    leave = tag(
        "form",
        csrf(visitor),
        tag("button", "Sign out", class_="quiet"),
        method="post",
        action="/leave",
    )
    return tag(
        "header",
        tag("a", "Understudy", class_="brand", href="/"),
        tag("nav", links, aria_label="Pages"),
        tag(
            "div",
            tag("span", "", id="pulse", class_="pulse", role="status", aria_live="polite"),
            tag("span", place, class_="place", title=place),
            tag("span", visitor.name, class_="who"),
            leave,
            class_="aside",
        ),
        class_="top",
    )


def _is_current(target: str, path: str) -> bool:
    return path == target if target == "/" else path.startswith(target)


def _footer(time: DeskTime) -> Markup:
    shown = min(time.tables, time.index_high)
    behind = time.head - shown
    text = f"as of row {shown}" + (f", {behind} behind" if behind > 0 else "")
    if time.index_low > 1:
        text += f"; rows before {time.index_low} are still being read"
    return tag("footer", tag("span", text, id="fresh"), " ", tag("kbd", "?"), " shows the keys")


def csrf(visitor: Visitor) -> Markup:
    """The word that a change must carry."""
    return tag("input", type="hidden", name="csrf", value=visitor.csrf)


def entered() -> bytes:
    """Behind the one-time link: a page of ours that goes on, so that the cookie is sent."""
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="refresh", content="0; url=/"),
        tag("title", "Understudy"),
        tag("link", rel="stylesheet", href="/static/console.css"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
    )
    body = tag("main", tag("p", tag("a", "To the console", href="/")), class_="alone")
    return (_DOCTYPE + tag("html", tag("head", head), tag("body", body), lang="en")).encode()


def signed_out(why: str = "You are not signed in.") -> str:
    """For one who has no session: how to get one."""
    main = tag(
        "main",
        tag("h1", "Understudy"),
        tag("p", why),
        tag("p", "On the machine where it runs, this prints a link that opens once:"),
        tag("pre", "understudy web --link"),
        class_="alone",
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("title", "Understudy: signed out"),
        tag("link", rel="stylesheet", href="/static/console.css"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
    )
    return _DOCTYPE + tag("html", head, tag("body", main), lang="en")


def plain(text: str) -> str:
    """Text on one line, whatever was written into it; still to be escaped."""
    return "".join(each if each.isprintable() else " " for each in text)
