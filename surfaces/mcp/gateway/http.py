"""MCP over streamable HTTP: both eras on one path, for clients that are not launched here.

    uvicorn -> gate -> SDK's transport -> the same server as on the socket

A connection is a stranger's until the gate lets a request of it through (`http/strangers.py`).

The gate is one ladder; the first that applies answers:

    1  Host is no name or address of ours            421
    2  Origin is a page of somewhere else            403
    3  /healthz                                      200, without a token
    4  a token is wanted, and it is another or none  401
    5  /metrics                                      200, or 501 without the package for it
    6  not /mcp                                      404
    7  the body is too long / does not arrive        413 / 408
"""

import asyncio
import hashlib
import hmac
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from ....actors.agents import SESSION_HEADER, HttpCallers
from ....contracts import limits, regular_file
from ...http.hosts import OwnHosts, host_of, is_loopback, read_names
from ...http.server import listening, served, url_of, whole_body
from ...http.strangers import Strangers
from ...metrics import exposition

PATH = "/mcp"
HEALTH_PATH = "/healthz"
METRICS_PATH = "/metrics"
TOKEN_VARIABLE = "UNDERSTUDY_HTTP_TOKEN"  # noqa: S105 - its name
_BEAT_SECONDS = 20.0


class Unguarded(Exception):
    """The door may not be opened like this; the text says why, and what would do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and what a caller must know."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    names: tuple[str, ...] = field(default_factory=read_names)  # as others call us

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < limits.HTTP_TOKEN_LENGTH_MIN:
            raise Unguarded(f"a token has at least {limits.HTTP_TOKEN_LENGTH_MIN} characters")
        if self.token is None and (self.names or not is_loopback(self.host)):
            where = self.host if not self.names else ", ".join(self.names)
            raise Unguarded(
                f"{where} can be reached from other machines: give a bearer token in "
                f"{TOKEN_VARIABLE} or in a file, or listen on 127.0.0.1 alone"
            )


def read_token(path: Path | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token from a file, else from the environment; never from the command line."""
    if path is None:
        return environ.get(TOKEN_VARIABLE) or None
    try:
        return regular_file.read(path, limits.SETTING_BYTES_MAX).decode().strip() or None
    except (OSError, ValueError) as error:
        raise Unguarded(f"no token in {path}: {error}") from error


async def serve_http(
    address: Address,
    server: Server[Any],
    callers: HttpCallers,
    stopping: asyncio.Event,
    announce: Callable[[str], None],
    *,
    state_dir: Path = Path(),
) -> None:
    """Serve until `stopping` is set; `announce` is told the URL once an agent can call."""
    logging.getLogger("mcp.server").setLevel(logging.WARNING)  # below, it writes session ids down
    server.middleware.append(_greeter(callers))
    manager = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=limits.HTTP_SESSION_IDLE_SECONDS,
        max_sessions=limits.HTTP_SESSIONS_MAX,
        max_request_body_size=limits.REQUEST_BYTES_MAX,
    )
    strangers = Strangers()
    gate = Gate(address, manager, callers, strangers, exposition.Scrapes(state_dir))
    with listening(address.host, address.port) as listener:
        async with manager.run(), served(gate, listener, strangers) as serving:
            announce(f"{url_of(listener)}{PATH}")
            await _beat(callers, stopping, serving)


def _greeter(callers: HttpCallers) -> ServerMiddleware[Any]:
    """Middleware of the server: say who calls."""

    async def greet(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        headers = ctx.request.headers if ctx.request is not None else {}
        params = ctx.session.client_params
        program = "" if params is None else params.client_info.name
        is_legacy = ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
        with callers.calling(headers, program, has_sessions=is_legacy):
            return await call_next(ctx)

    return greet


class Gate:
    """Lets a request in, or says why not."""

    def __init__(
        self,
        address: Address,
        manager: StreamableHTTPSessionManager,
        callers: HttpCallers,
        strangers: Strangers,
        scrapes: exposition.Scrapes,
    ) -> None:
        self._scrapes = scrapes
        self._hosts = OwnHosts(address.host, address.names)
        self._token = None if address.token is None else _secret(address.token)
        self._manager, self._callers, self._strangers = manager, callers, strangers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        if not self._hosts.has(host_of(f"//{headers.get('host', '')}")):  # 1
            await _refuse(421, "Host is not ours")(scope, receive, send)
        elif not all(self._hosts.has(host_of(each)) for each in headers.getlist("origin")):  # 2
            await _refuse(403, "Origin is not ours")(scope, receive, send)
        elif scope["path"] == HEALTH_PATH:  # 3
            await JSONResponse({"status": "ok"})(scope, receive, send)
        elif self._token is not None and not self._is_known(headers):  # 4
            await _refuse(401, "a bearer token is wanted")(scope, receive, send)
        elif scope["path"] == METRICS_PATH:  # 5
            await self._scraped(scope, receive, send)
        elif scope["path"] != PATH:  # 6
            await _refuse(404, f"MCP is at {PATH}")(scope, receive, send)
        else:
            self._strangers.leave(tuple(scope["client"]))
            await self._admit(headers, scope, receive, send)

    async def _scraped(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._strangers.leave(tuple(scope["client"]))
        if scope["method"] not in ("GET", "HEAD"):
            await _refuse(405, "GET or HEAD")(scope, receive, send)
            return
        try:
            text = await self._scrapes.text()
        except exposition.MetricsMissing as error:
            await _refuse(501, str(error))(scope, receive, send)
            return
        await Response(text, media_type=exposition.CONTENT_TYPE)(scope, receive, send)

    async def _admit(self, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(limits.HTTP_BODY_SECONDS):
                body = await whole_body(headers.get("content-length", "0"), receive)
        except TimeoutError:
            await _refuse(408, "the request did not arrive in time")(scope, receive, send)
            return
        except ClientDisconnect:
            return
        if body is None:  # 7
            text = f"a request has at most {limits.REQUEST_BYTES_MAX} bytes"
            await _refuse(413, text)(scope, receive, send)
            return
        session = headers.get(SESSION_HEADER)
        with self._callers.serving(headers):
            await self._manager.handle_request(scope, _replayed(body, receive), send)
        if session is not None and scope["method"] == "DELETE":
            self._callers.end_session(session)

    def _is_known(self, headers: Headers) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        assert self._token is not None
        return kind.lower() == "bearer" and hmac.compare_digest(_secret(token), self._token)


async def _beat(callers: HttpCallers, stopping: asyncio.Event, serving: asyncio.Task[None]) -> None:
    """Until it is over, look again and again at who is here."""
    over = asyncio.create_task(stopping.wait())
    try:
        while not over.done() and not serving.done():
            await asyncio.wait(
                [over, serving], timeout=_BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            callers.sweep()
    finally:
        over.cancel()


def _replayed(body: bytes, receive: Receive) -> Receive:
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _refuse(status: int, message: str) -> Response:
    error = {"code": INVALID_REQUEST, "message": message}
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(body, status_code=status, headers=headers)


def _secret(token: str) -> bytes:
    """Of one length, so that comparing takes one time."""
    return hashlib.sha256(token.encode()).digest()
