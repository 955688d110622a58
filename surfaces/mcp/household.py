"""The sidecar of a gateway that nobody supervises: somebody's that runs, or a child of its own.

A child lives as long as the gateway and no longer, also if the gateway is killed: it runs under a
warden. It is started again when it dies, and so is one that somebody else ran and has stopped.
"""

import asyncio
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ...actors.process import port
from ...authority import Unavailable
from ...authority.service import client

LOG: Final = "sidecar.log"
_LOOK_SECONDS = 2.0
_START_SECONDS = 30.0  # a long journal takes a while to fold
_PAUSE_SECONDS = 0.02
_SILENCE_SECONDS = 5.0
_STOP_GRACE_MS = 10_000


class Household:
    """An asynchronous context in which a sidecar serves the state directory."""

    def __init__(self, state_dir: Path, run_dir: Path) -> None:
        self._state_dir, self._run_dir = state_dir, run_dir
        self._group: port.ProcessGroup | None = None
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Raises `Unavailable` where none can be had."""
        try:
            await self._attend()
        except BaseException:
            await self._end()
            raise
        self._watching = asyncio.get_running_loop().create_task(self._watch())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._watching is not None
        self._watching.cancel()
        await asyncio.wait([self._watching])
        await self._end()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self._attend()
            except Unavailable as error:
                print(f"no sidecar: {error}", file=sys.stderr, flush=True)  # noqa: T201 - our log

    async def _attend(self) -> None:
        """See that somebody serves; start a child where nobody does."""
        give_up = asyncio.get_running_loop().time() + _START_SECONDS
        while True:
            try:
                await asyncio.to_thread(self._greeted)
            except Unavailable:
                if asyncio.get_running_loop().time() > give_up:
                    raise
            else:
                return
            if self._group is not None and self._group.poll() is not None:
                await self._end()
            if self._group is None:
                self._begin()
            await asyncio.sleep(_PAUSE_SECONDS)

    def _greeted(self) -> None:
        found = client.Client(
            self._state_dir, "mcp", retry_seconds=0, silence_seconds=_SILENCE_SECONDS
        )
        found.close()

    def _begin(self) -> None:
        self._run_dir.mkdir(mode=0o700, exist_ok=True)
        words = [sys.executable, "-m", "understudy", "authority", "serve"]
        words += ["--state-dir", str(self._state_dir)]
        log = self._run_dir / LOG
        self._group = port.ProcessGroup(port.Command(words, log=log, grace_ms=_STOP_GRACE_MS))

    async def _end(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.terminate()
            await asyncio.to_thread(group.wait)
            group.close()
