"""Redis: `UNDERSTUDY_REDIS_URL`, else `redis-server` on the path.

No wheel carries a server that is still maintained, so there is none to look for.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.services.server import Missing, Server


@contextmanager
def running(folder: Path, settings: dict[str, str]) -> Iterator[str]:
    """The URL of a server; ours are made with these settings."""
    if url := os.environ.get("UNDERSTUDY_REDIS_URL"):
        yield url
        return
    program = shutil.which("redis-server")
    if program is None:
        raise Missing("no UNDERSTUDY_REDIS_URL, and no redis-server on the path")
    folder.mkdir()
    socket = folder / "redis.sock"
    ours = {"port": "0", "unixsocket": str(socket), "dir": str(folder)} | settings
    flags = [part for name, value in ours.items() for part in (f"--{name}", value)]
    with Server([program, *flags], folder / "log") as server:
        url = f"unix://{socket}"
        server.wait_for(lambda: _answers(url))
        yield url


def _answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as client:
            return bool(client.ping())
    except (redis.ConnectionError, redis.BusyLoadingError):
        return False
