"""What the official conformance suite wants of a server, mounted into ours.

It is the suite's own, by name and answer; the product has none of it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension
from mcp.server.lowlevel import Server
from mcp.shared.subscriptions import PromptsListChanged, ServerEvent, ToolsListChanged

from tests.mcp.outside import questions
from tests.mcp.outside.tools import (
    DONE,
    IMAGE,
    NAME,
    PLAIN,
    PNG,
    TOOLS,
    Call,
    Context,
    Tool,
    asks,
    embedded,
    text,
)
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.surfaces.mcp.reading import subscriptions
from understudy.surfaces.mcp.tasks.tasks import Tasks

LONG = frozenset({"slow_compute", "protocol_error_job", "confirm_delete", "multi_input"})
ONLY_LONG = frozenset({"failing_job", "test_tool_with_task"})
LISTS: dict[str, ServerEvent] = {  # what a tool of this name says has changed
    "test_trigger_tool_change": ToolsListChanged(),
    "test_trigger_prompt_change": PromptsListChanged(),
}


def mount(tasks: Tasks, desk: AuthorityLink) -> Sequence[Extension]:
    """The tool that gathers before it becomes a task stands outside; all others inside."""
    tasks.declare(LONG, ONLY_LONG)
    subscriptions.LISTS.update(LISTS)
    return (_Gathering(), tasks, _Fixtures(desk))


class _Gathering(Extension):
    """A call that asks first and is long only after that."""

    identifier = "test.understudy/gathering"

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        if params.name == "test_tool_with_task" and not (ctx.params or {}).get("inputResponses"):
            return asks({"user_name": NAME})
        return await call_next(ctx)


class _Fixtures(Extension):
    identifier = "test.understudy/fixtures"

    def __init__(self, desk: AuthorityLink) -> None:
        self._tools = dict(TOOLS)
        for event in LISTS:
            self._tools[event] = (self._publishing(desk, event), PLAIN)

    @staticmethod
    def _publishing(desk: AuthorityLink, event: str) -> Tool:
        async def publish(ctx: Context, call: Call) -> dict[str, Any]:
            desk.changes.tell([event])
            return text("published")

        return publish

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        if params.name not in self._tools:
            return await call_next(ctx)
        return await self._tools[params.name][0](ctx, dict(ctx.params or {}))

    def attach(self, server: Server[Any]) -> None:
        tools = [
            {"name": name, "description": "for the conformance suite", "inputSchema": schema}
            for name, (_, schema) in self._tools.items()
        ]
        ours = server.get_tool_input_schema
        assert ours is not None

        def schema_of(name: str) -> Mapping[str, Any] | None:
            return self._tools[name][1] if name in self._tools else ours(name)

        server.get_tool_input_schema = schema_of
        _longer(server, "tools/list", "tools", tools)
        _longer(server, "prompts/list", "prompts", questions.PROMPTS)
        _longer(server, "resources/list", "resources", questions.RESOURCES)
        _longer(server, "resources/templates/list", "resourceTemplates", questions.TEMPLATES)
        _instead(server, "prompts/get", types.GetPromptRequestParams, _prompted)
        _instead(server, "resources/read", types.ReadResourceRequestParams, _read)
        for method, shape in (
            ("resources/subscribe", types.SubscribeRequestParams),
            ("resources/unsubscribe", types.UnsubscribeRequestParams),
        ):
            _instead(server, method, shape, _watched)
        _instead(server, "completion/complete", types.CompleteRequestParams, _completed)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _level)


def _longer(server: Server[Any], method: str, key: str, more: list[dict[str, Any]]) -> None:
    """What our own list holds, and then this."""
    entry = server.get_request_handler(method)
    assert entry is not None

    async def listed(ctx: Context, params: types.PaginatedRequestParams) -> HandlerResult:
        answer: Any = await entry.handler(ctx, params)
        if answer.get("nextCursor") is not None:
            return answer  # type: ignore[no-any-return]  # JSON
        return {**answer, key: [*answer[key], *more]}

    server.add_request_handler(method, types.PaginatedRequestParams, listed)


def _instead(
    server: Server[Any],
    method: str,
    shape: type[types.RequestParams],
    answer: Callable[[Any], HandlerResult],
) -> None:
    """Answer what is the suite's; leave the rest to our own handler."""
    entry = server.get_request_handler(method)
    assert entry is not None

    async def answered(ctx: Context, params: types.RequestParams) -> HandlerResult:
        own = answer(params)
        return await entry.handler(ctx, params) if own is None else own

    server.add_request_handler(method, shape, answered)


def _prompted(params: types.GetPromptRequestParams) -> HandlerResult:
    given = params.arguments or {}
    said: list[dict[str, Any]]
    match params.name:
        case "test_simple_prompt":
            said = [{"type": "text", "text": "This is a simple prompt for testing."}]
        case "test_prompt_with_arguments":
            words = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            said = [{"type": "text", "text": words}]
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            said = [
                embedded(given["resourceUri"], "text/plain", words),
                {"type": "text", "text": "Please process the embedded resource above."},
            ]
        case "test_prompt_with_image":
            said = [IMAGE, {"type": "text", "text": "Please analyze the image above."}]
        case "test_input_required_result_prompt":
            if not params.input_responses:
                asked = questions.form("What context should the prompt use?", "context")
                return asks({"user_context": asked})
            said = [{"type": "text", "text": "With context."}]
        case _:
            return None
    return {**DONE, "messages": [{"role": "user", "content": each} for each in said]}


def _read(params: types.ReadResourceRequestParams) -> HandlerResult:
    uri = str(params.uri)
    content: dict[str, Any]
    if uri == "test://static-text":
        words = "This is the content of the static text resource."
        content = {"uri": uri, "mimeType": "text/plain", "text": words}
    elif uri == "test://static-binary":
        content = {"uri": uri, "mimeType": "image/png", "blob": PNG}
    elif uri.startswith("test://template/"):
        key = uri.split("/")[3]
        words = json.dumps({"id": key, "templateTest": True, "data": f"Data for ID: {key}"})
        content = {"uri": uri, "mimeType": "application/json", "text": words}
    else:
        return None
    return {**DONE, "contents": [content], "ttlMs": 0, "cacheScope": "private"}


def _watched(params: types.SubscribeRequestParams) -> HandlerResult:
    return {} if str(params.uri).startswith("test://") else None


def _completed(params: types.CompleteRequestParams) -> HandlerResult:
    if getattr(params.ref, "name", "") != "test_prompt_with_arguments":
        return None
    return {**DONE, "completion": {"values": ["paris", "park", "party"], "hasMore": False}}


async def _level(ctx: Context, params: types.SetLevelRequestParams) -> HandlerResult:
    return {}
