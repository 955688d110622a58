"""Many workers on one repository, with kills, freezes and conflicts, from the first issue to glue.

What must hold afterwards, whatever was hit and when:

1. The branch has the work of each issue that fits exactly once, under the fence of its section, and
   after the work that it waits for.
2. Each that does not fit is an obstruction with the paths of its conflict, and nothing of it is on
   the branch.
3. No commit of a zombie is on the branch: not of a worker that was frozen past its lease, woke up,
   committed and pushed; and a section with a fence of the past is refused.
4. Every file that a worker ever wrote is reachable from the branch, a section or an aside.
5. No process and no worktree is left, and `verify` and `replay` agree.

`UNDERSTUDY_STORY_SEED` repeats the choices.
"""

import os
import random
import secrets
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.long import LONG
from tests.patience import eventually
from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up, prove, statuses
from tests.tree.mischief import Mischief, Sleeper
from tests.tree.patchwork import Patchwork, patchwork, prepare
from tests.tree.storm import _pause
from tests.tree.test_worktrees import Ground, ground
from understudy.authority import open_authority

__all__ = ["ground"]

SEED = int(os.environ.get("UNDERSTUDY_STORY_SEED", "0")) or secrets.randbits(32)
BLOCKED = 11
_COMMAND = Path(__file__).with_name("stitch.py")
_LATE = {"lease_fence_stale", "lease_stale", "lease_missing", "lease_issue_closed"}
_OVER = {"closed", "blocked"}
_LEASE = ("--ttl", "30s", "--grace", "1s")
_PATIENT = ("--attempts", "50", "--backoff", "1s..1s", "--stop-after", "0")


@dataclass(frozen=True, slots=True)
class Told:
    """A story: what is worked on, by how many, and what is done to them."""

    work: Patchwork
    workers: int
    hits: dict[str, int]  # what is hit, and how often at most
    seconds: float  # at most
    is_certain: bool  # the work does not end before all hits are made


SHORT = Told(
    patchwork(pairs=2, chains=1, links=2, singles=2, hanging=0),
    workers=3,
    hits={"command": 2},
    seconds=60,
    is_certain=True,
)
FULL = Told(
    patchwork(pairs=7, chains=4, links=4, singles=8, hanging=2),
    workers=8,
    # The lease of a gluer that was killed lasts another minute, in which nothing is glued.
    hits={"command": 10, "leg": 10, "worker": 8, "gluer": 1, "pass": 8},
    seconds=165,
    is_certain=False,
)


class Play:
    """A tree that works while it is disturbed."""

    def __init__(self, ground: Ground, trace: Path, told: Told, dice: random.Random) -> None:
        self._ground, self._trace, self._told = ground, trace, told
        self.mischief = Mischief(dice, told.hits)
        self.sleepers = [
            Sleeper(each.name, self._command, ground.state_dir, ground.top)
            for each in told.work.pieces
            if each.hangs
        ]
        self.woken: list[str] = []
        self.trees = 0
        self.refusals: dict[str, str] = {}  # by issue, of who held it before
        self._terms: dict[str, dict[str, Any]] = {}  # by issue, the first that was seen

    @property
    def _command(self) -> str:
        return f"exec {sys.executable} -I -S {_COMMAND} {self._trace}"

    def run(self) -> None:
        with ExitStack() as stack:
            for each in self.sleepers:
                stack.enter_context(each)
                eventually((self._trace / f"hung-{each.issue}").exists)
                each.sleep()
            self._work()
            for each in self.sleepers:
                assert each.issue in self.woken
                assert each.wait() != 0, each.complaint()

    def _work(self) -> None:
        end = time.monotonic() + self._told.seconds
        while time.monotonic() < end:
            with self._start() as up:
                try:
                    while up.process.poll() is None and time.monotonic() < end:
                        self._turn(up)
                        _pause(0.05)
                finally:
                    self.mischief.end()
                if up.process.poll() in (0, BLOCKED):
                    return
                print(f"tree {self.trees}: {up.complaint()[-2000:]}")
        raise AssertionError(f"it never ended: {statuses(self._ground.state_dir)}")

    def _start(self) -> Up:
        self.trees += 1
        words = ("--workers", str(self._told.workers), "--exec", self._command, *_LEASE, *_PATIENT)
        return self._ground.up(*words, "--on-obstruction", "stop", "--until-done").ready()

    def _turn(self, up: Up) -> None:
        found = statuses(self._ground.state_dir)
        self._open_gates(found)
        self._wake_late(found)
        picture = up.look()
        if picture is None:
            return
        workers = [
            each["pid"]
            for child in picture["tree"]
            for each in child.get("children", ())
            if each["pid"] is not None
        ]
        self._write_late(picture["dispatcher"].get("terms", ()))
        self.mischief.turn(up.pid, workers)

    def _write_late(self, terms: Iterable[dict[str, Any]]) -> None:
        """Where an issue has a new holder, the one before says that its work is done."""
        for term in terms:
            name = term["issue"]
            first = self._terms.setdefault(name, term)
            if name not in self.refusals and term["fence"] > first["fence"]:
                head = self._ground.git("rev-parse", "main")
                said = (name, first["worker"], first["fence"], head)
                self.refusals[name] = _section_late(self._ground, *said)["failureClasses"][0]

    def _open_gates(self, found: dict[str, str]) -> None:
        """The first of a pair ends when the section of the second waits, behind it in a cover."""
        if self._told.is_certain and not self.mischief.is_over:
            return
        for each in self._told.work.pieces:
            if each.partner and found[each.partner] == "gluing":
                (self._trace / f"gate-{each.name}").touch()

    def _wake_late(self, found: dict[str, str]) -> None:
        """When others have done their work; the command first, to act before it is ended."""
        for each in self.sleepers:
            if found[each.issue] in _OVER and each.issue not in self.woken:
                self.woken.append(each.issue)
                (self._trace / f"wake-{each.issue}").touch()
                each.wake_command()
                eventually((self._trace / f"acted-{each.issue}").exists)
                each.wake()


