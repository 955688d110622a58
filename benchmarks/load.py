"""Clients as processes of their own, on one schedule: how many cycles, or how long one takes.

    parent   fork ..... wait for all .... say when ............ collect
    client        connect          ready        run ... [ counted ] ... report

Every client is a process with one connection, whatever the system; with a window of more than one
it keeps that many requests in flight on it. Clients start before the counted time and go on beyond
it, so a cycle is counted where it *ends*: what is under way at the beginning stands for what is
under way at the end, and no system gains by being cut off. A client that runs out of items, or gets
one answer that is not a success, spoils the whole measurement; it is never patched up.

At a fixed rate each cycle has a time at which it is due, and its latency counts from then, however
late its client came to it: a stalled server does not get fewer, easier requests (no coordinated
omission).
"""

import gc
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.systems.system import Client, System, names
from tests.services.server import ends_with_parent

PATIENCE_SECONDS = 60.0  # a client that has said nothing for so long never will
_LEAD_SECONDS = 0.02  # from the word to the start
_OVERTIME_SECONDS = 2.0  # then a late cycle is as late as it is now
_FORK = multiprocessing.get_context("fork")


class Shape(NamedTuple):
    """How many client processes, and how many requests each keeps in flight."""

    name: str
    clients: int
    window: int


class Pace(NamedTuple):
    """How long, after how much time to warm up; and how fast, where not as fast as it goes."""

    seconds: float
    warm_up_seconds: float
    cycles_per_second: float | None = None


class Schedule(NamedTuple):
    """Moments of the monotonic clock, which all processes share."""

    begin: float
    count_from: float
    end: float
    rate: float | None  # cycles a second, over all clients


class Share(NamedTuple):
    """Which client this is, and the items that are its own."""

    place: int
    keys: list[str]


class RanDry(Exception):
    """A client had no items left; there must be more of them."""


class Broken(Exception):
    """A client failed; the text is its own."""


@dataclass(slots=True)
class Tally:
    """What one client did."""

    cycles: int = 0
    used: int = 0
    dry: bool = False
    latencies: list[float] = field(default_factory=list)


def cycles_per_second(system: System, shape: Shape, items: int, pace: Pace) -> tuple[float, int]:
    """As fast as the clients can; and how many items they used up."""
    tallies = _run(system, shape, items, pace)
    cycles = sum(tally.cycles for tally in tallies)
    return cycles / pace.seconds, sum(tally.used for tally in tallies)


def latencies(system: System, shape: Shape, items: int, pace: Pace) -> list[float]:
    """Seconds from when each cycle was due to when it was done, sorted."""
    tallies = _run(system, shape, items, pace)
    return sorted(each for tally in tallies for each in tally.latencies)


def _run(system: System, shape: Shape, items: int, pace: Pace) -> list[Tally]:
    system.prepare(items)
    keys = names(items)
    shares = [Share(place, keys[place :: shape.clients]) for place in range(shape.clients)]
    gc.collect()
    gc.freeze()  # so that the collector of a child does not copy every page of ours
    clients: list[_Forked] = []
    try:
        clients += (_Forked(system, shape, share) for share in shares)
        for client in clients:
            client.hear()
        begin = time.monotonic() + _LEAD_SECONDS
        count_from = begin + pace.warm_up_seconds
        end = count_from + pace.seconds
        for client in clients:
            client.tell(Schedule(begin, count_from, end, pace.cycles_per_second))
        tallies = [client.hear() for client in clients]
    finally:
        for client in clients:
            client.end()
        gc.unfreeze()
    if any(tally.dry for tally in tallies):
        raise RanDry
    return tallies


class _Forked:
    """The parent's end of a client."""

    def __init__(self, system: System, shape: Shape, share: Share) -> None:
        self._pipe, theirs = _FORK.Pipe()
        tie = ends_with_parent(signal.SIGKILL)
        self._process = _FORK.Process(target=_work, args=(system, shape, share, theirs, tie))
        self._process.start()
        theirs.close()

    def tell(self, schedule: Schedule) -> None:
        self._pipe.send(schedule)

    def hear(self) -> Tally:
        """Its next report; what went wrong there is raised here."""
        try:
            if not self._pipe.poll(PATIENCE_SECONDS):
                raise Broken("a client says nothing any more")
            said = self._pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join(1)
            raise Broken(f"a client ended with code {self._process.exitcode}") from None
        if isinstance(said, str):
            raise Broken(said)
        assert isinstance(said, Tally)
        return said

    def end(self) -> None:
        """It has reported, or nobody wants its report any more."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


# --- in the client's process ----------------------------------------------------------------------


def _work(
    system: System, shape: Shape, share: Share, pipe: Connection, tie: Callable[[], None]
) -> None:
    tie()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        client = system.connect()
        pipe.send(Tally())
        schedule: Schedule = pipe.recv()
        task = _Flood(schedule, share) if schedule.rate is None else _Paced(schedule, share, shape)
        pipe.send(task.go(client, shape.window))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear it
        pipe.send(f"{system.name}: {type(error).__name__}: {error}")
    signal.pause()  # nothing of the parent's is ours to clean up, so we wait for the end


class _Flood:
    """The next cycle begins when there is room for it."""

    def __init__(self, schedule: Schedule, share: Share) -> None:
        self._schedule, self._mine, self._tally = schedule, share.keys, Tally()

    def go(self, client: Client, window: int) -> Tally:
        _sleep_until(self._schedule.begin)
        client.run(self._keys(), window, self._done)
        return self._tally

    def _keys(self) -> Iterator[str]:
        end = self._schedule.end
        for key in self._mine:
            if time.monotonic() >= end:
                return
            self._tally.used += 1
            yield key
        self._tally.dry = True

    def _done(self, key: str) -> None:  # noqa: ARG002
        if self._schedule.count_from <= time.monotonic() < self._schedule.end:
            self._tally.cycles += 1


class _Paced:
    """Each cycle begins when it is due, or as soon after as there is room for it."""

    def __init__(self, schedule: Schedule, share: Share, shape: Shape) -> None:
        assert schedule.rate is not None
        self._schedule, self._tally = schedule, Tally()
        first = schedule.begin + share.place / schedule.rate
        step = shape.clients / schedule.rate
        self._due = {key: first + at * step for at, key in enumerate(share.keys)}
        self._left = iter(self._due.items())
        self._next: tuple[str, float] | None = next(self._left, None)

    def go(self, client: Client, window: int) -> Tally:
        give_up = self._schedule.end + _OVERTIME_SECONDS
        while self._next is not None and self._next[1] < self._schedule.end:
            _sleep_until(self._next[1])
            if time.monotonic() > give_up:
                self._done(self._next[0])
                self._next = next(self._left, None)
                continue
            client.run(self._keys(), window, self._done)
        self._tally.dry = self._next is None
        return self._tally

    def _keys(self) -> Iterator[str]:
        """What is due by now."""
        last = self._schedule.end
        while self._next is not None and self._next[1] < min(time.monotonic(), last):
            key = self._next[0]
            self._next = next(self._left, None)
            self._tally.used += 1
            yield key
            if time.monotonic() > last + _OVERTIME_SECONDS:
                return

    def _done(self, key: str) -> None:
        due = self._due[key]
        if due >= self._schedule.count_from:
            self._tally.latencies.append(time.monotonic() - due)


def _sleep_until(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)
