"""How long a sidecar takes from its start to its first decision, and how much memory it has then.

One journal grows from length to length. Its rows are decisions of the real authority, committed in
large batches: claims, renewals and releases of a thousand issues, over and over, so that length
grows and state does not. It is not told to stop: like after a SIGKILL, the newest snapshot is
some rows old. The clock runs from before `exec` to the answer to a claim that is on disk.
"""

import itertools
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from benchmarks.progress import Progress
from benchmarks.systems import understudy
from benchmarks.systems.system import TTL_SECONDS, Refused, names
from tests.services.server import Server
from understudy.authority import Office
from understudy.authority.service.client import Client
from understudy.authority.service.native_local import NativeOffice
from understudy.authority.service.open import fastest, open_office
from understudy.contracts import Door, limits, parse

_OWNER = "worker"
_ISSUES = 1_000
_DOOR = Door("mcp")


@dataclass(slots=True)
class Restart:
    """Of one journal length, a figure a round."""

    rows: int
    journal_bytes: int
    seconds: list[float] = field(default_factory=list)
    resident_bytes: list[int] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)


def measure(folder: Path, lengths: list[int], rounds: int, progress: Progress) -> list[Restart]:
    folder.mkdir()
    state_dir = folder / "state"
    understudy.fill(state_dir, _ISSUES)
    found = []
    for rows in lengths:
        progress.say(f"restart: writing a journal of {rows} rows")
        _grow(state_dir, rows, folder / "log")
        size = (state_dir / "journal.db").stat().st_size
        restart = Restart(rows, size)
        for number in range(rounds):
            progress.say(f"restart, round {number + 1} of {rounds}: {rows} rows")
            _start(state_dir, folder / "log", restart)
        found.append(restart)
    return found


def _grow(state_dir: Path, rows: int, log: Path) -> None:
    """In a process that ends without a word, and so without the projections of a clean close."""
    program: list[str | Path] = [sys.executable, "-m", "benchmarks.restart", state_dir, str(rows)]
    with Server(program, log) as server:
        if server.process.wait() != 0:
            raise Refused(f"no journal of {rows} rows: {server.last_words()}")


def write(state_dir: Path, rows: int) -> None:
    """Whole cycles, until there are so many rows or two more."""
    office = open_office(state_dir, fastest())
    lines = _lines(office.authority.head.seq)
    while (missing := rows - office.authority.head.seq) > 0:
        cycles = min(-(-missing // 3), limits.BATCH_MAX // 3)
        batch = [(line, _DOOR) for line in itertools.islice(lines, 3 * cycles)]
        for answer in _submitted(office, batch):
            if b'"result":"accepted"' not in answer:
                raise Refused(answer.decode())


def _submitted(office: Office, batch: list[tuple[bytes, Door]]) -> list[bytes]:
    if isinstance(office, NativeOffice):
        return office.submit_lines(batch)
    return office.submit([parse(line, door) for line, door in batch])


def _lines(seq: int) -> Iterator[bytes]:
    """Line after line, each a row; the claim's row is its fence."""
    for key in itertools.cycle(names(_ISSUES - 1)):  # the last one is for the first claim
        lease: dict[str, Any] = {"id": key, "assignee": _OWNER, "leaseId": f"lease-{seq}"}
        held = lease | {"fence": seq + 1}
        yield _line("issue.claim", lease | {"leaseTtlSeconds": TTL_SECONDS}, seq + 1)
        yield _line("issue.lease_renew", held | {"leaseTtlSeconds": TTL_SECONDS}, seq + 2)
        yield _line("issue.lease_release", held, seq + 3)
        seq += 3


def _line(action: str, payload: dict[str, Any], number: int) -> bytes:
    return orjson.dumps({"action": action, "payload": payload | {"requestId": f"r{number}"}})


def _start(state_dir: Path, log: Path, restart: Restart) -> None:
    begun = time.perf_counter()
    server = Server([understudy.PROGRAM, "authority", "serve", "--state-dir", state_dir], log)
    try:
        server.wait_for(lambda: understudy.answers(state_dir))
        with Client(state_dir, "mcp") as client:
            claim = {"id": names(_ISSUES)[-1], "assignee": _OWNER, "leaseTtlSeconds": 30}
            answer = client.ask("issue.claim", claim)
        restart.seconds.append(time.perf_counter() - begun)
        if answer["result"] != "accepted":
            raise Refused(answer["diagnostic"])
        restart.resident_bytes.append(_memory(server, "VmRSS"))
        restart.peak_bytes.append(_memory(server, "VmHWM"))
    finally:
        server.kill()


def _memory(server: Server, name: str) -> int:
    for line in Path(f"/proc/{server.process.pid}/status").read_text("utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)
