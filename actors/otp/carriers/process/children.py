"""The children of one cell: how they are made, and how they ended.

I1  A child is a process that the kernel watches for us; or it is away, and tells us itself.
I2  Every child ends once, with the first reason that was written, and leaves the roll then.
"""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...cell import ExitReason, Ref
from ...identity import identity
from .birth import Capabilities, Charter, Process, Wire
from .poller import Vigil
from .registry import RegistryEntry, RegistryFolder, Roll

UNSEEN: Final = ExitReason("killed", "away, and nobody saw how")
NOWHERE: Final = ExitReason("noproc", "no system could start it")


@dataclass(slots=True)
class ChildProcess:
    ref: Ref
    process: Process | None  # None: it is away, or could not be made
    address: object
    is_ready: bool = False
    last_words: ExitReason | None = None  # of one that is away

    @property
    def is_away(self) -> bool:
        return self.process is None


class Brood:
    def __init__(self, me: Ref, roll: Roll, vigil: Vigil, wire: Wire) -> None:
        self._me = me
        self._roll = roll
        self._vigil = vigil
        self._wire = wire
        self._born = 0
        self._children: dict[str, ChildProcess] = {}

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[ChildProcess]:
        """In the order of their birth."""
        return iter(list(self._children.values()))

    def get(self, ref: Ref) -> ChildProcess | None:
        return self._children.get(ref.serial) if ref.system == self._me.system else None

    def make(self, start: bytes, label: str, on: Capabilities) -> Ref:
        self._born += 1
        serial = f"{self._me.serial}.{self._born}"
        ref = Ref(self._me.system, serial, label, RegistryFolder(""))
        charter = Charter(ref, self._me, identity(), start)
        process, address = self._wire.create(charter, on)
        if process is not None:
            assert process.pid is not None
            who = identity(process.pid)
            place = RegistryFolder(self._me.place.node, who.pid, who.ticks)
            ref = Ref(ref.system, serial, label, place)
            self._roll.enter(serial, RegistryEntry(place, self._me.serial, identity()))
            if not self._vigil.watch_process(who):
                self._vigil.ring()
        self._children[serial] = ChildProcess(ref, process, address)
        return ref

    def arrived(self, child: ChildProcess, place: RegistryFolder) -> None:
        """It takes mail. What it cannot write from where it is, is written here."""
        child.ref = Ref(child.ref.system, child.ref.serial, child.ref.label, place)
        if child.is_away:
            entry = RegistryEntry(place, self._me.serial, identity())
            self._roll.enter(child.ref.serial, entry, anew=True)

    def dead(self, pid: int | None = None) -> Iterator[tuple[ChildProcess, ExitReason]]:
        """The child with this pid, or all that have ended, and what the kernel says of it."""
        for child in self:
            process = child.process
            if process is None or (pid is not None and process.pid != pid):
                continue
            if not process.is_alive():  # asks the kernel, and takes the exit code
                yield child, _reason(process)

    def elsewhere(self, address: object) -> Iterator[tuple[ChildProcess, ExitReason]]:
        """Of a child that is away, or was never made, Thespian is the one who knows."""
        for child in self:
            if child.is_away and child.address == address:
                reason = UNSEEN if child.ref.place.port else NOWHERE
                yield child, child.last_words or reason

    def bury(self, child: ChildProcess, reason: ExitReason) -> tuple[ExitReason, str]:
        """The reason that counts, and what a fault in C code left behind (I2)."""
        serial = child.ref.serial
        del self._children[serial]
        reason = self._roll.end(serial, reason)
        self._roll.leave(serial)
        return reason, self._roll.fault(serial)

    def abandon(self) -> None:
        self._children.clear()


def _reason(process: Process) -> ExitReason:
    code = process.exitcode
    assert code is not None
    if code < 0:
        return ExitReason("signal", signal.Signals(-code).name, -code)
    return ExitReason("exit", "", code)
