"""Kill and freeze every kind of process of a real tree at random, while it works.

What must hold afterwards, whatever was hit and when:

1. Every issue was closed exactly once, under the fence of its last claim; or it used up exactly the
   attempts that the policy allows, and was escalated once.
2. No two commands worked on one issue at the same time.
3. No process is left, and `verify` and `replay` agree on one unbroken chain.

`UNDERSTUDY_TREE_SECONDS` says for how long, `UNDERSTUDY_TREE_SEED` repeats the choices.
"""

import os
import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.tree.house import Up, add, issues, prove, rows
from understudy.actors.otp.troupe import mooring

SECONDS = float(os.environ.get("UNDERSTUDY_TREE_SECONDS", "8"))
SEED = int(os.environ.get("UNDERSTUDY_TREE_SEED", "0")) or secrets.randbits(32)
ISSUES = 200 if SECONDS >= 60 else 40
ATTEMPTS = 3
_COMMAND = Path(__file__).with_name("labour.py")
_KINDS = (
    "command",
    "warden",
    "keeper",
    "worker",
    "cell",
    "sidecar",
    "gateway",
    "admin",
    "program",
)
_HEAVY = ("admin", "program")  # after which a new tree must be started


class Storm:
    """Hits one process after another, and starts the tree again when it is gone."""

    def __init__(self, state_dir: Path, trace: Path, dice: random.Random) -> None:
        self._dice, self._state_dir, self._trace = dice, state_dir, trace
        self.systems: list[str] = []
        self.hits: Counter[str] = Counter()
        self._thawing: list[tuple[float, mooring.Identity]] = []
        self.up = self._start()

    def _start(self) -> Up:
        command = f"{sys.executable} {_COMMAND} {self._trace}"
        words = ["--mcp", "--exec", command, "--workers", "4", "--ttl", "30", "--grace", "1"]
        up = Up(self._state_dir, *words).ready()
        self.systems.append(up.picture()["system"])
        return up

    def blow(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._thaw(time.monotonic())
            if self.up.process.poll() is not None:
                self.up.__exit__(None, None, None)
                self.up = self._start()
            self._hit()
            _pause(self._dice.uniform(0.05, 0.8))
        self._thaw(float("inf"))

    def _hit(self) -> None:
        kind = self._dice.choices(_KINDS, [4, 2, 2, 3, 3, 2, 2, 1, 1])[0]
        picture = self.up.look()
        victims = list(_victims(kind, picture, self.up.pid)) if picture else []
        if not victims:
            return
        victim = self._dice.choice(victims)
        if self._dice.random() < 0.3 and kind not in _HEAVY:
            if victim.kill(signal.SIGSTOP):
                thaw = time.monotonic() + self._dice.uniform(0.1, 3)
                self._thawing.append((thaw, victim))
                self.hits[f"{kind} frozen"] += 1
        elif victim.kill(signal.SIGKILL):
            self.hits[f"{kind} killed"] += 1

    def _thaw(self, now: float) -> None:
        for due, victim in list(self._thawing):
            if due <= now:
                victim.kill(signal.SIGCONT)
                self._thawing.remove((due, victim))

    def calm(self) -> None:
        """Let it finish in peace."""
        self._thaw(float("inf"))
        if self.up.process.poll() is None:
            self.up.terminate()
        self.up.__exit__(None, None, None)
        command = f"{sys.executable} {_COMMAND} {self._trace}"
        words = ["--exec", command, "--workers", "4", "--ttl", "30", "--grace", "1"]
        with Up(self._state_dir, *words, "--until-done") as up:
            code = up.process.wait(300)
            assert code == 0, up.complaint()

    def left(self) -> list[int]:
        return [each.pid for system in self.systems for each in mooring.members(system)]


@pytest.mark.timeout(SECONDS + 420)
def test_whatever_is_killed_every_issue_is_done_once(state_dir: Path, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    trace = tmp_path / "trace"
    trace.mkdir()
    names = add(state_dir, *(f"i{number}" for number in range(ISSUES)))
    storm = Storm(state_dir, trace, dice)
    try:
        storm.blow(SECONDS)
        storm.calm()
    finally:
        said = f"seed {SEED}: {dict(storm.hits)}, {len(storm.systems)} trees"
        print(said)  # noqa: T201 - pytest shows it where the test fails
        if storm.up.process.poll() is None:
            storm.up.kill()
    assert storm.left() == []
    prove(state_dir)
    _prove_once(state_dir, names)
    _prove_alone(trace)


def _prove_once(state_dir: Path, names: list[str]) -> None:
    """Claim 1, from the evidence alone."""
    claims: dict[str, list[int]] = {name: [] for name in names}
    closes: dict[str, list[int]] = {name: [] for name in names}
    filed: Counter[str] = Counter()
    for row in rows(state_dir):
        name, fence = row.get("issueId"), row["effect"]["fence"]
        if row["resultClass"] != "accepted" or name not in claims:
            continue
        if row["action"] == "issue.claim":
            claims[name].append(fence)
        elif row["action"] == "issue.close":
            closes[name].append(fence)
        elif row["action"] == "issue.discover":
            filed[name] += 1
    found = issues(state_dir)
    for name in names:
        assert len(set(claims[name])) == len(claims[name])
        if found[name]["status"] == "closed":
            assert closes[name] == claims[name][-1:], name
            assert len(claims[name]) <= ATTEMPTS + 1, name
        else:
            assert found[name]["status"] == "blocked", name
            # Where the lease of the last attempt lapsed, one more claim is made to say so.
            assert len(claims[name]) in (ATTEMPTS, ATTEMPTS + 1), name
            assert (filed[name], closes[name]) == (1, []), name
    closed = sum(found[name]["status"] == "closed" for name in names)
    assert closed >= ISSUES * 9 // 10, "the storm was the exception"


def _prove_alone(trace: Path) -> None:
    """Claim 2: `labour` writes a line when it begins and when it ends, under a lock of its own."""
    for path in trace.iterdir():
        for line in path.read_text().splitlines():
            assert not line.startswith("overlap"), f"{path.name}: {line}"


def _victims(kind: str, picture: dict[str, Any], program: int) -> Iterator[mooring.Identity]:
    tree = picture["tree"]
    workers = [each for child in tree for each in child.get("children", [])]
    cells = [child["pid"] for child in tree]
    pids: dict[str, Callable[[], list[int | None]]] = {
        "cell": lambda: [*cells],
        "worker": lambda: [each["pid"] for each in workers],
        "sidecar": lambda: [picture["authority"].get("pid")],
        "gateway": lambda: [(picture["gateway"] or {}).get("pid")],
        "admin": lambda: list(picture["processes"].values()),
        "program": lambda: [program],
        "keeper": lambda: [pid for each in workers for pid in _children(each["pid"])],
        "warden": lambda: [
            pid
            for each in workers
            for keeper in _children(each["pid"])
            for pid in _children(keeper)
        ],
        "command": lambda: [
            pid
            for each in workers
            for keeper in _children(each["pid"])
            for warden in _children(keeper)
            for pid in _children(warden)
        ],
    }
    for pid in pids[kind]():
        if pid is not None:  # else it is being started; and `identity` of nobody is our own
            with suppress(OSError):
                yield mooring.identity(pid)


def _children(pid: int | None) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _pause(seconds: float) -> None:
    time.sleep(seconds)  # chaos has a rhythm of its own
