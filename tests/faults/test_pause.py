"""A holder that is stopped for longer than its lease lasts, and comes back believing in it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.long import few
from tests.surfaces.process import UNDERSTUDY, Dialogue, Dispatch, Serve, report_of
from understudy.authority.journal.journal import Unavailable
from understudy.authority.service.client import Client, Unreachable
from understudy.authority.service.local import Office
from understudy.contracts import limits
from understudy.contracts.reason import Reason

START_MS = 4_000_000_000_000  # ahead of any clock, so that only `now` moves the time
TTL_MS = limits.TTL_SECONDS_MIN * 1000


class Worker(Dialogue):
    """A process that asks for itself; it can be stopped, and never notices."""

    def __init__(self, state_dir: Path) -> None:
        script = Path(__file__).with_name("worker.py")
        super().__init__([sys.executable, script, UNDERSTUDY, state_dir])

    def move(self, action: str, now: int, **payload: object) -> None:
        """Give it its next move; a stopped worker finds it when it wakes up."""
        self.send({"action": action, "payload": payload, "now": now})


@pytest.mark.parametrize(
    "action",
    few(["issue.update", "issue.close", "issue.lease_renew", "issue.lease_release"]),
)
def test_a_worker_that_was_stopped_past_its_lease_is_refused_when_it_wakes_up(
    state_dir: Path, action: str
) -> None:
    report_of("issue", "add", "work", "--id", "w", "--state-dir", state_dir)
    with Worker(state_dir) as ada, Worker(state_dir) as bob:
        first = _claimed(ada, "ada", START_MS)
        ada.halt()
        ada.move(action, START_MS + 1_000, **first)  # it was about to write when it was stopped

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
    with Worker(state_dir) as zombie, Worker(state_dir) as heir:
        first = _claimed(zombie, "ada", START_MS)
        zombie.halt()
        zombie.move("issue.close", START_MS + 1_000, **first)
        _claimed(heir, "ada", START_MS + TTL_MS + 1)  # the same name, started again
        zombie.wake()
        assert zombie.answer()["failureClasses"] == ["lease_fence_stale"]


def test_a_stopped_authority_is_busy_and_goes_on_where_it_stopped(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 20)
    with Dispatch(state_dir) as running:
        assert running.ask("issue.add", id="a", title="before")["seq"] == 1
        running.halt()
        running.send({"action": "issue.add", "payload": {"id": "b", "title": "meanwhile"}})
        with pytest.raises(Unavailable, match=f"process {running.pid}") as caught:
            Office(state_dir)
        assert caught.value.reason is Reason.AUTHORITY_BUSY
        running.wake()
        assert running.answer()["seq"] == 2
        assert running.finish() == 0
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 2


def test_a_client_gives_up_on_a_frozen_sidecar_and_nothing_is_done_twice(state_dir: Path) -> None:
    with Serve(state_dir) as running:
        running.ready()
        with Client(state_dir, "mcp", retry_seconds=0.2, silence_seconds=0.2) as client:
            running.halt()
            with pytest.raises(Unreachable):
                client.ask("issue.add", {"id": "a", "title": "meanwhile", "requestId": "r"})
        running.wake()
        with Client(state_dir, "mcp") as client:
            again = {"id": "a", "title": "meanwhile", "requestId": "r"}
            assert client.ask("issue.add", again)["seq"] == 1
        assert running.terminate() == 0
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 1


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
