"""MCP over HTTP in both eras: who is let in, and that clients who share a door share nothing."""

import http.client
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import CallToolResult

from tests.limits import stands_on
from tests.mcp.stand import Stand, standing
from tests.surfaces.process import room_for_files, understudy
from understudy.contracts import limits
from understudy.surfaces.http.hosts import read_names
from understudy.surfaces.mcp.gateway.http import Address, Unguarded, read_token

MODERN, LEGACY = "2026-07-28", "2025-11-25"
NAME = "agents.example"
TOKEN = "correct horse battery staple"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_NOW = {**JSON, "mcp-protocol-version": MODERN}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": _META}}
BEGIN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with standing(tmp_path_factory.mktemp("http"), "--max-held", "48") as each:
        yield each


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """On every address of the machine, behind a token."""
    folder = tmp_path_factory.mktemp("guarded")
    variables = {"UNDERSTUDY_HTTP_TOKEN": TOKEN, "UNDERSTUDY_HTTP_NAMES": NAME}
    with standing(folder, "--host", "0.0.0.0", **variables) as each:
        yield each


def send(
    stand: Stand,
    method: str = "POST",
    body: object = LIST,
    path: str = "/mcp",
    /,
    **headers: str | None,
) -> tuple[int, dict[str, str], bytes]:
    """One request, every header of which is ours; `None` leaves one out."""
    url = urlsplit(stand.url)
    assert url.port is not None
    near = http.client.HTTPConnection("127.0.0.1", url.port, timeout=30)
    known = {**_NOW, "host": f"127.0.0.1:{url.port}", "mcp-method": "tools/list"}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        near.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {**known, "content-length": str(len(content)), **given}.items():
            if value is not None:
                near.putheader(name, value)
        near.endheaders(content)
        answer = near.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        near.close()


@asynccontextmanager
async def agent(stand: Stand, era: str, name: str | None = None) -> AsyncIterator[Client]:
    """An agent on the SDK's own client."""
    headers = {"Understudy-Agent": name} if name else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as web,
        Client(
            streamable_http_client(stand.url, http_client=web),
            mode="legacy" if era == "legacy" else "auto",
        ) as client,
    ):
        yield client


def said(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    answer: dict[str, Any] = result.structured_content
    return answer


# --- who is let in -------------------------------------------------------------------------------


def test_a_request_from_here_is_answered(stand: Stand) -> None:
    status, headers, body = send(stand)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body)["result"]["tools"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.1.2.3", "", "[", "a:b"],
)
def test_a_host_that_is_not_ours_is_turned_away(stand: Stand, host: str) -> None:
    assert send(stand, host=host)[0] in (400, 421)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://localhost.evil.example", "http://10.1.2.3", "file://"],
)
def test_a_page_of_somewhere_else_is_turned_away(stand: Stand, origin: str) -> None:
    assert send(stand, origin=origin)[0] == 403


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1", "http://[::1]:1"])
def test_a_page_of_this_machine_is_let_in(stand: Stand, origin: str) -> None:
    assert send(stand, origin=origin)[0] == 200


