"""Opens the authority of a state directory: who decides, in which process.

    --boundary   where a sidecar serves    where none does
    (nothing)    the sidecar               this process, in Python
    sidecar      the sidecar               `Unreachable`
    reference    this process, in Python   the same
    native       this process, in C        the same

A sidecar decides in C where it could be built, unless it is told otherwise. Whatever decides, the
answers are the same bytes, with one difference. Through a sidecar, and where a standby relays, a
change without a `requestId` gets one, so that it can be asked again; otherwise it gets none, and
its `argsDigest` is another.

What is opened has `ask`, `ask_many` and `relay`, and is closed by its `with`.
"""

from __future__ import annotations

from ..journal.state_files import SOCKET

TYPE_CHECKING = False  # `glance` imports this, and must start fast
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any, Self

    from ...contracts import Door, Transport
    from .client import Client, ClientCall
    from .local import Evidence, Office, WhileStandby

BOUNDARIES = ("reference", "native", "sidecar")
_AWAY_SECONDS = 1.0  # between two looks for a database


class BoundaryMissing(Exception):
    """What was asked for cannot decide here; the text says why."""


def decider(boundary: str | None, *, is_served: bool) -> str:
    """Who decides what a command asks: the table above."""
    return boundary or ("sidecar" if is_served else "reference")


def fastest() -> str:
    """What decides in a sidecar that is not told."""
    from ..engine import ffi  # most commands do without

    return "native" if ffi.available() else "reference"


def open_authority(
    state_dir: Path,
    transport: Transport,
    *,
    boundary: str | None = None,
    writable: bool = True,
    frozen_clock: bool = False,
) -> Client | LocalClient:
    """The authority, through one door; a reader that says so waits for no writer."""
    if decider(boundary, is_served=(state_dir / SOCKET).exists()) == "sidecar":
        from .client import Client, Crowded, Unreachable  # where there is one

        try:
            return Client(state_dir, transport, frozen_clock=frozen_clock)
        except Unreachable as error:
            if boundary == "sidecar" or isinstance(error, Crowded):
                raise
            # It died; the lock says whether another process writes.
    office = open_office(state_dir, boundary, writable=writable, while_standby="relay")
    if not writable and office.authority.state.policy.evidence_reads:
        office.close()
        office = open_office(state_dir, boundary, while_standby="relay")
    from ...contracts import Door

    return LocalClient(office, Door(transport, frozen_clock=frozen_clock))


def open_office(
    state_dir: Path,
    boundary: str | None = None,
    *,
    writable: bool = True,
    lasting: bool = False,
    evidence: Evidence = "inside",
    while_standby: WhileStandby = "wait",
) -> Office:
    """An authority in this process: in Python, or in C if it is asked for."""
    from .local import Office  # a client does without

    kind = Office
    if boundary == "native":
        from ..engine import ffi  # most commands do without
        from .native_local import NativeOffice

        if not ffi.available():
            raise BoundaryMissing(f"no boundary `native` here: {ffi.why_not()}")
        kind = NativeOffice
    return kind(
        state_dir,
        writable=writable,
        lasting=lasting,
        evidence=evidence,
        while_standby=while_standby,
    )


def open_server(
    state_dir: Path,
    boundary: str | None,
    evidence: Evidence,
    on_wait: Callable[[Exception], None],
) -> Office:
    """What a sidecar serves. A database that is away is waited for, and the caller is told once:
    a sidecar that ended would only be started again.
    """
    import time  # only a sidecar needs these

    from ...contracts import Reason
    from ..journal.journal import Unavailable

    is_told = False
    while True:
        try:
            return open_office(
                state_dir,
                boundary or fastest(),
                lasting=True,
                evidence=evidence,
                while_standby="relay",
            )
        except Unavailable as error:
            if error.reason is not Reason.JOURNAL_UNREACHABLE:
                raise
            if not is_told:
                on_wait(error)
            is_told = True
        time.sleep(_AWAY_SECONDS)


class LocalClient:
    """Asks an office in this process, as `client.Client` asks a sidecar."""

    def __init__(self, office: Office, door: Door) -> None:
        self._office, self._door = office, door

    @property
    def garbage_count(self) -> int:
        return self._office.authority.garbage_count

    @property
    def left_behind(self) -> str | None:
        return self._office.left_behind

    def ask(
        self, action: str, payload: dict[str, Any], context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        return self._office.ask_many([(action, payload, context)], self._door)[0]

    def ask_many(self, calls: Sequence[ClientCall]) -> list[dict[str, Any]]:
        return self._office.ask_many(calls, self._door)

    def relay(self, lines: Sequence[bytes]) -> list[bytes]:
        return self._office.submit_lines([(line, self._door) for line in lines])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._office.close()
