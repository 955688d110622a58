"""Tools, prompts and resources that the official conformance suite calls, mounted into our server.

They are the suite's own, by name and answer; the product has none of them.
"""

import asyncio
import base64
import hmac
import io
import json
import struct
import wave
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged

from tests.mcp.outside import questions
from understudy.surfaces.mcp.desk import Desk
from understudy.surfaces.mcp.tasks import Tasks

Context = ServerRequestContext[Any, Any]
Call = dict[str, Any]  # the params of a request, as they came
Tool = Callable[[Context, Call], Awaitable[dict[str, Any]]]

LONG = frozenset({"slow_compute", "protocol_error_job", "confirm_delete", "multi_input"})
ONLY_LONG = frozenset({"failing_job", "test_tool_with_task"})
DONE = {"resultType": "complete"}
_KEY = b"signs what a client brings back"
_STEP_SECONDS = 0.05


def mount(tasks: Tasks, desk: Desk) -> Sequence[Extension]:
    """The tool that gathers before it becomes a task stands outside; all others inside."""
    tasks.declare(LONG, ONLY_LONG)
    return (_Gathering(), tasks, _Fixtures(desk))


# --- answers ------------------------------------------------------------------------------------


def text(words: str, *, is_error: bool = False) -> dict[str, Any]:
    return {**DONE, "content": [{"type": "text", "text": words}], "isError": is_error}


def _says(*content: dict[str, Any]) -> Tool:
    async def say(ctx: Context, call: Call) -> dict[str, Any]:
        return {**DONE, "content": list(content)}

    return say


def _wav() -> str:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8_000)
        sound.writeframes(b"\x80" * 8)
    return base64.b64encode(buffer.getvalue()).decode()


