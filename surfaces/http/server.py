"""Serves one ASGI application on one address, with everything bounded, inside a running loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive

from ...contracts import limits
from .strangers import Strangers, watched_protocol

_FAREWELL_SECONDS = 2
_DIGITS_MAX = 16  # of a length; that they are digits, h11 has seen


class Certificate(NamedTuple):
    """What TLS needs, in two files."""

    chain: Path
    key: Path


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A listener; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        yield listener


def url_of(listener: socket.socket, *, is_secure: bool = False) -> str:
    """What a client of it calls, without a path."""
    host, port = listener.getsockname()[:2]
    scheme = "https" if is_secure else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@asynccontextmanager
async def served(
    app: ASGIApp,
    listener: socket.socket,
    strangers: Strangers,
    certificate: Certificate | None = None,
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve while the context lasts; the task ends early where serving failed."""
    web = _Server(
        uvicorn.Config(
            app,
            http=watched_protocol(strangers),
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=limits.HTTP_CONNECTIONS_MAX + 1,  # uvicorn refuses on it
            timeout_graceful_shutdown=_FAREWELL_SECONDS,
            ssl_certfile=certificate and certificate.chain,
            ssl_keyfile=certificate and certificate.key,
        )
    )
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    try:
        yield serving
    finally:
        web.should_exit = True
        await asyncio.wait([serving])
    serving.result()


async def whole_body(length: str, receive: Receive) -> bytes | None:
    """The body of a request whose header says this length; None if there is too much of it."""
    if len(length) > _DIGITS_MAX or int(length) > limits.REQUEST_BYTES_MAX:
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > limits.REQUEST_BYTES_MAX:
            return None
        if not message.get("more_body", False):
            return bytes(body)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's own."""
        yield
