"""What waits for what, as a picture: SVG in layers, made here, so that it needs no script.

A node stands one layer below the deepest one that it waits for. Within a layer nodes are ordered by
the middle of their neighbours, a few sweeps up and down. A cycle is cut where it is met.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ....contracts import limits
from ..desk import ConsoleDesk, Record
from ..markup import Markup, part, tag
from ..view import PageView
from .layout import plain

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 150, 36, 18, 44
_SWEEPS = 3
_LEVELS = 3  # around one issue
_AT_ONCE = 100  # values in one question
_TONES = {
    "closed": "good",
    "in_progress": "busy",
    "gluing": "busy",
    "blocked": "bad",
    "cancelled": "dim",
}

Edge = tuple[str, str]  # who waits, and for what


class Place(NamedTuple):
    """Where a node is drawn."""

    x: int
    y: int


async def issues_graph(view: PageView, ids: Sequence[str]) -> Markup:
    """These issues, and whatever of them waits for one another."""
    chosen = list(ids)[: limits.WEB_GRAPH_NODES_MAX]
    edges = await _edges(view.desk, chosen, both=True)
    known = set(chosen)
    inside = [edge for edge in edges if set(edge) <= known]
    return await _shown(view.desk, chosen, inside, left_out=len(ids) - len(chosen))


async def neighbourhood(view: PageView, issue_id: str) -> Markup | None:
    """What an issue waits for, and what waits for it; None where it stands alone."""
    found, edges, fresh = {issue_id: None}, dict[Edge, None](), [issue_id]
    left_out = 0
    for _ in range(_LEVELS):
        step = await _edges(view.desk, fresh, both=True)
        around = [name for edge in step for name in edge if name not in found]
        room = limits.WEB_GRAPH_NODES_MAX - len(found)
        fresh = list(dict.fromkeys(around))
        left_out += max(0, len(fresh) - room)
        fresh = fresh[:room]
        found |= dict.fromkeys(fresh)
        edges |= dict.fromkeys(edge for edge in step if set(edge) <= found.keys())
        if not fresh:
            break
    if len(found) == 1:
        return None
    return await _shown(view.desk, list(found), list(edges), left_out=left_out)


async def _edges(desk: ConsoleDesk, ids: Sequence[str], *, both: bool) -> list[Edge]:
    rows: list[Record] = []
    for start in range(0, len(ids), _AT_ONCE):
        part_of = ids[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(part_of))
        for column in ("issue_id", "depends_on_id") if both else ("issue_id",):
            rows += await desk.query(
                "SELECT issue_id, depends_on_id FROM dependency "
                f"WHERE blocking = 1 AND {column} IN ({marks}) LIMIT 1000",
                *part_of,
            )
    return list(dict.fromkeys((each["issue_id"], each["depends_on_id"]) for each in rows))


async def _shown(
    desk: ConsoleDesk, ids: Sequence[str], edges: Sequence[Edge], *, left_out: int
) -> Markup:
    rows: list[Record] = []
    for start in range(0, len(ids), _AT_ONCE):
        part_of = ids[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(part_of))
        query = f"SELECT id, title, status FROM issue WHERE id IN ({marks})"
        rows += await desk.query(query, *part_of)
    states = {each["id"]: (each["status"], each["title"]) for each in rows}
    drawn = draw(ids, edges, states)
    note = f"{left_out} more are not drawn." if left_out > 0 else None
    listed = tag(
        "details",
        tag("summary", "The same as a list"),
        tag("ul", (tag("li", f"{plain(one)} waits for {plain(two)}") for one, two in edges)),
    )
    return tag("div", drawn, tag("p", note) if note else None, listed)


def draw(
    ids: Sequence[str], edges: Sequence[Edge], states: Mapping[str, tuple[str, str]]
) -> Markup:
    """The picture; a node is a link to its issue."""
    places = laid_out(ids, edges)
    width = max((place.x for place in places.values()), default=0) + _WIDTH
    height = max((place.y for place in places.values()), default=0) + _HEIGHT
    lines = [_edge(places[two], places[one]) for one, two in edges]
    nodes = [_node(name, places[name], *states.get(name, ("missing", ""))) for name in ids]
    label = f"{len(ids)} issues, {len(edges)} dependencies"
    made = tag(
        "svg",
        tag("title", label),
        tag(
            "defs",
            tag(
                "marker",
                tag("path", d="M0 0L8 4L0 8z", class_="head"),
                id="arrow",
                viewBox="0 0 8 8",
                refX=8,
                refY=4,
                markerWidth=7,
                markerHeight=7,
                orient="auto",
            ),
        ),
        lines,
        nodes,
        viewBox=f"-4 -4 {width + 8} {height + 8}",
        width=width + 8,
        height=height + 8,
        class_="graph",
        role="group",
        aria_label=label,
    )
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label="Graph")


def laid_out(ids: Sequence[str], edges: Iterable[Edge]) -> dict[str, Place]:
    """A place for every node, none of them over another."""
    waits: dict[str, list[str]] = {name: [] for name in ids}
    for one, two in edges:
        if one in waits and two in waits and one != two:
            waits[one].append(two)
    depths = _depths(waits)
    layers: dict[int, list[str]] = {}
    for name in ids:
        layers.setdefault(depths[name], []).append(name)
    neighbours: dict[str, list[str]] = {name: list(found) for name, found in waits.items()}
    for name, found in waits.items():
        for other in found:
            neighbours[other].append(name)
    for sweep in range(_SWEEPS):
        at = {name: place for layer in layers.values() for place, name in enumerate(layer)}
        for depth in sorted(layers, reverse=sweep % 2 == 1):
            layers[depth].sort(key=lambda name: _middle(name, neighbours[name], at))
            at |= {name: place for place, name in enumerate(layers[depth])}
    return {
        name: Place(place * (_WIDTH + _GAP_X), depth * (_HEIGHT + _GAP_Y))
        for depth, layer in layers.items()
        for place, name in enumerate(layer)
    }


def _middle(name: str, neighbours: Sequence[str], at: Mapping[str, int]) -> float:
    return sum(at[each] for each in neighbours) / len(neighbours) if neighbours else at[name]


def _depths(waits: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many stand above each, at the longest; without recursion, and cycles are cut."""
    depths: dict[str, int] = {}
    for start in waits:
        path, open_names = [(start, iter(waits[start]))], {start}
        while path and start not in depths:
            name, rest = path[-1]
            following = next(
                (each for each in rest if each not in depths and each not in open_names), None
            )
            if following is not None:
                path.append((following, iter(waits[following])))
                open_names.add(following)
                continue
            known = [depths[each] for each in waits[name] if each in depths]
            depths[name] = max(known, default=-1) + 1
            open_names.discard(name)
            path.pop()
    return depths


def _edge(above: Place, below: Place) -> Markup:
    x, y = above.x + _WIDTH // 2, above.y + _HEIGHT
    to_x, to_y = below.x + _WIDTH // 2, below.y
    bend = _GAP_Y // 2
    path = f"M{x} {y}C{x} {y + bend} {to_x} {to_y - bend} {to_x} {to_y}"
    return tag("path", d=path, class_="edge", marker_end="url(#arrow)")


def _node(name: str, place: Place, status: str, title: str) -> Markup:
    middle = place.x + _WIDTH // 2
    shown = plain(name) if len(name) <= 20 else f"{plain(name)[:19]}…"
    box = tag("rect", x=place.x, y=place.y, width=_WIDTH, height=_HEIGHT, rx=5)
    said = f"{shown} {status.replace('_', ' ')}: {plain(title)[:100]}"
    return tag(
        "a",
        tag("title", said),
        box,
        tag("text", shown, x=middle, y=place.y + 15, text_anchor="middle", class_="name"),
        tag("text", status.replace("_", " "), x=middle, y=place.y + 29, text_anchor="middle"),
        href=f"/work/issue/{part(name)}",
        class_=f"node {_TONES.get(status, 'plain')}",
    )
