"""What HTTP has no more room for: sessions, connections, and requests that never arrive."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.server.lowlevel import Server

from tests.limits import stands_on
from tests.mcp.test_http import BEGIN, JSON, LEGACY
from understudy.actors.agents.http_callers import HttpCallers
from understudy.contracts import limits
from understudy.surfaces.mcp.gateway.http import Address, serve_http

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """A server with nothing in it, in this process; its URL."""
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stopping = asyncio.Event()
    server: Server[Any] = Server("bare")
    serving = asyncio.create_task(
        serve_http(Address(), server, HttpCallers(), stopping, told.set_result)
    )
    try:
        yield await told
    finally:
        stopping.set()
        await serving


async def begin(web: httpx2.AsyncClient, url: str) -> httpx2.Response:
    headers = {**JSON, "mcp-protocol-version": LEGACY}
    return await web.post(url, json=BEGIN, headers=headers)


@stands_on("HTTP_SESSIONS_MAX")
async def test_one_session_too_many_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_SESSIONS_MAX", 2)
    async with served() as url, httpx2.AsyncClient() as web:
        first = await begin(web, url)
        assert [first.status_code, (await begin(web, url)).status_code] == [200, 200]
        assert (await begin(web, url)).status_code == 503
        session = {"mcp-session-id": first.headers["mcp-session-id"]}
        assert (await web.delete(url, headers={**session, **JSON})).status_code == 200
        assert (await begin(web, url)).status_code == 200


@stands_on("HTTP_SESSION_IDLE_SECONDS")
async def test_a_session_is_forgotten_when_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_SESSIONS_MAX", 1)
    monkeypatch.setattr(limits, "HTTP_SESSION_IDLE_SECONDS", 0.2)
    async with served() as url, httpx2.AsyncClient() as web:
        assert (await begin(web, url)).status_code == 200
        for _ in range(600):
            again = await begin(web, url)
            if again.status_code == 200:
                return
            await asyncio.sleep(0.05)
    raise AssertionError("it was never forgotten")


@stands_on("HTTP_CONNECTIONS_MAX")
async def test_one_connection_too_many_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HTTP_CONNECTIONS_MAX", 4)
    async with served() as url:
        host, port = "127.0.0.1", int(url.rpartition(":")[2].partition("/")[0])
        idle = [await asyncio.open_connection(host, port) for _ in range(3)]
        async with httpx2.AsyncClient() as web:
            codes = [(await begin(web, url)).status_code]
        idle.append(await asyncio.open_connection(host, port))
        async with httpx2.AsyncClient() as web:
            codes.append((await begin(web, url)).status_code)
        for _, writer in idle:
            writer.close()
    assert codes == [200, 503]


@stands_on("HTTP_BODY_SECONDS")
async def test_a_request_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_BODY_SECONDS", 0.2)
    async with served() as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        async with asyncio.timeout(30):
            assert b" 408 " in await reader.readline()
        writer.close()


HALF = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def half_asked(url: str, count: int, peer: str = "127.0.0.1") -> list[Streams]:
    """Connections of a peer with half a header each."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    there = [
        await asyncio.open_connection("127.0.0.1", port, local_addr=(peer, 0)) for _ in range(count)
    ]
    for _, writer in there:
        writer.write(HALF)
    return there


async def is_cut_off(streams: Streams) -> bool:
    try:
        async with asyncio.timeout(0.5):
            return await streams[0].read(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@stands_on("HTTP_STRANGERS_MAX")
async def test_a_stranger_too_many_costs_the_peer_with_the_most_its_oldest_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HTTP_STRANGERS_MAX", 4)
    async with served() as url:
        alone = await half_asked(url, 1, "127.0.0.2")
        crowd = await half_asked(url, 3)
        assert not any([await is_cut_off(each) for each in (*alone, *crowd)])
        late = await half_asked(url, 2)
        cut = [await is_cut_off(each) for each in (*alone, *crowd, *late)]
        assert cut == [False, True, True, False, False, False]
        for _, writer in (*alone, *crowd, *late):
            writer.close()


@stands_on("HTTP_STRANGER_SECONDS")
async def test_a_header_that_never_ends_is_given_up_and_a_client_that_was_let_in_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HTTP_STRANGER_SECONDS", 0.2)
    monkeypatch.setattr(limits, "HTTP_STRANGERS_MAX", 1)
    async with served() as url, httpx2.AsyncClient() as web:
        assert (await begin(web, url)).status_code == 200
        [stranger] = await half_asked(url, 1)
        async with asyncio.timeout(30):
            while not await is_cut_off(stranger):  # each look trickles one more byte
                stranger[1].write(b"x")
        assert (await begin(web, url)).status_code == 200  # on the connection that it had
        stranger[1].close()


async def test_a_taken_port_is_an_error_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await serve_http(address, Server("bare"), HttpCallers(), asyncio.Event(), print)
