"""Kills and freezes what works in and on a repository: commands, legs, workers, gluers."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.surfaces.process import UNDERSTUDY, Program
from understudy.actors.otp.identity import Identity, identity

# By a word of their command line.
KINDS = {
    "command": os.fsencode(Path(__file__).with_name("stitch.py")),
    "leg": b"understudy.actors.descent.leg",
    "gluer": b"--follow",
    "pass": b"understudy.actors.descent.glue_program",
}
WORKER = "worker"  # a cell, of which the picture knows the number
_FREEZE_EVERY = 3  # hits; the others kill
_FREEZE_SECONDS = (0.1, 3.0)


class Mischief:
    """Hits at moments that its dice choose: each kind as often as `left` says, and no more."""

    def __init__(self, dice: random.Random, left: dict[str, int]) -> None:
        self._dice, self._left = dice, dict(left)
        self._due = time.monotonic() + 1
        self._thawing: list[tuple[float, Identity]] = []
        self.hits: Counter[str] = Counter()

    def turn(self, program: int, workers: list[int]) -> None:
        """Hit once, if it is time and work goes on, and thaw what was frozen long enough."""
        now = time.monotonic()
        self._thaw(now)
        if now < self._due or self.is_over or not of_kind("command", program):
            return
        kind = self._dice.choices(list(self._left), list(self._left.values()))[0]
        found = list(_victims(kind, program, workers))
        self._due = now + self._dice.uniform(0.1, 0.8) / (1 if found else 5)
        if found:
            self._hit(kind, self._dice.choice(found))

    @property
    def is_over(self) -> bool:
        return not any(self._left.values())

    def _hit(self, kind: str, victim: Identity) -> None:
        is_frozen = sum(self.hits.values()) % _FREEZE_EVERY == 1
        if not victim.kill(signal.SIGSTOP if is_frozen else signal.SIGKILL):
            return
        self._left[kind] -= 1
        self.hits[f"{kind} {'frozen' if is_frozen else 'killed'}"] += 1
        if is_frozen:
            thaw = time.monotonic() + self._dice.uniform(*_FREEZE_SECONDS)
            self._thawing.append((thaw, victim))

    def end(self) -> None:
        self._thaw(float("inf"))

    def _thaw(self, now: float) -> None:
        for due, victim in list(self._thawing):
            if due <= now:
                victim.kill(signal.SIGCONT)
                self._thawing.remove((due, victim))


class Sleeper(Program):
    """`understudy exec` in a worktree, which is frozen with all that it started where it hangs."""

    def __init__(self, issue: str, command: str, state_dir: Path, cwd: Path) -> None:
        lease = ("--ttl", "30s", "--grace", "1s", "--state-dir", state_dir)
        words = (issue, "--", "/bin/sh", "-c", command)
        super().__init__([UNDERSTUDY, "exec", "--worktree", *lease, *words], cwd=cwd)
        self.issue = issue
        self._asleep: list[Identity] = []

    def sleep(self) -> None:
        """Who watches, first."""
        for pid in below(self.pid):
            each = identity(pid)
            each.kill(signal.SIGSTOP)
            self._asleep.append(each)

    def wake_command(self) -> None:
        for pid in of_kind("command", self.pid):
            os.kill(pid, signal.SIGCONT)

    def wake(self) -> None:
        for each in self._asleep:
            each.kill(signal.SIGCONT)


def of_kind(kind: str, program: int) -> list[int]:
    """Processes below the tree's program that run such a program."""
    return [pid for pid in below(program) if KINDS[kind] in _read(pid, "cmdline").split(b"\0")]


def below(pid: int) -> Iterator[int]:
    """A process, and all that it and they have started."""
    yield pid
    for task in _tasks(pid):
        for child in _read(pid, f"task/{task}/children").split():
            yield from below(int(child))


def _victims(kind: str, program: int, workers: list[int]) -> Iterator[Identity]:
    for pid in workers if kind == WORKER else of_kind(kind, program):
        with suppress(OSError):
            yield identity(pid)


def _tasks(pid: int) -> list[str]:
    with suppress(OSError):
        return [each.name for each in Path(f"/proc/{pid}/task").iterdir()]
    return []


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""
