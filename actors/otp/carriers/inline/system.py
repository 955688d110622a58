"""Cells in one thread, with a clock that moves when it is told to: the carrier for tests.

    spawn, send, signal --> [inboxes] --run--> one event of one cell at a time
    advance(ms)         --> [timers]  --due--> [inboxes]

Without a seed, cells take turns in the order in which they got work. With one, the next cell is
drawn: the same seed gives the same run, another seed another interleaving that could happen.

I1..I5 are those of `cell`. Beyond them:
I6  Nothing happens outside `run`, `advance`, `spawn`, `call` and `stop`, and no real time passes.
I7  A cancelled timer and a removed monitor are not heard, not even if they were on their way.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from ... import report
from ...calls import Calls, Cast
from ...cell import (
    KILL,
    SHUTDOWN,
    CallFailed,
    Cell,
    Exited,
    ExitReason,
    Ref,
    Start,
    Started,
    StartFailed,
    Target,
)
from .cell import InlineCell

EVENTS_MAX: Final = 10_000_000  # of one `run`; more is a loop that never ends
START_MS_MAX: Final = 600_000  # that `spawn` lets pass
REPORTS_KEPT_MAX: Final = 10_000
ENDED_KEPT_MAX: Final = 10_000

_systems = count(1)


class Endless(Exception):
    """Cells kept each other busy for more events than any test needs."""


class Inline:
    """A system of cells in this thread. Implements `System`."""

    def __init__(self, seed: int | None = None, sink: report.Sink | None = None) -> None:
        self.name = f"inline-{next(_systems)}"
        self.now_ms = 0
        self.delivered = 0
        self.reports: deque[report.Row] = deque(maxlen=REPORTS_KEPT_MAX)
        self.names: dict[str, InlineCell] = {}
        self.cells: dict[str, InlineCell] = {}
        self._sink = sink
        self._random = None if seed is None else random.Random(seed)  # noqa: S311 - drawn to be repeated
        self._serials = count(1)
        self._ticks = count()
        self._ready: deque[InlineCell] = deque()
        self._drawn: list[InlineCell] = []
        self._timers: list[tuple[int, int, InlineCell, str]] = []
        self._ended: dict[Ref, ExitReason] = {}
        self._root = _Outside()
        self._root_cell = self._made(None, Start(lambda: self._root, label="root"))
        self.run()

    # --- as `System` has it -----------------------------------------------------------------------

    def spawn(self, start: Start) -> Ref:
        """A cell below the root; returns when it is ready, raises `StartFailed` if it ends.

        Time passes where the start waits for it.
        """
        ref = self._root_cell.spawn(start)
        self._until(lambda: self._root.knows(ref), self.now_ms + START_MS_MAX)
        if ref in self._root.started:
            return ref
        if ref in self._root.ended:
            raise StartFailed(self._root.ended[ref])
        self.signal(ref, KILL)
        self.run()
        raise StartFailed(ExitReason("timeout", "it waits for what never comes"))

    def call(self, target: Target, request: object, timeout_ms: int) -> object:
        """Ask, and let cells run and time pass until there is an answer."""
        answers: list[object] = []
        self._root.calls.ask(target, request, timeout_ms, answers.append)
        self._until(lambda: bool(answers))
        if isinstance(answers[0], CallFailed):
            raise answers[0]
        return answers[0]

    def send(self, target: Target, message: object) -> None:
        self._root_cell.send(target, message)

    def stop(self, timeout_ms: int) -> None:
        """End every cell below the root, last one first; kill what has not gone in time."""
        for ref in reversed(list(self._root_cell.children)):
            self.signal(ref, SHUTDOWN)
            deadline_ms = self.now_ms + timeout_ms
            self._until(lambda ref=ref: not self.alive(ref), deadline_ms)  # type: ignore[misc]  # mypy infers no lambda's default
            self.signal(ref, KILL)
            self.run()

    # --- for tests --------------------------------------------------------------------------------

    def cast(self, target: Target, message: object) -> None:
        self.send(target, Cast(message))

    def signal(self, target: Target, reason: ExitReason) -> None:
        """From the root, which is the parent of what `spawn` made."""
        self._root_cell.signal(target, reason)

    def alive(self, ref: Ref) -> bool:
        return ref.serial in self.cells and ref.system == self.name

    def ended(self, ref: Ref) -> ExitReason | None:
        """Why a cell ended, as long as that is remembered."""
        return self._ended.get(ref)

    def whereis(self, name: str) -> Ref | None:
        cell = self.names.get(name)
        return None if cell is None else cell.me

    def inbox(self) -> list[object]:
        """What cells sent to the root beside answers; taken out."""
        taken, self._root.inbox = self._root.inbox, []
        return taken

    @property
    def root(self) -> Ref:
        return self._root_cell.me

    def run(self, events: int = EVENTS_MAX) -> int:
        """Until no cell has anything to do; says how many events that took."""
        for done in range(events):
            cell = self._next()
            if cell is None:
                self.delivered += done
                return done
            cell.queued = False
            cell.step()
        raise Endless(f"still busy after {events:,} events")

    def advance(self, delay_ms: int) -> None:
        """Let time pass: every timer that comes due fires at its own moment."""
        until_ms = self.now_ms + delay_ms
        self.run()
        while (due_ms := self._due_ms()) is not None and due_ms <= until_ms:
            self._fire(due_ms)
            self.run()
        self.now_ms = until_ms

    # --- for cells --------------------------------------------------------------------------------

    def made(self, parent: InlineCell, start: Start) -> InlineCell:
        return self._made(parent, start)

    def ready(self, cell: InlineCell) -> None:
        """Give a cell a turn; once, however much it has to do."""
        if not cell.queued:
            cell.queued = True
            (self._ready if self._random is None else self._drawn).append(cell)

    def find(self, target: Target) -> InlineCell | None:
        if isinstance(target, str):
            return self.names.get(target)
        return self.cells.get(target.serial) if target.system == self.name else None

    def set_timer(self, cell: InlineCell, delay_ms: int) -> str:
        tick = next(self._ticks)
        timer = f"t{tick}"
        heapq.heappush(self._timers, (self.now_ms + max(delay_ms, 0), tick, cell, timer))
        return timer

    def report(self, row: report.Row) -> None:
        self.reports.append(row)
        if self._sink is not None:
            self._sink(row)

    def gone(self, cell: InlineCell, reason: ExitReason) -> None:
        del self.cells[cell.me.serial]
        self._ended[cell.me] = reason
        if len(self._ended) > ENDED_KEPT_MAX:
            del self._ended[next(iter(self._ended))]

    # --- inside -----------------------------------------------------------------------------------

    def _made(self, parent: InlineCell | None, start: Start) -> InlineCell:
        serial = str(next(self._serials))
        cell = InlineCell(self, Ref(self.name, serial, start.label), parent, start)
        self.cells[serial] = cell
        self.ready(cell)
        return cell

    def _next(self) -> InlineCell | None:
        if self._random is None:
            return self._ready.popleft() if self._ready else None
        drawn = self._drawn
        if not drawn:
            return None
        at = self._random.randrange(len(drawn))
        drawn[at], drawn[-1] = drawn[-1], drawn[at]
        return drawn.pop()

    def _due_ms(self) -> int | None:
        timers = self._timers
        while timers and timers[0][3] not in timers[0][2].timers:  # cancelled, or its cell is gone
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def _fire(self, due_ms: int) -> None:
        self.now_ms = max(self.now_ms, due_ms)
        while self._timers and self._timers[0][0] <= due_ms:
            *_, cell, timer = heapq.heappop(self._timers)
            cell.due(timer)

    def _until(self, holds: Callable[[], bool], deadline_ms: int | None = None) -> None:
        """Run, and let time pass from timer to timer, until it holds or nothing can happen."""
        self.run()
        while not holds():
            due_ms = self._due_ms()
            if due_ms is None or (deadline_ms is not None and due_ms > deadline_ms):
                return
            self._fire(due_ms)
            self.run()


class _Outside:
    """The parent of the first cells: the program that has started the system."""

    calls: Calls

    def __init__(self) -> None:
        self.started: set[Ref] = set()
        self.ended: dict[Ref, ExitReason] = {}
        self.inbox: list[object] = []

    def knows(self, ref: Ref) -> bool:
        return ref in self.started or ref in self.ended

    def start(self, cell: Cell) -> bool:
        cell.trap_exits = True
        self.calls = Calls(cell)
        return True

    def receive(self, cell: Cell, message: object) -> None:  # noqa: ARG002 - every cell has it
        if isinstance(message, Started):
            self.started.add(message.ref)
        elif isinstance(message, Exited):
            self.ended[message.ref] = message.reason
        elif not self.calls.take(message):
            self.inbox.append(message)

    def stop(self, cell: Cell, reason: ExitReason) -> None: ...

    def summary(self) -> object:
        return {"started": len(self.started)}
