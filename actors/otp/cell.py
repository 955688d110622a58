"""What a process of the stage can do, whatever carries it: the primitives that OTP is made of.

A *cell* is a process as Erlang has them: a mailbox, an exit reason, links and monitors. What runs
in it is a *behaviour*, which sees the world through `Cell` alone. Two carriers exist: `inline`, one
thread with a clock of its own, for tests; and `troupe`, a Thespian actor a cell, each an operating
system process.

    parent --spawn--> [start] --ready--> [receive]* --exit--> [stop] --> gone
                         \\--------raise, exit---------/

I1  A message is handed to a behaviour once, also if that raises.
I2  A parent hears `Started` and then `Exited`, or `Exited` alone; each once.
I3  A cell ends once, with one reason, and everybody linked or monitoring hears that reason.
I4  A reference names one incarnation. It is never given to another cell.
I5  No cell outlives its parent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, Self

Kind = Literal[
    "normal",  # it was done
    "shutdown",  # it was told to end, or ended as if it had been
    "killed",  # it was ended without a say
    "noproc",  # there was none
    "crash",  # it raised; `detail` says what
    "exit",  # its operating-system process ended by itself; `code` is the exit code
    "signal",  # a signal ended its process; `code` is the number
    "timeout",  # it did not get ready in time
]


@dataclass(frozen=True, slots=True)
class ExitReason:
    """Why a cell ended."""

    kind: Kind
    detail: str = ""
    code: int | None = None

    @property
    def is_clean(self) -> bool:
        """An end that a transient child is not started again for."""
        return self.kind in ("normal", "shutdown")


NORMAL: Final = ExitReason("normal")
SHUTDOWN: Final = ExitReason("shutdown")
KILL: Final = ExitReason("killed", "kill")  # as a signal: no cell can trap it
KILLED: Final = ExitReason("killed")
NOPROC: Final = ExitReason("noproc")


@dataclass(frozen=True, slots=True)
class Ref:
    """One incarnation of a cell. Hashable, comparable, and safe to send."""

    system: str  # which system of cells it lives in
    serial: str  # unique within the system, for ever
    label: str = field(default="", compare=False)  # for people
    place: Any = field(default=None, compare=False, repr=False)  # the carrier's own business


Target = Ref | str  # a cell, or a registered name


@dataclass(frozen=True, slots=True)
class Start:
    """How to make a behaviour: a callable that can be pickled by name, and what it gets."""

    make: Callable[..., "Behaviour"]
    args: tuple[Any, ...] = ()
    label: str = ""


# --- what the carrier tells a cell ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """To the parent: the child has called `ready`."""

    ref: Ref
    pid: int | None = None  # of its operating-system process, where it has one of its own


@dataclass(frozen=True, slots=True)
class Exited:
    """From a linked cell, to one that traps exits; and always to the parent.

    A parent is told of the end of a child and never ends by it. One that traps exits also gets a
    `signal` this way: `ref` is then the cell that sent it.
    """

    ref: Ref
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class Down:
    """From a monitored cell, once; at once with `noproc` where there is none."""

    monitor: str
    ref: Ref | None
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class Readable:
    """A watched descriptor can be read. Once for every `watch`."""

    fd: int


# --- what a cell can do ---------------------------------------------------------------------------


class Cell(Protocol):
    """The world of a behaviour. Nothing here blocks, and nothing here raises for a dead target."""

    me: Ref
    parent: Ref | None
    trap_exits: bool  # False at first; with True, exits of linked cells come as `Exited`

    def ready(self) -> None:
        """Tell the parent that the start is over; a `start` that returns True does so by itself."""

    def spawn(self, start: Start) -> Ref:
        """Make a child, linked to us. `Started` or `Exited` follows."""

    def send(self, to: Target, message: object) -> None:
        """Lost where there is no such cell; in order between two cells."""

    def signal(self, to: Target, reason: ExitReason) -> None:
        """Ask a cell to end. `KILL` is no question; `normal` is ignored by who does not trap."""

    def exit(self, reason: ExitReason) -> None:
        """End, when the message at hand is done with."""

    def link(self, ref: Ref) -> None:
        """End together, from now on; with `noproc` at once where there is no such cell."""

    def unlink(self, ref: Ref) -> None: ...

    def monitor(self, target: Target) -> str:
        """Hear `Down` with this name when the target ends."""

    def demonitor(self, monitor: str) -> None:
        """Hear nothing more of it, not even what is on its way."""

    def after(self, delay_ms: int, message: object) -> str:
        """Get a message later. Timers that are due together come in the order they were set."""

    def cancel(self, timer: str) -> None: ...

    def watch(self, fd: int) -> bool:
        """Get one `Readable` when a descriptor can be read; False where the carrier cannot."""

    def unwatch(self, fd: int) -> None: ...

    def register(self, name: str) -> bool:
        """Take a name; False where a living cell has it. The end of a cell frees its names."""

    def whereis(self, name: str, reply_with: str) -> None:
        """Get a `Located(reply_with, ref or None)`."""

    def now_ms(self) -> int:
        """A clock that never goes back."""

    def backlog(self) -> int:
        """How many messages wait in our mailbox."""


@dataclass(frozen=True, slots=True)
class Located:
    """The answer to `whereis`."""

    question: str
    ref: Ref | None


class Behaviour(Protocol):
    """What runs in a cell. An exception from any of these ends the cell with `crash`."""

    def start(self, cell: Cell) -> bool:
        """Begin. True: ready at once. False: `cell.ready()` follows, after some messages."""

    def receive(self, cell: Cell, message: object) -> None:
        """One message."""

    def stop(self, cell: Cell, reason: ExitReason) -> None:
        """The last call, unless the cell is killed: clean up, quickly."""

    def summary(self) -> object:
        """What a crash report says of the state: small, and without secrets."""


class System(Protocol):
    """A carrier from outside, for programs that start one."""

    def spawn(self, start: Start) -> Ref:
        """A cell below the root; returns when it is ready, raises `StartFailed` if it ends."""

    def call(self, target: Target, request: object, timeout_ms: int) -> object:
        """Ask a `GenServer`; raises `CallFailed` at once where there is none."""

    def send(self, target: Target, message: object) -> None: ...

    def stop(self, timeout_ms: int) -> None:
        """End every cell in the reverse order of their start; then nothing is left."""


class OtpError(Exception):
    """Something that a caller of this package can act on."""


class StartFailed(OtpError):
    """A cell ended before it was ready."""

    def __init__(self, reason: ExitReason) -> None:
        super().__init__(f"not started: {reason.kind} {reason.detail}".rstrip())
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[ExitReason]]:
        return type(self), (self.reason,)


class CallFailed(OtpError):
    """No answer will come: there is no such cell, it ended, or it took too long."""

    def __init__(self, target: Target, reason: ExitReason) -> None:
        name = target if isinstance(target, str) else target.label or target.serial
        super().__init__(f"{name}: {reason.kind} {reason.detail}".rstrip())
        self.target = target
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[Target, ExitReason]]:
        return type(self), (self.target, self.reason)
