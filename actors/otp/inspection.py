"""Questions that every server and supervisor answers before its own code is asked.

    call(server, GetState())     what it holds
    call(server, GetStatus())    who it is, whether it is suspended, what it waits for
    call(server, Suspend())      hold all messages but these, until Resume()
    call(server, Trace(...))     keep what happens, and tell a cell; Untrace() ends it
    call(server, Statistics())   how often what happened
    call(server, Leave(reason))  end in good order

I1  A trace is bounded: it keeps the last `keep` events, and tells of the first `limit`.
I2  A suspension loses nothing: it ends by itself when `HELD_MAX` messages wait.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from .cell import NORMAL, Cell, ExitReason, Ref
from .report import shown

HELD_MAX: Final = 10_000
TRACE_KEPT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class GetState: ...


@dataclass(frozen=True, slots=True)
class GetStatus: ...


@dataclass(frozen=True, slots=True)
class Suspend: ...


@dataclass(frozen=True, slots=True)
class Resume: ...


@dataclass(frozen=True, slots=True)
class Statistics: ...


@dataclass(frozen=True, slots=True)
class GetTrace:
    """The events kept, oldest first."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Keep events, and send each of the first `limit` to a cell as `Traced`."""

    keep: int = 100
    to: Ref | None = None
    limit: int = 1_000


@dataclass(frozen=True, slots=True)
class Untrace: ...


@dataclass(frozen=True, slots=True)
class Leave:
    """End with a reason, as if it had decided so itself."""

    reason: ExitReason = NORMAL


Inspection = (
    GetState | GetStatus | Suspend | Resume | Statistics | GetTrace | Trace | Untrace | Leave
)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a traced cell."""

    at_ms: int
    kind: str  # in, call, cast, reply, held, exit
    what: str


@dataclass(frozen=True, slots=True)
class Traced:
    """To who asked for a trace."""

    ref: Ref
    event: Event


@dataclass(slots=True)
class Observer:
    """What one cell knows about itself: counts, and a trace where one is wanted."""

    started_ms: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    _kept: deque[Event] | None = None
    _to: Ref | None = None
    _left: int = 0

    @property
    def traces(self) -> bool:
        return self._kept is not None

    def begin(self, wish: Trace) -> str:
        """Start over with a new trace; says why not where it asks for what cannot be."""
        if not 0 < wish.keep <= TRACE_KEPT_MAX or wish.limit < 1:
            return f"keep must be 1 to {TRACE_KEPT_MAX}, and limit at least 1"
        self._kept, self._to, self._left = deque(maxlen=wish.keep), wish.to, wish.limit
        return "ok"

    def end(self) -> None:
        self._kept = None

    def kept(self) -> list[Event]:
        return list(self._kept or ())

    def note(self, cell: Cell, kind: str, what: object) -> None:
        self.counts[kind] += 1
        if self._kept is None:
            return
        event = Event(cell.now_ms(), kind, shown(what))
        self._kept.append(event)
        if self._to is not None and self._left > 0:
            self._left -= 1
            cell.send(self._to, Traced(cell.me, event))
