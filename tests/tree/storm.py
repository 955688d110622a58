"""Kills and freezes the processes of a real tree at random, while it works."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up
from understudy.actors.otp.carriers.process import process_id
from understudy.actors.otp.identity import Identity, identity

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

    def __init__(
        self, state_dir: Path, words: list[str], dice: random.Random, more: tuple[str, ...] = ()
    ) -> None:
        """`words` are what `understudy up` is told, and `more` as long as the storm blows."""
        self._dice, self._state_dir = dice, state_dir
        self._words, self._more = words, more
        self.systems: list[str] = []
        self.hits: Counter[str] = Counter()
        self._thawing: list[tuple[float, Identity]] = []
        self.up = self._start()

    def _start(self) -> Up:
        up = Up(self._state_dir, *self._more, *self._words).ready()
        self.systems.append(up.picture()["system"])
        return up

    def blow(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not is_over():
            self._thaw(time.monotonic())
            if self.up.process.poll() is not None:
                self.up.__exit__(None, None, None)
                self.up = self._start()
            if self._dice.random() < 0.05:
                self._steer()
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

    def _steer(self) -> None:
        """An operator pauses all, or gives up what runs, and soon thinks better of it."""
        running = self.up.terms()
        if running and self._dice.random() < 0.5:
            issue = self._dice.choice(running)["issue"]
            self._say("cancel", issue)
            self._say("retry", issue)
        else:
            self._say("pause", *self._dice.choice(([], ["--now"])))
            self._say("unpause")

    def _say(self, *words: str) -> None:
        """Refused or not: the sidecar may be dead, or the work be done."""
        done = understudy(*words, "--state-dir", self._state_dir)
        self.hits[f"{words[0]} {'said' if done.returncode == 0 else 'refused'}"] += 1

    def _thaw(self, now: float) -> None:
        for due, victim in list(self._thawing):
            if due <= now:
                victim.kill(signal.SIGCONT)
                self._thawing.remove((due, victim))

    def calm(self, patience_seconds: float = 300, codes: tuple[int, ...] = (0,)) -> None:
        """Let it finish in peace, with one of these ends."""
        self._thaw(float("inf"))
        if self.up.process.poll() is None:
            self.up.terminate()
        self.up.__exit__(None, None, None)
        self._relent()
        with Up(self._state_dir, *self._words, "--until-done") as up:
            code = up.process.wait(patience_seconds)
            assert code in codes, up.complaint()

    def _relent(self) -> None:
        """What the storm left paused or cancelled goes on; a sidecar may have died in between."""
        self._say("unpause")
        listed = report_of("issue", "list", "--status", "cancelled", "--state-dir", self._state_dir)
        for issue in listed["issues"]:
            report_of("retry", issue["id"], "--state-dir", self._state_dir)

    def left(self) -> list[int]:
        return [each.pid for system in self.systems for each in process_id.members(system)]


def _victims(kind: str, picture: dict[str, Any], program: int) -> Iterator[Identity]:
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
        if pid is not None:  # else it is being started; and `identity` of None is our own
            with suppress(OSError):
                yield identity(pid)


def _children(pid: int | None) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _pause(seconds: float) -> None:
    time.sleep(seconds)  # chaos has a rhythm of its own
