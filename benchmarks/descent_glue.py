"""The glue of many sections whose checks take a second: one by one, and four at a time.

The queue that checks one section after the other is ours too, without `--speculate`: what is
measured is what speculation is worth, beside the same merges, records and moves of the branch.
"""

import shutil
import time
from pathlib import Path

from benchmarks.progress import Progress
from tests.actors.descent.glue_world import GlueWorld

SERIAL, SPECULATE = "one by one", "--speculate 4"
_WAYS = {SERIAL: 1, SPECULATE: 4}
_CHECK = ("sleep", "1")


def measure(folder: Path, sections: int, rounds: int, progress: Progress) -> dict[str, list[float]]:
    """Seconds for all sections, a figure a round."""
    found: dict[str, list[float]] = {name: [] for name in _WAYS}
    for number in range(rounds):
        for name, width in _WAYS.items():
            progress.say(f"glue, round {number + 1} of {rounds}: {sections} sections {name}")
            found[name].append(_seconds(folder, sections, width))
    return found


def _seconds(folder: Path, sections: int, width: int) -> float:
    folder.mkdir()
    try:
        world = GlueWorld(folder)
        world.require(*_CHECK)
        for number in range(sections):
            world.section(f"s{number}", {f"s{number}.txt": "changed\n"}, world.base)
        begun = time.perf_counter()
        glued = world.glue(speculate=width).glued
        seconds = time.perf_counter() - begun
    finally:
        shutil.rmtree(folder)
    assert len(glued) == sections
    return seconds
