"""A holder that is stopped for longer than its lease lasts, and comes back believing in it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.surfaces.process import (
    PATIENCE_SECONDS,
    UNDERSTUDY,
    Dispatch,
    encoded,
    environment,
    report_of,
)
from understudy.authority.journal import Unavailable
from understudy.authority.service import Office
from understudy.contracts import limits
from understudy.contracts.reason import Reason

START_MS = 4_000_000_000_000  # ahead of any clock, so that only `now` moves the time
TTL_MS = limits.TTL_SECONDS_MIN * 1000


class Worker:
    """A process that asks for itself; it can be stopped, and never notices."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def send(self, action: str, now: int, **payload: object) -> None:
        """Give it its next move; a stopped worker finds it when it wakes up."""
        assert self._process.stdin is not None
        self._process.stdin.write(encoded([{"action": action, "payload": payload, "now": now}]))
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        value: dict[str, Any] = orjson.loads(self._process.stdout.readline())
        return value

    def ask(self, action: str, now: int, **payload: object) -> dict[str, Any]:
        self.send(action, now, **payload)
        return self.answer()

    def stop(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        _wait_until_stopped(self._process.pid)

    def wake(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def worker(state_dir: Path) -> Iterator[Worker]:
    script = Path(__file__).with_name("worker.py")
    process = subprocess.Popen(
        [sys.executable, script, UNDERSTUDY, state_dir],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    try:
        yield Worker(process)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.mark.parametrize(
    "action", ["issue.update", "issue.close", "issue.lease_renew", "issue.lease_release"]
)
def test_a_worker_that_was_stopped_past_its_lease_is_refused_when_it_wakes_up(
    state_dir: Path, action: str
) -> None:
    report_of("issue", "add", "work", "--id", "w", "--state-dir", state_dir)
    with worker(state_dir) as ada, worker(state_dir) as bob:
        first = _claimed(ada, "ada", START_MS)
        ada.stop()
        ada.send(action, START_MS + 1_000, **first)  # it was about to write when it was stopped

        held = bob.ask("issue.claim", START_MS + TTL_MS, id="w", assignee="bob")
        assert held["failureClasses"] == ["lease_contention_active"], "on the tick it still holds"
        second = _claimed(bob, "bob", START_MS + TTL_MS + 1)
        assert second["fence"] > first["fence"]

        ada.wake()
        refused = ada.answer()
        assert refused["failureClasses"] == ["lease_fence_stale"]
        assert refused["effect"]["fence"] == second["fence"], (
            "the evidence names the fence that won"
        )
        assert refused["stamp"]["wallMs"] == START_MS + TTL_MS + 1, "an old clock moves nothing"

        done = bob.ask("issue.close", START_MS + TTL_MS + 2, **second)
        assert (done["result"], done["issue"]["assignee"]) == ("accepted", "bob")
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 6
    assert report_of("verify", "--state-dir", state_dir)["rows"] == 6


def test_a_worker_that_was_stopped_cannot_tell_itself_from_its_own_earlier_term(
    state_dir: Path,
) -> None:
    report_of("issue", "add", "work", "--id", "w", "--state-dir", state_dir)
    with worker(state_dir) as zombie, worker(state_dir) as heir:
        first = _claimed(zombie, "ada", START_MS)
        zombie.stop()
        zombie.send("issue.close", START_MS + 1_000, **first)
        _claimed(heir, "ada", START_MS + TTL_MS + 1)  # the same name, started again
        zombie.wake()
        assert zombie.answer()["failureClasses"] == ["lease_fence_stale"]


def test_a_stopped_authority_is_busy_and_goes_on_where_it_stopped(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 20)
    with Dispatch(state_dir) as running:
        assert running.ask("issue.add", id="a", title="before")["seq"] == 1
        running.kill(signal.SIGSTOP)
        _wait_until_stopped(running.pid)
        running.send({"action": "issue.add", "payload": {"id": "b", "title": "meanwhile"}})
        with pytest.raises(Unavailable, match=f"process {running.pid}") as caught:
            Office(state_dir)
        assert caught.value.reason is Reason.AUTHORITY_BUSY
        running.kill(signal.SIGCONT)
        assert running.answer()["seq"] == 2
        assert running.finish() == 0
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 2


def _claimed(holder: Worker, name: str, now: int) -> dict[str, Any]:
    answer = holder.ask(
        "issue.claim", now, id="w", assignee=name, leaseTtlSeconds=limits.TTL_SECONDS_MIN
    )
    assert answer["result"] == "accepted", answer["diagnostic"]
    lease = answer["issue"]["lease"]
    return {
        "id": "w",
        "assignee": name,
        "leaseId": lease["leaseId"],
        "fence": lease["fence"],
    }


def _wait_until_stopped(pid: int) -> None:
    done = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    assert done is not None
    assert done.si_status == signal.SIGSTOP
