"""Serves a scrape over HTTP from a process that serves no other page: the sidecar.

I1  It listens on this machine alone, and for one path.
I2  Callers are bounded, in number and in time; none of them delays an answer of the sidecar.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from .exposition import CONTENT_TYPE

HOST: Final = "127.0.0.1"
PATH: Final = "/metrics"
_CALLERS_MAX = 16
_HEAD_BYTES_MAX = 8_192
_PATIENCE_SECONDS = 5.0
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

Text = Callable[[], Awaitable[bytes]]


@asynccontextmanager
async def metrics_served(port: int, text: Text) -> AsyncIterator[int]:
    """Serve while the context lasts; it yields the port."""
    room = asyncio.Semaphore(_CALLERS_MAX)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if room.locked():
                writer.write(_head(503, 0))
                return
            async with room, asyncio.timeout(_PATIENCE_SECONDS):
                await _answer(reader, writer, text)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()
        finally:
            writer.close()

    server = await asyncio.start_server(answer, HOST, port, limit=_HEAD_BYTES_MAX)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        with suppress(OSError):
            await server.wait_closed()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: Text) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.split("\r\n")
    method, _, rest = line.partition(" ")
    status, body = _status(method, rest.partition(" ")[0], fields), b""
    if status == 200:
        body = await text()
    writer.write(_head(status, len(body)) + (b"" if method == "HEAD" else body))
    await writer.drain()


def _status(method: str, target: str, fields: list[str]) -> int:
    named = {
        name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
    }
    host, _, port = named.get("host", "").rpartition(":")
    if (host if port.isdecimal() else named.get("host", "")) not in _LOOPBACK:
        return 421
    if method not in ("GET", "HEAD"):
        return 405
    return 200 if target.partition("?")[0] == PATH else 404


def _head(status: int, length: int) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'no'}",
        f"content-type: {CONTENT_TYPE}",
        f"content-length: {length}",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode()
