"""Clients that keep a log, each a process of its own: what was asked, when, and what was heard.

A call is written down before it is sent, and its answer after it was heard.
"""

import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import Program
from understudy.authority.client import Client

CREW = ("ada", "bob", "cyd", "dan")
ISSUES = ("x", "y", "z")
ROOT = Path(__file__).parents[2]


def work(state_dir: str, log: str, name: str, seed: str) -> None:
    """Claim, renew and release until told to stop. Runs as a process of its own."""
    chance = random.Random(seed)
    numbers = count()
    with Client(Path(state_dir), "mcp", retry_seconds=PATIENCE_SECONDS) as connection:
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        def ask(action: str, **payload: object) -> dict[str, Any]:
            payload["requestId"] = f"{name}-{next(numbers)}"
            call = {"action": action, "payload": payload, "at": time.monotonic_ns()}
            os.write(handle, orjson.dumps(call) + b"\n")
            answer = connection.ask(action, payload)
            done = {"requestId": payload["requestId"], "answer": answer}
            os.write(handle, orjson.dumps(done | {"at": time.monotonic_ns()}) + b"\n")
            return answer

        while not Path(log).with_suffix(".stop").exists():
            issue = chance.choice(ISSUES)
            claim = ask("issue.claim", id=issue, assignee=name)
            if claim["result"] != "accepted":
                continue
            lease = claim["issue"]["lease"]
            holder = {"id": issue, "assignee": name}
            holder |= {"leaseId": lease["leaseId"], "fence": lease["fence"]}
            for _ in range(chance.randrange(3)):
                ask("issue.lease_renew", **holder)
            ask("issue.lease_release", **holder)


class Crew:
    """Several clients, each a process with a log. Leaving the block ends them."""

    def __init__(self, state_dir: Path, folder: Path, seed: int) -> None:
        self._logs = {name: folder / f"{name}.log" for name in CREW}
        self._processes = {
            name: Program(
                [sys.executable, "-m", "tests.faults.crew", state_dir, log, name, f"{seed}{name}"],
                cwd=ROOT,
            )
            for name, log in self._logs.items()
        }

    def assemble(self) -> Self:
        """Wait until everybody has found the sidecar."""
        eventually(lambda: all(log.exists() for log in self._logs.values()))
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.__exit__(kind, error, trace)

    def kill(self, name: str) -> None:
        self._processes[name].kill()

    def hear(self, more: int) -> None:
        """Wait until the crew has heard so many more answers."""
        wanted = self._lines() + 2 * more
        eventually(lambda: self._lines() >= wanted)

    def finish(self) -> None:
        """Everybody finishes the term at hand; none of those who live may fail."""
        for log in self._logs.values():
            log.with_suffix(".stop").touch()
        for process in self._processes.values():
            assert process.wait() in (0, -signal.SIGKILL), process.complaint()

    def calls(self) -> list[dict[str, Any]]:
        """Every call with its answer, if there was one."""
        calls: dict[str, dict[str, Any]] = {}
        for log in self._logs.values():
            for line in log.read_bytes().splitlines():
                entry = orjson.loads(line)
                if "answer" in entry:
                    calls[entry["requestId"]] |= {"answer": entry["answer"], "until": entry["at"]}
                else:
                    calls[entry["payload"]["requestId"]] = entry
        return list(calls.values())

    def _lines(self) -> int:
        return sum(log.read_bytes().count(b"\n") for log in self._logs.values() if log.exists())


if __name__ == "__main__":
    work(*sys.argv[1:])
