"""What it costs to be on the host of a standby: relayed requests beside those of the active host.

Two sidecars share a journal in PostgreSQL. The same clients ask at one and then at the other; only
the ratio of the two counts, since the database shares the machine with both.
"""

import asyncio
import os
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg

from benchmarks.progress import Progress
from benchmarks.systems import understudy
from benchmarks.systems.postgres import SETTINGS
from benchmarks.systems.system import Refused
from tests.services import postgres
from tests.services.shared import url_of
from understudy.authority import create_state_dir
from understudy.authority.service.client import AsyncClient, Client

LATENCY, RATE = "latency, one client", "requests a second, 64 clients"
_CLIENTS = 64
_SCHEMA = f"understudy_relay_{os.getpid()}"


def measure(
    folder: Path, rounds: int, seconds: float, progress: Progress
) -> dict[str, list[float]]:
    """Relayed in parts of local, a figure a round; `Missing` where there is no server."""
    folder.mkdir()
    found: dict[str, list[float]] = {LATENCY: [], RATE: []}
    with postgres.running(folder / "pg", SETTINGS) as conninfo:
        homes = [folder / name for name in ("active", "standby")]
        for home in homes:
            create_state_dir(home, "bench", f"{url_of(conninfo)}&schema={_SCHEMA}")
        with ExitStack() as opened:
            for home in homes:
                opened.enter_context(understudy.serve(home, folder / "log"))
            for number in range(rounds):
                progress.say(f"relay, round {number + 1} of {rounds}")
                local, relayed = (_latency_s(home, seconds) for home in homes)
                found[LATENCY].append(relayed / local)
                local, relayed = (asyncio.run(_rate(home, seconds)) for home in homes)
                found[RATE].append(relayed / local)
        with psycopg.connect(conninfo, autocommit=True) as db:
            db.execute(f"DROP SCHEMA {_SCHEMA} CASCADE")
    return found


def _latency_s(home: Path, seconds: float) -> float:
    """The median of requests that wait for one another."""
    times = []
    with Client(home, "mcp") as client:
        give_up = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < give_up:
            _refuse(client.ask("issue.add", {"title": "work"}))
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


async def _rate(home: Path, seconds: float) -> float:
    """What many connections get together, each with one request at a time."""
    async with asyncio.TaskGroup() as group:
        begun = time.perf_counter()
        tasks = [group.create_task(_asked(home, begun + seconds)) for _ in range(_CLIENTS)]
    return sum(task.result() for task in tasks) / (time.perf_counter() - begun)


async def _asked(home: Path, until_s: float) -> int:
    count = 0
    async with AsyncClient(home, "mcp") as client:
        while time.perf_counter() < until_s:
            _refuse(await client.ask("issue.add", {"title": "work"}))
            count += 1
    return count


def _refuse(answer: dict[str, object]) -> None:
    if answer["result"] != "accepted":
        raise Refused(str(answer["diagnostic"]))
