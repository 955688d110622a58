"""What one client talks to: tools, resources, prompts and completion, in both protocol eras.

A server is made for each client and costs little; schemas and texts are made once per process.
It has no state but the watches of its client, which end with the connection.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
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
from ....actors.agents import AgentCaller, AgentDoor, AuthorityLink
from ....contracts import limits
from ..reading import completion, prompts, resources
from ..reading.guide import INSTRUCTIONS
from ..reading.subscriptions import Bus, Watches
from ..tools import person
from ..tools.calls import ToolCall
from ..tools.catalogue import chosen, entries, listing
from ..tools.result_text import told
from ..tools.work_tools import JOINED
from .call_spans import CallSpans, EndedCall, now_ms

_Context = ServerRequestContext[Watches, Any]
_Method = tuple[str, type[RequestParams], Callable[[_Context, Any], Any]]
_CHOSEN = {"ttlMs": 60_000, "cacheScope": "private"}  # for this client, under this policy
_COMPLETE = {"resultType": "complete"}  # what the modern era wants to hear


def build(
    link: AuthorityLink,
    caller: AgentCaller,
    extensions: Sequence[Extension] = (),
    tools: str = "all",
    spans: CallSpans | None = None,
) -> Server[Watches]:
    """The server for one client. `extensions` add methods, and may wrap the calls of tools; `spans`
    hears of every call that is about work."""
    door, offered = AgentDoor(link, caller), chosen(tools)

    @asynccontextmanager
    async def lifespan(_: Server[Watches]) -> AsyncIterator[Watches]:
        watches = Watches(link.changes)
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
            Bus(link.changes), max_subscriptions=limits.MCP_WATCHES_MAX
        ),
    )
    server.middleware.clear()  # its spans know nothing of work; ours do
    for method, params, answer in _methods(door, caller, offered, spans):
        server.add_request_handler(method, params, _handler(answer))
    for extension in extensions:
        _extend(server, extension)
    call = server.get_request_handler("tools/call")
    if extensions and call is not None:
        wrapped = compose_tool_call_handler(extensions, call.handler)
        server.add_request_handler("tools/call", CallToolRequestParams, wrapped)
    return server


def _methods(
    door: AgentDoor, caller: AgentCaller, offered: frozenset[str], spans: CallSpans | None
) -> list[_Method]:
    """What each method answers, in plain JSON, which the SDK checks on the way out."""
    page, words = PaginatedRequestParams, CompleteRequestParams
    watch, unwatch = SubscribeRequestParams, UnsubscribeRequestParams
    return [
        ("tools/list", page, lambda *_: _listed(door, offered)),
        (
            "tools/call",
            CallToolRequestParams,
            lambda ctx, of: _called(ToolCall(door, caller, ctx), ctx, of, offered, spans),
        ),
        ("resources/list", page, lambda _, of: resources.listed(door, of.cursor)),
        ("resources/templates/list", page, lambda *_: resources.templates()),
        (
            "resources/read",
            ReadResourceRequestParams,
            lambda _, of: resources.read(door, of.uri, offered),
        ),
        ("resources/subscribe", watch, lambda ctx, of: ctx.lifespan_context.add(ctx, of.uri)),
        ("resources/unsubscribe", unwatch, lambda ctx, of: ctx.lifespan_context.drop(ctx, of.uri)),
        ("prompts/list", page, lambda *_: prompts.listed()),
        ("prompts/get", GetPromptRequestParams, lambda _, of: prompts.got(door, of)),
        ("completion/complete", words, lambda _, of: completion.completed(door, of)),
    ]


def _handler(answer: Callable[[_Context, Any], Any]) -> RequestHandler:
    async def handle(ctx: _Context, params: Any) -> HandlerResult:
        found = answer(ctx, params)
        found = await found if isawaitable(found) else found
        return {} if found is None else _COMPLETE | found

    return handle


async def _listed(door: AgentDoor, offered: frozenset[str]) -> dict[str, Any]:
    """The tools that are offered; how to bring evidence, where the policy wants some."""
    status = await door.answer("issue.backend_status", {})
    linked = status.get("policy", {}).get("mutation") == "instruction-linked"
    return {"tools": listing(offered, linked=linked), **_CHOSEN}


async def _called(
    call: ToolCall,
    ctx: _Context,
    params: CallToolRequestParams,
    offered: frozenset[str],
    spans: CallSpans | None,
) -> dict[str, Any]:
    entry = entries().get(params.name)
    if entry is None or entry.name not in offered:
        more = "" if entry is None else "; it is not offered here, see tools://all"
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}{more}")
    action = "" if entry.action is None else entry.action.action
    arguments = person.again(ctx, params, action)
    verbose = arguments.pop("verbose", False) is True
    started_ms = now_ms()

    def noted(answer: dict[str, Any]) -> None:
        if spans is not None:
            about = (arguments, answer, params.meta)
            spans.note(EndedCall(entry.name, call.key, started_ms, *about))

    if not action:
        answer, lead = await JOINED[entry.name](call, arguments)
        noted(answer)
        return told(answer, lead, verbose=verbose)
    answer = await call.ask(action, arguments)
    noted(answer)
    try:
        answer, lead = await person.settled(call, ctx, params, arguments, answer)
    except person.PersonAsked as asked:
        return asked.result
    return told(answer, lead, verbose=verbose)


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

    async def gated(ctx: ServerRequestContext[Any, Any], params: Any) -> HandlerResult:
        if ctx.protocol_version not in versions:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", binding.method)
        return await binding.handler(ctx, params)

    return gated
