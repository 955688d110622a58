"""NATS JetStream KV: a key is created, updated and deleted, each with the revision it expects.

The revision is the fence. `sync_interval: always` is the only setting under which an answer means
that the step is on disk. Its client is asyncio, so a window is as many tasks on one connection.
Every claim creates a key that never was, which spares it the look for a tombstone. A bucket keeps
one revision of a key; there is no evidence beyond that.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import nats
from nats.aio.client import Client as Nats
from nats.js.errors import APIError
from nats.js.kv import KeyValue

from benchmarks.systems.system import Refused
from tests.services.nats import running

_SECONDS_MAX = 30.0
_Result = TypeVar("_Result")


class Bucket:
    """A server of our own, or the one that the environment names, with a bucket of our own."""

    name = "NATS JetStream KV"
    evidence = "none"

    def __init__(self, folder: Path) -> None:
        self._opened = ExitStack()
        self._url = self._opened.enter_context(running(folder, sync_interval="always"))
        self._bucket, self._made = "", 0

    def prepare(self, count: int) -> None:
        del count  # a key comes to be when it is claimed
        asyncio.run(self._renew_bucket())

    def connect(self, owner: str) -> "Worker":
        return Worker(self._url, self._bucket, owner)

    def stop(self) -> None:
        asyncio.run(self._drop_bucket())
        self._opened.close()

    async def _renew_bucket(self) -> None:
        await self._drop_bucket()
        self._made += 1
        self._bucket = f"understudy-bench-{self._made}"
        async with await nats.connect(self._url) as client:
            await client.jetstream().create_key_value(bucket=self._bucket, history=1)

    async def _drop_bucket(self) -> None:
        if self._bucket:
            async with await nats.connect(self._url) as client:
                await client.jetstream().delete_key_value(self._bucket)
            self._bucket = ""


class Worker:
    def __init__(self, url: str, bucket: str, owner: str) -> None:
        self._owner = owner.encode()
        self._loop = asyncio.new_event_loop()
        self._client, self._store = self._wait(_opened(url, bucket))

    def claim(self, keys: Sequence[str]) -> list[int]:
        return self._all(self._store.create(key, self._owner) for key in keys)

    def renew(self, keys: Sequence[str], fences: Sequence[int]) -> list[int]:
        held = zip(keys, fences, strict=True)
        return self._all(self._store.update(key, self._owner, last=fence) for key, fence in held)

    def complete(self, keys: Sequence[str], fences: Sequence[int]) -> None:
        held = zip(keys, fences, strict=True)
        self._all(self._store.delete(key, last=fence) for key, fence in held)

    def close(self) -> None:
        self._wait(self._client.close())
        self._loop.close()

    def _all(self, steps: Iterable[Coroutine[Any, Any, int]]) -> list[int]:
        try:
            return self._wait(_gathered(steps))
        except APIError as error:
            raise Refused(str(error)) from error

    def _wait(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self._loop.run_until_complete(work)


async def _opened(url: str, bucket: str) -> tuple[Nats, KeyValue]:
    client = await nats.connect(url)
    stream = client.jetstream(timeout=_SECONDS_MAX)
    return client, await stream.key_value(bucket)


async def _gathered(steps: Iterable[Coroutine[Any, Any, int]]) -> list[int]:
    return await asyncio.gather(*steps)
