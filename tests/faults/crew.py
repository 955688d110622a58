"""Clients that keep a log, each a process of its own: what was asked, when, and what was heard.

A call is written down before it is sent, and its answer after it was heard. Several workers share
a process and a connection, so that many calls are in flight. Some bring their own time along: it
runs a hundred times faster than ours, so that leases lapse while the test watches.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tests.authority.sidecar.peer import Peer
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import ROOT, Program
from understudy.authority.service.client import AsyncClient, Client, ClientCall

ISSUES = tuple(f"i{number}" for number in range(6))
BROKEN = ISSUES[0]  # the one that an operator meddles with
WORKERS = 5  # in one process
SPEED = 100
START_MS = 4_000_000_000_000  # ahead of any clock
TTLS = (30, 60, 300, 3_600)

Answer = dict[str, Any]
Career = Generator[ClientCall, Answer, None]


def told(ns: float) -> float:
    """The time that workers bring along, from that of their own watch."""
    return START_MS + ns * SPEED // 1_000_000


# --- in each process ------------------------------------------------------------------------------


def career(name: str, seed: str) -> Career:
    """Claim, renew, change, look and release, close or forget, for ever; answers are sent in."""
    chance, numbers = random.Random(seed), count()

    def call(action: str, issue: str, **payload: object) -> ClientCall:
        named = {"id": issue, "requestId": f"{name}-{next(numbers)}"} | payload
        return ClientCall(action, {"id": issue} if action == "issue.show" else named)

    while True:
        issue, ttl = chance.choice(ISSUES), {"leaseTtlSeconds": chance.choice(TTLS)}
        yield call("issue.show", issue)
        if issue == BROKEN and chance.random() < 0.1:
            yield call("issue.lease_break", issue, reason="it hangs")
        claim = yield call("issue.claim", issue, assignee=name, **ttl)
        if claim["result"] != "accepted":
            continue
        lease = claim["issue"]["lease"]
        holder = {"assignee": name, "leaseId": lease["leaseId"], "fence": lease["fence"]}
        for _ in range(chance.randrange(4)):
            if chance.random() < 0.5:
                yield call("issue.lease_renew", issue, **holder, **ttl)
            else:
                yield call("issue.update", issue, **holder, notes=f"{name} was here")
        end = chance.random()
        if end < 0.8:
            yield call("issue.lease_release", issue, **holder)
        elif end < 0.803:
            yield call("issue.close", issue, **holder)
        if end < 0.9:  # once too often: it is not ours any more, and may be another's
            yield call("issue.lease_renew", issue, **holder, **ttl)


class Log:
    """One file for all workers of a process."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._stop = Path(path).with_suffix(".stop")
        self._marks = count()

    @property
    def over(self) -> bool:
        return self._stop.exists()

    def asks(self, who: str, call: ClientCall, *, timely: bool = False) -> dict[str, Any]:
        """Write a call down; the entry has its mark, and the time that it brings along."""
        at = time.monotonic_ns()
        entry: dict[str, Any] = {"mark": next(self._marks), "who": who, "at": at}
        entry |= {"action": call.action, "payload": call.payload}
        if timely:
            entry["now"] = told(at)
        self._write(entry)
        return entry

    def hears(self, entry: dict[str, Any], answer: Answer) -> None:
        self._write({"mark": entry["mark"], "answer": answer, "until": time.monotonic_ns()})

    def _write(self, entry: dict[str, Any]) -> None:
        os.write(self._handle, orjson.dumps(entry) + b"\n")


Careers = dict[str, Career]
Homes = Path | list[Path]


def one_by_one(state_dir: Homes, log: Log, careers: Careers) -> None:
    """Each waits for its answer before the next one asks."""
    with Client(state_dir, "mcp", retry_seconds=PATIENCE_SECONDS) as client:
        calls = {who: next(each) for who, each in careers.items()}
        while not log.over:
            for who, each in careers.items():
                entry = log.asks(who, calls[who])
                answer = client.ask(*calls[who])
                log.hears(entry, answer)
                calls[who] = each.send(answer)


def together(state_dir: Homes, log: Log, careers: Careers) -> None:
    """All ask at once, and all wait for all answers."""
    with Client(state_dir, "mcp", retry_seconds=PATIENCE_SECONDS) as client:
        calls = {who: next(each) for who, each in careers.items()}
        while not log.over:
            entries = [log.asks(who, call) for who, call in calls.items()]
            answers = client.ask_many(list(calls.values()))
            for entry, answer, (who, each) in zip(entries, answers, careers.items(), strict=True):
                log.hears(entry, answer)
                calls[who] = each.send(answer)


