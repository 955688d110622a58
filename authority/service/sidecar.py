r"""The sidecar: one process that owns the journal and answers on a Unix socket.

Newline-delimited JSON. The first line says hello; then any number of requests may be in flight,
and answers come back in the order of the requests, each with its `id`.

    connections -> queue -> decide -> commit -> answers         in the event loop, one batch a turn
                                        |----> trajectory       in a thread, a moment behind
                                        \----> tables           in another, when there is time

What arrives during a commit waits in its socket and is the next batch: the slower the disk, the
larger the batches. A thread for the commits was measured, and lost: it wins the time of an fsync,
and pays for it with a fight over the interpreter's lock at every row.

    I1  No answer leaves before its row is on disk, nor before the answers ahead of it. What is
        refused at the door (too long, too many) overtakes them; `id` tells which one it was.
    I2  The queue, every connection's share of it, every output buffer and, where it is ours to
        write, how far the trajectory may be behind are bounded.
    I3  After a failed commit nothing is answered any more, and the process ends.

Where another authority is active, what waits is not decided here but handed on to it (`relay.py`).
"""

import asyncio
import os
import resource
import threading
import time
from bisect import bisect_left
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate
from typing import cast

from ...contracts import (
    STRENGTH,
    TOO_LONG,
    Door,
    Garbage,
    Reason,
    Transport,
    canonical,
    contract_digest,
    limits,
    refuse_garbage,
)
from ..journal.journal import Unavailable
from ..journal.relay_message import mark_of
from ..journal.state_files import SOCKET
from ..views.follower import Follower, Pace
from .local import LOOK_SECONDS, Office
from .relay import Relay, runs_of
from .service_counts import ServiceCounts
from .sockets import bound, peer_of, remove, socket_path

PROTOCOL = 1
_LAST_CALL_SECONDS = 0.01  # how long a stop reads on: what was sent before it is taken in
_LAST_ERRANDS_SECONDS = 9.0  # how long a standby's stop waits for what it has handed on
_GOODBYE_SECONDS = 5.0  # how long a stop waits for answers to go out
_EVIDENCE_SECONDS = 0.05  # how long the trajectory may wait; the journal never does
_IDLE_SECONDS = 1.0  # without a request; then there is time for a snapshot
_LINGER_TURNS = 4  # of the loop, for callers that are on their way
_READ_BYTES = 262_144  # read from a connection at once
_SPARE_FILES = 32  # descriptors for everything that is no connection


