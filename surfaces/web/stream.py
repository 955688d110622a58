"""Server-sent events: one stream for a page, which says that something changed, not each thing.

    id: 4711
    data: {"seq":4711,"rows":812,"refused":3,"works":["issue/us-1",...],"more":true,"atMs":...}

The number of the last row is the event's id: a browser that lost its connection says it, and hears
in one event what it missed. A reader that is slow gets fewer and larger summaries, since nothing is
queued for it; one that does not read at all is hung up on.

    I1  One look at the journal serves all streams.
    I2  There are at most `WEB_STREAMS_MAX`; one more is told when to come again.
    I3  What a stream keeps in memory does not grow.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import takewhile
from typing import Any

import orjson
from starlette.types import Receive, Send

from ...authority import Unavailable
from ...contracts import limits
from .desk import ConsoleDesk

_LOOK_SECONDS = 0.25  # between two looks, while there is a stream
_BEAT_SECONDS = 15.0  # without news; so that a dead connection is noticed
_STALLED_SECONDS = 20.0  # for a reader to take an event
_WORKS_MAX = 50  # named in one event
_RETRY_MS = 2_000


class WebStreams:
    """All streams of one console."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk
        self._bells: set[asyncio.Event] = set()  # one for each stream: there is news, or it is over
        self._following: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def count(self) -> int:
        return len(self._bells)

    async def serve(self, receive: Receive, send: Send, after: int | None) -> bool:
        """Events after this row until the reader leaves; False where there is no room (I2)."""
        if len(self._bells) >= limits.WEB_STREAMS_MAX or self._closing:
            return False
        bell = asyncio.Event()
        self._bells.add(bell)
        if self._following is None:
            self._following = asyncio.create_task(self._follow())
        gone = asyncio.create_task(_left(receive))
        gone.add_done_callback(lambda _: bell.set())
        try:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for event in self._events(after, bell, gone):
                async with asyncio.timeout(_STALLED_SECONDS):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            pass  # it does not read; the server hangs up
        finally:
            gone.cancel()
            self._bells.discard(bell)
        return True

    async def _events(
        self, after: int | None, bell: asyncio.Event, gone: "asyncio.Task[None]"
    ) -> AsyncIterator[bytes]:
        head = (await self._desk.freshen()).head
        seq = head if after is None or after > head else after
        yield b"retry: %d\n\n" % _RETRY_MS
        yield _event("hello", seq, {"seq": seq, "head": head, "atMs": _now_ms()})
        while not gone.done() and not self._closing:
            if self._desk.time.index_high > seq:
                found = self._summary(seq)
                seq = found["seq"]
                yield _event("rows", seq, found)
            try:
                async with asyncio.timeout(_BEAT_SECONDS):
                    await bell.wait()
            except TimeoutError:
                yield b": still here\n\n"
            bell.clear()

    def _summary(self, after: int) -> dict[str, Any]:
        """What has happened since, in one event, whether that is one row or a million."""
        high = self._desk.time.index_high
        newest = list(takewhile(lambda each: each.step.seq > after, reversed(self._desk.recent)))
        works = dict.fromkeys(work for each in newest for work in each.works)
        named = list(works)[:_WORKS_MAX]
        has_gap = not newest or newest[-1].step.seq > after + 1
        return {
            "seq": high,
            "rows": high - after,
            "refused": sum(each.step.is_refused for each in newest),
            "works": named,
            "more": has_gap or len(works) > len(named),
            "atMs": _now_ms(),
        }

    async def _follow(self) -> None:
        """One look for all, while there is one to look for (I1)."""
        try:
            while self._bells and not self._closing:
                before = self._desk.time.index_high
                with suppress(Unavailable):  # it is being restored; streams stay
                    await self._desk.freshen()
                if self._desk.time.index_high != before:
                    self._ring()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._following = None

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()

    def close(self) -> None:
        """End all of them."""
        self._closing = True
        self._ring()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(kind: str, seq: int, data: dict[str, Any]) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), seq, orjson.dumps(data))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
