"""Serves the console on an address for browsers, and hands out links on its private socket."""

import asyncio
import getpass
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..http.hosts import OwnHosts, is_loopback
from ..http.server import Certificate, listening, served, url_of
from ..http.strangers import Strangers
from .app import ConsoleApp
from .desk import ConsoleDesk
from .gate import WebGate
from .link_socket import LinkSocket, MakeRoom
from .sessions import WebSessions

PORT_DEFAULT: Final = 8740


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
    *,
    announce: Callable[[str], None],
    make_room: MakeRoom,
) -> None:
    """Serve until `stopping` is set; `announce` is told a link once a browser can follow it.

    `make_room` lays down a sidecar of ours, where a tree is about to start its own.
    """
    sessions, strangers = WebSessions(run_dir), Strangers()
    desk = ConsoleDesk(state_dir)
    is_secure = address.certificate is not None
    with listening(address.host, address.port) as listener:
        base = url_of(listener, is_secure=is_secure)
        cookie = f"{'__Host-' if is_secure else ''}understudy-{listener.getsockname()[1]}"
        app = ConsoleApp(desk, sessions, cookie, is_secure=is_secure)
        gate = WebGate(app, OwnHosts(address.host, address.names), sessions, strangers, cookie)

        def link(name: str) -> str:
            key = sessions.make_key(name or address.user or _user())
            return f"{base}/enter?key={key}"

        try:
            async with (
                served(gate, listener, strangers, address.certificate) as serving,
                LinkSocket(run_dir, link, make_room),
            ):
                announce(link(""))
                over = asyncio.create_task(stopping.wait())
                await asyncio.wait([over, serving], return_when=asyncio.FIRST_COMPLETED)
                over.cancel()
                app.streams.close()
        finally:
            await app.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"
