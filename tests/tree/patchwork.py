"""The work of the descent story: a repository, issues that edit it, and what must come of them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.surfaces.process import report_of
from tests.tree.test_worktrees import Ground

Step = tuple[str | int, ...]
# The first of a pair is glued, and the second does not fit: the step of each, and the paths.
_PAIRS: dict[str, tuple[Step, Step, tuple[str, ...]]] = {
    "line": (("change_line", "line.txt", 0), ("change_line", "line.txt", 0), ("line.txt",)),
    "bytes": (("change_bytes", "bytes.bin"), ("change_bytes", "bytes.bin"), ("bytes.bin",)),
    "both": (("add", "both.txt"), ("add", "both.txt"), ("both.txt",)),
    "name": (
        ("rename_and_change", "name.txt", "other.txt"),
        ("change_line", "name.txt", 0),
        ("other.txt",),
    ),
    "names": (
        ("rename", "names.txt", "names-a.txt"),
        ("rename", "names.txt", "names-b.txt"),
        ("names-a.txt", "names-b.txt", "names.txt"),
    ),
    "gone": (("delete", "gone.txt"), ("change_line", "gone.txt", 3), ("gone.txt",)),
    "tail": (("append", "tail.txt"), ("append", "tail.txt"), ("tail.txt",)),
}
_LINES = 12  # of a file that is there from the start
_APART = 4  # lines between those that fit


@dataclass(frozen=True, slots=True)
class Piece:
    """An issue, and how it is worked on."""

    name: str
    step: Step
    waits_for: str = ""  # another issue
    partner: str = ""  # does not begin its edit before that one's section waits
    hangs: bool = False  # whoever is first

    def ordered(self, dice: random.Random) -> dict[str, Any]:
        seconds = 0 if self.partner else round(dice.uniform(0, 0.6), 2)
        return {
            "step": self.step,
            "gate": bool(self.partner),
            "hangs": self.hangs,
            "seconds": seconds,
        }


@dataclass(frozen=True, slots=True)
class Patchwork:
    """All issues. `clashes` has the paths of those that will not fit."""

    pieces: tuple[Piece, ...]
    clashes: dict[str, tuple[str, ...]]

    @property
    def fitting(self) -> list[Piece]:
        return [each for each in self.pieces if each.name not in self.clashes]


def patchwork(pairs: int, chains: int, links: int, singles: int, hanging: int) -> Patchwork:
    """So many of each; a chain is as long as `links` says."""
    chosen = list(_PAIRS.items())[:pairs]
    clashes = {f"{kind}-2": paths for kind, (_, _, paths) in chosen}
    pieces = [
        *(piece for kind, steps in chosen for piece in _pair(kind, steps[0], steps[1])),
        *(piece for number in range(chains) for piece in _chain(number, links)),
        *_singles(singles, hanging),
        Piece("moves", ("rename", "moves.txt", "moved.txt")),
        Piece("edits", ("change_line", "moves.txt", 6)),  # goes along with the file
    ]
    return Patchwork(tuple(pieces), clashes)


def _pair(kind: str, first: Step, second: Step) -> Iterator[Piece]:
    yield Piece(f"{kind}-1", first, partner=f"{kind}-2")
    yield Piece(f"{kind}-2", second)


def _chain(number: int, links: int) -> Iterator[Piece]:
    """Each adds to the end of what the one before left: without that it would not fit."""
    for link in range(links):
        before = f"chain{number}-{link - 1}" if link else ""
        yield Piece(f"chain{number}-{link}", ("append", f"chain{number}.txt"), before)


def _singles(count: int, hanging: int) -> Iterator[Piece]:
    """All in one file, each in a line of its own."""
    for number in range(count):
        step = ("change_line", "shared.txt", number * _APART)
        yield Piece(f"single-{number}", step, hangs=number < hanging)


def prepare(ground: Ground, work: Patchwork, trace: Path, dice: random.Random) -> None:
    """Commit what is edited, and file the issues."""
    singles = sum(each.name.startswith("single") for each in work.pieces)
    _write(ground.top, "shared.txt", singles * _APART)
    for name in ("line", "name", "names", "gone", "tail", "moves"):
        _write(ground.top, f"{name}.txt", _LINES)
    (ground.top / "bytes.bin").write_bytes(bytes(range(256)))
    ground.git("add", "--all")
    ground.git("commit", "--quiet", "--message=what is edited")
    trace.mkdir()
    plan = {each.name: each.ordered(dice) for each in work.pieces}
    (trace / "plan.json").write_bytes(orjson.dumps(plan))
    place = ("--state-dir", ground.state_dir)
    for each in work.pieces:
        priority = "1" if each.name in work.clashes else "2"  # others wait for these
        report_of("issue", "add", each.name, "--id", each.name, "--priority", priority, *place)
        if each.waits_for:
            report_of("dep", "add", each.name, each.waits_for, *place)
    for each in work.pieces:
        if each.partner:
            both = ("--issues", f"{each.name},{each.partner}", "--order", "journal")
            where = ("--into", "main", "--cwd", ground.top)
            report_of("descent", "start", *both, *where, *place)


def _write(folder: Path, name: str, lines: int) -> None:
    """Unlike any other file, or git would find renames where there are none."""
    (folder / name).write_text("".join(f"{name} {line}\n" for line in range(lines)))
