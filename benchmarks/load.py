"""Clients in processes of their own: how many cycles they get through, or how long one takes.

    parent   fork .......... say when ....... look ... seconds ... look, kill
    client       connect, ready       run ........ warm ...............

Every client is a connection with a thread of its own, whatever the system, and all of them live in
four processes. (Tried first: a process for each. With 8 it made no difference; with 64 it cost
every system something, and PostgreSQL, which has a process for each as well, half of its rate.)
With a window of more than one a client has that many requests in flight, and takes them from step
to step together.

Clients count their cycles in shared memory, and the parent looks twice: what is under way at the
first look stands for what is under way at the second, so no system gains by being cut off. The
first look waits until clients have been through a cycle. A client that runs out of items, or gets
one answer that is not a success, spoils the whole measurement; it is never patched up.

At a fixed rate each cycle has a time at which it is due, and its latency counts from then, however
late its client came to it: a stalled server does not get fewer, easier requests (no coordinated
omission).
"""

import ctypes
import gc
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import ClassVar, NamedTuple

from benchmarks.systems.system import Client, System, names
from tests.services.server import ends_with_parent

PATIENCE_SECONDS = 60.0  # a client that has said nothing for so long never will
PROCESSES_MAX = 4
_LEAD_SECONDS = 0.02  # from the word to the start
_WARM_UP_SECONDS_MAX = 2.0  # a system that is slower than that is measured cold
_OVERTIME_SECONDS = 2.0  # then a late cycle is as late as it is now
_FORK = multiprocessing.get_context("fork")


class Shape(NamedTuple):
    """How many connections, and how many requests each has in flight."""

    name: str
    clients: int
    window: int


class Pace(NamedTuple):
    """How long, after how much time to warm up; and how fast, where not as fast as it goes."""

    seconds: float
    warm_up_seconds: float
    cycles_per_second: float | None = None


class Schedule(NamedTuple):
    """Moments of the monotonic clock, which all processes share; a flood only begins."""

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


class Tally(ctypes.Structure):
    """What one client has done so far, in memory that it shares with the parent."""

    _fields_: ClassVar = [
        ("cycles", ctypes.c_long),
        ("used", ctypes.c_long),
        ("dry", ctypes.c_bool),
    ]
    cycles: int  # whole ones
    used: int  # items
    dry: bool  # there were no more items


def cycles_per_second(system: System, shape: Shape, items: int, pace: Pace) -> tuple[float, int]:
    """As fast as the clients can; and how many items they used up."""
    with _clients(system, shape, items) as clients:
        _start(clients, pace)
        _warm_up(clients, shape, pace)
        before, begun = _cycles(clients), time.monotonic()
        time.sleep(pace.seconds)
        after, ended = _cycles(clients), time.monotonic()
        for client in clients:
            client.refuse_failed()
        return (after - before) / (ended - begun), sum(client.tally.used for client in clients)


def latencies(system: System, shape: Shape, items: int, pace: Pace) -> list[float]:
    """Seconds from when each cycle was due to when it was done, sorted."""
    with _clients(system, shape, items) as clients:
        _start(clients, pace)
        found = [each for client in clients for each in client.hear()]
        for client in clients:
            client.refuse_failed()
    return sorted(found)


def _cycles(clients: list["_Far"]) -> int:
    return sum(client.tally.cycles for client in clients)


def _warm_up(clients: list["_Far"], shape: Shape, pace: Pace) -> None:
    """The time that was asked for, and as many cycles as there can be at once."""
    time.sleep(pace.warm_up_seconds)
    give_up = time.monotonic() + _WARM_UP_SECONDS_MAX
    while _cycles(clients) < shape.clients * shape.window and time.monotonic() < give_up:
        time.sleep(0.01)


@contextmanager
def _clients(system: System, shape: Shape, items: int) -> Iterator[list["_Far"]]:
    """Spread over the processes, connected, and gone at the end."""
    system.prepare(items)
    keys = names(items)
    gc.collect()
    gc.freeze()  # so that the collector of a child does not copy every page of ours
    clients = [
        _Far(system, shape, Share(place, keys[place :: shape.clients]))
        for place in range(shape.clients)
    ]
    processes: list[ForkProcess] = []
    try:
        count = min(shape.clients, PROCESSES_MAX)
        processes += (_forked(clients[place::count]) for place in range(count))
        for client in clients:
            client.hear()
        yield clients
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        gc.unfreeze()


def _forked(clients: list["_Far"]) -> ForkProcess:
    """A daemon, so that an exit of ours in any moment ends it."""
    jobs = [client.job for client in clients]
    tie = ends_with_parent(signal.SIGKILL)
    process = _FORK.Process(target=_work_side_by_side, args=(jobs, tie), daemon=True)
    process.start()
    for client in clients:
        client.job.pipe.close()
    return process


