"""Proofs that take long: `verify` and `replay`, at work in a process each, with their progress.

A walk over the whole journal would hold the console's other threads up, so it is the same command
as on a terminal, in a process of its own, which says how far it is.
"""

import asyncio
import itertools
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from ...contracts import limits

Proof = Literal["verify", "replay"]
PROOFS: Final = ("verify", "replay")
_KEPT_MAX = 16  # that have ended
_STEP = re.compile(rb"(\d+)/(\d+)")


@dataclass(slots=True)
class ProofTask:
    """One proof: how far it is, and what it said in the end."""

    number: int
    proof: Proof
    by_name: str
    began_ms: int
    rows: int = 0
    of_rows: int = 0
    report: dict[str, Any] | None = None
    ended_ms: int | None = None
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    @property
    def is_running(self) -> bool:
        return self.ended_ms is None

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "proof": self.proof,
            "by": self.by_name,
            "beganMs": self.began_ms,
            "endedMs": self.ended_ms,
            "rows": self.rows,
            "ofRows": self.of_rows,
            "report": self.report,
        }


class ProofTasks:
    """The proofs of one console; the newest are remembered."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._numbers = itertools.count(1)
        self._tasks: dict[int, ProofTask] = {}
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> list[ProofTask]:
        """The newest first."""
        return list(reversed(self._tasks.values()))

    def find(self, number: int) -> ProofTask | None:
        return self._tasks.get(number)

    async def begin(self, proof: Proof, by_name: str) -> ProofTask | None:
        """Start one; None where as many run as may."""
        if sum(each.is_running for each in self._tasks.values()) >= limits.WEB_TASKS_MAX:
            return None
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "understudy", proof, "--json", "--progress"),
            *("--state-dir", str(self._state_dir)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ,
        )
        task = ProofTask(next(self._numbers), proof, by_name, _now_ms(), process=process)
        self._tasks[task.number] = task
        for old in [each.number for each in self._tasks.values() if not each.is_running]:
            if len(self._tasks) > _KEPT_MAX:
                del self._tasks[old]
        watching = asyncio.create_task(_watched(task))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return task

    async def cancel(self, number: int) -> bool:
        """Stop one that runs."""
        task = self._tasks.get(number)
        if task is None or task.process is None or not task.is_running:
            return False
        with suppress(ProcessLookupError):
            task.process.terminate()
        return True

    async def close(self) -> None:
        for number in self._tasks:
            await self.cancel(number)
        if self._watching:
            await asyncio.wait(self._watching)


async def _watched(task: ProofTask) -> None:
    assert task.process is not None
    assert task.process.stdout is not None
    saying = asyncio.create_task(_progress(task))
    said = await task.process.stdout.read()
    await saying
    code = await task.process.wait()
    try:
        task.report = orjson.loads(said)
    except orjson.JSONDecodeError:
        why = "it was stopped" if code < 0 else f"it ended with {code}"
        task.report = {"result": "rejected", "failureClasses": [], "mismatch": why}
    task.ended_ms = _now_ms()


async def _progress(task: ProofTask) -> None:
    """Lines `ROWS/OF`, as it goes."""
    assert task.process is not None
    assert task.process.stderr is not None
    async for line in task.process.stderr:
        if found := _STEP.search(line):
            task.rows, task.of_rows = int(found[1]), int(found[2])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
