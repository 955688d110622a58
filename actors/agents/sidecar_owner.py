"""The sidecar of a gateway without a tree: one that runs already, or a child of the gateway.

A child is started again when it dies; and where a sidecar of others has stopped, one is started.
"""

import asyncio
import sys
from pathlib import Path
from typing import Self

from ...authority import Unavailable
from ...authority.journal import private
from ..process import sidecar_child
from ..process.own_folder import refuse_foreign_link
from ..process.port import ProcessGroup

_LOOK_SECONDS = 2.0
_PAUSE_SECONDS = 0.02
_SILENCE_SECONDS = 5.0
_STEP_BACK_SECONDS = 30.0


class SidecarOwner:
    """An asynchronous context in which a sidecar serves the state directory."""

    def __init__(self, state_dir: Path, run_dir: Path) -> None:
        self._state_dir, self._run_dir = state_dir, run_dir
        self._group: ProcessGroup | None = None
        self._watching: asyncio.Task[None] | None = None
        self._back_at = 0.0  # until then another one is to start its own

    async def step_back(self) -> None:
        """End a child of ours, and start none for a while: a tree is about to bring its own."""
        self._back_at = asyncio.get_running_loop().time() + _STEP_BACK_SECONDS
        await self._end()

    async def __aenter__(self) -> Self:
        """Raises `Unavailable` where none can be had."""
        try:
            await self._attend()
        except BaseException:
            await self._end()
            raise
        self._watching = asyncio.get_running_loop().create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._watching is not None
        self._watching.cancel()
        await asyncio.wait([self._watching])
        await self._end()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if asyncio.get_running_loop().time() < self._back_at:
                continue
            try:
                await self._attend()
            except Unavailable as error:
                print(f"no sidecar: {error}", file=sys.stderr, flush=True)  # noqa: T201 - our log

    async def _attend(self) -> None:
        """See that a sidecar serves; start a child where none does."""
        give_up = asyncio.get_running_loop().time() + sidecar_child.START_MS / 1000
        while True:
            try:
                await asyncio.to_thread(
                    sidecar_child.greeting, self._state_dir, "mcp", _SILENCE_SECONDS
                )
            except Unavailable:
                if asyncio.get_running_loop().time() > give_up:
                    raise
            else:
                return
            if self._group is not None and self._group.poll() is not None:
                await self._end()
            if self._group is None:
                refuse_foreign_link(self._run_dir)
                private.make_folder(self._run_dir)
                self._group = sidecar_child.start(self._state_dir, self._run_dir)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _end(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.terminate()
            await asyncio.to_thread(group.wait)
            group.close()
