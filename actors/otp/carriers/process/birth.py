"""What passes between a cell and Thespian: its birth, its mail, and its alarm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ...cell import Ref
from ...identity import Identity
from .mailbox import Fate, Parcel

Capabilities = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Charter:
    """What a cell is given at its birth."""

    me: Ref
    parent: Ref | None
    keeper: Identity  # the process of its parent, which sees its end
    start: bytes  # a pickled `Start`; opened in the cell, so that a bad one ends only that
    fds: tuple[int, ...] = ()  # what it keeps of what its parent has open


class Process(Protocol):
    """A child as multiprocessing has it."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    def is_alive(self) -> bool: ...


class Wire(Protocol):
    """What Thespian does for a cell."""

    def post(self, host: str, port: int, parcel: Parcel, done: Callable[[Fate], None]) -> None: ...

    def create(self, charter: Charter, on: Capabilities) -> tuple[Process | None, object]:
        """A child and its address; without a process if another system is asked for it."""

    def wake_at(self, due_ms: int, now_ms: int) -> None: ...
