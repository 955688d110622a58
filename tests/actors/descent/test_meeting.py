"""Sections that wait, held against each other."""

from pathlib import Path

import pytest

from tests.actors.descent.glue_world import WHO, GlueWorld


def test_two_sections_of_one_commit_agree_and_are_both_glued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, one of them was said to overlap with itself, and the gluer was refused."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setitem(WHO, f"GIT_{role}_DATE", "@1700000000 +0000")
    world = GlueWorld(tmp_path)
    ids = [world.section(name, {"a.txt": "same\n"}, world.base) for name in ("one", "two")]
    assert len({each["commit"] for each in world.shown()["sections"]}) == 1
    assert world.glue().glued == ids
    assert [world.status(name) for name in ("one", "two")] == ["closed"] * 2
