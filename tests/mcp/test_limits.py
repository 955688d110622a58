"""Limits of what agents may ask for, from both sides."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.limits import stands_on
from tests.mcp.gateway.agents import HANDSHAKE, Door, Wire
from understudy.authority.journal.state_dir import create_state_dir
from understudy.contracts import (
    limits,
)
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
