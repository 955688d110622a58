"""The private parts of Thespian that the carrier leans on: named, checked and changed here alone.

Thespian is pinned to one release, so what is private cannot move unseen; if it does, the start
fails and says what is missing. What is changed, and what it would do otherwise:

    listening     on every interface, for every user of every machine   -> in a private folder
    the admin     leaves its starter and lives for ever                 -> is tied to it
    the logger    holds what it inherits; its death ends the admin      -> tied; is started again
    an actor      holds what it inherits, outlives its parent           -> tied, first of all
    mail          is opened, and so run, from any writer                -> only what is signed
    a length      may be negative, which ends the process, or endless   -> is checked, and signed
    connections   that say nothing are kept for minutes, all of them    -> so many, for seconds
    an accept     that fails ends the process                           -> is forgotten
    retries       after 35 seconds, with pauses that grow to 7          -> after 10 ms, pauses of 20
    its log       is made as the umask says                             -> is its user's alone
    backlog       100 connections; beyond that each waits a second      -> 1,024

All of it is done in the process that starts a system, and reaches the others by fork.
"""

import importlib
import inspect
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from functools import partial, reduce
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import thespian.system.multiprocCommon as processes
import thespian.system.systemBase as system_base
import thespian.system.transport.TCPTransport as tcp
import thespian.system.utilis as thespian_log
from thespian.system.timing import ExpirationTimer
from thespian.system.transport import ReceiveEnvelope, SendStatus, TransmitIntent

from ...cell import OtpError
from . import process_id, run_file
from .mailbox import Fate
from .private_socket import PrivateSocket
from .signed_mail import Incoming, Signed

RELEASE: Final = "4.0.1"
SHUTDOWN_SECONDS: Final = 3  # Thespian waits ten for actors that do not end, and leaves them

INCOMING_MAX: Final = 256  # connections on which a frame is awaited; one more ends the oldest
INCOMING_SECONDS: Final = 30  # that a frame may take to come in

_BACKLOG = 1_024
_RETRY = timedelta(milliseconds=10)
_PAUSE = timedelta(milliseconds=20)
_SOONEST = timedelta(milliseconds=1)
_LONGEST = timedelta(seconds=20)  # for one parcel; then the lane looks whether anybody is there

# Where a name is not an attribute until it is used, the code that uses it is asked.
_INCOMING: Final = ("_incomingEnvelopes",)
_ACCEPTING: Final = ("accept", "_incomingSockets")
_READING: Final = ("ReceiveBuffer", "serializer")
_NEEDED: Final = (
    ("thespian.system.utilis", "thesplog", ("open",)),
    ("thespian.system.multiprocCommon", "startAdmin", ()),
    ("thespian.system.multiprocCommon", "startChild", ()),
    ("thespian.system.multiprocCommon", "startupASLogger", ()),
    ("thespian.system.multiprocCommon", "MultiProcAdmin", ()),
    ("thespian.system.multiprocCommon", "MultiProcReplicator._startChildActor", ("_child_procs",)),
    ("thespian.system.systemBase", "MAX_SYSTEM_SHUTDOWN_DELAY", ()),
    ("thespian.system.systemCommon", "systemCommonBase._send_intent", ()),
    ("thespian.system.transport", "TransmitIntent.backoffPause", ("_pauseUntil",)),
    ("thespian.system.transport", "TransmitIntent.delay", ()),
    ("thespian.system.transport.TCPTransport", "LISTEN_DEPTH", ()),
    ("thespian.system.transport.TCPTransport", "MAX_INCOMING_SOCKET_PERIOD", ()),
    ("thespian.system.transport.TCPTransport", "TCPTransport.__init__", ("socket", "listen")),
    ("thespian.system.transport.TCPTransport", "TCPTransport._acceptNewIncoming", _ACCEPTING),
    ("thespian.system.transport.TCPTransport", "TCPTransport.serializer", ("serializer", "dumps")),
    ("thespian.system.transport.TCPTransport", "TCPIncoming_Common.__init__", _READING),
    ("thespian.system.transport.TCPTransport", "TCPTransport._next_XMIT_3", _READING),
    ("thespian.system.transport.TCPTransport", "TCPTransport._runWithExpiry", _INCOMING),
)


class HookMissing(OtpError):
    """Thespian is not the release that this package was made for."""


def check() -> None:
    """Refuse to start on a Thespian that is another one, or has been changed."""
    release = metadata.version("thespian")
    if release != RELEASE:
        raise HookMissing(f"thespian {release} is installed; only {RELEASE} is known to work")
    for module, path, uses in _NEEDED:
        try:
            found = reduce(getattr, path.split("."), importlib.import_module(module))
        except (ImportError, AttributeError) as error:
            raise HookMissing(f"thespian {release} has no {module}.{path}") from error
        for name in uses:
            if name not in found.__code__.co_names:
                raise HookMissing(f"thespian {release}: {path} no longer uses {name}")
    if "childRequirements" not in inspect.signature(processes.startChild).parameters:
        raise HookMissing(f"thespian {release}: startChild takes no childRequirements")


