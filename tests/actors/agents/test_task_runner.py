"""Long calls: what becomes of them, who may see them, and how many there may be."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.limits import stands_on
from understudy.actors.agents.task_runner import (
    LongTask,
    MemoryShelf,
    TaskAnswered,
    TaskAsking,
    TaskFailed,
    TaskReply,
    TaskRunner,
)
from understudy.contracts import limits

pytestmark = pytest.mark.anyio
_DONE = TaskAnswered({"content": []})


@dataclass
class Clock:
    now_ms: int = 1_000

    def __call__(self) -> int:
        return self.now_ms


def at_once(
    outcome: TaskAnswered | TaskFailed,
) -> Callable[[TaskReply | None], Awaitable[TaskAnswered | TaskFailed]]:
    async def work(reply: TaskReply | None) -> TaskAnswered | TaskFailed:
        return outcome

    return work


async def forever(reply: TaskReply | None) -> TaskAnswered:
    await asyncio.Event().wait()
    return _DONE


async def settled(works: TaskRunner, task: LongTask) -> LongTask:
    """The task, once it waits for something or has ended."""
    async with works.watch({task.task_id}) as news:
        while (now := await works.find(task.owner, task.task_id)) is not None:
            if now.status != "working":
                return now
            await asyncio.wait_for(news.get(), 30)
    raise AssertionError("it is unknown")


async def started(
    works: TaskRunner, work: Callable[..., Awaitable[TaskAnswered | TaskFailed | TaskAsking]]
) -> LongTask:
    task = await works.start("ada", work)
    assert task is not None
    return task


async def test_a_task_is_found_before_its_id_is_told() -> None:  # W1
    works = TaskRunner()
    task = await started(works, forever)
    assert await works.find("ada", task.task_id) == task
    assert (task.status, task.ended) == ("working", False)
    await works.close()


async def test_the_end_of_a_task_can_be_read() -> None:
    works = TaskRunner()
    done = await settled(works, await started(works, at_once(_DONE)))
    assert (done.status, done.result) == ("completed", {"content": []})
    error = {"code": -32603, "message": "broken"}
    broken = await settled(works, await started(works, at_once(TaskFailed(error))))
    assert (broken.status, broken.error, broken.result) == ("failed", error, None)


async def test_an_ended_task_never_changes_again() -> None:  # W2
    works = TaskRunner()
    done = await settled(works, await started(works, at_once(_DONE)))
    await works.cancel(done.task_id)
    await works.answer(done, {"0.name": {}})
    assert await works.find("ada", done.task_id) == done


async def test_a_task_exists_for_its_owner_alone() -> None:  # W3
    works = TaskRunner()
    task = await started(works, forever)
    assert await works.find("bob", task.task_id) is None
    assert await works.find("", task.task_id) is None
    assert await works.find("ada", "0" * 32) is None
    await works.close()


async def test_a_cancelled_task_has_stopped() -> None:
    works = TaskRunner()
    stopped = asyncio.Event()

    async def work(reply: TaskReply | None) -> TaskAnswered:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return _DONE

    task = await started(works, work)
    await asyncio.sleep(0)
    await works.cancel(task.task_id)
    assert stopped.is_set()
    assert (await settled(works, task)).status == "cancelled"


async def test_a_task_that_is_cancelled_before_it_began_is_cancelled() -> None:
    works = TaskRunner()
    task = await started(works, forever)
    await works.cancel(task.task_id)
    assert (await settled(works, task)).status == "cancelled"


async def test_work_that_asks_goes_on_when_all_is_answered() -> None:
    works = TaskRunner()

    async def work(reply: TaskReply | None) -> TaskAnswered | TaskAsking:
        if reply is None:
            return TaskAsking({"name": {"method": "a"}, "age": {"method": "b"}}, "state")
        assert reply.state == "state"
        return TaskAnswered(dict(reply.answers))

    task = await settled(works, await started(works, work))
    assert (task.status, set(task.questions)) == ("input_required", {"0.name", "0.age"})
    await works.answer(task, {"0.name": 1, "never asked": 2})
    half = await works.find("ada", task.task_id)
    assert half is not None
    assert (half.status, set(half.questions)) == ("input_required", {"0.age"})
    await works.answer(task, {"0.name": 3, "0.age": 4})
    for _ in range(3):
        await asyncio.sleep(0)
    done = await works.find("ada", task.task_id)
    assert done is not None
    assert (done.status, done.result) == ("completed", {"name": 1, "age": 4})


@stands_on("TASK_TURNS_MAX")
async def test_no_question_is_asked_twice_under_one_key() -> None:
    works = TaskRunner()
    keys: list[str] = []

    async def work(reply: TaskReply | None) -> TaskAsking:
        return TaskAsking({"again": {}})

    task = await started(works, work)
    for _ in range(limits.TASK_TURNS_MAX):
        task = await settled(works, task)
        keys += task.questions
        await works.answer(task, dict.fromkeys(task.questions, True))
        async with works.watch({task.task_id}) as news:
            await asyncio.wait_for(news.get(), 30)
    assert len(set(keys)) == limits.TASK_TURNS_MAX
    assert (await settled(works, task)).status == "cancelled"  # it asked too often


@stands_on("TASK_TTL_MS")
async def test_an_end_is_kept_for_its_time_and_no_room_is_made_by_forgetting_it() -> None:  # W4
    clock = Clock()
    works = TaskRunner(MemoryShelf(clock, room=2), clock_ms=clock)
    running = await started(works, forever)
    clock.now_ms += limits.TASK_TTL_MS
    ended = await settled(works, await started(works, at_once(_DONE)))
    assert await works.start("ada", forever) is None
    clock.now_ms += limits.TASK_TTL_MS
    assert await works.start("ada", forever) is None
    assert await works.find("ada", ended.task_id) is not None
    clock.now_ms += 1
    assert await works.find("ada", ended.task_id) is None
    assert await works.find("ada", running.task_id) is not None  # what runs is never over
    last = await works.start("ada", forever)
    assert last is not None
    await works.close()


async def test_a_stop_reaches_all_even_if_one_has_ended_and_its_time_is_over() -> None:
    """The loop hears of an end after those who watch, and may have been frozen between."""
    clock = Clock()
    works = TaskRunner(MemoryShelf(clock), clock_ms=clock)
    brief = await started(works, at_once(_DONE))
    lasting = await started(works, forever)
    async with works.watch({brief.task_id}) as news:
        await news.get()
    clock.now_ms += limits.TASK_TTL_MS + 1
    assert brief.task_id in works._running
    assert await works.find("ada", brief.task_id) is None
    await works.close()
    assert (await settled(works, lasting)).status == "cancelled"


@stands_on("TASKS_MAX")
async def test_a_shelf_has_room_for_so_many() -> None:
    shelf = MemoryShelf(Clock())

    async def fits(number: int) -> bool:
        return await shelf.add(LongTask(f"task-{number}", "ada", 1_000, 1_000, limits.TASK_TTL_MS))

    assert all([await fits(number) for number in range(limits.TASKS_MAX)])
    assert not await fits(limits.TASKS_MAX)


@stands_on("TASKS_RUNNING_MAX")
async def test_only_so_many_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TASKS_RUNNING_MAX", 2)
    works = TaskRunner()
    for _ in range(2):
        await started(works, forever)
    assert await works.start("ada", forever) is None
    await works.close()
    assert await works.start("ada", forever) is not None
    await works.close()


@stands_on("TASK_NEWS_MAX")
async def test_a_listener_that_does_not_read_keeps_the_newest() -> None:
    works = TaskRunner()
    gate = asyncio.Event()

    async def work(reply: TaskReply | None) -> TaskAnswered:
        await gate.wait()
        return _DONE

    task = await started(works, work)
    async with works.watch({task.task_id, "unknown"}) as news:
        for _ in range(limits.TASK_NEWS_MAX):
            news.put_nowait(task)
        async with works.watch({task.task_id}) as other:
            gate.set()
            await asyncio.wait_for(other.get(), 30)
        told = [news.get_nowait() for _ in range(news.qsize())]
    assert len(told) == limits.TASK_NEWS_MAX
    assert told[-1].status == "completed"