def _start(clients: list["_Far"], pace: Pace) -> None:
    begin = time.monotonic() + _LEAD_SECONDS
    count_from = begin + pace.warm_up_seconds
    end = count_from + pace.seconds
    for client in clients:
        client.tell(Schedule(begin, count_from, end, pace.cycles_per_second))


class _Far:
    """The parent's end of a client."""

    def __init__(self, system: System, shape: Shape, share: Share) -> None:
        self._pipe, theirs = _FORK.Pipe()
        self.tally: Tally = _FORK.RawValue(Tally)
        self.job = Job(system, shape, share, self.tally, theirs)

    def tell(self, schedule: Schedule) -> None:
        self._pipe.send(schedule)

    def hear(self) -> list[float]:
        """That it is ready, or its latencies; what went wrong there is raised here."""
        try:
            if not self._pipe.poll(PATIENCE_SECONDS):
                raise Broken("a client says nothing any more")
            said: list[float] | str = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise Broken("a client is gone") from None
        if isinstance(said, str):
            raise Broken(said)
        return said

    def refuse_failed(self) -> None:
        if self._pipe.poll():
            self.hear()
        if self.tally.dry:
            raise RanDry


# --- in the client's process ----------------------------------------------------------------------


class Job(NamedTuple):
    """What a client is to do, and where it keeps count."""

    system: System
    shape: Shape
    share: Share
    tally: Tally
    pipe: Connection


def _work_side_by_side(jobs: list[Job], tie: Callable[[], None]) -> None:
    tie()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for job in jobs[1:]:
        threading.Thread(target=_work, args=(job,), daemon=True).start()
    _work(jobs[0])
    while True:
        signal.pause()  # nothing of the parent's is ours to clean up: it ends us


def _work(job: Job) -> None:
    try:
        client = job.system.connect(f"worker-{job.share.place}")
        job.pipe.send([])
        schedule: Schedule = job.pipe.recv()
        if schedule.rate is None:
            _Flood(job, schedule).go(client)
        else:
            job.pipe.send(_Paced(job, schedule).go(client))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear it
        job.pipe.send(f"{job.system.name}: {type(error).__name__}: {error}")


class _Flood:
    """The next cycle begins when there is room for it, until the parent ends us."""

    def __init__(self, job: Job, schedule: Schedule) -> None:
        self._job, self._schedule = job, schedule

    def go(self, client: Client) -> None:
        _sleep_until(self._schedule.begin)
        _run(client, self._keys(), self._job.shape.window, self._done)

    def _keys(self) -> Iterator[str]:
        tally = self._job.tally
        for key in self._job.share.keys:
            tally.used += 1
            yield key
        tally.dry = True

    def _done(self, key: str) -> None:  # noqa: ARG002 - for subclasses
        self._job.tally.cycles += 1


class _Paced:
    """Each cycle begins when it is due, or as soon after as there is room for it."""

    def __init__(self, job: Job, schedule: Schedule) -> None:
        assert schedule.rate is not None
        self._job, self._schedule = job, schedule
        self._latencies: list[float] = []
        first = schedule.begin + job.share.place / schedule.rate
        step = job.shape.clients / schedule.rate
        self._due = {key: first + at * step for at, key in enumerate(job.share.keys)}
        self._left = iter(self._due.items())
        self._next: tuple[str, float] | None = next(self._left, None)

    def go(self, client: Client) -> list[float]:
        give_up = self._schedule.end + _OVERTIME_SECONDS
        while self._next is not None and self._next[1] < self._schedule.end:
            _sleep_until(self._next[1])
            if time.monotonic() > give_up:
                self._done(self._next[0])
                self._next = next(self._left, None)
            else:
                _run(client, self._keys(), self._job.shape.window, self._done)
        self._job.tally.dry = self._next is None
        return self._latencies

    def _keys(self) -> Iterator[str]:
        """What is due by now."""
        end = self._schedule.end
        while self._next is not None and self._next[1] < min(time.monotonic(), end):
            key = self._next[0]
            self._next = next(self._left, None)
            yield key
            if time.monotonic() > end + _OVERTIME_SECONDS:
                return

    def _done(self, key: str) -> None:
        due = self._due[key]
        if due >= self._schedule.count_from:
            self._latencies.append(time.monotonic() - due)


def _run(client: Client, keys: Iterator[str], window: int, done: Callable[[str], None]) -> None:
    """Whole cycles, a window at a time, until there are no more keys."""
    while batch := list(islice(keys, window)):
        fences = client.claim(batch)
        fences = client.renew(batch, fences)
        client.complete(batch, fences)
        for key in batch:
            done(key)


def _sleep_until(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)
