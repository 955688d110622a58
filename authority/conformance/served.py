"""The sidecar as a boundary for vectors: its server in a thread, and clients that talk to it."""

import asyncio
import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from ...contracts import Door, Garbage, parse, refuse_garbage
from ..service.client import Client
from ..service.open import fastest, open_office
from ..service.sidecar import Sidecar


class Served:
    """A sidecar on a state directory, with a connection for each door."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._office = open_office(state_dir, fastest())
        self._clients: dict[Door, Client] = {}
        self._loop = asyncio.new_event_loop()
        self._sidecar = Sidecar(self._office, frozen_clock=True)
        self._thread = threading.Thread(target=self._serve, name="sidecar")
        self._thread.start()
        assert self._sidecar.ready.wait(10), "the sidecar does not come up"

    def submit(self, lines: Sequence[tuple[bytes, Door]]) -> list[bytes]:
        """Lines of one door go out together; a change of the door waits for their answers."""
        answers: list[bytes] = []
        for door, run in groupby(lines, key=lambda each: each[1]):
            answers += self._relayed([line for line, _ in run], door)
        return answers

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._loop.call_soon_threadsafe(self._sidecar.stop)
        self._thread.join()
        self._loop.close()
        self._office.close()

    def _serve(self) -> None:
        self._loop.run_until_complete(self._sidecar.run())

    def _relayed(self, lines: list[bytes], door: Door) -> list[bytes]:
        if door not in self._clients:
            self._clients[door] = Client(
                self._state_dir, door.transport, frozen_clock=door.frozen_clock
            )
        if all(line.strip() and b"\n" not in line for line in lines):
            return self._clients[door].relay(lines)
        return [self._framed(line, door) for line in lines]

    def _framed(self, line: bytes, door: Door) -> bytes:
        """A request in several lines goes out as one; such garbage never reaches a sidecar."""
        asked = parse(line, door)
        if isinstance(asked, Garbage):
            return refuse_garbage(asked, self._office.authority.head.seq)
        return self._clients[door].relay([line.replace(b"\n", b" ")])[0]
