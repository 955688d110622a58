"""The door for agents: what a call costs, and how soon an agent gets its first answer.

    ours           `understudy mcp` -> gateway -> sidecar -> disk: claim, renew, complete
    bare, carried  the same pump and the same gateway, around a bare SDK server with one tool
    bare, streams  that server on the SDK's own standard streams, a process for each agent

Agents are in lockstep, in raw JSON lines, so that it is the servers that are measured. A call's
cost is the processor time of all that serves: the gateway, and with ours the sidecar; or every
bare server. Pumps, which are the same on both sides, are not counted.
"""

import os
import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import orjson

from benchmarks.progress import Progress
from benchmarks.systems import understudy
from benchmarks.systems.system import Refused, names
from tests.services.server import Server, ends_with_parent
from understudy.actors.tree import gateway
from understudy.authority.service.client import Client

Work = Generator[tuple[str, dict[str, Any]], bytes | None, None]  # calls; it is sent the answers

OURS, CARRIED, STREAMS = "ours", "bare SDK, same carrier", "bare SDK, its own streams"
FLEETS = (1, 16)
LAUNCH, INTERPRETER = "first answer of understudy mcp, ms", "python -c pass, ms"
_ISSUES = 20_000
_LAUNCHES = 10
_TTL_SECONDS = 600
_TICKS = os.sysconf("SC_CLK_TCK")
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


@dataclass(slots=True)
class Found:
    """Figures a round, by system and number of agents; and what a launch takes."""

    rates: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    costs_us: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    launches_ms: dict[str, list[float]] = field(default_factory=dict)


class Agent:
    """One client on the standard streams of a command."""

    def __init__(self, words: list[str | Path], work: Work) -> None:
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            preexec_fn=ends_with_parent(signal.SIGKILL),  # noqa: PLW1509 - no thread runs yet
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout
        self._work, self._count, self._rest = work, 0, b""
        self._last: bytes | None = None  # answer to a call

    def greet(self) -> Self:
        self.send("initialize", _HELLO)
        while not self.heard():
            pass
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self.stdin.write(orjson.dumps(notice) + b"\n")
        return self

    def send(self, method: str, params: dict[str, Any]) -> None:
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self.stdin.write(orjson.dumps(request) + b"\n")

    def step(self) -> None:
        name, arguments = self._work.send(self._last)
        self.send("tools/call", {"name": name, "arguments": arguments})

    def heard(self) -> bytes | None:
        """The next answer, if all of it is there."""
        data = os.read(self.stdout.fileno(), 262_144)
        if not data:
            raise Refused("a server hung up")
        line, end, self._rest = (self._rest + data).partition(b"\n")
        if not end:
            self._rest = line
            return None
        if b'"isError":true' in line or b'"error":{' in line[:60]:
            raise Refused(line.decode()[:500])
        if self._count > 1:  # the first one was the greeting
            self._last = line
        return line

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


def measure(folder: Path, rounds: int, seconds: float, progress: Progress) -> Found:
    folder.mkdir()
    found = Found()
    for number in range(rounds):
        for system in (OURS, CARRIED, STREAMS):
            for count in FLEETS:
                progress.say(f"mcp, round {number + 1} of {rounds}: {system}, {count} agents")
                place = folder / f"{number}-{count}-{len(system)}"
                rate, cost = _fleet(system, count, place, seconds)
                found.rates.setdefault(system, {}).setdefault(count, []).append(rate)
                found.costs_us.setdefault(system, {}).setdefault(count, []).append(cost)
        progress.say(f"mcp, round {number + 1} of {rounds}: launches")
        for name, figure in _launches(folder / f"{number}-launch").items():
            found.launches_ms.setdefault(name, []).append(figure)
    return found


def _fleet(system: str, count: int, place: Path, seconds: float) -> tuple[float, float]:
    """Calls a second of so many agents, and what one costs in microseconds."""
    with ExitStack() as opened:
        words, pids = opened.enter_context(_served(system, place))
        works = [_work(system, each, count) for each in range(count)]
        agents = [Agent(words, each) for each in works]
        for each in agents:
            opened.callback(each.end)
        for each in agents:
            each.greet()
        pids = pids or [each.process.pid for each in agents]
        _run(agents, seconds / 3)  # warm up
        spent, begun = _spent(pids), time.perf_counter()
        calls = _run(agents, seconds)
        taken = time.perf_counter() - begun
        return calls / taken, 1e6 * (_spent(pids) - spent) / calls


def _run(agents: list[Agent], seconds: float) -> int:
    """In lockstep, until the time is over and everything is answered."""
    calls, waiting = 0, len(agents)
    with selectors.DefaultSelector() as ready:
        for each in agents:
            ready.register(each.stdout, selectors.EVENT_READ, each)
            each.step()
        end = time.perf_counter() + seconds
        while waiting:
            for key, _ in ready.select():
                if key.data.heard() is None:
                    continue
                calls += 1
                if time.perf_counter() < end:
                    key.data.step()
                else:
                    waiting -= 1
    return calls


@contextmanager
def _served(system: str, place: Path) -> Iterator[tuple[list[str | Path], list[int]]]:
    """What an agent launches, and the processes that serve it."""
    if system == STREAMS:
        yield [sys.executable, "-m", "benchmarks.bare", "stdio"], []
        return
    understudy.fill(place, _ISSUES if system == OURS else 1)
    words: list[str | Path] = [
        understudy.PROGRAM,
        "gateway",
        "--state-dir",
        place,
        "--tools",
        "all",
    ]
    if system == CARRIED:
        words = [sys.executable, "-m", "benchmarks.bare", "socket", place]
    with Server(words, place / "log") as server:
        server.wait_for(lambda: gateway.answers(place))
        pids = [server.process.pid]
        if system == OURS:
            with Client(place, "mcp") as client:
                pids.append(client.server["pid"])
        yield [understudy.PROGRAM, "mcp", "--state-dir", place], pids


def _work(system: str, agent: int, agents: int) -> Work:
    """Claim, renew, complete, one issue after another, each agent its own; or nothing much."""
    while system != OURS:
        yield "done", {}
    for key in names(_ISSUES)[agent::agents]:
        answer = yield "issue_claim", {"id": key, "leaseTtlSeconds": _TTL_SECONDS}
        assert answer is not None
        lease = orjson.loads(answer)["result"]["structuredContent"]["issue"]["lease"]
        held = {"id": key, "leaseId": lease["leaseId"], "fence": lease["fence"]}
        yield "issue_lease_renew", held | {"leaseTtlSeconds": _TTL_SECONDS}
        yield "work_complete", held
    raise Refused("it ran out of work")


def _idle() -> Work:
    yield from ()


def _launches(place: Path) -> dict[str, float]:
    """The median of launches that take turns with the bare interpreter."""
    times: dict[str, list[float]] = {LAUNCH: [], INTERPRETER: []}
    with _served(OURS, place) as (words, _):
        for _ in range(_LAUNCHES):
            begun = time.perf_counter()
            agent = Agent(words, _idle())
            agent.greet()
            times[LAUNCH].append(1000 * (time.perf_counter() - begun))
            agent.end()
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            times[INTERPRETER].append(1000 * (time.perf_counter() - begun))
    return {name: statistics.median(each) for name, each in times.items()}


def _spent(pids: list[int]) -> float:
    """Processor seconds of all of them."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(words[11]) + int(words[12])) / _TICKS
    return total
