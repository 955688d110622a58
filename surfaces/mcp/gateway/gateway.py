"""Serves MCP to any number of agents, on a Unix socket in the state directory.

    pump, pump, pump --> mcp.sock --> a server each --> link --> sidecar
                                        \\-- keeper renews what they hold

One gateway per state directory. It belongs to a tree, which starts it again when it dies; or a pump
has started it, and then it brings its own sidecar where none runs, and ends some time after its
last client has left. Its clients' pumps outlive it, so that its end costs them nothing.

    I1  Who holds the lock serves; whatever lies at the socket's path was left by a dead one.
    I2  A stop takes in nothing more, and answers what it has taken in.
    I3  No client harms another: garbage, silence, floods and a server that fails are its own.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Literal

from mcp.server.lowlevel import Server

from ....actors.agents import AgentCaller, AuthorityLink, KeepPolicy, KeptCaller, LeaseKeeper
from ....authority.service import sockets
from ....contracts import limits
from .. import wire
from .connection import AgentConnection, ServerOutbox

House = Literal["tree", "alone"]
Build = Callable[[AuthorityLink, AgentCaller, str], Server[Any]]  # the last: which tools
Beside = Callable[[asyncio.Event], Coroutine[Any, Any, None]]

_BACKLOG = 1_024  # clients that all come at once, after a restart
_DRAIN_SECONDS: Final = 5.0
_SPARE_FILES = 64  # descriptors for everything that is no connection

_log = logging.getLogger(__name__)


class Gateway:
    """Serves one state directory. `run` returns when it was told to stop, or no client is left."""

    def __init__(
        self,
        state_dir: Path,
        build: Build,
        *,
        policy: KeepPolicy | None = None,
        house: House = "alone",
        linger_seconds: float | None = None,
        beside: Sequence[Beside] = (),
        tools: str = "core",
    ) -> None:
        """`beside` is served until the event is set: other ways to the same."""
        self.house, self.tools = house, tools
        self.link = AuthorityLink(state_dir)
        self.keeper = LeaseKeeper(self.link, policy or KeepPolicy())
        self._state_dir, self._build, self._beside = state_dir, build, beside
        self._linger_seconds = linger_seconds
        self._begun = self._idle_since = time.monotonic()
        self._connections: set[AgentConnection] = set()
        self._servers: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._connections_max = max(1, min(limits.CONNECTIONS_MAX, files - _SPARE_FILES))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        with sockets.socket_path(self._state_dir, wire.SOCKET) as path:
            listener = sockets.bound(path)  # I1
            server = await loop.create_unix_server(
                lambda: AgentConnection(self), sock=listener, backlog=_BACKLOG
            )
            tasks = [loop.create_task(self.keeper.run()), loop.create_task(self._linger())]
            others = [loop.create_task(each(self._stopping)) for each in self._beside]
            for each in others:
                each.add_done_callback(lambda _: self.stop())
            await self._stopping.wait()
            server.close()
            sockets.remove(path)
        await self._drain()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*others)  # raises what one of them could not do
        await self.keeper.settle()
        await self.link.close()

    def stop(self) -> None:
        """Take in nothing more. Call it in the event loop."""
        self._stopping.set()

    def look(self) -> dict[str, Any]:
        """What it says of itself, for people and for who looks after it."""
        return {
            "pid": os.getpid(),
            "house": self.house,
            "upSeconds": int(time.monotonic() - self._begun),
            "clients": len(self._servers),
            "leases": self.keeper.holds,
        }

    # --- clients --------------------------------------------------------------------------------

    def joined(self, connection: AgentConnection) -> bool:
        """Let a connection in, if there is room."""
        if self._stopping.is_set() or len(self._connections) >= self._connections_max:
            return False
        self._connections.add(connection)
        return True

    def left(self, connection: AgentConnection) -> None:
        self._connections.discard(connection)
        self._idle_since = time.monotonic()
        if connection.caller is not None:
            self.keeper.leave(connection.caller, connection)

    def serve(self, connection: AgentConnection, caller: KeptCaller) -> None:
        """Give a client a server of its own."""
        task = asyncio.get_running_loop().create_task(self._serve(connection, caller))
        self._servers.add(task)
        task.add_done_callback(self._servers.discard)

    async def _serve(self, connection: AgentConnection, caller: KeptCaller) -> None:
        try:
            server = self._build(self.link, caller, connection.tools)
            options = server.create_initialization_options()
            await server.run(connection.inbox, ServerOutbox(connection), options)
        except Exception:  # noqa: BLE001 - whatever it is, the others go on
            _log.exception("the server of %s failed", caller.name)  # I3
        finally:
            connection.close()

    # --- the end --------------------------------------------------------------------------------

    async def _linger(self) -> None:
        """Stop when no client has been here for so long, and no leases are to be laid down."""
        if self._linger_seconds is None:
            return
        while True:
            await asyncio.sleep(min(1.0, self._linger_seconds))
            if self._connections or self.keeper.callers:
                self._idle_since = time.monotonic()
            elif time.monotonic() >= self._idle_since + self._linger_seconds:
                _log.info("no client has been here for %s s", self._linger_seconds)
                self.stop()
                return

    async def _drain(self) -> None:
        """Answer what was taken in; then hang up (I2)."""
        for each in self._connections:
            each.pause()
        give_up = time.monotonic() + _DRAIN_SECONDS
        while any(map(_waits, self._connections)) and time.monotonic() < give_up:  # noqa: ASYNC110 - bounded
            await asyncio.sleep(0.005)
        for each in list(self._connections):
            each.close()  # after what is written
        give_up = time.monotonic() + _DRAIN_SECONDS
        while self._connections and time.monotonic() < give_up:  # noqa: ASYNC110 - bounded
            await asyncio.sleep(0.005)
        for each in list(self._connections):
            each.abort()
        if self._servers:
            await asyncio.wait(self._servers, timeout=_DRAIN_SECONDS)


def _waits(connection: AgentConnection) -> bool:
    return connection.waits


async def serve(gateway: Gateway, authority: AbstractAsyncContextManager[object]) -> None:
    """Run a gateway until SIGTERM, beside the authority that it needs."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, gateway.stop)
    gc.collect()
    gc.freeze()  # what the SDK brings along is no garbage, and takes long to look through
    async with authority:
        await gateway.run()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's, where there is one."""
    try:
        import uvloop  # it may be missing
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