class Sidecar:
    """Serves one office. `run` returns when it was told to stop and everything is answered."""

    def __init__(self, office: Office, *, frozen_clock: bool = False) -> None:
        self.office = office
        self.pid = os.getpid()
        self.frozen_clock = frozen_clock
        self._hello: dict[str, object] = {
            "protocol": PROTOCOL,
            "node": office.journal.node(),
            "boundary": office.boundary,
            "contractDigest": contract_digest(),
            "pid": self.pid,
        }
        self.counts = ServiceCounts()
        self._leads = office.leads
        self._relay = Relay(office, self._turn, frozen_clock=frozen_clock)
        self.ready = threading.Event()  # the socket is there
        self.room = memoryview(bytearray(_READ_BYTES))  # for the connection that is read from
        self._askers: deque[Connection] = deque()  # those whose lines wait, in turn
        self._waiting_count = self._waiting_bytes = 0  # lines
        self._pumping = False  # a turn of the pump is on its way
        self._turns_left = 0  # before it
        self._together = 0  # lines that shared the last commit
        self._connections: set[Connection] = set()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._files_max = max(1, files - _SPARE_FILES)
        self._evidence = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evidence")
        self._following = False
        self._tables = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tables")
        self._follower = Follower(office.state_dir, office.journal)
        self._showing = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._busy_until = 0.0
        self._stopping = asyncio.Event()
        self._closed = False  # nothing more is taken in
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Serve until `stop`, then drain; raise what ended the journal, if it did."""
        self.office.follow()  # a crash may have left the trajectory behind
        loop = asyncio.get_running_loop()
        watch: asyncio.Task[None] | None = None
        if self._leads:
            self._relay.open()
        else:  # else the folder's lock is for good
            await self._look()
            watch = asyncio.create_task(self._stand())
        with socket_path(self.office.state_dir, SOCKET) as path:
            listener = bound(path)  # the lock is ours
            server = await loop.create_unix_server(lambda: Connection(self), sock=listener)
            self.ready.set()
            self._show_soon()  # a crash may have left the tables behind
            await self._stopping.wait()
            if watch is not None:
                watch.cancel()
            server.close()
            remove(path)
        await asyncio.sleep(_LAST_CALL_SECONDS)
        self._closed = True
        await self._drain()
        if self._failure is not None:
            raise self._failure

    def greeting(self, *, counts: bool = False) -> bytes:
        """What we are; whether we are a standby, and whom we ask then, may change."""
        now: dict[str, object] = {"counts": self.counts.as_json()} if counts else {}
        if not self._leads:
            now |= {"standby": True, "relaysTo": self.office.journal.who()}
        if (failure := self.office.authority.snapshot_failure) is not None:
            now["snapshotFailure"] = failure
        return canonical.encode({"hello": self._hello | now})

    async def _stand(self) -> None:
        """Wait for our turn, if another authority is at work; then see that it stays ours."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                if self._leads:
                    self.office.journal.confirm()
                else:
                    await self._look()
        except Exception as error:  # noqa: BLE001 - whatever it is, we know no more who writes
            self._fail(error)

    async def _look(self) -> None:
        """Follow who is active; take over if none is. A standby has time for its database."""
        loop = asyncio.get_running_loop()
        try:
            if not await loop.run_in_executor(self._evidence, self.office.stand_in):
                self._relay.resume()
                return
            self._relay.hold()
            errands = await loop.run_in_executor(self._evidence, self._relay.settle)
        except Unavailable as error:
            if error.reason is not Reason.JOURNAL_UNREACHABLE:
                raise
            return
        self._relay.finish(errands)
        self._relay.open()
        self._leads = True
        self._turn()
        self._show_soon()

    def stop(self) -> None:
        """Take in nothing more, but for what is on its way. Call it in the event loop."""
        self._stopping.set()

    def admit(self, asker: "Connection", lines: list[bytes]) -> int:
        """Queue as many of the lines as there is room for; how many they were."""
        if self._closed:
            return 0
        lines = lines[: max(0, limits.QUEUE_MAX - self._waiting_count)]
        ends = list(accumulate(map(len, lines), initial=self._waiting_bytes))
        # The one that reaches the bound is still taken in.
        count = min(bisect_left(ends, limits.QUEUE_BYTES_MAX), len(lines))
        if count:
            if not asker.lines:
                self._askers.append(asker)
            asker.lines += lines[:count]
            self._waiting_count += count
            self._waiting_bytes = ends[count]
            self._turn()
        return count

    @property
    def waiting_count(self) -> int:
        """How many lines wait."""
        return self._waiting_count

    def joined(self, connection: "Connection") -> bool:
        """Let a connection in, if there is room."""
        if len(self._connections) >= min(limits.CONNECTIONS_MAX, self._files_max):
            return False
        self._connections.add(connection)
        return True

    def left(self, connection: "Connection") -> None:
        self._connections.discard(connection)

    def _turn(self) -> None:
        """Pump when everything that can be read now has been read."""
        if not self._pumping:
            self._pumping = True
            self._turns_left = _LINGER_TURNS
            asyncio.get_running_loop().call_soon(self._linger)

    def _linger(self) -> None:
        """Look once more, a few times, while fewer wait than were answered together before.

        Callers in lockstep come back one behind the other, and each that is gone without waits for
        a whole commit. To look again costs some microseconds, and a timer would take a millisecond.
        """
        if self._waiting_count < self._together and self._turns_left:
            self._turns_left -= 1
            asyncio.get_running_loop().call_soon(self._linger)
        else:
            self._pump()

    def _pump(self) -> None:
        """Decide, commit and answer what waits, up to a batch; or hand it on."""
        self._pumping = False
        if not (self._askers or self._relay.waits) or self._failure is not None:
            return
        if not self._leads:
            while self._askers and self._relay.has_room:
                self._relay.hand_on(self._batch(limits.ERRAND_LINES_MAX))
            return
        if self.office.behind > limits.EVIDENCE_BEHIND_MAX:
            return  # `_followed` calls again
        share = self._relay.share(alone=not self._askers)
        batch = self._batch(max(1, limits.BATCH_MAX - sum(each.count for each in share)))
        self._together = sum(len(lines) for _, lines in batch)
        began_s = time.perf_counter()
        try:
            proposal = self.office.authority.propose_lines(
                [*((asker.door, lines) for asker, lines in batch), *runs_of(share)]
            )
            replies = self._relay.enclose(share, proposal.answers, self._together)
            self.office.commit(proposal)
        except BaseException as error:  # noqa: BLE001 - whatever it is, memory is not the disk
            self._fail(error)
            return
        self._relay.committed(replies, written=bool(proposal.entries))
        self.counts.committed(len(proposal.answers), time.perf_counter() - began_s)
        at = 0
        for asker, lines in batch:
            answers = proposal.answers.run(at, at + len(lines))
            self.counts.answered(answers)
            asker.answer(answers, len(lines))
            at += len(lines)
        self._plan()
        if self.office.authority.snapshot_overdue:
            self._save()
        if self._askers or self._relay.waits:
            self._turn()

    def _batch(self, room: int) -> list[tuple["Connection", list[bytes]]]:
        """What waits, up to so many; who sent much does not hold up those who sent little.

        Connections take turns. Each gives an equal share, and what is left of the room is shared
        out again.
        """
        taken: dict[Connection, list[bytes]] = {}
        while room and self._askers:
            share = max(1, room // len(self._askers))
            for _ in range(min(room, len(self._askers))):
                asker = self._askers.popleft()
                lines = asker.lines[:share]
                del asker.lines[:share]
                taken.setdefault(asker, []).extend(lines)
                room -= len(lines)
                if asker.lines:
                    self._askers.append(asker)
        self._waiting_count -= sum(map(len, taken.values()))
        self._waiting_bytes -= sum(sum(map(len, lines)) for lines in taken.values())
        return list(taken.items())

    def _plan(self) -> None:
        """What is to be done behind the answers, soon and when there is time."""
        loop = asyncio.get_running_loop()
        if self.office.behind and not self._following:
            self._following = True
            self._timers["evidence"] = loop.call_later(_EVIDENCE_SECONDS, self._follow)
        self._busy_until = loop.time()
        self._show_soon()
        if "idle" not in self._timers:
            self._timers["idle"] = loop.call_later(_IDLE_SECONDS, self._rest)

    def _follow(self) -> None:
        """Write the evidence of the last batches out, behind their commits."""
        done = asyncio.get_running_loop().run_in_executor(self._evidence, self.office.follow)
        done.add_done_callback(self._followed)

    def _followed(self, done: "asyncio.Future[None]") -> None:
        self._following = False
        error = done.exception()
        if error is not None:
            self._fail(error)
            return
        if self.office.behind:
            self._plan()
        if self._askers or self._relay.waits:
            self._turn()

    def _show_soon(self, seconds: float = Pace.QUIET_SECONDS) -> None:
        """Let the tables follow, unless they are about to."""
        if self._leads and not self._showing and not self._stopping.is_set():
            self._showing = True
            self._timers["tables"] = asyncio.get_running_loop().call_later(seconds, self._show)

    def _show(self) -> None:
        done = asyncio.get_running_loop().run_in_executor(self._tables, self._follower.step)
        done.add_done_callback(self._shown)

    def _shown(self, done: "asyncio.Future[Pace]") -> None:
        """Go on at once while no client asks, and in small parts while one does."""
        self._showing = False
        pace = done.result()
        if pace.has_more:
            quiet_s = asyncio.get_running_loop().time() - self._busy_until
            self._show_soon(pace.pause(quiet_s))

    def _rest(self) -> None:
        """No client has asked for a while; or one has, and the while begins anew."""
        loop = asyncio.get_running_loop()
        rest_at = self._busy_until + _IDLE_SECONDS
        if loop.time() < rest_at:
            self._timers["idle"] = loop.call_at(rest_at, self._rest)
            return
        del self._timers["idle"]
        if self.office.authority.snapshot_due and self._failure is None:
            self._save()

    def _save(self) -> None:
        """Take a snapshot, which saves the next start some time."""
        try:
            self.office.authority.try_snapshot()
        except Unavailable as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._stopping.set()
        for connection in list(self._connections):
            connection.abort()

    async def _drain(self) -> None:
        """Answer what was taken in; then say goodbye to everybody."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _LAST_ERRANDS_SECONDS
        while (self._askers or self._relay.waits or self._relay.sent) and self._failure is None:
            if not self._leads and loop.time() > give_up:
                break
            self._pump()
            await asyncio.sleep(0.001)
        self._relay.close()
        for timer in self._timers.values():
            timer.cancel()
        self._evidence.shutdown()
        self._tables.shutdown()
        self._follower.close()
        try:
            self.office.follow()
        except Exception as error:  # noqa: BLE001 - `run` raises it, after the first one
            self._fail(error)
        if self._failure is None and self._leads:
            with suppress(Unavailable):  # it only saves the next start some time
                self.office.authority.snapshot()
        for connection in list(self._connections):
            connection.close()
        give_up = asyncio.get_running_loop().time() + _GOODBYE_SECONDS
        while self._connections and asyncio.get_running_loop().time() < give_up:  # noqa: ASYNC110 - bounded
            await asyncio.sleep(0.001)  # what is written goes out first


class Connection(asyncio.BufferedProtocol):
    """One client: its unfinished line, its share of the queue, and its door."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.door = Door("local-repl", frozen_clock=sidecar.frozen_clock)
        self.lines: list[bytes] = []  # that wait for their turn
        self._sidecar = sidecar
        self._rest = b""
        self._skipping = False  # inside a line that is too long
        self._greeted = False
        self._leaving = False
        self._waiting = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if peer_of(transport) is None:
            transport.abort()
        elif not self._sidecar.joined(self):
            self._leaving = True
            crowded = Garbage(Reason.AUTHORITY_OVERLOADED, "there is no room for a connection")
            transport.write(self._refusal(crowded) + b"\n")
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._sidecar.left(self)

    def eof_received(self) -> bool:
        """The peer has asked everything; it still hears its answers."""
        self._leaving = True
        return self._waiting > 0

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._sidecar.room

    def buffer_updated(self, nbytes: int) -> None:
        *lines, self._rest = (self._rest + self._sidecar.room[:nbytes]).split(b"\n")
        if self._skipping and lines:
            self._skipping = False
            del lines[0]
        refusals = self._take([line for line in lines if line.strip()])
        if len(self._rest) > limits.REQUEST_BYTES_MAX:
            if not self._skipping:
                refusals.append(self._refusal(TOO_LONG))
            self._rest, self._skipping = b"", True
        if refusals:
            self._write(b"".join(line + b"\n" for line in refusals))
        if self._leaving:
            self._transport.close()  # after what is written

    def answer(self, lines: bytes, count: int) -> None:
        self._waiting -= count
        self._write(lines)
        if self._leaving and not self._waiting:
            self._transport.close()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _take(self, lines: list[bytes]) -> list[bytes]:
        """Queue the lines; the refusals of those that there is no room for."""
        refusals = []
        if lines and not self._greeted and not self._leaving:
            refusals.append(self._greet(lines.pop(0)))
        if not lines or self._leaving:
            return refusals
        mine = limits.INFLIGHT_MAX - self._waiting
        taken = self._sidecar.admit(self, lines[:mine]) if mine > 0 else 0
        self._waiting += taken
        for line in lines[taken:]:
            detail = f"{self._sidecar.waiting_count} requests wait"
            if self._waiting >= limits.INFLIGHT_MAX:
                detail = "too many in flight"
            overloaded = Garbage(Reason.AUTHORITY_OVERLOADED, detail, id=mark_of(line))
            refusals.append(self._refusal(overloaded))
        return refusals

    def _greet(self, line: bytes) -> bytes:
        """The first line: which protocol, and through which door."""
        hello = None
        with suppress(canonical.NotCanonical):
            value = canonical.decode(line)
            hello = value.get("hello") if isinstance(value, dict) else None
        transport = hello.get("transport") if isinstance(hello, dict) else None
        protocol = hello.get("protocol") if isinstance(hello, dict) else None
        if not isinstance(hello, dict) or isinstance(protocol, bool) or protocol != PROTOCOL:
            self._leaving = True
            detail = f"this side speaks protocol {PROTOCOL}"
            return self._refusal(Garbage(Reason.PROTOCOL_MISMATCH, detail))
        if not isinstance(transport, str) or transport not in STRENGTH:
            self._leaving = True
            return self._refusal(Garbage(Reason.PROTOCOL_MISMATCH, f"no transport {transport!r}"))
        self._greeted = True
        frozen = self._sidecar.frozen_clock and hello.get("frozenClock") is not False
        self.door = Door(cast("Transport", transport), frozen_clock=frozen)
        return self._sidecar.greeting(counts=hello.get("counts") is True)

    def _refusal(self, garbage: Garbage) -> bytes:
        return refuse_garbage(garbage, self._sidecar.office.authority.head.seq)

    def _write(self, lines: bytes) -> None:
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > limits.OUTPUT_BYTES_MAX:
            self._transport.abort()  # it does not read what it asked for
            return
        self._transport.write(lines)
