"""The Thespian actor that carries one cell: the only place where both sides are seen.

Thespian hands every event to `receiveMessage`; what the cell raises never gets there, so that
nothing is delivered twice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from thespian.actors import (
    Actor,
    ActorAddress,
    ActorExitRequest,
    ChildActorExited,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)
from thespian.system.transport import ReceiveEnvelope
from thespian.system.transport.IPBase import TCPv4ActorAddress

from ...identity import identity
from . import process_id
from .birth import Capabilities, Charter, Process
from .cell import Body
from .hooks import Letter
from .mailbox import Fate, Parcel
from .registry import RegistryFolder, Roll

# What a system says of itself to others, as capabilities.
SYSTEM = "Understudy System"
BUILD = "Understudy Build"
FOLDER = "Understudy Folder"
REPORTS = "Understudy Reports"


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a cell wants from the system that hosts it, and what it is."""

    charter: Charter
    build: str
    on: Capabilities


class _Begin:
    """The first event of an actor; Thespian has none of its own."""


class Player(Actor):  # type: ignore[misc]  # Thespian has no types
    """Implements `Wire`."""

    @staticmethod
    def actorSystemCapabilityCheck(
        capabilities: dict[str, object], requirements: Requirements | None
    ) -> bool:
        """Whether a system may host a cell: it has the same code, and what is asked for."""
        return (
            isinstance(requirements, Requirements)
            and capabilities.get(BUILD) == requirements.build
            and all(capabilities.get(name) == value for name, value in requirements.on.items())
        )

    def __init__(
        self, capabilities: dict[str, Any] | None = None, requirements: Requirements | None = None
    ) -> None:
        super().__init__()
        assert capabilities is not None
        assert requirements is not None
        self._requirements = requirements
        self._charter = requirements.charter
        self._node: str = capabilities[SYSTEM]
        self._reports = Path(capabilities[REPORTS])
        self._roll = Roll.of(Path(capabilities[FOLDER]), self._node, self._charter.me.system)
        self._body: Body | None = None
        process_id.log_to_stderr()
        process_id.take_signals(self._terminated)
        process_id.log_faults(self._roll.fault_path(self._charter.me.serial))

    @property
    def _myRef(self) -> Any:  # Thespian's manager of this actor
        return self._manager

    @_myRef.setter
    def _myRef(self, manager: Any) -> None:
        """Called by Thespian when the actor is made; before its first turn."""
        self._manager = manager
        transport = manager.transport
        transport._incomingEnvelopes.append(  # noqa: SLF001 - see hooks
            ReceiveEnvelope(transport.myAddress, _Begin())
        )

    def _terminated(self) -> None:
        if self._body is not None:
            self._is_terminated = True
            self._body.ring()

    _is_terminated = False

    def receiveMessage(self, message: object, sender: Any) -> ThespianWatch:
        if self._body is None:
            self._body = self._made()
        body = self._body
        try:
            self._happened(body, message, sender)
            if self._is_terminated:
                self._is_terminated = False
                body.asked_to_end()
            body.turn()
        except BaseException as error:  # noqa: BLE001 - Thespian would deliver it again
            body.broken(error)
        return ThespianWatch([body.fileno()])

    @staticmethod
    def _happened(body: Body, message: object, sender: Any) -> None:
        if isinstance(message, Parcel):
            body.arrived(message, *sender.addressDetails.connectArgs[0])
        elif isinstance(message, WatchMessage):
            body.woken()
        elif isinstance(message, WakeupMessage):
            body.alarm(message.payload)
        elif isinstance(message, ChildActorExited):
            body.child_exited(message.childAddress)
        elif isinstance(message, ActorExitRequest):
            body.cut_off()
        elif isinstance(message, _Begin):
            body.begin()

    def _made(self) -> Body:
        who = identity()
        host, port = self.myAddress.addressDetails.connectArgs[0]
        place = RegistryFolder(self._node, who.pid, who.ticks, host, port)
        return Body(self._charter, self, place, self._roll, self._reports)

    # --- as `Wire` has it -------------------------------------------------------------------------

    def post(self, host: str, port: int, parcel: Parcel, done: Callable[[Fate], None]) -> None:
        letter = Letter(_address(host, port), parcel, done)
        self._manager._send_intent(letter)  # noqa: SLF001 - see hooks

    def create(self, charter: Charter, on: Capabilities) -> tuple[Process | None, object]:
        known = len(self._children())
        requirements = Requirements(charter, self._requirements.build, on)
        address = self.createActor(Player, targetActorRequirements=requirements)
        children = self._children()
        process: Process | None = children[-1].childProc if len(children) > known else None
        return process, address

    def _children(self) -> list[Any]:
        children: list[Any] = getattr(self._manager, "_child_procs", [])
        return children

    def wake_at(self, due_ms: int, now_ms: int) -> None:
        self.wakeupAfter(timedelta(milliseconds=max(due_ms - now_ms, 0)), due_ms)


@lru_cache(maxsize=1_024)
def _address(host: str, port: int) -> ActorAddress:
    return ActorAddress(TCPv4ActorAddress(host, port, external=True))


def kept_fds(requirements: Requirements) -> tuple[int, ...]:
    return requirements.charter.fds
