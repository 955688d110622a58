"""Redis: a hash per item, a Lua script per step, the append-only file synced before each answer.

`appendfsync always` is the only setting under which an answer means that the step is on disk;
whatever came in one turn of its event loop shares one fsync. With a window the three steps go in
pipelines without MULTI, hiredis reads the answers. Snapshots and rewrites of the file are off: in a
run this short they would only be noise. There is no evidence beyond the file.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import redis

from benchmarks.systems.system import TTL_SECONDS, Refused, Unfit, names
from tests.services.redis import running

_NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
_CLAIM = (
    _NOW
    + """
local item = redis.call('HMGET', KEYS[1], 'state', 'due')
if item[1] ~= 'open' and not (item[1] == 'held' and tonumber(item[2]) < now) then return 0 end
redis.call('HSET', KEYS[1], 'state', 'held', 'owner', ARGV[1], 'due', now + ARGV[2])
return redis.call('HINCRBY', KEYS[1], 'fence', 1)
"""
)
_HELD = (
    _NOW
    + """
local item = redis.call('HMGET', KEYS[1], 'state', 'owner', 'fence', 'due')
if item[1] ~= 'held' or item[2] ~= ARGV[1] or item[3] ~= ARGV[2] or tonumber(item[4]) < now then
    return 0
end
"""
)
_RENEW = _HELD + "redis.call('HSET', KEYS[1], 'due', now + ARGV[3]) return tonumber(ARGV[2])"
_COMPLETE = _HELD + "redis.call('HSET', KEYS[1], 'state', 'closed') return tonumber(ARGV[2])"
_TTL_MS = TTL_SECONDS * 1000
_SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "auto-aof-rewrite-percentage": "0",
    "save": "",
    "maxclients": "1024",
}


class Scripts:
    """A server of our own, or the one that the environment names, with keys of our own."""

    name = "Redis"
    evidence = "none"

    def __init__(self, folder: Path) -> None:
        self._opened = ExitStack()
        self._url = self._opened.enter_context(running(folder, _SETTINGS))
        self._client = redis.Redis.from_url(self._url)
        try:
            self._refuse_unfit()
        except BaseException:
            self.stop()
            raise
        self._scripts = [
            str(self._client.script_load(text)) for text in (_CLAIM, _RENEW, _COMPLETE)
        ]
        self._prefix, self._made = f"understudy-bench:{id(self)}:", 0

    def prepare(self, count: int) -> None:
        self._drop()
        with self._client.pipeline(transaction=False) as pipe:
            for key in names(count):
                pipe.hset(self._prefix + key, mapping={"state": "open", "fence": 0})
            pipe.execute()
        self._made = count

    def connect(self, owner: str) -> "Worker":
        return Worker(self._url, owner, self._prefix, self._scripts)

    def stop(self) -> None:
        self._client.close()
        self._opened.close()

    def _drop(self) -> None:
        keys = iter(names(self._made))
        while batch := [self._prefix + key for key in islice(keys, 1000)]:
            self._client.unlink(*batch)

    def _refuse_unfit(self) -> None:
        found = self._client.config_get("append*")
        if (found.get("appendonly"), found.get("appendfsync")) != ("yes", "always"):
            self._client.close()
            raise Unfit(f"not durable: {found}")


class Worker:
    def __init__(self, url: str, owner: str, prefix: str, scripts: list[str]) -> None:
        self._client = redis.Redis.from_url(url)
        self._owner, self._prefix = owner, prefix
        self._claim, self._renew, self._complete = scripts

    def claim(self, keys: Sequence[str]) -> list[int]:
        return self._steps(
            [(self._claim, 1, self._prefix + key, self._owner, _TTL_MS) for key in keys]
        )

    def renew(self, keys: Sequence[str], fences: Sequence[int]) -> list[int]:
        held = zip(keys, fences, strict=True)
        calls = [
            (self._renew, 1, self._prefix + key, self._owner, fence, _TTL_MS) for key, fence in held
        ]
        return self._steps(calls)

    def complete(self, keys: Sequence[str], fences: Sequence[int]) -> None:
        held = zip(keys, fences, strict=True)
        self._steps(
            [(self._complete, 1, self._prefix + key, self._owner, fence) for key, fence in held]
        )

    def close(self) -> None:
        self._client.close()

    def _steps(self, calls: Sequence[tuple[Any, ...]]) -> list[int]:
        """The scripts answer with the fence, or with 0."""
        if len(calls) == 1:
            answers = [self._client.evalsha(*calls[0])]
        else:
            with self._client.pipeline(transaction=False) as pipe:
                for call in calls:
                    pipe.evalsha(*call)
                answers = pipe.execute()
        if not all(answers):
            raise Refused(f"{answers.count(0)} of {len(calls)} steps")
        return answers