def _png() -> str:
    """One red pixel."""
    parts = {b"IHDR": struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)}
    parts |= {b"IDAT": zlib.compress(b"\0\xff\0\0"), b"IEND": b""}
    chunks = (
        struct.pack(">I", len(each)) + kind + each + struct.pack(">I", zlib.crc32(kind + each))
        for kind, each in parts.items()
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


PNG = _png()


def _embedded(uri: str, mime: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


_IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


# --- tools that answer --------------------------------------------------------------------------


async def _fails(ctx: Context, call: Call) -> dict[str, Any]:
    return text("This tool intentionally returns an error for testing", is_error=True)


async def _progresses(ctx: Context, call: Call) -> dict[str, Any]:
    for part in (0, 50, 100):
        await ctx.session.report_progress(part, 100)
        await asyncio.sleep(_STEP_SECONDS)
    return text("done")


async def _logs(ctx: Context, call: Call) -> dict[str, Any]:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
        await asyncio.sleep(_STEP_SECONDS)
    return text("logged")


async def _headers(ctx: Context, call: Call) -> dict[str, Any]:
    return text(json.dumps(call.get("arguments")))


async def _lacks(ctx: Context, call: Call) -> dict[str, Any]:
    wanted: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
    raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is wanted", wanted)


# --- tools of the handshake era that ask in the middle ------------------------------------------


async def _elicited(ctx: Context, message: str, schema: dict[str, Any]) -> dict[str, Any]:
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    around = ServerMessageMetadata(related_request_id=ctx.request_id)
    answer = await ctx.session.send_request(
        types.ElicitRequest(params=params), types.ElicitResult, metadata=around
    )
    told = json.dumps(answer.content)
    return text(f"User response: action={answer.action}, content={told}")


async def _elicits(ctx: Context, call: Call) -> dict[str, Any]:
    return await _elicited(ctx, call["arguments"]["message"], questions.PERSON)


async def _elicits_defaults(ctx: Context, call: Call) -> dict[str, Any]:
    return await _elicited(ctx, "Please look at the defaults", questions.DEFAULTS)


async def _elicits_enums(ctx: Context, call: Call) -> dict[str, Any]:
    return await _elicited(ctx, "Please choose", questions.ENUMS)


async def _samples(ctx: Context, call: Call) -> dict[str, Any]:
    said = types.SamplingMessage(
        role="user", content=types.TextContent(text=call["arguments"]["prompt"])
    )
    params = types.CreateMessageRequestParams(messages=[said], max_tokens=100)
    answer = await ctx.session.send_request(
        types.CreateMessageRequest(params=params),
        types.CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
    )
    return text(f"LLM response: {getattr(answer.content, 'text', '')}")


# --- tools of the modern era that ask by answering ----------------------------------------------


def _asks(asked: dict[str, Any], state: str | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = {"resultType": "input_required", "inputRequests": asked}
    return answer if state is None else {**answer, "requestState": _signed(state)}


def _signed(state: str) -> str:
    return f"{state}.{hmac.digest(_KEY, state.encode(), 'sha256').hex()}"


def _state_of(call: Call) -> str:
    state, _, seal = str(call.get("requestState") or "").partition(".")
    if not hmac.compare_digest(_signed(state), f"{state}.{seal}"):
        raise MCPError(types.INVALID_PARAMS, "requestState is not ours")
    return state


def _asking(asked: dict[str, Any], *, state: str | None = None) -> Tool:
    """Ask until all is answered; then say the answers."""

    async def ask(ctx: Context, call: Call) -> dict[str, Any]:
        answers = call.get("inputResponses") or {}
        if not all(isinstance(answers.get(key), dict) for key in asked):
            return _asks(asked, state)
        if state is not None:
            _state_of(call)
        return text("state-ok " + json.dumps(answers))

    return ask


async def _two_rounds(ctx: Context, call: Call) -> dict[str, Any]:
    if not call.get("requestState"):
        return _asks({"step1": questions.form("Step 1: What is your name?", "name")}, "1")
    if _state_of(call) == "1":
        return _asks(
            {"step2": questions.form("Step 2: What is your favorite color?", "color")}, "2"
        )
    return text(json.dumps(call.get("inputResponses")))


async def _asks_what_it_may(ctx: Context, call: Call) -> dict[str, Any]:
    declared = ctx.session.client_capabilities or types.ClientCapabilities()
    able = {
        "sampled": declared.sampling and questions.SAMPLE,
        "elicited": declared.elicitation and questions.form("What is your name?", "name"),
    }
    return _asks({key: each for key, each in able.items() if each})


# --- tools that become tasks --------------------------------------------------------------------


async def _greets(ctx: Context, call: Call) -> dict[str, Any]:
    return text(f"Hello, {call['arguments']['name']}!")


async def _computes(ctx: Context, call: Call) -> dict[str, Any]:
    await asyncio.sleep(call["arguments"]["seconds"])
    return text("computed")


async def _fails_late(ctx: Context, call: Call) -> dict[str, Any]:
    await asyncio.sleep(_STEP_SECONDS)
    return text("it did not work", is_error=True)


async def _breaks(ctx: Context, call: Call) -> dict[str, Any]:
    raise MCPError(types.INTERNAL_ERROR, "it broke")


async def _greets_late(ctx: Context, call: Call) -> dict[str, Any]:
    await asyncio.sleep(_STEP_SECONDS)
    return text(f"Hello, {call['inputResponses']['user_name']['content']['name']}!")


_CONFIRM = questions.form("Really?", "confirm", kind="boolean")
_NAME = questions.form("What is your name?", "name")
_ROOTS = {"method": "roots/list", "params": {}}
_PLAIN: dict[str, Any] = {"type": "object"}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TEXT = {"type": "string"}
TOOLS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "test_simple_text": (
        _says({"type": "text", "text": "This is a simple text response for testing."}),
        _PLAIN,
    ),
    "test_image_content": (_says(_IMAGE), _PLAIN),
    "test_audio_content": (
        _says({"type": "audio", "data": _wav(), "mimeType": "audio/wav"}),
        _PLAIN,
    ),
    "test_embedded_resource": (
        _says(
            _embedded(
                "test://embedded-resource", "text/plain", "This is an embedded resource content."
            )
        ),
        _PLAIN,
    ),
    "test_multiple_content_types": (
        _says(
            {"type": "text", "text": "Multiple content types test:"},
            _IMAGE,
            _embedded(
                "test://mixed-content-resource",
                "application/json",
                '{"test":"data","value":123}',
            ),
        ),
        _PLAIN,
    ),
    "test_error_handling": (_fails, _PLAIN),
    "test_tool_with_progress": (_progresses, _PLAIN),
    "test_tool_with_logging": (_logs, _PLAIN),
    "test_logging_tool": (_logs, _PLAIN),
    "test_missing_capability": (_lacks, _PLAIN),
    "test_sampling": (_samples, _object(prompt=_TEXT)),
    "test_elicitation": (_elicits, _object(message=_TEXT)),
    "test_elicitation_sep1034_defaults": (_elicits_defaults, _PLAIN),
    "test_elicitation_sep1330_enums": (_elicits_enums, _PLAIN),
    "json_schema_2020_12_tool": (_headers, questions.SCHEMA_2020_12),
    "test_custom_headers": (
        _headers,
        _object(region={"type": "string", "x-mcp-header": "Region"}),
    ),
    "test_streaming_elicitation": (_asking({"user_name": _NAME}), _PLAIN),
    "test_input_required_result_elicitation": (_asking({"user_name": _NAME}), _PLAIN),
    "test_input_required_result_sampling": (
        _asking({"capital_question": questions.SAMPLE}),
        _PLAIN,
    ),
    "test_input_required_result_list_roots": (_asking({"client_roots": _ROOTS}), _PLAIN),
    "test_input_required_result_request_state": (
        _asking({"confirm": _CONFIRM}, state="asked"),
        _PLAIN,
    ),
    "test_input_required_result_tampered_state": (
        _asking({"confirm": _CONFIRM}, state="asked"),
        _PLAIN,
    ),
    "test_input_required_result_multiple_inputs": (
        _asking(
            {"user_name": _NAME, "greeting": questions.SAMPLE, "client_roots": _ROOTS},
            state="asked",
        ),
        _PLAIN,
    ),
    "test_input_required_result_multi_round": (_two_rounds, _PLAIN),
    "test_input_required_result_capabilities": (_asks_what_it_may, _PLAIN),
    "greet": (_greets, _object(name=_TEXT)),
    "slow_compute": (_computes, _object(seconds={"type": "number"})),
    "failing_job": (_fails_late, _PLAIN),
    "protocol_error_job": (_breaks, _PLAIN),
    "confirm_delete": (_asking({"confirm": _CONFIRM}), _object(filename=_TEXT)),
    "multi_input": (_asking({"first": _NAME, "second": _CONFIRM}), _PLAIN),
    "test_tool_with_task": (_greets_late, _PLAIN),
}


# --- where they are mounted ---------------------------------------------------------------------


class _Gathering(Extension):
    """A call that asks first and is long only after that."""

    identifier = "test.understudy/gathering"

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        if params.name == "test_tool_with_task" and not (ctx.params or {}).get("inputResponses"):
            return _asks({"user_name": _NAME})
        return await call_next(ctx)


class _Fixtures(Extension):
    identifier = "test.understudy/fixtures"

    def __init__(self, desk: Desk) -> None:
        self._tools = dict(TOOLS)
        for name, event in (
            ("test_trigger_tool_change", ToolsListChanged()),
            ("test_trigger_prompt_change", PromptsListChanged()),
        ):
            self._tools[name] = (self._publishing(desk, event), _PLAIN)

    @staticmethod
    def _publishing(desk: Desk, event: ToolsListChanged | PromptsListChanged) -> Tool:
        async def publish(ctx: Context, call: Call) -> dict[str, Any]:
            await desk.changes.publish(event)
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
            return answer  # type: ignore[no-any-return]
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
                _embedded(given["resourceUri"], "text/plain", words),
                {"type": "text", "text": "Please process the embedded resource above."},
            ]
        case "test_prompt_with_image":
            said = [_IMAGE, {"type": "text", "text": "Please analyze the image above."}]
        case "test_input_required_result_prompt":
            if not params.input_responses:
                asked = questions.form("What context should the prompt use?", "context")
                return _asks({"user_context": asked})
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
