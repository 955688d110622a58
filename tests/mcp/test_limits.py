"""Limits of what agents may ask for, from both sides."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from mcp.shared.exceptions import MCPError

from tests.fakes.desk import Desk, asked
from tests.limits import stands_on
from tests.mcp.gateway.agents import HANDSHAKE, LISTEN, Door, Wire
from understudy.actors.agents import KeepPolicy
from understudy.authority.journal.state_dir import create_state_dir
from understudy.contracts import limits
from understudy.contracts.reason import Reason
from understudy.surfaces.mcp.reading import resources
from understudy.surfaces.mcp.reading.subscriptions import Watches
from understudy.surfaces.mcp.tools.result_text import told
from understudy.surfaces.mcp.tools.work_tools import is_wait


class FullDesk:
    """A desk with so many issues behind it, and changes that never come."""

    def __init__(self, count: int) -> None:
        self._issues = [{"id": f"{n:06}", "status": "open", "title": "t"} for n in range(count)]

    async def ask(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        assert action == "issue.list"
        return {"result": "accepted", "issues": self._issues}

    def subscribe(self, listener: object) -> Callable[[], None]:
        return lambda: None


@stands_on("MCP_PAGE_MAX")
def test_a_page_of_resources_has_an_end() -> None:
    def more(count: int) -> bool:
        page = asyncio.run(resources.listed(FullDesk(count), None))  # type: ignore[arg-type]  # the part that is read
        return "nextCursor" in page

    assert not more(limits.MCP_PAGE_MAX)
    assert more(limits.MCP_PAGE_MAX + 1)


@stands_on("MCP_WATCHES_MAX")
def test_a_connection_watches_so_many_resources() -> None:
    async def watch() -> None:
        watches = Watches(FullDesk(0))  # type: ignore[arg-type]  # the part that is read
        ctx: Any = SimpleNamespace(request=None, session=None)
        for number in range(limits.MCP_WATCHES_MAX):
            watches.add(ctx, f"issue://{number}")
        with pytest.raises(MCPError, match="limit"):
            watches.add(ctx, "issue://more")
        watches.close()

    asyncio.run(watch())


@stands_on("MCP_WAIT_SECONDS_MAX")
def test_work_is_waited_for_so_long() -> None:
    assert is_wait(limits.MCP_WAIT_SECONDS_MAX)
    assert not is_wait(limits.MCP_WAIT_SECONDS_MAX + 1)


@stands_on("MCP_TEXT_LENGTH_MAX")
def test_a_model_reads_so_much_of_an_answer() -> None:
    def is_cut(size: int) -> bool:
        room = size - len('{"notes":""}')
        answer = {"result": "accepted", "action": "a", "seq": 1, "notes": "x" * room}
        return "(cut here" in told(answer)["content"][0]["text"]

    assert not is_cut(limits.MCP_TEXT_LENGTH_MAX)
    assert is_cut(limits.MCP_TEXT_LENGTH_MAX + 1)


@stands_on("MCP_INFLIGHT_MAX")
def test_so_many_requests_of_an_agent_are_in_flight(tmp_path: Path) -> None:
    create_state_dir(tmp_path / "state", "local")
    with Door(tmp_path / "state") as door:
        door.ready()
        with Wire(door.state_dir) as line:
            line.ask(0, "initialize", HANDSHAKE)
            assert line.answer()["id"] == 0
            count = limits.MCP_INFLIGHT_MAX + 50
            for mark in range(1, count + 1):
                waits = {"name": "work_next", "arguments": {"waitSeconds": 600}}
                line.ask(mark, "tools/call", waits)
            refused = {line.answer()["id"] for _ in range(50)}
            assert refused == set(range(limits.MCP_INFLIGHT_MAX + 1, count + 1))


@stands_on("MCP_HELD_DEFAULT")
def test_an_agent_holds_so_many_pieces_of_work_unless_its_operator_says_otherwise() -> None:
    desk = Desk()
    context = {"agent": {"name": "ann", **KeepPolicy().terms}}
    for number in range(limits.MCP_HELD_DEFAULT + 1):
        desk.grant("issue.add", id=f"us-{number}", title="t")
    requests = [
        asked("issue.claim_next", {"assignee": "ann"}, context=context)
        for _ in range(limits.MCP_HELD_DEFAULT + 1)
    ]
    answers = [orjson.loads(each) for each in desk.authority.submit(requests)[0]]
    assert [each["result"] for each in answers[:-1]] == ["accepted"] * limits.MCP_HELD_DEFAULT
    assert answers[-1]["failureClasses"] == [Reason.AGENT_HOLDS_FULL.wire]
    desk.prove()


@stands_on("MCP_STREAMS_MAX")
def test_so_many_event_streams_of_an_agent_are_open(tmp_path: Path) -> None:
    create_state_dir(tmp_path / "state", "local")
    with Door(tmp_path / "state") as door:
        door.ready()
        with Wire(door.state_dir) as line:
            count = limits.MCP_STREAMS_MAX + 2
            for mark in range(1, count + 1):
                line.ask(mark, "subscriptions/listen", LISTEN)
            line.ask(0, "ping")
            refused: list[int] = []
            while (answer := line.answer()).get("id") != 0:
                refused += [answer["id"]] if "error" in answer else []
            assert refused == [count - 1, count]
