"""Rooms meet at the door: nobody imports past another room's `__init__`."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("contracts", "authority", "actors", "mesh", "surfaces")
# Packages with a front of their own; everything else comes from the room's.
SHOWN = {"understudy.authority.conformance", "understudy.actors.otp", "understudy.actors.tree"}


def _reaches(path: Path) -> list[str]:
    """Imports that go into another room, as absolute names."""
    package = ["understudy", *path.relative_to(ROOT).parent.parts]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = [*base, *(node.module or "").split(".")]
            if len(target) > 2 and target[1] != package[1]:
                found.append(".".join(target))
    return found


@pytest.mark.parametrize(
    "path",
    [each for room in ROOMS for each in sorted((ROOT / room).rglob("*.py"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_room_is_entered_through_its_front(path: Path) -> None:
    assert set(_reaches(path)) <= SHOWN