@pytest.mark.timeout(150)
def test_a_short_story_ends_well(ground: Ground, tmp_path: Path) -> None:
    play = _tell(ground, tmp_path / "trace", SHORT)
    assert play.mischief.hits == {"command killed": 1, "command frozen": 1}


@LONG
@pytest.mark.timeout(FULL.seconds + 120)
def test_eight_workers_and_forty_issues_end_well_whatever_is_hit(
    ground: Ground, tmp_path: Path
) -> None:
    assert len(FULL.work.pieces) >= 40
    play = _tell(ground, tmp_path / "trace", FULL)
    assert sorted(play.woken) == ["single-0", "single-1"]


def _tell(ground: Ground, trace: Path, told: Told) -> Play:
    dice = random.Random(SEED)
    prepare(ground, told.work, trace, dice)
    play = Play(ground, trace, told, dice)
    begun = time.monotonic()
    try:
        play.run()
    finally:
        seconds = time.monotonic() - begun
        said = f"seed {SEED}: {dict(play.mischief.hits)}, {play.trees} trees, {seconds:.0f} s"
        print(said)  # pytest shows it where the test fails
    _prove_refused(ground)
    pruned = understudy("worktree", "prune", "--state-dir", ground.state_dir, cwd=ground.top)
    assert pruned.returncode == 0, pruned.stderr
    _prove_once(ground, told.work)
    _prove_obstructed(ground, told.work)
    _prove_kept(ground, trace)
    _prove_no_zombie(ground, play)
    assert ground.worktrees() == []
    assert ground.git("status", "--porcelain") == ""
    prove(ground.state_dir)
    return play


# --- 1: once --------------------------------------------------------------------------------------


def _prove_once(ground: Ground, work: Patchwork) -> None:
    glued = _glued(ground)
    names = [name for name, _ in glued]
    assert sorted(names) == sorted(each.name for each in work.fitting), "each once"
    fences = dict(glued)
    found = statuses(ground.state_dir)
    for each in work.fitting:
        assert found[each.name] == "closed", each.name
        assert _parts(ground, each.name) == [fences[each.name]], each.name
        if each.waits_for:
            assert names.index(each.waits_for) < names.index(each.name), each.name
        _prove_step(ground, each.name, each.step, fences)


def _prove_step(ground: Ground, name: str, step: Any, fences: dict[str, str]) -> None:
    """What the issue was about is on the branch, once."""
    kind, path, *rest = step
    mark = f"{name} {fences[name]}"
    if kind == "rename":
        assert path not in _files(ground)
        assert rest[0] in _files(ground)
    elif kind == "delete":
        assert path not in _files(ground)
    elif kind == "change_bytes":
        assert f"{mark}\0" in ground.git("cat-file", "blob", f"main:{path}")
    else:
        at = {"rename_and_change": rest[:1], "change_line": ["moved.txt"]}.get(kind, [])
        where = at[0] if at and (kind != "change_line" or path == "moves.txt") else path
        lines = ground.git("show", f"main:{where}").splitlines()
        assert lines.count(mark) == 1, (name, where)


