"""Rooms meet at the door: an import from another room names a front, and what it offers.

A front is the `__init__` of a room or of a room within it. What it offers are the names that
it imports as themselves, and those in its `__all__`: modules too, which load when they are needed.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("contracts", "authority", "actors", "mesh", "surfaces")


def _reaches(path: Path) -> Iterator[tuple[str, str]]:
    """Imports that go into another room: the package or module, and the name."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = [*base, *filter(None, (node.module or "").split("."))]
            if target and target[0] != package[0]:
                yield from (("/".join(target), alias.name) for alias in node.names)


def _offers(package: str) -> set[str]:
    """What the front of a package offers; nothing where it is no package."""
    front = ROOT / package / "__init__.py"
    offered: set[str] = set()
    for node in ast.walk(ast.parse(front.read_text() if front.exists() else "")):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            offered.update(ast.literal_eval(node.value))
        elif isinstance(node, ast.ImportFrom):
            offered.update(alias.name for alias in node.names if alias.name == alias.asname)
    return offered


def test_a_room_is_entered_through_its_front() -> None:
    past = [
        f"{path.relative_to(ROOT)}: {name} of {package}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for package, name in _reaches(path)
        if name not in _offers(package)
    ]
    assert past == []


def test_a_front_offers_only_what_is_there() -> None:
    missing = [
        f"{front.relative_to(ROOT)}: {name}"
        for room in ROOMS
        for front in sorted((ROOT / room).rglob("__init__.py"))
        for name in _offers(str(front.parent.relative_to(ROOT)))
        if not (front.with_name(f"{name}.py").exists() or front.with_name(name).is_dir())
        and name not in front.read_text().replace(f'"{name}"', "")
    ]
    assert missing == []
