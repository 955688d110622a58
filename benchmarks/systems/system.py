"""What the load needs of a system: a fresh store, and clients that take items through a cycle.

A cycle is claim, renew, complete, of one item that the client names. All systems get the same
names, the same lease times and the same three steps; each step is durable before its answer, and
fenced: a renewal or completion with an old counter is refused. A client checks every answer, and
raises `Refused` if one of them is not a success.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from tests.services.server import Missing

TTL_SECONDS = 600


class Client(Protocol):
    """A connection. The items of one call are in flight together, as far as the system can."""

    def claim(self, keys: Sequence[str]) -> list[int]:
        """The fences of the new leases."""

    def renew(self, keys: Sequence[str], fences: Sequence[int]) -> list[int]:
        """The fences from now on."""

    def complete(self, keys: Sequence[str], fences: Sequence[int]) -> None: ...

    def close(self) -> None: ...


class System(Protocol):
    """A server with its store, or a store alone."""

    @property
    def name(self) -> str: ...

    @property
    def evidence(self) -> str:
        """What of a decision is left behind on disk, for the table."""

    def prepare(self, count: int) -> None:
        """Make a fresh store with so many open items; their names are those of `names`."""

    def connect(self, owner: str) -> Client:
        """A connection of this owner; called in the client's process."""

    def stop(self) -> None: ...


class Unfit(Missing):
    """The server is there, but set up so that its answers are not durable."""


class Refused(Exception):
    """A step that must succeed did not."""


Maker = Callable[[Path], System]  # in a private folder; `Missing` where the server is not found


def names(count: int) -> list[str]:
    return [f"i{number}" for number in range(count)]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
