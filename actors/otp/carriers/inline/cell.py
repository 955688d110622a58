"""One cell of the inline carrier: its inbox, its ties to others, and its end.

    new --make, start--> up --receive*--> ending --stop--> gone
     \\------- raise, exit, kill -----------/

A signal that ends a cell takes effect at its next turn, before any message that waits. What a cell
itself sends arrives at once, so that messages and signals from one cell stay in order.
"""

from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from ...cell import (
    KILL,
    KILLED,
    NOPROC,
    NORMAL,
    SHUTDOWN,
    Behaviour,
    Down,
    Exited,
    ExitReason,
    Located,
    Ref,
    Start,
    Started,
    Target,
)
from ...report import Row, crash_reason

if TYPE_CHECKING:
    from .system import Inline


class _Fired:
    """A timer in an inbox, still to be cancelled."""

    __slots__ = ("timer",)

    def __init__(self, timer: str) -> None:
        self.timer = timer


class InlineCell:
    """Implements `Cell`."""

    def __init__(
        self, system: "Inline", me: Ref, parent: "InlineCell | None", start: Start
    ) -> None:
        self.me = me
        self.parent: Ref | None = None if parent is None else parent.me
        self.trap_exits = False
        self.queued = False  # for a turn
        self.children: dict[Ref, InlineCell] = {}
        self.timers: dict[str, object] = {}
        self.links: dict[Ref, None] = {}
        self.watched: dict[str, InlineCell] = {}  # monitors of others that are set on us
        self.watching: dict[str, InlineCell | None] = {}  # ours, None once the end is on its way
        self.is_ending = False
        self._system = system
        self._parent = parent
        self._start = start
        self._behaviour: Behaviour | None = None
        self._inbox: deque[object] = deque()
        self._is_ready = False
        self._verdict: ExitReason | None = None  # by its own wish, or by a signal it cannot trap
        self._monitors = count(1)
        self._names: list[str] = []

    # --- as `Cell` has it -------------------------------------------------------------------------

    def ready(self) -> None:
        if not self._is_ready:
            self._is_ready = True
            self._tell_parent(Started(self.me))

    def spawn(self, start: Start) -> Ref:
        child = self._system.made(self, start)
        self.children[child.me] = child
        self.links[child.me] = None
        child.links[self.me] = None
        return child.me

    def send(self, to: Target, message: object) -> None:
        cell = self._system.find(to)
        if cell is not None:
            cell.put(message)

    def signal(self, to: Target, reason: ExitReason) -> None:
        cell = self._system.find(to)
        if cell is not None:
            cell.signalled(self.me, reason)

    def exit(self, reason: ExitReason) -> None:
        if self._verdict is None:
            self._verdict = reason

    def link(self, ref: Ref) -> None:
        cell = self._system.find(ref)
        if cell is None:
            self.signalled(ref, NOPROC)
        elif cell is not self:
            self.links[ref] = None
            cell.links[self.me] = None

    def unlink(self, ref: Ref) -> None:
        self.links.pop(ref, None)
        cell = self._system.find(ref)
        if cell is not None:
            cell.links.pop(self.me, None)

    def monitor(self, target: Target) -> str:
        monitor = f"{self.me.serial}m{next(self._monitors)}"
        cell = self._system.find(target)
        self.watching[monitor] = cell
        if cell is None:
            ref = None if isinstance(target, str) else target
            self.put(Down(monitor, ref, NOPROC))
        else:
            cell.watched[monitor] = self
        return monitor

    def demonitor(self, monitor: str) -> None:
        cell = self.watching.pop(monitor, None)
        if cell is not None:
            cell.watched.pop(monitor, None)

    def after(self, delay_ms: int, message: object) -> str:
        timer = self._system.set_timer(self, delay_ms)
        self.timers[timer] = message
        return timer

    def cancel(self, timer: str) -> None:
        self.timers.pop(timer, None)

    def backlog(self) -> int:
        return len(self._inbox)

    def watch(self, fd: int) -> bool:  # noqa: ARG002 - its time is not the system's
        return False

    def unwatch(self, fd: int) -> None: ...

    def register(self, name: str) -> bool:
        if name in self._system.names or self.is_ending:
            return False
        self._system.names[name] = self
        self._names.append(name)
        return True

    def whereis(self, name: str, reply_with: str) -> None:
        self.put(Located(reply_with, self._system.whereis(name)))

    def now_ms(self) -> int:
        return self._system.now_ms

    def report(self, row: Row) -> None:
        self._system.report(row)

    # --- what comes in ----------------------------------------------------------------------------

    def put(self, message: object) -> None:
        self._inbox.append(message)
        if not self.queued:
            self._system.ready(self)

    def due(self, timer: str) -> None:
        if timer in self.timers:
            self.put(_Fired(timer))

    def signalled(self, sender: Ref, reason: ExitReason) -> None:
        """A signal, or the end of a linked cell."""
        if self.trap_exits and reason != KILL:
            self.put(Exited(sender, reason))
        elif reason.kind != "normal":
            self._condemn(KILLED if reason == KILL else reason)

    def _condemn(self, reason: ExitReason) -> None:
        if self._verdict is None or reason == KILLED:
            self._verdict = reason
        self._system.ready(self)

    # --- a turn -----------------------------------------------------------------------------------

    def step(self) -> None:
        """One event: the start, or one message; then the end, if it has come to that."""
        if self.is_ending:
            return
        if self._verdict is None:
            try:
                if self._behaviour is None:
                    self._begin()
                elif self._inbox:
                    self._receive()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - let it crash
                self._verdict = crash_reason(error)
        if self._verdict is not None:
            self.end(self._verdict)
        elif self._inbox:
            self._system.ready(self)

    def _begin(self) -> None:
        self._behaviour = self._start.make(*self._start.args)
        if self._behaviour.start(self):
            self.ready()

    def _receive(self) -> None:
        assert self._behaviour is not None
        message = self._inbox.popleft()
        if type(message) is _Fired:
            if message.timer not in self.timers:
                return
            message = self.timers.pop(message.timer)
        elif type(message) is Down:
            if message.monitor not in self.watching:
                return
            del self.watching[message.monitor]
        self._behaviour.receive(self, message)

    # --- the end ----------------------------------------------------------------------------------

    def end(self, reason: ExitReason) -> None:
        """Run `stop` unless killed, take the children along, and tell everybody (I3, I5)."""
        self.is_ending = True
        if self._behaviour is not None and reason != KILLED:
            try:
                self._behaviour.stop(self, reason)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - let it crash
                reason = crash_reason(error)
        for child in reversed(list(self.children.values())):
            child.end(SHUTDOWN if reason == NORMAL else reason)
        self._leave()
        self._system.gone(self, reason)
        self._tell(reason)

    def _leave(self) -> None:
        for name in self._names:
            del self._system.names[name]
        for monitor, cell in self.watching.items():
            if cell is not None:
                cell.watched.pop(monitor, None)
        self.watching.clear()
        self.timers.clear()
        self._inbox.clear()

    def _tell(self, reason: ExitReason) -> None:
        exited = Exited(self.me, reason)
        for ref in self.links:
            cell = self._system.find(ref)
            if cell is not None and cell is not self._parent:
                cell.links.pop(self.me, None)
                cell.signalled(self.me, reason)
        for monitor, cell in self.watched.items():
            cell.watching[monitor] = None
            cell.put(Down(monitor, self.me, reason))
        if self._parent is not None:
            self._parent.children.pop(self.me, None)
            self._parent.links.pop(self.me, None)
        self._tell_parent(exited)

    def _tell_parent(self, message: Started | Exited) -> None:
        if self._parent is not None and not self._parent.is_ending:
            self._parent.put(message)