def in_tasks(state_dir: Homes, log: Log, careers: Careers) -> None:
    """Each asks when it likes, through one connection."""

    async def work(client: AsyncClient, who: str, each: Career) -> None:
        call = next(each)
        while not log.over:
            entry = log.asks(who, call)
            answer = await client.ask(*call)
            log.hears(entry, answer)
            call = each.send(answer)

    async def work_all() -> None:
        async with AsyncClient(state_dir, "mcp", retry_seconds=PATIENCE_SECONDS) as client:
            await asyncio.gather(*(work(client, who, each) for who, each in careers.items()))

    asyncio.run(work_all())


def by_hand(state_dir: Path, log: Log, careers: Careers) -> None:
    """No client of ours in between: lines with their own time, sent again until they are heard."""
    calls = {who: next(each) for who, each in careers.items()}
    waiting: dict[int, dict[str, Any]] = {}
    while not log.over:
        try:
            with Peer(state_dir) as peer:
                peer.send(*map(_request, waiting.values()))
                while not log.over:
                    for who in calls.keys() - {entry["who"] for entry in waiting.values()}:
                        entry = log.asks(who, calls[who], timely=True)
                        waiting[entry["mark"]] = entry
                        peer.send(_request(entry))
                    answer = peer.answer()
                    entry = waiting.pop(answer.pop("id"))
                    log.hears(entry, answer)
                    calls[entry["who"]] = careers[entry["who"]].send(answer)
        except (OSError, AssertionError):
            time.sleep(0.01)  # it is gone, and will be back


def _request(entry: dict[str, Any]) -> dict[str, Any]:
    return {"id": entry["mark"]} | {name: entry[name] for name in ("action", "payload", "now")}


MANNERS: dict[str, Callable[[Any, Log, Careers], None]] = {
    "ada": one_by_one,
    "bob": together,
    "cyd": in_tasks,
    "dan": by_hand,
    "eve": by_hand,
}
CREW = tuple(MANNERS)


def _homes(text: str) -> Homes:
    """One state directory, or several that share a journal."""
    homes = [Path(each) for each in text.split(os.pathsep)]
    return homes if len(homes) > 1 else homes[0]


def main(state_dir: str, log: str, name: str, seed: str) -> None:
    names = [f"{name}{number}" for number in range(1 if name == "ada" else WORKERS)]
    careers = {each: career(each, f"{seed}{each}") for each in names}
    MANNERS[name](_homes(state_dir), Log(log), careers)


# --- in the test ----------------------------------------------------------------------------------


def calls_of(logs: Iterable[Path]) -> list[dict[str, Any]]:
    """Every call in some logs, with its answer, if one was heard."""
    found: list[dict[str, Any]] = []
    for log in logs:
        calls: dict[int, dict[str, Any]] = {}
        for line in log.read_bytes().split(b"\n")[:-1]:
            entry = orjson.loads(line)
            calls.setdefault(entry["mark"], {}).update(entry)
        found += calls.values()
    return found


class Crew:
    """Some processes with a log each. Leaving the block ends them.

    They share what they know of state directories, or each has its own.
    """

    def __init__(
        self,
        state_dir: Path | str | Mapping[str, Path],
        folder: Path,
        seed: int,
        names: Sequence[str] = CREW,
    ) -> None:
        self._logs = {name: folder / f"{name}.log" for name in names}
        self._sizes = dict.fromkeys(names, 0)
        self._heard = 0
        words: list[str | Path] = [sys.executable, "-m", "tests.faults.crew"]
        self.processes = {
            name: Program(
                [
                    *words,
                    state_dir[name] if isinstance(state_dir, Mapping) else state_dir,
                    log,
                    name,
                    str(seed),
                ],
                cwd=ROOT,
            )
            for name, log in self._logs.items()
        }

    def assemble(self) -> Self:
        """Wait until everybody is at work."""
        eventually(lambda: all(map(self._asked, self._logs)))
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            process.__exit__(kind, error, trace)

    def hear(self, more: int) -> None:
        """Wait until the crew has heard so many more answers."""
        wanted = self._count() + more
        eventually(lambda: self._count() >= wanted)

    def finish(self) -> None:
        """Everybody stops at its next turn; none of those who live may fail."""
        for log in self._logs.values():
            log.with_suffix(".stop").touch()
        for process in self.processes.values():
            assert process.wait() in (0, -signal.SIGKILL), process.complaint()

    def calls(self) -> list[dict[str, Any]]:
        """Every call so far, with its answer, if one was heard."""
        return calls_of(self._logs.values())

    def _asked(self, name: str) -> bool:
        assert self.processes[name].process.poll() is None, self.processes[name].complaint()
        return self._logs[name].exists() and self._logs[name].stat().st_size > 0

    def _count(self) -> int:
        """Answers in all logs; each is read once."""
        for name, log in self._logs.items():
            with log.open("rb") as file:
                file.seek(self._sizes[name])
                fresh = file.read()
            whole = fresh[: fresh.rfind(b"\n") + 1]
            self._sizes[name] += len(whole)
            self._heard += whole.count(b'"answer":{')
        return self._heard


if __name__ == "__main__":
    main(*sys.argv[1:])
