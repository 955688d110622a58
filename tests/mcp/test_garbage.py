"""What a client can send that makes no sense, and what becomes of it: nothing."""

from typing import Any

import anyio
import orjson
import pytest
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from tests.mcp.visitor import Guest, connect, refused
from tests.surfaces.process import Serve
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.contracts import limits
from understudy.surfaces.mcp.gateway.server import build

pytestmark = pytest.mark.anyio


@pytest.fixture
def sidecar(common: Serve) -> Serve:
    return common


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("arguments", "wire"),
    [
        ({}, "issue_invalid_payload"),
        ({"id": None}, "issue_invalid_payload"),
        ({"id": 7}, "issue_invalid_payload"),
        ({"id": ["a"]}, "issue_invalid_payload"),
        ({"id": "../../etc"}, "issue_invalid_payload"),
        ({"id": "a\n"}, "issue_invalid_payload"),
        ({"id": "a" * 129}, "issue_invalid_payload"),
        ({"id": "a", "Id": "b"}, "issue_invalid_payload"),
        ({"id": 1.5}, "transport_invalid_request"),
        ({"id": "a", "fence": 2**53}, "transport_invalid_request"),
        ({"id": "a", "fence": 2**80}, "transport_invalid_request"),
        ({"id": "nul\0"}, "transport_invalid_request"),
        ({"id": "\ud800"}, "transport_invalid_request"),
        ({"id": _nested(40)}, "transport_invalid_request"),
        ({"ключ": "a"}, "transport_invalid_request"),
        ({"id": "a", "context": "strong"}, "transport_invalid_request"),
        ({"id": "a", "context": {"transport": "coordinator"}}, "transport_escalation_denied"),
    ],
    ids=repr,
)
async def test_odd_arguments_are_refused_with_a_class(
    desk: AuthorityLink, arguments: dict[str, Any], wire: str
) -> None:
    async with connect(desk, Guest()) as client:
        assert wire == refused(await client.call_tool("issue_close", arguments))


async def test_too_much_is_refused(desk: AuthorityLink) -> None:
    async with connect(desk, Guest()) as client:
        huge = {"title": "t", "description": "x" * limits.REQUEST_BYTES_MAX}
        assert refused(await client.call_tool("issue_add", huge)) == "transport_request_too_large"
        fits = {"title": "t", "description": "x" * limits.TEXT_LENGTH_MAX}
        assert not (await client.call_tool("issue_add", fits)).is_error


async def test_garbage_of_one_client_does_not_reach_the_answers_of_another(
    desk: AuthorityLink,
) -> None:
    await desk.ask("issue.add", {"id": "a", "title": "a"})
    async with connect(desk, Guest("bad")) as bad, connect(desk, Guest("good")) as good:

        async def rave() -> None:
            for _ in range(50):
                assert refused(await bad.call_tool("issue_show", {"id": 0.5}))

        async def work() -> None:
            for _ in range(50):
                shown = await good.call_tool("issue_show", {"id": "a"})
                assert shown.structured_content["issue"]["id"] == "a"

        async with anyio.create_task_group() as group:
            group.start_soon(rave)
            group.start_soon(work)


@pytest.mark.parametrize(
    "params",
    [None, {}, {"name": 5}, {"name": "issue_show", "arguments": "a"}, {"name": ["issue_show"]}],
)
async def test_a_malformed_call_is_an_error_and_the_next_one_is_served(
    desk: AuthorityLink, params: dict[str, Any] | None
) -> None:
    answers = await _raw(build(desk, Guest()), ("tools/call", params), ("ping", None))
    assert answers[0].get("error", {}).get("code") == -32602
    assert answers[1]["result"] == {}


async def _raw(server: Server[Any], *calls: tuple[str, Any]) -> list[dict[str, Any]]:
    """Requests of the handshake era as they come off a wire, and their answers."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
    hello["clientInfo"] = {"name": "raw", "version": "0"}
    wanted = [("initialize", hello), *calls]
    into, far_in = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    far_out, out = anyio.create_memory_object_stream[SessionMessage](16)
    answers = []
    async with anyio.create_task_group() as group, into, out:
        group.start_soon(server.run, far_in, far_out, server.create_initialization_options())
        for number, (method, params) in enumerate(wanted):
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            await into.send(SessionMessage(request))
            message = (await out.receive()).message
            answers.append(orjson.loads(message.model_dump_json(by_alias=True, exclude_none=True)))
        group.cancel_scope.cancel()
    return answers[1:]
