"""Understudy and a plain peer, on the same work, in one run; a table of ratios and a JSON file.

A cycle is claim, renew, close. Durable rows end with an fsync. Read ratios, not absolute numbers:
those belong to the machine and to its mood. Each figure is the median of several rounds.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import orjson

from understudy.authority.decide import decide
from understudy.authority.outcome import Repeated
from understudy.authority.service import JOURNAL, Office, create_state_dir
from understudy.authority.state import State, apply
from understudy.contracts.records import Stamp
from understudy.contracts.request import Door, Request, parse

DOOR = Door("mcp", frozen_clock=True)
NOW_MS = 1_767_225_600_000


def main() -> None:
    """Run everything, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=2_000, help="cycles in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"))
    options = parser.parse_args()
    rows = [
        ("decide and apply, in memory", _decisions),
        ("parse, decide, apply, in memory", _parsed_decisions),
        ("durable, 1 request a commit", lambda n: _durable(n // 10, 1)),
        ("durable, 8 requests a commit", lambda n: _durable(n // 2, 8)),
        ("durable, 64 requests a commit", lambda n: _durable(n, 64)),
        ("durable, 512 requests a commit", lambda n: _durable(n, 512)),
        ("peer: plain SQLite, a transaction a step, no evidence", lambda n: _plain_sqlite(n // 10)),
    ]
    figures = {name: _median(work, options.cycles, options.rounds) for name, work in rows}
    peer = figures[rows[-1][0]]
    print(f"{'cycles per second (claim, renew, close)':<56}{'median':>12}{'x peer':>9}")
    for name, figure in figures.items():
        print(f"{name:<56}{figure:>12,.0f}{figure / peer:>9.2f}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"cyclesPerSecond": figures}, indent=2) + "\n")


def _median(work: Callable[[int], float], cycles: int, rounds: int) -> float:
    work(max(10, cycles // 10))  # warm-up
    return statistics.median(work(cycles) for _ in range(rounds))


# --- the work -----------------------------------------------------------------------------------


def _adds(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield _line("issue.add", {"id": f"i{number}", "title": "work"})


def _cycle(number: int, fence: int) -> Iterator[bytes]:
    """A cycle whose claim is the row `fence`."""
    holder = {
        "id": f"i{number}",
        "assignee": "worker",
        "leaseId": f"lease{number}",
        "fence": fence,
    }
    claim = {key: holder[key] for key in ("id", "assignee", "leaseId")}
    yield _line("issue.claim", claim | {"leaseTtlSeconds": 60})
    yield _line("issue.lease_renew", holder | {"leaseTtlSeconds": 60})
    yield _line("issue.close", holder)


def _line(action: str, payload: dict[str, object]) -> bytes:
    return orjson.dumps({"action": action, "payload": payload, "now": NOW_MS})


def _requests(cycles: int) -> tuple[list[bytes], list[bytes]]:
    steps = (line for n in range(cycles) for line in _cycle(n, cycles + 3 * n + 1))
    return list(_adds(cycles)), list(steps)


# --- Understudy ---------------------------------------------------------------------------------


def _parse(line: bytes) -> Request:
    request = parse(line, DOOR)
    assert isinstance(request, Request)
    return request


def _fold(state: State, requests: list[Request], seq: int) -> int:
    for request in requests:
        seq += 1
        outcome = decide(state, request, Stamp(seq, NOW_MS, seq, "bench"))
        assert not isinstance(outcome, Repeated)
        apply(state, outcome.changes)
    return seq


def _decisions(cycles: int) -> float:
    adds, steps = ([_parse(line) for line in lines] for lines in _requests(cycles))
    state = State()
    seq = _fold(state, adds, 0)
    begun = time.perf_counter()
    _fold(state, steps, seq)
    passed = time.perf_counter() - begun
    _all_closed(state, cycles)
    return cycles / passed


def _parsed_decisions(cycles: int) -> float:
    adds, steps = _requests(cycles)
    state = State()
    seq = _fold(state, [_parse(line) for line in adds], 0)
    begun = time.perf_counter()
    _fold(state, [_parse(line) for line in steps], seq)
    passed = time.perf_counter() - begun
    _all_closed(state, cycles)
    return cycles / passed


def _durable(cycles: int, batch: int) -> float:
    adds, steps = _requests(cycles)
    with tempfile.TemporaryDirectory() as folder:
        create_state_dir(Path(folder), "bench")
        with Office(Path(folder)) as office:
            for start in range(0, len(adds), 512):
                office.submit([_parse(line) for line in adds[start : start + 512]])
            begun = time.perf_counter()
            for start in range(0, len(steps), batch):
                office.submit([_parse(line) for line in steps[start : start + batch]])
            passed = time.perf_counter() - begun
            _all_closed(office.authority.state, cycles)
            assert (Path(folder) / JOURNAL).exists()
    return cycles / passed


def _all_closed(state: State, cycles: int) -> None:
    assert sum(issue.status == "closed" for issue in state.issues.values()) == cycles


# --- the peer -----------------------------------------------------------------------------------


def _plain_sqlite(cycles: int) -> float:
    """What many write themselves: a table, WAL, synchronous=FULL, one transaction a step."""
    with tempfile.TemporaryDirectory() as folder:
        db = apsw.Connection(str(Path(folder) / "queue.db"))
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "FULL")
        db.execute("CREATE TABLE work (id TEXT PRIMARY KEY, status TEXT, owner TEXT, due INTEGER)")
        with db:
            rows = [(f"i{n}", "open") for n in range(cycles)]
            db.executemany("INSERT INTO work (id, status) VALUES (?, ?)", rows)
        begun = time.perf_counter()
        for number in range(cycles):
            key = f"i{number}"
            for query, values in (
                (
                    (
                        "UPDATE work SET status = 'held', owner = 'w', due = ? "
                        "WHERE id = ? AND status = 'open'"
                    ),
                    (NOW_MS + 60_000, key),
                ),
                ("UPDATE work SET due = ? WHERE id = ? AND owner = 'w'", (NOW_MS + 90_000, key)),
                ("UPDATE work SET status = 'closed' WHERE id = ? AND owner = 'w'", (key,)),
            ):
                db.execute("BEGIN IMMEDIATE")
                db.execute(query, values)
                assert db.changes() == 1
                db.execute("COMMIT")
        passed = time.perf_counter() - begun
        db.close()
    return cycles / passed


if __name__ == "__main__":
    main()
