"""Long calls that go on after their answer: tasks, the shelf they are kept on, and those who watch.

    working <--> input_required
       |               |
       +---> completed | failed | cancelled

W1  A task is on the shelf before its owner is told its id.
W2  An ended task never changes again.
W3  A task exists for its owner alone; to all others it is unknown.
W4  What has ended stays readable for its time to live: a full shelf takes nothing new instead.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from ...contracts import limits

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
_ENDED = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class LongTask:
    """A long call, as it is now."""

    task_id: str
    owner: str
    created_ms: int
    updated_ms: int
    ttl_ms: int
    status: Status = "working"
    message: str = ""
    result: dict[str, Any] | None = None  # of a completed one
    error: dict[str, Any] | None = None  # of a failed one
    questions: Mapping[str, Any] = field(default_factory=dict)  # of one that waits for input

    @property
    def ended(self) -> bool:
        return self.status in _ENDED


class Shelf(Protocol):
    """Where tasks are kept. One that outlives the process makes their ids durable."""

    async def add(self, task: LongTask) -> bool:
        """Keep a new task; False where there is no room for it (W4)."""

    async def get(self, task_id: str) -> LongTask | None:
        """The task as it is now, unless there is none or its time is over."""

    async def put(self, task: LongTask) -> None:
        """The task has changed."""


class MemoryShelf:
    """A shelf that lasts as long as the process."""

    def __init__(self, clock_ms: Callable[[], int], room: int = limits.TASKS_MAX) -> None:
        self._clock_ms, self._room = clock_ms, room
        self._tasks: dict[str, LongTask] = {}

    async def add(self, task: LongTask) -> bool:
        if len(self._tasks) >= self._room:
            self._tasks = {key: each for key, each in self._tasks.items() if not self._over(each)}
        if len(self._tasks) >= self._room:
            return False
        self._tasks[task.task_id] = task
        return True

    async def get(self, task_id: str) -> LongTask | None:
        task = self._tasks.get(task_id)
        if task is not None and self._over(task):
            del self._tasks[task_id]
            return None
        return task

    async def put(self, task: LongTask) -> None:
        self._tasks[task.task_id] = task

    def _over(self, task: LongTask) -> bool:
        return task.ended and self._clock_ms() > task.created_ms + task.ttl_ms


@dataclass(frozen=True, slots=True)
class TaskAnswered:
    """The work is done, and this is its result."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """The work broke the protocol; the JSON-RPC error says how."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskAsking:
    """The work goes on once the client has answered all of these."""

    questions: Mapping[str, Any]
    state: str | None = None


@dataclass(frozen=True, slots=True)
class TaskReply:
    """What the client answered, with the state that the questions came with."""

    answers: Mapping[str, Any]
    state: str | None


Work = Callable[[TaskReply | None], Awaitable[TaskAnswered | TaskFailed | TaskAsking]]


@dataclass(slots=True)
class _Inbox:
    """What a task that waits for input has been told so far."""

    answers: dict[str, Any] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class TaskRunner:
    """All long calls of one process; `close` cancels those that still run."""

    def __init__(
        self, shelf: Shelf | None = None, *, clock_ms: Callable[[], int] | None = None
    ) -> None:
        self._clock_ms = clock_ms or _wall_ms
        self._shelf: Shelf = shelf or MemoryShelf(self._clock_ms)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._inboxes: dict[str, _Inbox] = {}
        self._watchers: dict[str, set[asyncio.Queue[LongTask]]] = {}

    async def start(self, owner: str, work: Work) -> LongTask | None:
        """Begin the work and say under which id it is found; None where there is no room."""
        now_ms = self._clock_ms()
        task = LongTask(secrets.token_hex(16), owner, now_ms, now_ms, limits.TASK_TTL_MS)
        if len(self._running) >= limits.TASKS_RUNNING_MAX or not await self._shelf.add(task):
            return None
        running = asyncio.create_task(self._carry(task, work), name=f"task {task.task_id}")
        self._running[task.task_id] = running
        running.add_done_callback(lambda _: self._running.pop(task.task_id, None))
        return task

    async def find(self, owner: str, task_id: str) -> LongTask | None:
        """The owner's task (W3)."""
        task = await self._shelf.get(task_id)
        return task if task is not None and task.owner == owner else None

    async def answer(self, task: LongTask, answers: Mapping[str, Any]) -> None:
        """Hand over answers; the ones to questions that are not asked any more are passed over."""
        inbox = self._inboxes.get(task.task_id)
        current = await self._shelf.get(task.task_id)
        if inbox is None or current is None:
            return
        inbox.answers.update({key: answers[key] for key in current.questions.keys() & answers})
        left = {key: each for key, each in current.questions.items() if key not in inbox.answers}
        if left != current.questions:
            status = "input_required" if left else "working"
            await self._change(current, questions=left, status=status)
        if not left:
            inbox.complete.set()

    async def cancel(self, task_id: str) -> None:
        """Stop the work, if it still goes on, and wait until it has stopped."""
        running = self._running.get(task_id)
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
        current = await self._shelf.get(task_id)
        if current is not None and not current.ended:  # W2
            await self._end(current, "cancelled", message="cancelled before it was done")

    @asynccontextmanager
    async def watch(self, task_ids: set[str]) -> AsyncIterator[asyncio.Queue[LongTask]]:
        """A queue of what becomes of these tasks; in one that is not read, the newest remains."""
        queue: asyncio.Queue[LongTask] = asyncio.Queue(limits.TASK_NEWS_MAX)
        for task_id in task_ids:
            self._watchers.setdefault(task_id, set()).add(queue)
        try:
            yield queue
        finally:
            for task_id in task_ids:
                self._watchers[task_id].discard(queue)
                if not self._watchers[task_id]:
                    del self._watchers[task_id]

    async def close(self) -> None:
        """Cancel all that still goes on; the shelf may have forgotten what has just ended."""
        for task_id in list(self._running):
            await self.cancel(task_id)

    async def _carry(self, task: LongTask, work: Work) -> None:
        reply: TaskReply | None = None
        try:
            for turn in range(limits.TASK_TURNS_MAX):
                match await work(reply):
                    case TaskAnswered(result):
                        return await self._end(task, "completed", result=result)
                    case TaskFailed(error):
                        return await self._end(task, "failed", error=error)
                    case TaskAsking(questions, state):
                        reply = TaskReply(await self._ask(task, turn, questions), state)
            await self._end(task, "cancelled", message="it asked too often")
        finally:
            self._inboxes.pop(task.task_id, None)

    async def _ask(self, task: LongTask, turn: int, questions: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for all answers. A key is never asked twice: each turn has its own."""
        inbox = self._inboxes[task.task_id] = _Inbox()
        asked = {f"{turn}.{key}": each for key, each in questions.items()}
        await self._change(task, status="input_required", questions=asked)
        await inbox.complete.wait()
        return {key.partition(".")[2]: each for key, each in inbox.answers.items()}

    async def _end(
        self,
        task: LongTask,
        status: Status,
        *,
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        message: str = "",
    ) -> None:
        """Its time to live begins anew, so that the end of long work can still be read (W4)."""
        ttl_ms = self._clock_ms() - task.created_ms + limits.TASK_TTL_MS
        await self._change(
            task,
            status=status,
            result=result,
            error=error,
            message=message,
            questions={},
            ttl_ms=ttl_ms,
        )

    async def _change(self, task: LongTask, **changes: Any) -> None:  # as in `replace`
        changed = replace(task, updated_ms=self._clock_ms(), **changes)
        await self._shelf.put(changed)
        for queue in self._watchers.get(task.task_id, ()):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(changed)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
