"""The console's private socket: only the owner of the state directory can open it.

    {"ask":"link","name":"ada"}    a link that opens once, for this person    {"url":"http://..."}
    {"ask":"room"}                 a tree is about to start: lend it our place {"room":true}

It imports no web server, so that commands which only ask start fast.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, cast

import orjson

from ...authority.service import sockets
from ...contracts import limits

SOCKET: Final = "web.sock"  # in the run folder
SESSIONS: Final = "web-sessions.json"  # there too: who is signed in
_LINE_BYTES_MAX = 4_096
_PATIENCE_SECONDS = 5.0  # for a line
_ANSWER_SECONDS = 30.0  # for the console to make room

Link = Callable[[str], str]
MakeRoom = Callable[[], Awaitable[None]]


def ask_console(run_dir: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    """What the console of a state directory answers; None where none serves."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(_ANSWER_SECONDS)
        try:
            sockets.connect(channel, run_dir, SOCKET)
            channel.sendall(orjson.dumps(request) + b"\n")
            with channel.makefile("rb") as file:
                found: dict[str, Any] = orjson.loads(file.readline(_LINE_BYTES_MAX))
        except (OSError, orjson.JSONDecodeError):
            return None
    return found


def find_link(run_dir: Path, name: str = "") -> str | None:
    """A fresh link to the console that serves; None where none does."""
    found = ask_console(run_dir, {"ask": "link", "name": name})
    return None if found is None else found.get("url")


class LinkSocket:
    """An asynchronous context in which the socket is answered."""

    def __init__(self, run_dir: Path, link: Link, make_room: MakeRoom) -> None:
        self._run_dir, self._link, self._make_room = run_dir, link, make_room

    async def __aenter__(self) -> None:
        with sockets.socket_path(self._run_dir, SOCKET) as path:
            listener = sockets.bound(path)
        self._inode = (self._run_dir / SOCKET).stat().st_ino
        self._server = await asyncio.start_unix_server(
            self._answer, sock=listener, limit=_LINE_BYTES_MAX
        )

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        path = self._run_dir / SOCKET
        if path.exists() and path.stat().st_ino == self._inode:  # and not our successor's
            path.unlink()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if sockets.peer_of(cast("asyncio.Transport", writer.transport)) is None:
                return
            async with asyncio.timeout(_PATIENCE_SECONDS):
                line = await reader.readline()
            writer.write(orjson.dumps(await self._said(line)) + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # it is gone, or says nothing that is a line
        finally:
            writer.close()

    async def _said(self, line: bytes) -> dict[str, Any]:
        try:
            request = orjson.loads(line)
        except orjson.JSONDecodeError:
            request = None
        match request:
            case {"ask": "link", "name": str(name)} if _is_name(name):
                return {"url": self._link(name)}
            case {"ask": "room"}:
                await self._make_room()
                return {"room": True}
            case _:
                return {"error": "link or room"}


def _is_name(text: str) -> bool:
    return text.isprintable() and len(text) <= limits.NAME_LENGTH_MAX
