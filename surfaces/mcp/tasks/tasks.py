"""The extension `io.modelcontextprotocol/tasks`: a long call answers at once, by naming a task.

The client says in every request whether it speaks the extension; one that does not gets its
answer when the work is done. Revisions before 2026-07-28 have no word for it and are served so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    Notification,
    NotificationParams,
    RequestParams,
    ServerNotification,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, Field

from ....actors.agents import LongTask, TaskAnswered, TaskAsking, TaskFailed, TaskReply, TaskRunner
from ....contracts import limits, rfc3339

EXTENSION = "io.modelcontextprotocol/tasks"
_LISTEN = "subscriptions/listen"

Context = ServerRequestContext[Any, Any]
_POLL_MS = 500  # how often a client should ask


class _Of(RequestParams):
    task_id: str = Field(max_length=limits.ID_LENGTH_MAX)


class _Update(_Of):
    input_responses: dict[str, Any] = Field(max_length=limits.TASK_QUESTIONS_MAX)


class _News(NotificationParams):
    model_config = ConfigDict(extra="allow")


class _Notice(Notification[_News, Literal["notifications/tasks"]]):
    method: Literal["notifications/tasks"] = "notifications/tasks"


class Tasks(Extension):
    """Tasks as one client sees them.

    `owner` says whose they are.
    """

    identifier = EXTENSION

    def __init__(self, runner: TaskRunner, owner: Callable[[], str]) -> None:
        self._runner, self._owner = runner, owner
        self._long = frozenset({"instruction_run"})
        self._only: frozenset[str] = frozenset()

    def declare(self, long: frozenset[str], only: frozenset[str] = frozenset()) -> None:
        """Tools that become tasks wherever the client can follow one, and only as tasks."""
        self._long |= long
        self._only |= only

    def methods(self) -> Sequence[MethodBinding]:
        modern = frozenset(MODERN_PROTOCOL_VERSIONS)
        return (
            MethodBinding("tasks/get", _Of, self._get, modern),
            MethodBinding("tasks/update", _Update, self._update, modern),
            MethodBinding("tasks/cancel", _Of, self._cancel, modern),
        )

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        if params.name not in self._long and params.name not in self._only:
            return await call_next(ctx)
        if not _speaks(ctx):
            if params.name in self._only:
                raise _not_spoken()
            return await call_next(ctx)
        task = await self._runner.start(self._owner(), _work(ctx, call_next))
        if task is not None:
            return {"resultType": "task", **_outline(task)}
        if params.name in self._only:
            raise MCPError(INTERNAL_ERROR, "too many tasks; ask again when some have ended")
        return await call_next(ctx)  # no room for a task: the client waits, as others do

    def attach(self, server: Server[Any]) -> None:
        """Let `subscriptions/listen` tell what becomes of tasks too."""
        entry = server.get_request_handler(_LISTEN)
        if entry is None:
            return

        async def listen(ctx: Context, params: SubscriptionsListenRequestParams) -> HandlerResult:
            asked = (params.notifications.model_extra or {}).get("taskIds")
            if not asked:
                return await entry.handler(ctx, params)
            return await self._listen(ctx, params, asked, entry.handler)

        server.add_request_handler(_LISTEN, SubscriptionsListenRequestParams, listen)

    async def _get(self, ctx: Context, params: _Of) -> dict[str, Any]:
        return _whole(await self._find(ctx, params))

    async def _update(self, ctx: Context, params: _Update) -> dict[str, Any]:
        await self._runner.answer(await self._find(ctx, params), params.input_responses)
        return {}

    async def _cancel(self, ctx: Context, params: _Of) -> dict[str, Any]:
        await self._runner.cancel((await self._find(ctx, params)).task_id)
        return {}

    async def _find(self, ctx: Context, params: _Of) -> LongTask:
        if not _speaks(ctx):
            raise _not_spoken()
        if ctx.request is not None:  # a proxy that routes by the header must not be misled
            named = decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER))
            if named != params.task_id:
                raise MCPError(HEADER_MISMATCH, "Mcp-Name must be the task id of the request")
        task = await self._runner.find(self._owner(), params.task_id)
        if task is None:
            raise MCPError(INVALID_PARAMS, "no such task: it never was, or its time is over")
        return task

    async def _listen(
        self,
        ctx: Context,
        params: SubscriptionsListenRequestParams,
        asked: object,
        handler: Callable[[Context, Any], Awaitable[HandlerResult]],
    ) -> HandlerResult:
        if not _speaks(ctx):
            raise _not_spoken()
        if not isinstance(asked, list) or len(asked) > limits.TASK_WATCHED_MAX:
            raise MCPError(INVALID_PARAMS, f"taskIds: at most {limits.TASK_WATCHED_MAX} ids")
        names = {each for each in asked if isinstance(each, str)}
        found = {each for each in names if await self._runner.find(self._owner(), each) is not None}
        async with self._runner.watch(found) as news:
            told = _Told(ctx.session, found)
            pump = asyncio.create_task(_pump(ctx, told, news))
            try:
                return await handler(replace(ctx, session=cast("ServerSession", told)), params)
            finally:
                pump.cancel()


class _Told:
    """The session of a listener, whose acknowledgement names the tasks it will hear of."""

    def __init__(self, session: ServerSession, task_ids: set[str]) -> None:
        self._session, self._task_ids = session, sorted(task_ids)
        self.acknowledged = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(
        self, notification: ServerNotification, related_request_id: str | int | None = None
    ) -> None:
        if not isinstance(notification, SubscriptionsAcknowledgedNotification):
            await self._session.send_notification(notification, related_request_id)
            return
        honoured = notification.params.notifications.model_dump(by_alias=True, exclude_none=True)
        if self._task_ids:
            honoured["taskIds"] = self._task_ids
        notification.params.notifications = SubscriptionFilter(**honoured)
        await self._session.send_notification(notification, related_request_id)
        self.acknowledged.set()


async def _pump(ctx: Context, told: _Told, news: asyncio.Queue[LongTask]) -> None:
    await told.acknowledged.wait()
    while True:
        task = await news.get()
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        notice = _Notice(params=_News(**_whole(task), _meta=meta))
        await ctx.session.send_notification(cast("ServerNotification", notice), ctx.request_id)


def _work(
    ctx: Context, call_next: CallNext
) -> Callable[[TaskReply | None], Awaitable[TaskAnswered | TaskFailed | TaskAsking]]:
    """The call itself. What it asks the client for comes back as if the client had tried again."""

    async def work(reply: TaskReply | None) -> TaskAnswered | TaskFailed | TaskAsking:
        again = ctx
        if reply is not None:
            told = {"inputResponses": dict(reply.answers), "requestState": reply.state}
            again = replace(ctx, params={**(ctx.params or {}), **told})
        try:
            result = _dumped(await call_next(again))
        except Exception as error:  # noqa: BLE001 - told to the client; logged where it is ours
            return TaskFailed(_dumped(modern_error_data(error)))
        if result.get("resultType") == "input_required":
            return TaskAsking(result.get("inputRequests") or {}, result.get("requestState"))
        return TaskAnswered(result)

    return work


def _dumped(result: HandlerResult) -> dict[str, Any]:
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(result or {})


def _speaks(ctx: Context) -> bool:
    declared = ctx.session.client_capabilities
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and declared is not None and EXTENSION in (declared.extensions or {})


def _not_spoken() -> MCPError:
    return MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"this needs a client that speaks {EXTENSION}",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


def _outline(task: LongTask) -> dict[str, Any]:
    fields = {
        "taskId": task.task_id,
        "status": task.status,
        "createdAt": rfc3339.record_text(task.created_ms),
        "lastUpdatedAt": rfc3339.record_text(task.updated_ms),
        "ttlMs": task.ttl_ms,
        "pollIntervalMs": _POLL_MS,
    }
    return {**fields, "statusMessage": task.message} if task.message else fields


def _whole(task: LongTask) -> dict[str, Any]:
    fields = _outline(task)
    match task.status:
        case "completed":
            fields["result"] = task.result
        case "failed":
            fields["error"] = task.error
        case "input_required":
            fields["inputRequests"] = dict(task.questions)
        case _:
            pass
    return fields
