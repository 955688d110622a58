"""Work of a call that takes long: it tells how far it is, and ends when its client gives up."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import anyio

from .calls import ToolCall

_T_co = TypeVar("_T_co", covariant=True)
_News = tuple[int, int, str] | None


class LongWork(Protocol[_T_co]):
    """What may run in a thread: it looks often whether it was called off, and then ends soon."""

    def __call__(
        self,
        *,
        on_progress: Callable[[int, int, Mapping[str, Any] | None, str], None],
        cancelled: Callable[[], bool],
    ) -> Awaitable[_T_co]: ...


async def watch(call: ToolCall, work: LongWork[_T_co]) -> _T_co:
    """What came of it. It is over when this returns, also where the client gave up."""
    loop = asyncio.get_running_loop()
    news: asyncio.Queue[_News] = asyncio.Queue()
    stopped = threading.Event()

    def tell(done: int, total: int, result: Mapping[str, Any] | None, check_id: str) -> None:
        words = f"{check_id}: {result['status'] if result else 'runs'}"
        loop.call_soon_threadsafe(news.put_nowait, (done, total, words))

    running = asyncio.ensure_future(work(on_progress=tell, cancelled=stopped.is_set))
    running.add_done_callback(lambda _: news.put_nowait(None))
    try:
        while (item := await news.get()) is not None:
            await call.report(*item)
    finally:
        stopped.set()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # looked at, also where nobody waits for it
    return running.result()
