"""The supervision tree as a picture: SVG, made here, so that it needs no script."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..markup import Markup, tag
from .parts import duration

_WIDTH, _HEIGHT, _GAP = 168, 44, 14
_CHILDREN_MAX = 24  # of one supervisor; the rest is counted
_TONES = {"running": "good", "starting": "busy", "stopping": "busy"}


class _Box(NamedTuple):
    x: int
    y: int
    name: str
    about: str
    tone: str


def tree_picture(picture: dict[str, Any]) -> Markup:
    """Children from left to right in the order of their start; what they supervise below them."""
    children = picture["tree"]
    columns = max(1, len(children))
    width = columns * (_WIDTH + _GAP) - _GAP
    root = _Box((width - _WIDTH) // 2, 0, "coord_sup", "rest for one", "good")
    boxes, lines = [root], []
    deepest = 0
    for place, child in enumerate(children):
        box = _Box(
            place * (_WIDTH + _GAP), _HEIGHT + 2 * _GAP, child["id"], _about(child), _tone(child)
        )
        boxes.append(box)
        lines.append(_line(root, box))
        below = list(_below(child, box))
        deepest = max(deepest, len(below))
        for each in below:
            boxes.append(each)
            lines.append(_line(box, each))
    height = (_HEIGHT + 2 * _GAP) + _HEIGHT + deepest * (_HEIGHT + _GAP) + _GAP
    said = ", ".join(f"{each.name} {each.about}" for each in boxes[1:])
    drawn = tag(
        "svg",
        tag("title", "The supervision tree"),
        tag("desc", said),
        lines,
        map(_drawn, boxes),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=f"The supervision tree: {said}",
        class_="tree",
    )
    return tag("div", drawn, class_="scroll", tabindex="0", role="region", aria_label="Tree")


def _below(child: dict[str, Any], above: _Box) -> Iterator[_Box]:
    found = child.get("children", [])
    for place, each in enumerate(found[:_CHILDREN_MAX]):
        y = above.y + (place + 1) * (_HEIGHT + _GAP)
        yield _Box(above.x, y, each["id"], _about(each), _tone(each))
    if len(found) > _CHILDREN_MAX:
        y = above.y + (_CHILDREN_MAX + 1) * (_HEIGHT + _GAP)
        yield _Box(above.x, y, f"and {len(found) - _CHILDREN_MAX} more", "", "dim")


def _about(child: dict[str, Any]) -> str:
    words = [child["state"]]
    if child.get("upMs") is not None:
        words.append(f"up {duration(child['upMs'])}")
    if child.get("restarts"):
        words.append(f"{child['restarts']} restarts")
    return ", ".join(words)


def _tone(child: dict[str, Any]) -> str:
    if child.get("restarts") and child["state"] == "running":
        return "wait"
    return _TONES.get(child["state"], "bad")


def _line(above: _Box, below: _Box) -> Markup:
    x, y = above.x + _WIDTH // 2, above.y + _HEIGHT
    if above.x == below.x:
        path = f"M{x} {y}V{below.y}"
    else:
        middle = y + _GAP
        path = f"M{x} {y}V{middle}H{below.x + _WIDTH // 2}V{below.y}"
    return tag("path", d=path, class_="edge")


def _drawn(box: _Box) -> Markup:
    middle = box.x + _WIDTH // 2
    return tag(
        "g",
        tag("rect", x=box.x, y=box.y, width=_WIDTH, height=_HEIGHT, rx=6),
        tag("text", box.name, x=middle, y=box.y + 19, text_anchor="middle", class_="name"),
        tag("text", box.about, x=middle, y=box.y + 34, text_anchor="middle", class_="about"),
        class_=f"box {box.tone}",
    )
