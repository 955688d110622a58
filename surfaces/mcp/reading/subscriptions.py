"""Subscriptions of the handshake era: which connection watches which resource, and who tells it.

The modern era has `subscriptions/listen`, which the SDK serves from the same events: a `Bus`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp_types import INTERNAL_ERROR

from ....actors.agents import LISTED, Changes
from ....contracts import limits

LISTS: dict[str, ServerEvent] = {LISTED: ResourcesListChanged()}  # what is no resource by itself
_Key = tuple[str | None, str]  # a session, where one server has several, and a URI


class Bus:
    """The events of a state directory as the SDK has them."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        return self._changes.subscribe(lambda uri: listener(LISTS.get(uri) or ResourceUpdated(uri)))

    async def publish(self, event: ServerEvent) -> None:
        raise NotImplementedError  # the journal is what publishes


class Watches:
    """What the clients of one server watch. A client that reads slowly is told less, never late."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._watched: dict[_Key, ServerSession] = {}
        self._due: dict[_Key, ServerSession] = {}  # a resource that changes twice is told once
        self._bell = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def add(self, ctx: ServerRequestContext[Any, Any], uri: str) -> None:
        """Tell this client whenever the resource changes."""
        key = (_session_id(ctx), uri)
        if key not in self._watched and len(self._watched) >= limits.MCP_WATCHES_MAX:
            raise MCPError(INTERNAL_ERROR, "Subscription limit reached")
        self._watched[key] = ctx.session
        if self._unsubscribe is None:
            self._unsubscribe = self._changes.subscribe(self._heard)
            self._telling = asyncio.create_task(self._tell())

    def drop(self, ctx: ServerRequestContext[Any, Any], uri: str) -> None:
        """Tell it no more."""
        self._watched.pop((_session_id(ctx), uri), None)
        if not self._watched:
            self.close()

    def close(self) -> None:
        if self._unsubscribe is not None and self._telling is not None:
            self._unsubscribe()
            self._telling.cancel()
        self._unsubscribe = self._telling = None

    def _heard(self, uri: str) -> None:
        for key, session in self._watched.items():
            if key[1] == uri:
                self._due[key] = session
                self._bell.set()

    async def _tell(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            while self._due:
                key = next(iter(self._due))
                session = self._due.pop(key)
                try:
                    await session.send_resource_updated(key[1])
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self._watched.pop(key, None)  # it has gone


def _session_id(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Streams have a server each; sessions over HTTP share one, and are told apart by a header."""
    return None if ctx.request is None else ctx.request.headers.get("mcp-session-id")