def install(
    sockets: Path,
    secret: bytes,
    kept_fds: Callable[[Any], tuple[int, ...]],
    admin_fds: tuple[int, ...],
) -> int:
    """Change Thespian as said above; returns a descriptor from which the admin's pid is read.

    `kept_fds` says which descriptors an actor keeps, given its requirements.
    """
    check()
    made = {"socket": lambda *_tcp: PrivateSocket(sockets)}
    tcp.socket = SimpleNamespace(**vars(socket) | made)
    tcp.serializer = Signed(secret)
    tcp.ReceiveBuffer = lambda _loads: Incoming(tcp.serializer)
    plain = tcp.TCPTransport._acceptNewIncoming  # noqa: SLF001 - see above
    tcp.TCPTransport._acceptNewIncoming = _bounded(plain)  # noqa: SLF001 - see above
    tcp.MAX_INCOMING_SOCKET_PERIOD = timedelta(seconds=INCOMING_SECONDS)
    tcp.LISTEN_DEPTH = _BACKLOG
    thespian_log.open = partial(open, opener=run_file.opener)
    system_base.MAX_SYSTEM_SHUTDOWN_DELAY = timedelta(seconds=SHUTDOWN_SECONDS)
    # It is called `logdefs` there; the logger's death asks for it under this name.
    processes.MultiProcAdmin.logDefs = property(lambda self: self.logdefs)
    reader, writer = os.pipe()
    processes.startAdmin = _tied_admin(processes.startAdmin, writer, admin_fds)
    processes.startupASLogger = _tied(processes.startupASLogger)
    processes.startChild = _tied_child(processes.startChild, kept_fds)
    return reader


def _tied_admin(
    start: Callable[..., None], writer: int, kept: tuple[int, ...]
) -> Callable[..., None]:
    def start_admin(*args: object) -> None:
        process_id.tie_to_parent()
        os.write(writer, str(os.getpid()).encode())
        process_id.keep_only(kept)
        fork = os.fork

        def stay() -> int:
            # The first fork of an admin is to leave its parent: it goes on as the one it is.
            os.fork = fork
            return 0

        os.fork = stay
        start(*args)

    return start_admin


def _tied(start: Callable[..., None]) -> Callable[..., None]:
    def start_logger(*args: object) -> None:
        process_id.tie_to_parent()
        process_id.keep_only(())
        start(*args)

    return start_logger


def _tied_child(
    start: Callable[..., None], kept_fds: Callable[[Any], tuple[int, ...]]
) -> Callable[..., None]:
    position = list(inspect.signature(start).parameters).index("childRequirements")

    def start_child(*args: object) -> None:
        process_id.tie_to_parent()
        process_id.keep_only(kept_fds(args[position]))
        start(*args)

    return start_child


def _bounded(accept: Callable[[Any], None]) -> Callable[[Any], None]:
    def accept_new(transport: Any) -> None:
        waiting = transport._incomingSockets  # noqa: SLF001 - see above
        if len(waiting) >= INCOMING_MAX:
            # In the order in which they were heard last; its sender, if it is one, tries again.
            waiting.pop(next(iter(waiting))).close()
        accept(transport)
        # Where it fails Thespian leaves itself a note, takes that for mail, and ends by it.
        mail = transport._incomingEnvelopes  # noqa: SLF001 - see above
        mail[:] = [each for each in mail if isinstance(each, ReceiveEnvelope)]

    return accept_new


class Letter(TransmitIntent):  # type: ignore[misc]  # Thespian has no types
    """One parcel on its way, which does not wait longer than it must.

    Two cells that write to each other at the same time may close each other's connection; Thespian
    tries again after 35 seconds, or pauses up to 7, and where a delay is just over, it waits for
    the next event of another kind.
    """

    def __init__(self, address: object, parcel: object, done: Callable[[Fate], None]) -> None:
        super().__init__(
            address,
            parcel,
            onSuccess=lambda _status, _intent: done("taken"),
            onError=lambda status, _intent: done(
                "gone" if status is SendStatus.DeadTarget else "failed"
            ),
            maxPeriod=_LONGEST,
            retryPeriod=_RETRY,
        )

    def backoffPause(self, startPausing: bool = False) -> timedelta:
        if startPausing:
            self._pauseUntil = ExpirationTimer(_PAUSE)
            return _PAUSE
        pause: timedelta = super().backoffPause(False)  # noqa: FBT003 - Thespian's signature
        return pause

    def delay(self, current_time: object = None) -> timedelta:
        # A delay of nothing is left out where Thespian looks how long it may sleep.
        delay: timedelta = super().delay(current_time)
        return max(delay, _SOONEST)
