"""Connections over HTTP that have not yet made a request which the gate lets through.

I1  There are at most `HTTP_STRANGERS_MAX` of them: for one more, the oldest connection of the peer
    that has the most is cut off. So strangers never use up the connections of known clients.
I2  Each is cut off after `HTTP_STRANGER_SECONDS`, however slowly its header arrives.
"""

import asyncio
from collections import Counter
from typing import Any, NamedTuple

from uvicorn.protocols.http.h11_impl import H11Protocol

from ...contracts import limits

Client = tuple[str, int]  # the peer's address and port


class Strangers:
    """Who is at the door of one server, oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[Client, _Stranger] = {}
        self._peers: Counter[str] = Counter()

    def enter(self, client: Client, transport: asyncio.Transport) -> None:
        """A client has connected."""
        if len(self._waiting) >= limits.HTTP_STRANGERS_MAX:  # I1
            [(peer, _)] = self._peers.most_common(1)
            self._cut(next(each for each in self._waiting if each[0] == peer))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(limits.HTTP_STRANGER_SECONDS, self._cut, client)  # I2
        self._waiting[client] = _Stranger(transport, timer)
        self._peers[client[0]] += 1

    def leave(self, client: Client) -> None:
        """The client is let in, or has hung up."""
        self._take(client)

    def _cut(self, client: Client) -> None:
        stranger = self._take(client)
        if stranger is not None:
            stranger.transport.abort()

    def _take(self, client: Client) -> "_Stranger | None":
        stranger = self._waiting.pop(client, None)
        if stranger is not None:
            stranger.timer.cancel()
            self._peers[client[0]] -= 1
            if not self._peers[client[0]]:
                del self._peers[client[0]]
        return stranger


class _Stranger(NamedTuple):
    transport: asyncio.Transport
    timer: asyncio.TimerHandle


def watched_protocol(strangers: Strangers) -> type[H11Protocol]:
    """uvicorn's protocol, whose connections are strangers first."""

    class Watched(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if self.client is not None:
                strangers.enter(self.client, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.client is not None:
                strangers.leave(self.client)
            super().connection_lost(exc)

    return Watched
