"""What one cell wants to know of the ends of others: monitors and links.

The kernel says that a process has ended, the roll says how: written by the cell itself, by who
killed it, or by its parent, which has its exit code. Where all of them were killed together it
says nothing, and the reason is `killed`.

I1  Every monitor and every link hears of one end, once.
I2  A parent that is slow to look is waited for, a dead one is not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...cell import ExitReason, Ref
from .mailbox import Key, key_of
from .poller import Vigil
from .registry import RegistryEntry, Roll

REASON_MS: Final = 5_000  # that a parent gets to say how its child ended


@dataclass(slots=True)
class Tie:
    ref: Ref
    pid: int | None  # whose end is watched here; None where another cell watches
    entry: RegistryEntry | None
    monitors: dict[str, None] = field(default_factory=dict)
    is_link: bool = False
    unclear_until_ms: int = 0  # it has ended, and how is not known yet

    @property
    def is_loose(self) -> bool:
        return not self.is_link and not self.monitors


class Ties:
    def __init__(self, roll: Roll, vigil: Vigil) -> None:
        self._roll = roll
        self._vigil = vigil
        self._ties: dict[Key, Tie] = {}

    def get(self, ref: Ref) -> Tie | None:
        return self._ties.get(key_of(ref))

    def watch(self, ref: Ref) -> Tie | None:
        """A tie to a cell on the roll; None where it has ended."""
        entry = self._roll.find(ref.serial) if ref.system == self._roll.system else None
        if entry is None:
            return None
        if entry.place.node != self._roll.system:  # it is away
            return self.trust(ref, entry)
        if not self._vigil.watch_process(entry.place.identity):
            return None
        return self._ties.setdefault(key_of(ref), Tie(ref, entry.place.pid, entry))

    def trust(self, ref: Ref, entry: RegistryEntry | None = None) -> Tie:
        """A tie to a cell whose end is going to be told: a child, or one that is away."""
        return self._ties.setdefault(key_of(ref), Tie(ref, None, entry))

    def loosen(self, tie: Tie) -> None:
        if tie.is_loose and self._ties.get(key_of(tie.ref)) is tie:
            del self._ties[key_of(tie.ref)]
            if tie.pid is not None:
                self._vigil.forget_process(tie.pid)

    def process_ended(self, pid: int, now_ms: int) -> None:
        for tie in self._ties.values():
            if tie.pid == pid:
                tie.pid = None
                tie.unclear_until_ms = now_ms + REASON_MS

    def told(self, ref: Ref) -> Tie | None:
        """Its end is known; the tie is undone (I1)."""
        tie = self._ties.pop(key_of(ref), None)
        if tie is not None and tie.pid is not None:
            self._vigil.forget_process(tie.pid)
        return tie

    @property
    def is_unclear(self) -> bool:
        return any(tie.unclear_until_ms for tie in self._ties.values())

    def explained(self, now_ms: int) -> Iterator[tuple[Tie, ExitReason]]:
        """Ends whose reason is known by now (I2)."""
        for tie in [each for each in self._ties.values() if each.unclear_until_ms]:
            reason = self._why(tie, now_ms)
            if reason is not None:
                self._ties.pop(key_of(tie.ref), None)
                yield tie, reason

    def _why(self, tie: Tie, now_ms: int) -> ExitReason | None:
        assert tie.entry is not None
        is_waited_for = tie.entry.keeper.is_alive and now_ms < tie.unclear_until_ms
        # Looked at after the parent: it may have written it with its last breath.
        reason = self._roll.how(tie.ref.serial)
        if reason is None and not is_waited_for:
            reason = ExitReason("killed", "with its parent")
        return reason
