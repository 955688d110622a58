"""HTML, put together so that no text can become markup: what is not `Markup` is escaped."""

from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

_VOID = frozenset({"br", "hr", "input", "link", "meta", "img"})

Child = Any  # text, a number, Markup, None, or any number of these


class Markup(str):
    """HTML that we have put together; it goes out as it is."""

    __slots__ = ()


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element. `class_` is `class`, `data_x` is `data-x`; what is None or False is left out."""
    words = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{words}>")
    return Markup(f"<{name}{words}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """One after another."""
    return Markup("".join(map(_child, children)))


def url(path: str, /, **query: str | int | None) -> str:
    """A path of ours, whose parts are quoted by `part`, and what is asked there."""
    asked = {key.rstrip("_"): value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(asked)}" if asked else path


def part(text: str) -> str:
    """A piece of a path, whatever is in it; a slash too."""
    return quote(text, safe="")


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def _child(value: Child) -> str:
    if isinstance(value, Markup):
        return value
    if value is None or value is False:
        return ""
    if isinstance(value, str | int | float):
        return escape(str(value))
    assert isinstance(value, Iterable)
    return "".join(map(_child, value))
