"""Serves the console: on an address for browsers, and on a private socket that hands out links.

web.sock    {"link": NAME} -> {"url": "https://.../enter?key=..."}; for the directory's owner
"""

import asyncio
import getpass
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from ...authority.service import sockets
from ...contracts import limits
from ..http.hosts import OwnHosts, is_loopback
from ..http.server import Certificate, listening, served, url_of
from ..http.strangers import Strangers
from .app import ConsoleApp
from .desk import ConsoleDesk
from .gate import WebGate
from .sessions import WebSessions

SOCKET: Final = "web.sock"  # in the run folder
PORT_DEFAULT: Final = 8740
_LINE_BYTES_MAX = 4_096
_PATIENCE_SECONDS = 5.0


class Exposed(Exception):
    """The console may not be opened like this; the text says why, and what would do."""


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """Where the console is, and for whom."""

    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    certificate: Certificate | None = None
    user: str | None = None  # whom links are for, unless they say another
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if is_loopback(self.host) and not self.names:
            return
        if self.certificate is None:
            raise Exposed(
                f"{self.host} can be reached from other machines: give --web-cert and --web-key, "
                "or leave it on 127.0.0.1 and forward a port by ssh"
            )
        if not self.user:
            raise Exposed(
                f"{self.host} can be reached from other machines: say who uses it with --web-user"
            )


async def serve_console(
    address: ConsoleAddress,
    state_dir: Path,
    run_dir: Path,
    stopping: asyncio.Event,
    announce: Callable[[str], None],
) -> None:
    """Serve until `stopping` is set; `announce` is told a link once a browser can follow it."""
    sessions, strangers = WebSessions(run_dir), Strangers()
    desk = ConsoleDesk(state_dir)
    is_secure = address.certificate is not None
    with listening(address.host, address.port) as listener:
        base = url_of(listener, is_secure=is_secure)
        cookie = f"{'__Host-' if is_secure else ''}understudy-{listener.getsockname()[1]}"
        app = ConsoleApp(desk, sessions, cookie, is_secure=is_secure)
        gate = WebGate(app, OwnHosts(address.host, address.names), sessions, strangers, cookie)

        def link(name: str | None) -> str:
            key = sessions.make_key(name or address.user or _user())
            return f"{base}/enter?key={key}"

        try:
            async with (
                served(gate, listener, strangers, address.certificate) as serving,
                _Links(run_dir, link),
            ):
                announce(f"console: {link(None)}")
                over = asyncio.create_task(stopping.wait())
                await asyncio.wait([over, serving], return_when=asyncio.FIRST_COMPLETED)
                over.cancel()
                await app.streams.close()
        finally:
            await app.close()


class _Links:
    """Hands out links on a socket that only the owner of the state directory can open."""

    def __init__(self, run_dir: Path, link: Callable[[str | None], str]) -> None:
        self._run_dir, self._link = run_dir, link

    async def __aenter__(self) -> None:
        with sockets.socket_path(self._run_dir, SOCKET) as path:
            listener = sockets.bound(path)
        self._server = await asyncio.start_unix_server(
            self._answer, sock=listener, limit=_LINE_BYTES_MAX
        )

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        with sockets.socket_path(self._run_dir, SOCKET) as path:
            sockets.remove(path)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if sockets.peer_of(writer.transport) is None:  # type: ignore[arg-type] # a Transport
                return
            async with asyncio.timeout(_PATIENCE_SECONDS):
                name = _name(await reader.readline())
            said = {"error": "a name"} if name is _NONE else {"url": self._link(str(name) or None)}
            writer.write(orjson.dumps(said) + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # it is gone, or says nothing
        finally:
            writer.close()


_NONE: Final = object()


def _name(line: bytes) -> object:
    try:
        found: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _NONE
    name = found.get("link") if isinstance(found, dict) else None
    is_name = isinstance(name, str) and name.isprintable() and len(name) <= limits.NAME_LENGTH_MAX
    return name if is_name else _NONE


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"