@pytest.mark.parametrize(
    "given",
    [None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer é"],
)
def test_without_the_token_no_request_is_let_in(guarded: Stand, given: str | None) -> None:
    status, headers, _ = send(guarded, authorization=given)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")


def test_with_the_token_one_is_let_in(guarded: Stand) -> None:
    assert send(guarded, authorization=f"Bearer {TOKEN}")[0] == 200
    assert send(guarded, authorization=f"bearer {TOKEN}", host="10.1.2.3:80")[0] == 200


def test_a_token_does_not_open_the_door_to_pages_of_others(guarded: Stand) -> None:
    known = {"authorization": f"Bearer {TOKEN}"}
    assert send(guarded, **known, host="evil.example")[0] == 421
    assert send(guarded, **known, origin="http://evil.example")[0] == 403


def test_health_needs_no_token_and_says_nothing_else(guarded: Stand) -> None:
    status, _, body = send(guarded, "GET", b"", "/healthz")
    assert (status, json.loads(body)) == (200, {"status": "ok"})
    assert send(guarded, "GET", b"", "/")[0] == 401


def test_an_address_for_others_is_not_opened_without_a_token(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(Unguarded, match="UNDERSTUDY_HTTP_TOKEN"):
            Address(host)
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        Address(host)
    state_dir = tmp_path / "state"
    assert understudy("--state-dir", state_dir, "init").returncode == 0
    done = understudy("gateway", "--state-dir", state_dir, "--http", "0", "--host", "::")
    assert done.returncode == 2
    assert b"bearer token" in done.stderr


def test_what_tests_mount_is_no_option_of_the_product() -> None:
    shown = understudy("gateway", "--help")
    assert b"--http" in shown.stdout
    assert b"mount" not in shown.stdout


def test_a_token_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    assert read_token(path, {}) == TOKEN
    assert read_token(None, {"UNDERSTUDY_HTTP_TOKEN": TOKEN}) == TOKEN
    assert read_token(None, {}) is None
    with pytest.raises(Unguarded, match="no token in"):
        read_token(tmp_path / "missing", {})


def test_a_name_that_others_know_us_by_needs_a_token(guarded: Stand) -> None:
    names = read_names({"UNDERSTUDY_HTTP_NAMES": "Agents.Example, other.example"})
    assert names == ("agents.example", "other.example")
    with pytest.raises(Unguarded, match="other"):
        Address(names=names)
    assert send(guarded, authorization=f"Bearer {TOKEN}", host=NAME)[0] == 200
    assert send(guarded, authorization=f"Bearer {TOKEN}", host=f"{NAME.upper()}:443")[0] == 200


@stands_on("HTTP_TOKEN_LENGTH_MIN")
def test_a_short_token_is_none() -> None:
    least = limits.HTTP_TOKEN_LENGTH_MIN
    Address("0.0.0.0", token="x" * least)
    with pytest.raises(Unguarded, match=str(least)):
        Address("0.0.0.0", token="x" * (least - 1))


def test_a_crowd_without_the_token_leaves_room_for_a_client_with_it(guarded: Stand) -> None:
    port = urlsplit(guarded.url).port
    crowd = limits.HTTP_CONNECTIONS_MAX + 76
    with room_for_files(crowd + 200), ExitStack() as strangers:
        for _ in range(crowd):
            near = strangers.enter_context(socket.create_connection(("127.0.0.1", port)))
            near.sendall(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n")
        for _ in range(5):
            assert send(guarded, authorization=f"Bearer {TOKEN}")[0] == 200


# --- what is sent --------------------------------------------------------------------------------


def test_a_body_is_as_long_as_it_may_be(stand: Stand) -> None:
    longest = json.dumps(LIST).encode().ljust(limits.REQUEST_BYTES_MAX)
    assert send(stand, "POST", longest)[0] == 200
    assert send(stand, "POST", longest + b" ")[0] == 413
    assert send(stand, "POST", b"", content_length=str(10**12))[0] == 413


def test_a_body_in_pieces_is_bounded_too(stand: Stand) -> None:
    url = urlsplit(stand.url)
    near = http.client.HTTPConnection("127.0.0.1", url.port or 0, timeout=30)
    pieces = (b" " * 65_536 for _ in range(limits.REQUEST_BYTES_MAX // 65_536 + 1))
    headers = {**_NOW, "mcp-method": "tools/list", "transfer-encoding": "chunked"}
    near.request("POST", "/mcp", pieces, headers, encode_chunked=True)
    assert near.getresponse().status == 413
    near.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b"9" * 10_000 + b"}",
    ],
    ids=range(9),
)
def test_garbage_gets_an_answer_and_harms_nothing(stand: Stand, body: bytes) -> None:
    for version in (MODERN, LEGACY, "1999-01-01"):
        status, _, _ = send(stand, "POST", body, mcp_protocol_version=version)
        assert 400 <= status < 500
    assert send(stand)[0] == 200


def test_what_is_no_json_is_refused(stand: Stand) -> None:
    assert send(stand, content_type="text/plain")[0] == 400
    assert send(stand, accept="text/html")[0] == 406


def test_the_modern_era_has_neither_streams_nor_sessions(stand: Stand) -> None:
    for method in ("GET", "DELETE", "PUT"):
        status, headers, _ = send(stand, method, b"")
        assert (status, headers["allow"]) == (405, "POST")
    assert "mcp-session-id" not in send(stand)[1]


def test_a_session_of_the_handshake_era_ends_when_it_is_deleted(stand: Stand) -> None:
    old = {"mcp_protocol_version": LEGACY, "mcp_method": None}
    status, headers, _ = send(stand, "POST", BEGIN, **old)
    assert status == 200
    session = {**old, "mcp_session_id": headers["mcp-session-id"]}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert send(stand, "POST", ping, **session)[0] == 200
    assert send(stand, "DELETE", b"", **session)[0] == 200
    assert send(stand, "POST", ping, **session)[0] == 404
    assert send(stand, "GET", b"", accept="text/event-stream", **session)[0] == 404
    assert send(stand, "DELETE", b"", **old)[0] == 400  # whose session?


def test_a_session_id_is_written_down_nowhere(stand: Stand) -> None:
    headers = send(stand, "POST", BEGIN, mcp_protocol_version=LEGACY, mcp_method=None)[1]
    assert headers["mcp-session-id"] not in stand.log.read_text()


# --- agents --------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_agent_does_a_piece_of_work(stand: Stand, era: str) -> None:
    async with agent(stand, era, f"python-{era}") as client:
        added = said(await client.call_tool("issue_add", {"title": "work", "labels": [era]}))
        taken = said(await client.call_tool("work_next", {"labels": [era]}))
        assert taken["issue"]["id"] == added["issue"]["id"]
        assert taken["issue"]["lease"]["owner"] == f"python-{era}"
        read = await client.read_resource(f"lease://{added['issue']['id']}")
        assert str(taken["issue"]["lease"]["fence"]) in read.contents[0].text
        proof = {key: taken["issue"]["lease"][key] for key in ("leaseId", "fence")}
        done = await client.call_tool("work_complete", {"id": added["issue"]["id"], **proof})
        assert said(done)["result"] == "accepted"


async def test_a_listener_hears_what_another_agent_does(stand: Stand) -> None:
    async with agent(stand, "modern", "doer") as doer, agent(stand, "modern") as listener:
        issue = said(await doer.call_tool("issue_add", {"title": "watched"}))["issue"]["id"]
        async with listener.listen(resource_subscriptions=[f"issue://{issue}"]) as events:
            await doer.call_tool("issue_update", {"id": issue, "notes": "changed"})
            with anyio.fail_after(30):
                async for event in events:
                    assert event == ResourceUpdated(f"issue://{issue}")
                    break


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_agents_without_a_name_are_not_taken_for_one(stand: Stand, era: str) -> None:
    async with agent(stand, era) as one, agent(stand, era) as other:
        issue = said(await one.call_tool("issue_add", {"title": "wanted"}))["issue"]["id"]
        first = await one.call_tool("issue_claim", {"id": issue})
        second = await other.call_tool("issue_claim", {"id": issue})
    assert not first.is_error
    assert second.is_error
    assert second.structured_content["failureClasses"] == ["lease_contention_active"]


async def test_many_agents_at_once_get_each_piece_once(stand: Stand) -> None:
    agents, pieces = 12, 48
    async with agent(stand, "modern", "boss") as boss:
        for place in range(pieces):
            await boss.call_tool("issue_add", {"title": f"piece {place}", "labels": ["crowd"]})
    won: list[str] = []

    async def toil(number: int) -> None:
        era = "legacy" if number % 3 == 0 else "modern"
        async with agent(stand, era, f"toiler-{number}") as client:
            while True:
                taken = said(await client.call_tool("work_next", {"labels": ["crowd"]}))
                if "issue" not in taken:
                    return
                won.append(taken["issue"]["id"])

    async with anyio.create_task_group() as group:
        for number in range(agents):
            group.start_soon(toil, number)
    assert (len(won), len(set(won))) == (pieces, pieces)


async def test_the_same_call_of_a_session_is_done_once(stand: Stand) -> None:
    old = {"mcp_protocol_version": LEGACY, "mcp_method": None}
    session = send(stand, "POST", BEGIN, **old)[1]["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert send(stand, "POST", ready, **old, mcp_session_id=session)[0] == 202
    call = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "issue_add", "arguments": {"title": "once"}},
    }
    bodies = [send(stand, "POST", call, **old, mcp_session_id=session)[2] for _ in range(2)]
    ids = [json.loads(each.split(b"data: ")[1])["result"] for each in bodies]
    assert ids[0]["structuredContent"]["issue"]["id"] == ids[1]["structuredContent"]["issue"]["id"]


async def test_leases_are_renewed_for_agents_that_can_be_met_again(stand: Stand) -> None:
    async def claim(client: Client) -> str:
        issue = said(await client.call_tool("issue_add", {"title": "kept"}))["issue"]["id"]
        said(await client.call_tool("issue_claim", {"id": issue, "leaseTtlSeconds": 30}))
        return str(issue)

    async def deadlines(client: Client) -> list[str]:
        shown = [said(await client.call_tool("issue_show", {"id": each})) for each in issues]
        return [each["issue"]["lease"]["expiresAt"] for each in shown]

    async with (
        agent(stand, "legacy") as session,  # silent from now on, with a stream open
        agent(stand, "modern", "named") as named,
        agent(stand, "modern") as passing,
    ):
        issues = [await claim(each) for each in (session, named, passing)]
        before = now = await deadlines(passing)
        with anyio.fail_after(25):
            while now[0] == before[0] or now[1] == before[1]:
                await anyio.sleep(0.2)
                now = await deadlines(passing)
    assert now[2] == before[2]


@pytest.mark.parametrize("name", ["leaver", None])
async def test_who_hangs_up_while_waiting_for_work_gets_none(
    stand: Stand, name: str | None
) -> None:
    url = urlsplit(stand.url)
    label = f"late for {name}"
    call = {"name": "work_next", "arguments": {"labels": [label], "waitSeconds": 60}}
    meta = {**_META, "progressToken": 1}
    body = {**LIST, "method": "tools/call", "params": {**call, "_meta": meta}}
    headers = {**_NOW, "mcp-method": "tools/call", "mcp-name": "work_next"}
    if name:
        headers["understudy-agent"] = name
    async with agent(stand, "modern", "stayer") as client:
        near = http.client.HTTPConnection("127.0.0.1", url.port or 0, timeout=30)
        near.request("POST", "/mcp", json.dumps(body), headers)
        with near.getresponse() as waiting:
            assert waiting.readline() == b"event: message\r\n"  # nothing is ready yet
        near.close()
        said(await client.call_tool("issue_add", {"title": "late", "labels": [label]}))
        taken = said(await client.call_tool("work_next", {"labels": [label], "waitSeconds": 5}))
    assert taken["issue"]["lease"]["owner"] == "stayer"
