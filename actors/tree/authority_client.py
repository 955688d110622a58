"""Owns the sidecar: starts it, proves that it answers, looks after it, and starts it again.

    [starting] --greets--> ready --ends, or is silent--> [starting again] --too often--> gives up

A sidecar that dies takes no cell along: its clients connect again and repeat themselves, and
workers go on meanwhile. Only when it cannot be kept alive does this cell end, and its supervisor
decides.

I1  At most one sidecar of ours exists; the next is started when all of the last is gone.
I2  One that does not answer for a while is killed: a frozen process never says that it is.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ...authority import Unavailable, open_journal
from ..otp import LATER, Caller, ExitReason, GenServer, Next, Readable, Stop, Word
from ..otp.restart import Window
from ..process import sidecar_child
from ..process.guard.descendants import now_ms
from ..process.port import Ended, ProcessGroup
from .plan import Plan

NAME: Final = "authority_client"
RESTARTS_MAX: Final = 10  # in `PERIOD_MS`
PERIOD_MS: Final = 60_000
_LOOK_MS = 20
_HEALTH_MS = 2_000  # between two looks whether it answers
_SILENCE_SECONDS = 2.0
_SILENT_MAX = 3  # looks in a row without an answer


@dataclass(frozen=True, slots=True)
class SidecarLook:
    """What is known of the sidecar, for people: a dictionary."""


@dataclass(frozen=True, slots=True)
class _Check:
    """Time to see whether it lives."""


class AuthorityClient(GenServer):
    """Answers `SidecarLook`."""

    name = NAME

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._group: ProcessGroup | None = None
        self._greeting: dict[str, Any] | None = None
        self._window = Window()
        self._silent = 0
        self._begun_ms = self._asked_ms = 0
        self._timer: str | None = None
        self.restarts = 0

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        self._begin()
        return LATER

    def handle_call(self, request: object, caller: Caller) -> object:
        if isinstance(request, SidecarLook):
            return self._known()
        return super().handle_call(request, caller)

    def handle_info(self, message: object) -> Next:
        if not isinstance(message, _Check | Readable):
            return super().handle_info(message)
        assert self._group is not None
        ended = self._group.poll()
        if ended is not None:
            return self._ended(ended)
        if self._greeting is None:
            self._greet()
        elif now_ms() >= self._asked_ms + _HEALTH_MS:
            self._ask()
        self._look_again()
        return None

    def terminate(self, reason: ExitReason) -> None:  # noqa: ARG002 - a callback of OTP
        if self._group is not None:
            self._group.terminate(sidecar_child.STOP_GRACE_MS)
            self._group.wait()
            self._group.close()

    def summary(self) -> object:
        return {"sidecar": self._greeting and self._greeting["pid"], "restarts": self.restarts}

    # --- the sidecar ----------------------------------------------------------------------------

    def _begin(self) -> None:
        plan = self._plan
        options = ["--evidence", "outside"]
        if plan.boundary is not None:
            options += ["--boundary", plan.boundary]
        options += ["--log-format", "json"] if plan.json_logs else []
        self._greeting, self._silent, self._begun_ms = None, 0, now_ms()
        self._group = sidecar_child.start(plan.state_dir, plan.run_dir, *options)
        self._look_again()

    def _look_again(self) -> None:
        """Soon, while it starts; then when it ends, or when it is to be asked again."""
        assert self._group is not None
        is_watched = self._greeting is not None and self.cell.watch(self._group.fileno())
        if self._timer is not None:
            self.cell.cancel(self._timer)
        self._timer = self.cell.after(_HEALTH_MS if is_watched else _LOOK_MS, _Check())

    def _greet(self) -> None:
        """It is up when it says so itself."""
        assert self._group is not None
        try:
            self._greeting = self._greeted()
        except Unavailable:
            if now_ms() >= self._begun_ms + sidecar_child.START_MS:
                self._group.terminate(0)
            return
        self._asked_ms = now_ms()
        if not self.restarts:
            self.cell.ready()

    def _ask(self) -> None:
        assert self._group is not None
        self._asked_ms = now_ms()
        try:
            self._greeting = self._greeted()
            self._silent = 0
        except Unavailable:
            self._silent += 1
            if self._silent >= _SILENT_MAX:  # I2
                self._group.terminate(0)

    def _greeted(self) -> dict[str, Any]:
        return sidecar_child.greeting(self._plan.state_dir, "coordinator", _SILENCE_SECONDS)

    def _ended(self, ended: Ended) -> Next:
        assert self._group is not None
        self.cell.unwatch(self._group.fileno())
        self._group.close()
        said = f"the sidecar ended: {ended.reason.kind} {ended.code}; see {sidecar_child.LOG}"
        if self._greeting is None and not self.restarts:
            return Stop(ExitReason("crash", self._last_words() or said))
        self._window = self._window.add(self.cell.now_ms(), PERIOD_MS)
        if self._window.exceeds(RESTARTS_MAX):
            return Stop(ExitReason("crash", f"{said}; {RESTARTS_MAX} restarts were not enough"))
        self.restarts += 1
        self._begin()
        return None

    def _last_words(self) -> str:
        """What it said of why it does not start."""
        try:
            text = (self._plan.run_dir / sidecar_child.LOG).read_text("utf-8", "replace")
        except OSError:
            return ""
        return text.strip().rpartition("\n")[2]

    def _known(self) -> dict[str, Any]:
        greeting = self._greeting or {}
        epoch = None
        if greeting:
            with (
                suppress(Unavailable),  # a database may be away for a while
                open_journal(self._plan.state_dir, read_only=True) as journal,
            ):
                epoch = journal.epoch()
        return {
            "pid": greeting.get("pid"),
            "boundary": greeting.get("boundary"),
            "standby": greeting.get("standby", False),
            "contractDigest": greeting.get("contractDigest"),
            "epoch": epoch,
            "restarts": self.restarts,
            "silent": self._silent,
        }
