"""Behaviours that tests put on the stage."""

from collections.abc import Callable
from dataclasses import dataclass, field

from understudy.actors.otp import (
    Behaviour,
    Caller,
    Cell,
    ExitReason,
    GenServer,
    Next,
    Start,
    Stop,
    Word,
)

Log = list[str]


class Counter(GenServer):
    """Counts; can be made to crash, to stop and to be slow with an answer."""

    def __init__(self, value: int = 0, log: Log | None = None) -> None:
        self.value = value
        self.waiting: list[Caller] = []
        self._log = log if log is not None else []

    def handle_call(self, request: object, caller: Caller) -> object:
        if request == "later":
            self.waiting.append(caller)
            return Word.NO_REPLY
        if request == "crash":
            raise ValueError("as asked")
        if isinstance(request, Stop):
            return request
        self.value += 1
        return self.value

    def handle_cast(self, message: object) -> Next:
        if message == "answer":
            for caller in self.waiting:
                self.reply(caller, "at last")
        elif isinstance(message, int):
            self.value += message
        elif isinstance(message, Stop):
            return message
        else:
            raise ValueError(f"cast {message}")
        return None

    def terminate(self, reason: ExitReason) -> None:
        self._log.append(f"terminate {reason.kind}")


@dataclass
class Plain:
    """A bare behaviour: writes down all that reaches it, and does what it is sent."""

    log: list[object] = field(default_factory=list)
    traps: bool = False
    begin: Callable[[Cell], bool] | None = None

    def start(self, cell: Cell) -> bool:
        cell.trap_exits = self.traps
        self.cell = cell
        return True if self.begin is None else self.begin(cell)

    def receive(self, cell: Cell, message: object) -> None:
        self.log.append(message)
        if callable(message):
            message(cell)

    def stop(self, cell: Cell, reason: ExitReason) -> None:
        self.log.append(("stop", reason))

    def summary(self) -> object:
        return {"messages": len(self.log)}


def plain(behaviour: Behaviour, label: str = "") -> Start:
    """To start a behaviour that the test keeps in its hands."""
    return Start(lambda: behaviour, label=label)
