"""A bare server of the official SDK with one trivial tool, on our carrier or on stock streams.

`python -m benchmarks.bare stdio` or `python -m benchmarks.bare socket STATE_DIR`
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from understudy.actors.agents.sidecar_owner import SidecarOwner
from understudy.surfaces.mcp.gateway.gateway import Gateway, loop_factory, serve


def bare(*_: object) -> Server[Any]:
    """The least that a server can be."""

    async def call(
        ctx: ServerRequestContext[Any, Any],  # noqa: ARG001 - the SDK's signature
        params: types.CallToolRequestParams,  # noqa: ARG001 - the SDK's signature
    ) -> types.CallToolResult:
        text = types.TextContent(type="text", text="done")
        return types.CallToolResult(content=[text], structured_content={"done": True})

    async def tools(
        ctx: ServerRequestContext[Any, Any],  # noqa: ARG001 - the SDK's signature
        params: types.PaginatedRequestParams | None,  # noqa: ARG001 - the SDK's signature
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool(name="done", input_schema={"type": "object"})]
        )

    return Server("bare", on_list_tools=tools, on_call_tool=call)


async def on_streams() -> None:
    server = bare()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def on_socket(state_dir: Path) -> None:
    await serve(Gateway(state_dir, bare), SidecarOwner(state_dir, state_dir))


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(on_streams())
    else:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(on_socket(Path(sys.argv[2])))