def _glued(ground: Ground) -> list[tuple[str, str]]:
    """Issues and fences of the sections on the branch, the first glued first."""
    form = "--format=%(trailers:key=Understudy-Section,valueonly)"
    said = ground.git("log", "--first-parent", "--reverse", "--merges", form, "main").split()
    found = [each.partition("/") for each in said]
    return [(name, fence) for name, _, fence in found]


def _files(ground: Ground) -> list[str]:
    return ground.git("ls-tree", "-r", "--name-only", "main").splitlines()


def _parts(ground: Ground, name: str) -> list[str]:
    """The fences under which its work is on the branch."""
    below = f"parts/{name}/"
    return [each.removeprefix(below) for each in _files(ground) if each.startswith(below)]


# --- 2: obstructions ------------------------------------------------------------------------------


def _prove_obstructed(ground: Ground, work: Patchwork) -> None:
    shown = report_of("descent", "obstructions", "--into", "main", "--state-dir", ground.state_dir)
    found = {each["section"].partition("/")[0]: each for each in shown["obstructions"]}
    assert found.keys() == work.clashes.keys()
    partners = {each.partner: each.name for each in work.pieces if each.partner}
    fences = dict(_glued(ground))
    for name, paths in work.clashes.items():
        record = found[name]
        assert (record["kind"], record["end"]) == ("conflict", "stop"), name
        assert sorted(record["paths"]) == sorted(paths), name
        partner = partners[name]
        assert f"{partner}/{fences[partner]}" in record["others"], name
        assert statuses(ground.state_dir)[name] == "blocked"
        assert _parts(ground, name) == []


# --- 3: zombies -----------------------------------------------------------------------------------


def _prove_no_zombie(ground: Ground, play: Play) -> None:
    assert not [each for each in _files(ground) if each.startswith("zombie")]
    assert play.refusals
    assert set(play.refusals.values()) <= _LATE, play.refusals
    for name in play.woken:
        late = ground.git("rev-parse", f"refs/heads/late-{name}")
        assert ground.git("merge-base", "main", late) != late, name
    merged = ground.git(
        "log", "--format=%(trailers:key=Understudy-Fence,valueonly)", "main"
    ).split()
    assert set(merged) <= {fence for _, fence in _glued(ground)}


def _prove_refused(ground: Ground) -> None:
    """Whoever held an issue that is done moves its refs, and says that there is more."""
    name, fence = _glued(ground)[0]
    base = ground.git("rev-parse", "main")
    commit = ground.git("commit-tree", "-p", base, "-m", "too late", f"{base}^{{tree}}")
    for ref in (f"refs/heads/understudy/{name}/{fence}", f"refs/understudy/section/{name}/{fence}"):
        ground.git("push", "--quiet", "--force", ".", f"{commit}:{ref}")
    answer = _section_late(ground, name, "whoever", int(fence), commit)
    assert answer["failureClasses"][0] in _LATE, answer
    glued = understudy("descent", "glue", "--into", "main", "--state-dir", ground.state_dir,
                       cwd=ground.top)  # fmt: skip
    assert glued.returncode == 0, glued.stderr
    assert ground.git("rev-parse", "main") == base


def _section_late(ground: Ground, name: str, owner: str, fence: int, commit: str) -> dict[str, Any]:
    base = ground.git("rev-parse", "main")
    payload = {
        "id": name, "assignee": owner, "leaseId": "mine", "fence": fence,
        "target": "main", "base": base, "commit": commit, "tree": base, "paths": [],
        "pathCount": 0, "pathsDigest": "paths1_0",
    }  # fmt: skip
    with open_authority(ground.state_dir, "cli") as authority:
        return authority.ask("descent.section", payload)


# --- 4: what was written --------------------------------------------------------------------------


def _prove_kept(ground: Ground, trace: Path) -> None:
    kept = ("--glob=refs/understudy/section/*", "--glob=refs/understudy/aside/*")
    listed = ground.git("rev-list", "--objects", "main", *kept).splitlines()
    reachable = {line.partition(" ")[0] for line in listed}
    written = [line.split(" ", 3) for line in (trace / "written").read_text().splitlines()]
    lost = [line for line in written if line[2] not in reachable]
    assert not lost, lost
