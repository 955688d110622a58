"""Runners, dispatchers and those who complete jobs, each a process: they race for specs and jobs.

One program is started and forks, so that many hands cost one start. Every hand works until it is
told to stop, and then gives back what it holds; one whose program is gone ends.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import orjson

from tests.patience import PATIENCE_SECONDS
from tests.surfaces.process import ROOT, Program
from understudy.actors.specs.job_files import Courier
from understudy.actors.specs.lease_loop import Post
from understudy.actors.specs.runner import ChainRunner
from understudy.actors.specs.shell import Round, Shift
from understudy.authority.service.client import Client, ClientCall

TTL_MS = 30_000
ROLES = ("runner", "dispatcher", "completer")
_PAUSE_SECONDS = 0.02
_TURN_MS_MAX = 200  # these hands are not told that there is news


# --- in each process ------------------------------------------------------------------------------


def work(role: str, name: str, state_dir: Path, folder: Path) -> None:
    """Until the test says stop."""
    told: list[int] = []

    def hear(number: int, _: FrameType | None) -> None:
        told.append(number)

    signal.signal(signal.SIGTERM, hear)
    parent = os.getppid()

    def is_over() -> bool:
        return bool(told) or os.getppid() != parent

    if role == "completer":
        complete(name, state_dir, is_over)
        return
    post = Post(name, f"r{os.getpid()}", TTL_MS)
    patience = float(PATIENCE_SECONDS)
    shift: Shift = (
        Shift(ChainRunner(post), state_dir, retry_seconds=patience)
        if role == "runner"
        else Round(Courier(post), state_dir, folder, retry_seconds=patience)
    )
    with closing(shift):
        while not is_over():
            time.sleep(min(shift.turn(), _TURN_MS_MAX) / 1_000)
        shift.stop("told to")


def complete(name: str, state_dir: Path, is_over: Callable[[], bool]) -> None:
    """Claim whatever was dispatched, and say that it is done."""
    with Client(state_dir, "mcp", retry_seconds=PATIENCE_SECONDS) as client:
        while not is_over():
            listed = client.ask("job.roster", {"query": "pending", "limit": 256})["jobs"]
            free = [each["jobId"] for each in listed if "dispatched" in each]
            payload = {"worker": name, "leaseDurationMs": 86_400_000}
            claims = [ClientCall("job.claim", payload | {"jobId": each}) for each in free]
            granted = [each["job"] for each in client.ask_many(claims) if "job" in each]
            ends = [ClientCall("job.complete", _held(name, each)) for each in granted]
            client.ask_many(ends)
            if not free:
                time.sleep(_PAUSE_SECONDS)


def _held(name: str, job: dict[str, Any]) -> dict[str, Any]:
    lease = job["lease"]
    proof = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
    return {"jobId": job["jobId"], "worker": name} | proof


def _ended(pids: list[int]) -> list[int]:
    """How they ended; where the process that started us is gone, so are they."""
    parent, left, ends = os.getppid(), set(pids), []
    while left:
        for pid in sorted(left):
            if os.getppid() != parent:
                os.kill(pid, signal.SIGKILL)
            found, end = os.waitpid(pid, os.WNOHANG)
            if found:
                left.remove(pid)
                ends.append(end)
        time.sleep(_PAUSE_SECONDS)
    return ends


def main(state_dir: str, folder: str, *counts: str) -> None:
    """Fork all hands, say who they are, and wait for them; the worst of their ends is ours."""
    pids: dict[str, int] = {}
    for role, count in zip(ROLES, counts, strict=True):
        for number in range(int(count)):
            name = f"{role}{number}"
            pid = os.fork()
            if pid == 0:
                work(role, name, Path(state_dir), Path(folder))
                os._exit(0)
            pids[name] = pid
    sys.stdout.write(orjson.dumps(pids).decode() + "\n")
    sys.stdout.flush()
    ends = _ended(list(pids.values()))
    wrong = [end for end in ends if end not in (0, signal.SIGKILL)]
    sys.exit(1 if wrong else 0)


# --- in the test ----------------------------------------------------------------------------------


class Hands(Program):
    """So many of each role at one authority. Leaving the block ends them all."""

    def __init__(self, state_dir: Path, folder: Path, *counts: int) -> None:
        words: list[str | Path] = [sys.executable, "-m", "tests.faults.hands", state_dir, folder]
        super().__init__([*words, *map(str, counts)], pipes=True, cwd=ROOT)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.complaint()
        self.pids: dict[str, int] = orjson.loads(line)
        self.frozen: set[str] = set()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self.pids):
            self.hit(name, signal.SIGKILL)
        super().__exit__(kind, error, trace)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def hit(self, name: str, number: signal.Signals) -> None:
        """A signal to one of them; one that was killed is gone for good."""
        with suppress(ProcessLookupError):
            os.kill(self.pids[name], number)
        if number is signal.SIGKILL:
            del self.pids[name]

    def freeze(self, name: str) -> None:
        self.hit(name, signal.SIGSTOP)
        self.frozen.add(name)

    def thaw(self) -> None:
        for name in self.frozen:
            self.hit(name, signal.SIGCONT)
        self.frozen.clear()

    def finish(self) -> None:
        """All stop, and none may fail."""
        for name in self.pids:
            self.hit(name, signal.SIGTERM)
        assert self.wait() == 0, self.complaint()
        self.pids.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
