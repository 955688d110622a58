"""The tools that the official conformance suite calls, by the names and answers that it wants."""

import asyncio
import base64
import hmac
import io
import json
import struct
import wave
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from tests.mcp.outside import questions

Context = ServerRequestContext[Any, Any]
Call = dict[str, Any]  # the params of a request, as they came
Tool = Callable[[Context, Call], Awaitable[dict[str, Any]]]

DONE = {"resultType": "complete"}
_KEY = b"signs what a client brings back"
_STEP_SECONDS = 0.05


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


def embedded(uri: str, mime: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


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


def asks(asked: dict[str, Any], state: str | None = None) -> dict[str, Any]:
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
            return asks(asked, state)
        if state is not None:
            _state_of(call)
        return text("state-ok " + json.dumps(answers))

    return ask


async def _two_rounds(ctx: Context, call: Call) -> dict[str, Any]:
    if not call.get("requestState"):
        return asks({"step1": questions.form("Step 1: What is your name?", "name")}, "1")
    if _state_of(call) == "1":
        return asks({"step2": questions.form("Step 2: What is your favorite color?", "color")}, "2")
    return text(json.dumps(call.get("inputResponses")))


async def _asks_what_it_may(ctx: Context, call: Call) -> dict[str, Any]:
    declared = ctx.session.client_capabilities or types.ClientCapabilities()
    able = {
        "sampled": declared.sampling and questions.SAMPLE,
        "elicited": declared.elicitation and questions.form("What is your name?", "name"),
    }
    return asks({key: each for key, each in able.items() if each})


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
NAME = questions.form("What is your name?", "name")
_ROOTS = {"method": "roots/list", "params": {}}
PLAIN: dict[str, Any] = {"type": "object"}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TEXT = {"type": "string"}
TOOLS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "test_simple_text": (
        _says({"type": "text", "text": "This is a simple text response for testing."}),
        PLAIN,
    ),
    "test_image_content": (_says(IMAGE), PLAIN),
    "test_audio_content": (
        _says({"type": "audio", "data": _wav(), "mimeType": "audio/wav"}),
        PLAIN,
    ),
    "test_embedded_resource": (
        _says(
            embedded(
                "test://embedded-resource", "text/plain", "This is an embedded resource content."
            )
        ),
        PLAIN,
    ),
    "test_multiple_content_types": (
        _says(
            {"type": "text", "text": "Multiple content types test:"},
            IMAGE,
            embedded(
                "test://mixed-content-resource",
                "application/json",
                '{"test":"data","value":123}',
            ),
        ),
        PLAIN,
    ),
    "test_error_handling": (_fails, PLAIN),
    "test_tool_with_progress": (_progresses, PLAIN),
    "test_tool_with_logging": (_logs, PLAIN),
    "test_logging_tool": (_logs, PLAIN),
    "test_missing_capability": (_lacks, PLAIN),
    "test_sampling": (_samples, _object(prompt=_TEXT)),
    "test_elicitation": (_elicits, _object(message=_TEXT)),
    "test_elicitation_sep1034_defaults": (_elicits_defaults, PLAIN),
    "test_elicitation_sep1330_enums": (_elicits_enums, PLAIN),
    "json_schema_2020_12_tool": (_headers, questions.SCHEMA_2020_12),
    "test_custom_headers": (
        _headers,
        _object(region={"type": "string", "x-mcp-header": "Region"}),
    ),
    "test_streaming_elicitation": (_asking({"user_name": NAME}), PLAIN),
    "test_input_required_result_elicitation": (_asking({"user_name": NAME}), PLAIN),
    "test_input_required_result_sampling": (
        _asking({"capital_question": questions.SAMPLE}),
        PLAIN,
    ),
    "test_input_required_result_list_roots": (_asking({"client_roots": _ROOTS}), PLAIN),
    "test_input_required_result_request_state": (
        _asking({"confirm": _CONFIRM}, state="asked"),
        PLAIN,
    ),
    "test_input_required_result_tampered_state": (
        _asking({"confirm": _CONFIRM}, state="asked"),
        PLAIN,
    ),
    "test_input_required_result_multiple_inputs": (
        _asking(
            {"user_name": NAME, "greeting": questions.SAMPLE, "client_roots": _ROOTS},
            state="asked",
        ),
        PLAIN,
    ),
    "test_input_required_result_multi_round": (_two_rounds, PLAIN),
    "test_input_required_result_capabilities": (_asks_what_it_may, PLAIN),
    "greet": (_greets, _object(name=_TEXT)),
    "slow_compute": (_computes, _object(seconds={"type": "number"})),
    "failing_job": (_fails_late, PLAIN),
    "protocol_error_job": (_breaks, PLAIN),
    "confirm_delete": (_asking({"confirm": _CONFIRM}), _object(filename=_TEXT)),
    "multi_input": (_asking({"first": NAME, "second": _CONFIRM}), PLAIN),
    "test_tool_with_task": (_greets_late, PLAIN),
}
