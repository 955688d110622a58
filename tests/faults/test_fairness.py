"""Every caller gets a turn: none gets much more than others, and no renewal comes too late.

`UNDERSTUDY_FAIR_SECONDS=10` runs for that long.
"""

import os
import selectors
import time
from collections.abc import Generator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.authority.sidecar.peer import Peer, add, refusal
from tests.long import few
from tests.patience import PATIENCE_SECONDS
from tests.surfaces.process import Serve, journal_rows
from understudy.authority import TRAJECTORY
from understudy.contracts import limits

SECONDS = float(os.environ.get("UNDERSTUDY_FAIR_SECONDS", "2"))
CLIENTS = 64
RATIO_MAX = 1.5
CYCLES_MIN = 3
RENEWAL_SECONDS_MAX = limits.TTL_SECONDS_MIN / 3  # the shortest lease, renewed as one should


class Polite:
    """A client that works on an issue of its own, one request at a time."""

    def __init__(self, state_dir: Path, name: str) -> None:
        self.peer = Peer(state_dir)
        assert refusal(self.peer.ask(add(0, id=name))) is None
        self.cycles = 0
        self.longest_renewal = 0.0
        self._career = self._work(name)
        self._send(next(self._career))

    def turn(self) -> None:
        """An answer has come; ask the next thing."""
        answer = self.peer.answer()
        assert refusal(answer) is None
        if answer["action"] == "issue.lease_renew":
            self.longest_renewal = max(self.longest_renewal, time.monotonic() - self._sent)
        self._send(self._career.send(answer))

    def _work(self, name: str) -> Generator[dict[str, Any], dict[str, Any], None]:
        ttl = {"leaseTtlSeconds": limits.TTL_SECONDS_MIN}
        while True:
            claim = yield {"action": "issue.claim", "payload": {"id": name, "assignee": name} | ttl}
            lease = claim["issue"]["lease"]
            holder = {"id": name, "assignee": name, "leaseId": lease["leaseId"]}
            holder |= {"fence": lease["fence"]}
            yield {"action": "issue.lease_renew", "payload": holder | ttl}
            yield {"action": "issue.lease_release", "payload": holder}
            self.cycles += 1

    def _send(self, request: dict[str, Any]) -> None:
        self._sent = time.monotonic()
        self.peer.send(request)


class Greedy:
    """A client with as much in flight as it may have, for ever."""

    def __init__(self, state_dir: Path) -> None:
        self.peer = Peer(state_dir)
        self._marks = count()
        self._ask(limits.INFLIGHT_MAX)

    def turn(self) -> None:
        """Read some answers, and ask as many times again."""
        for _ in range(32):
            assert refusal(self.peer.answer()) is None
        self._ask(32)

    def _ask(self, times: int) -> None:
        self.peer.send(
            *(
                add(mark, id=f"greedy{mark}")
                for _, mark in zip(range(times), self._marks, strict=False)
            )
        )


def crowd(state_dir: Path, everybody: ExitStack, *, greedy: bool = False) -> list[Polite]:
    """Serve clients in the order in which their answers come, until the time is over.

    A slow machine gets more of it: with a few cycles each, one more would be half as much again.
    """
    polite = [Polite(state_dir, f"own{number}") for number in range(CLIENTS)]
    clients: list[Polite | Greedy] = [*polite, *([Greedy(state_dir)] if greedy else [])]
    choice = everybody.enter_context(selectors.DefaultSelector())
    for client in clients:
        everybody.callback(client.peer.close)
        choice.register(client.peer.socket, selectors.EVENT_READ, client)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or min(each.cycles for each in polite) < CYCLES_MIN:
        for key, _ in choice.select(PATIENCE_SECONDS):
            key.data.turn()
    return polite


@pytest.mark.timeout(120 + 3 * SECONDS)
@pytest.mark.parametrize("greedy", few([True, False]))
def test_sixty_four_clients_get_about_as_much_and_no_renewal_comes_too_late(
    state_dir: Path, greedy: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with Serve(state_dir) as running, ExitStack() as everybody:
        running.ready()
        polite = crowd(state_dir, everybody, greedy=greedy)
        assert running.process.poll() is None, running.complaint()
    cycles = sorted(each.cycles for each in polite)
    longest = max(each.longest_renewal for each in polite)
    with capsys.disabled():
        print(f"\ncycles {cycles[0]} to {cycles[-1]}, longest renewal {longest * 1000:.0f} ms")
    assert cycles[-1] <= RATIO_MAX * cycles[0]
    assert longest <= RENEWAL_SECONDS_MAX


def test_one_that_asks_much_does_not_keep_those_waiting_who_ask_little(state_dir: Path) -> None:
    """A turn is a turn of the queue: what was asked before, and no more, is answered before."""
    backlog = 2_000
    with Serve(state_dir) as running:
        running.ready()
        with Peer(state_dir) as greedy, Peer(state_dir) as modest:
            marks = count()
            greedy.send(*(add(next(marks)) for _ in range(backlog)))
            for _ in range(10):
                before = greedy.answer()["seq"]
                greedy.send(add(next(marks)))
                asked = modest.ask(add(next(marks)))
                assert asked["seq"] - before <= backlog + 10
                for _ in range(50):
                    greedy.answer()
                    greedy.send(add(next(marks)))
    path = state_dir / TRAJECTORY
    assert path.read_bytes().count(b"\n") <= len(journal_rows(state_dir)), "killed, not torn"
