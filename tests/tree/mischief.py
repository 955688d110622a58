"""Kills and freezes what works in and on a repository: commands, legs, workers, gluers."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from understudy.actors.otp.identity import Identity, identity

# By what their command line says.
KINDS = {
    "leg": b"understudy.actors.descent.leg",
    "command": b"stitch.py",
    "gluer": b"--follow",
    "pass": b"glue_program",
}
WORKER = "worker"  # a cell, of which the picture knows the number
_FREEZE_EVERY = 3  # hits; the others kill
_FREEZE_SECONDS = (0.1, 3.0)


class Mischief:
    """Hits at moments that its dice choose, so often at most."""

    def __init__(self, dice: random.Random, kinds: dict[str, int], most: int) -> None:
        self._dice, self._kinds, self._most = dice, kinds, most
        self._due = time.monotonic() + 1
        self._thawing: list[tuple[float, Identity]] = []
        self.hits: Counter[str] = Counter()

    def turn(self, program: int, workers: list[int], spared: frozenset[str]) -> None:
        """Hit once, if it is time, and let go on what was frozen long enough. `spared` are issues."""
        now = time.monotonic()
        self._thaw(now)
        if now < self._due or sum(self.hits.values()) >= self._most:
            return
        kind = self._dice.choices(list(self._kinds), list(self._kinds.values()))[0]
        found = list(_victims(kind, program, workers, spared))
        if found:
            self._due = now + self._dice.uniform(0.3, 1.5)
            self._hit(kind, self._dice.choice(found))

    def _hit(self, kind: str, victim: Identity) -> None:
        is_frozen = sum(self.hits.values()) % _FREEZE_EVERY == 1
        if not victim.kill(signal.SIGSTOP if is_frozen else signal.SIGKILL):
            return
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


class Frozen:
    """A whole worker with all that it runs, from its cell down to the command."""

    def __init__(self, issue: str, program: int, workers: list[int]) -> None:
        (command,) = [pid for pid in of_kind("command", program) if issue_of(pid) == issue]
        chain = [command]
        while chain[-1] not in workers:
            chain.append(_parent(chain[-1]))
        self.issue, self.cell = issue, chain[-1]
        self._chain = [identity(pid) for pid in chain]
        for each in reversed(self._chain):  # who watches, first
            each.kill(signal.SIGSTOP)

    def wake_command(self) -> None:
        self._chain[0].kill(signal.SIGCONT)

    def wake(self) -> None:
        for each in self._chain:
            each.kill(signal.SIGCONT)


def of_kind(kind: str, program: int) -> list[int]:
    """Processes below the tree's program that run such a program."""
    return [pid for pid in below(program) if _kind_of(_read(pid, "cmdline")) == kind]


def _kind_of(words: bytes) -> str:
    """The first that fits: the words of a leg end with those of its command."""
    return next((kind for kind, mark in KINDS.items() if mark in words), "")


def below(pid: int) -> Iterator[int]:
    """A process, and all that it and they have started."""
    yield pid
    for task in _tasks(pid):
        for child in _read(pid, f"task/{task}/children").split():
            yield from below(int(child))


def issue_of(pid: int) -> str:
    for each in _read(pid, "environ").split(b"\0"):
        if each.startswith(b"UNDERSTUDY_ISSUE="):
            return os.fsdecode(each.partition(b"=")[2])
    return ""


def _victims(
    kind: str, program: int, workers: list[int], spared: frozenset[str]
) -> Iterator[Identity]:
    pids = workers if kind == WORKER else of_kind(kind, program)
    for pid in pids:
        if not spared & set(map(issue_of, below(pid))):
            with suppress(OSError):
                yield identity(pid)


def _tasks(pid: int) -> list[str]:
    with suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def _parent(pid: int) -> int:
    return int(_read(pid, "stat").rpartition(b")")[2].split()[1])


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""
