"""How long clients wait when the active authority of a shared journal ends, and a standby goes on.

Two sidecars share a journal in PostgreSQL, and a client that knows both state directories asks one
after the other. The clock runs from the signal to the first answer after it.
"""

import os
import signal
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import psycopg

from benchmarks.progress import Progress
from benchmarks.systems import understudy
from benchmarks.systems.postgres import SETTINGS
from benchmarks.systems.system import Refused
from tests.services import postgres
from tests.services.shared import url_of
from understudy.authority import create_state_dir
from understudy.authority.service.client import Client

WAYS = {"told to end": signal.SIGTERM, "killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
_SCHEMA = f"understudy_failover_{os.getpid()}"
_PATIENCE_SECONDS = 60.0


def measure(folder: Path, rounds: int, progress: Progress) -> dict[str, list[float]]:
    """Seconds for each way to end, a figure a round; `Missing` where there is no server."""
    folder.mkdir()
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with postgres.running(folder / "pg", SETTINGS) as conninfo:
        homes = [folder / name for name in ("one", "two")]
        for home in homes:
            create_state_dir(home, "bench", f"{url_of(conninfo)}&schema={_SCHEMA}")
        for number in range(rounds):
            for way, ending in WAYS.items():
                progress.say(f"fail-over, round {number + 1} of {rounds}: {way}")
                found[way].append(_seconds(homes, ending, folder / "log"))
        with psycopg.connect(conninfo, autocommit=True) as db:
            db.execute(f"DROP SCHEMA {_SCHEMA} CASCADE")
    return found


def _seconds(homes: list[Path], ending: signal.Signals, log: Path) -> float:
    with ExitStack() as opened:
        servers = [opened.enter_context(understudy.serve(home, log)) for home in homes]
        client = Client(homes, "mcp", retry_seconds=_PATIENCE_SECONDS, silence_seconds=1.0)
        opened.enter_context(client)
        names = (f"{time.time_ns()}-{number}" for number in count())
        _ask(client, next(names))
        active = next(each for each in servers if each.process.pid == client.server["pid"])
        opened.callback(active.kill)
        begun = time.perf_counter()
        active.process.send_signal(ending)
        while client.server["pid"] == active.process.pid:
            _ask(client, next(names))
        return time.perf_counter() - begun


def _ask(client: Client, name: str) -> None:
    answer = client.ask("issue.add", {"title": name})
    if answer["result"] != "accepted":
        raise Refused(answer["diagnostic"])
