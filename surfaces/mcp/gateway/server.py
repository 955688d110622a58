"""What one client talks to: tools, resources, prompts and completion, in both protocol eras.

A server is made for each client and costs little; schemas and texts are made once per process.
It has no state but the watches of its client, which end with the connection.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp.server import Server
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.extension import (
    Extension,
    MethodBinding,
    RequestHandler,
    compose_tool_call_handler,
)
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    RequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from .... import __version__
from ....contracts import limits
from ..desk import Desk
from ..reading import completion, prompts, resources
from ..reading.guide import INSTRUCTIONS
from ..reading.subscriptions import Watches
from ..tools.calls import Call
from ..tools.catalogue import entries, listing
from ..tools.result_text import told
from ..tools.work_tools import JOINED
from ..visit import Visit

_Context = ServerRequestContext[Watches, Any]
_FIXED = {"ttlMs": 3_600_000, "cacheScope": "public"}
_COMPLETE = {"resultType": "complete"}  # what the modern era wants to hear


def build(desk: Desk, visit: Visit, extensions: Sequence[Extension] = ()) -> Server[Watches]:
    """The server for one client. `extensions` add methods, and may wrap the calls of tools."""

    @asynccontextmanager
    async def lifespan(_: Server[Watches]) -> AsyncIterator[Watches]:
        watches = Watches(desk.changes)
        try:
            yield watches
        finally:
            watches.close()

    server: Server[Watches] = Server(
        "understudy",
        title="Understudy",
        version=__version__,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        get_tool_input_schema=_input_schema,
        on_subscriptions_listen=ListenHandler(
            desk.changes, max_subscriptions=limits.MCP_WATCHES_MAX
        ),
    )
    server.middleware.clear()  # spans that nobody in this process listens to
    for method, params, handler in _handlers(desk, visit):
        server.add_request_handler(method, params, handler)
    for extension in extensions:
        _extend(server, extension)
    call = server.get_request_handler("tools/call")
    if extensions and call is not None:
        wrapped = compose_tool_call_handler(extensions, call.handler)
        server.add_request_handler("tools/call", CallToolRequestParams, wrapped)
    return server


def _handlers(desk: Desk, visit: Visit) -> list[tuple[str, type[RequestParams], RequestHandler]]:
    """What answers each method, in plain JSON, which the SDK checks on the way out."""

    async def list_tools(ctx: _Context, params: PaginatedRequestParams) -> HandlerResult:  # noqa: ARG001
        return {"tools": listing(), **_FIXED, **_COMPLETE}

    async def call_tool(ctx: _Context, params: CallToolRequestParams) -> HandlerResult:
        return await _called(Call(desk, visit, ctx), params) | _COMPLETE

    async def list_resources(ctx: _Context, params: PaginatedRequestParams) -> HandlerResult:  # noqa: ARG001
        return await resources.listed(desk, params.cursor) | _COMPLETE

    async def list_templates(ctx: _Context, params: PaginatedRequestParams) -> HandlerResult:  # noqa: ARG001
        return resources.templates() | _COMPLETE

    async def read(ctx: _Context, params: ReadResourceRequestParams) -> HandlerResult:  # noqa: ARG001
        return await resources.read(desk, params.uri) | _COMPLETE

    async def subscribe(ctx: _Context, params: SubscribeRequestParams) -> HandlerResult:
        ctx.lifespan_context.add(ctx, params.uri)
        return {}

    async def unsubscribe(ctx: _Context, params: UnsubscribeRequestParams) -> HandlerResult:
        ctx.lifespan_context.drop(ctx, params.uri)
        return {}

    async def list_prompts(ctx: _Context, params: PaginatedRequestParams) -> HandlerResult:  # noqa: ARG001
        return prompts.listed() | _COMPLETE

    async def get_prompt(ctx: _Context, params: GetPromptRequestParams) -> HandlerResult:  # noqa: ARG001
        return await prompts.got(desk, params.name, params.arguments) | _COMPLETE

    async def complete(ctx: _Context, params: CompleteRequestParams) -> HandlerResult:  # noqa: ARG001
        return await completion.completed(desk, params) | _COMPLETE

    return [
        ("tools/list", PaginatedRequestParams, list_tools),
        ("tools/call", CallToolRequestParams, call_tool),
        ("resources/list", PaginatedRequestParams, list_resources),
        ("resources/templates/list", PaginatedRequestParams, list_templates),
        ("resources/read", ReadResourceRequestParams, read),
        ("resources/subscribe", SubscribeRequestParams, subscribe),
        ("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe),
        ("prompts/list", PaginatedRequestParams, list_prompts),
        ("prompts/get", GetPromptRequestParams, get_prompt),
        ("completion/complete", CompleteRequestParams, complete),
    ]


async def _called(call: Call, params: CallToolRequestParams) -> dict[str, Any]:
    entry = entries().get(params.name)
    if entry is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
    arguments = params.arguments or {}
    if entry.action is not None:
        return told(await call.ask(entry.action.action, arguments))
    answer, lead = await JOINED[entry.name](call, arguments)
    return told(answer, lead)


def _input_schema(name: str) -> dict[str, Any] | None:
    entry = entries().get(name)
    return None if entry is None else entry.tool["inputSchema"]


def _extend(server: Server[Watches], extension: Extension) -> None:
    server.extensions[extension.identifier] = extension.settings()
    for binding in extension.methods():
        server.add_request_handler(binding.method, binding.params_type, _gated(binding))


def _gated(binding: MethodBinding) -> RequestHandler:
    """The handler of an extension's method, in the protocol versions that have it."""
    versions = binding.protocol_versions
    if versions is None:
        return binding.handler

    async def gated(ctx: ServerRequestContext[Any, Any], params: Any) -> HandlerResult:  # noqa: ANN401
        if ctx.protocol_version not in versions:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", binding.method)
        return await binding.handler(ctx, params)

    return gated
