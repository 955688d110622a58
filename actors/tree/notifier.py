"""Tells others what became of work: runs the commands that a plan has for it, one after the other.

    dispatcher --Told--> [notifier] --JSON on stdin--> a command, ended at its time limit

I1  Nothing that a hook does or fails to do reaches the rest of the tree: this cell is temporary,
    and what goes wrong is a report.
I2  What was told before the tree stops is still passed on, as long as there is time for it.
"""

import os
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ...contracts import limits
from ..dispatch import escalation
from ..leasing.work_kind import for_worker
from ..otp import ChildSpec, Exited, ExitReason, GenServer, Next, Readable, Start, Word
from ..process.guard.descendants import now_ms
from ..process.port import Command, Ended, ProcessGroup, keeper
from . import news
from .plan import Plan

NAME: Final = "notifier"
LOG: Final = "hook.log"  # in the run folder: what the last hook printed
_GRACE_MS = 1_000
_LOOK_MS = 250
_WORDS_BYTES = 400  # of what a hook that failed said last
_FAREWELL_MS = 10_000  # for what is told last, when the tree stops
_EVENTS: Final = dict.fromkeys((*escalation.WORDS.values(), "budget exceeded"), "escalation") | {
    "done": "done"
}


@dataclass(frozen=True, slots=True)
class Told:
    """A report of a dispatcher."""

    row: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _HookLook:
    """Time to see whether a hook has ended."""


class Notifier(GenServer):
    """Takes `Told` as casts."""

    name = NAME

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._waiting: deque[tuple[tuple[str, ...], dict[str, Any]]] = deque()
        self._running: tuple[ProcessGroup, dict[str, Any]] | None = None

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        keeper().warm()
        return None

    def handle_cast(self, message: object) -> Next:
        if not isinstance(message, Told):
            return super().handle_cast(message)
        event = _EVENTS.get(message.row["what"])
        for wanted, words in self._plan.hooks:
            if wanted == event:
                self._waiting.append((words, message.row | {"event": event}))
        if len(self._waiting) > limits.HOOKS_WAITING_MAX:
            self._tell("hook left out", "too many wait; the oldest is not told", message.row)
            self._waiting.popleft()
        self._next()
        return None

    def handle_info(self, message: object) -> Next:
        match message:
            case _HookLook() | Readable():
                self._look()
            case Exited():
                pass  # a cell that linked to us; our parent is heard elsewhere
            case _:
                return super().handle_info(message)
        return None

    def terminate(self, reason: ExitReason) -> None:  # noqa: ARG002 - a callback of OTP
        until_ms = now_ms() + _FAREWELL_MS
        while (self._running or self._waiting) and now_ms() < until_ms:
            self._next()
            if self._running is not None:
                self._running[0].wait(until_ms - now_ms())
                self._look()
        if self._running is not None:
            self._running[0].terminate(0)
            self._running[0].close()

    # --- a hook ---------------------------------------------------------------------------------

    def _next(self) -> None:
        """Start the hook that waits the longest, if none runs."""
        while self._running is None and self._waiting:
            words, row = self._waiting.popleft()
            try:
                group = ProcessGroup(self._command(words, row))
            except (OSError, ValueError) as error:
                self._tell("hook failed", str(error), row)
                continue
            self._running = (group, row)
            self._wait(group)

    def _command(self, words: tuple[str, ...], row: dict[str, Any]) -> Command:
        env = for_worker(os.environ) | {
            "UNDERSTUDY_EVENT": row["event"],
            "UNDERSTUDY_STATE_DIR": str(self._plan.state_dir),
        }
        for family in ("issue", "job"):
            if row.get(family):
                env[f"UNDERSTUDY_{family.upper()}"] = row[family]
        told = {name: value for name, value in row.items() if name not in ("kind", "at_ms")}
        return Command(
            words,
            env=env,
            cwd=self._plan.cwd,
            stdin=orjson.dumps(told | {"tree": self._plan.name}, option=orjson.OPT_APPEND_NEWLINE),
            log=self._plan.run_dir / LOG,
            grace_ms=_GRACE_MS,
            until_ms=now_ms() + limits.HOOK_SECONDS_MAX * 1_000,
        )

    def _wait(self, group: ProcessGroup) -> None:
        with suppress(OSError):
            self.cell.watch(group.fileno())
        self.cell.after(_LOOK_MS, _HookLook())

    def _look(self) -> None:
        if self._running is None:
            return
        group, row = self._running
        ended = group.poll()
        if ended is None:
            self.cell.after(_LOOK_MS, _HookLook())
            return
        self.cell.unwatch(group.fileno())
        group.close()
        self._running = None
        if ended.code != 0:
            said = _words(row["event"], ended) + self._last_words(ended)
            self._tell("hook failed", said, row)
        self._next()

    def _last_words(self, ended: Ended) -> str:
        """The last line that it printed, as far as the log has it."""
        try:
            text = (self._plan.run_dir / LOG).read_bytes() if ended.size else b""
        except OSError:
            return ""
        line = text.strip().rpartition(b"\n")[2][-_WORDS_BYTES:].decode("utf-8", "replace")
        return f": {line}" if line else ""

    def _tell(self, what: str, detail: str, row: dict[str, Any]) -> None:
        about = {name: row[name] for name in ("issue", "job") if name in row} or {"issue": None}
        news.tell(self.cell, "dispatch", what, detail, **about)


def _words(event: str, ended: Ended) -> str:
    if ended.late:
        return f"on {event}: it took more than {limits.HOOK_SECONDS_MAX} s, and was ended"
    return f"on {event}: exit code {ended.code} {ended.reason.detail}".rstrip()


def child(plan: Plan) -> ChildSpec:
    """The notifier of a plan that has hooks."""
    shutdown_ms = _FAREWELL_MS + 2 * _GRACE_MS
    return ChildSpec(NAME, Start(Notifier, (plan,), NAME), "temporary", shutdown_ms)
