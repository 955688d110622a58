"""A sidecar that is stopped, or told to stop, and holders that are."""

import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.authority.sidecar.peer import Peer, add, lines_of, refusal
from tests.long import few
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import Dispatch, Serve, journal_rows, report_of
from understudy.authority import Office, Unavailable
from understudy.authority.service.client import Client
from understudy.contracts import limits

START_MS = 4_000_000_000_000  # ahead of any clock, so that only `now` moves the time
TTL_MS = limits.TTL_SECONDS_MIN * 1000


def test_a_stopped_sidecar_keeps_everybody_waiting_and_goes_on(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 20)
    answers: list[dict[str, Any]] = []
    with Serve(state_dir) as running, ExitStack() as clients:
        running.ready()
        known = clients.enter_context(Client(state_dir, "mcp"))
        running.halt()

        def newcomer() -> None:
            with Client(state_dir, "mcp") as connection:
                answers.append(connection.ask("issue.add", {"title": "n"}))

        asking = [
            threading.Thread(target=lambda: answers.append(known.ask("issue.add", {"title": "k"}))),
            threading.Thread(target=newcomer),
        ]
        for thread in asking:
            thread.start()
        with pytest.raises(Unavailable, match=f"process {running.pid}"):
            Office(state_dir)  # no other takes its place while it lives
        asking[0].join(0.2)
        assert answers == []
        running.wake()
        for thread in asking:
            thread.join(PATIENCE_SECONDS)
        assert [refusal(answer) for answer in answers] == [None, None]
        assert running.terminate() == 0
    assert report_of("verify", "--state-dir", state_dir)["rows"] == 2


@pytest.mark.parametrize("action", few(["issue.update", "issue.close", "issue.lease_renew"]))
def test_a_holder_that_was_stopped_past_its_lease_is_refused_when_it_wakes_up(
    state_dir: Path, action: str
) -> None:
    with Office(state_dir) as office:
        office.ask("issue.add", {"id": "x", "title": "t"})
    ttl = {"leaseTtlSeconds": limits.TTL_SECONDS_MIN}
    with (
        Serve(state_dir, "--frozen-clock") as running,
        Dispatch(running.ready().state_dir, "--frozen-clock") as ada,
        Dispatch(state_dir, "--frozen-clock") as bob,
    ):
        claim = ada.ask("issue.claim", START_MS, id="x", assignee="ada", **ttl)
        lease = claim["issue"]["lease"]
        ada.halt()
        held = {"id": "x", "assignee": "ada", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        ada.send({"action": action, "payload": held, "now": START_MS + 1})
        early = bob.ask("issue.claim", START_MS + TTL_MS, id="x", assignee="bob", **ttl)
        assert refusal(early) == "lease_contention_active", "on the tick it still holds"
        heir = bob.ask("issue.claim", START_MS + TTL_MS + 1, id="x", assignee="bob", **ttl)
        assert heir["issue"]["lease"]["fence"] > lease["fence"]
        ada.wake()
        assert refusal(ada.answer()) == "lease_fence_stale"
        assert running.terminate() == 0
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 5


def test_a_sidecar_that_was_stopped_past_a_lease_gives_it_to_no_two_holders(
    state_dir: Path,
) -> None:
    """Who comes first when it wakes up is chance; the lease is over for both."""
    with Office(state_dir) as office:
        office.ask("issue.add", {"id": "x", "title": "t"})
    ttl = {"leaseTtlSeconds": limits.TTL_SECONDS_MIN}
    with Serve(state_dir, "--frozen-clock") as running, ExitStack() as everybody:
        ada, bob = (everybody.enter_context(Peer(running.ready().state_dir)) for _ in range(2))
        claim = {"action": "issue.claim", "payload": {"id": "x", "assignee": "ada"} | ttl}
        lease = ada.ask(claim | {"now": START_MS})["issue"]["lease"]
        held = {"id": "x", "assignee": "ada", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        running.halt()
        late = {"now": START_MS + TTL_MS + 1}
        ada.send({"action": "issue.lease_renew", "payload": held | ttl} | late)
        bob.send({"action": "issue.claim", "payload": {"id": "x", "assignee": "bob"} | ttl} | late)
        running.wake()
        assert refusal(ada.answer()) in {"lease_stale", "lease_fence_stale"}
        heir = bob.answer()["issue"]["lease"]
        assert (heir["owner"], heir["fence"] > lease["fence"]) == ("bob", True)
        close = {"action": "issue.close", "payload": held} | late
        assert refusal(ada.ask(close)) == "lease_fence_stale"
        assert running.terminate() == 0
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 5


def test_a_sidecar_that_is_told_to_stop_under_load_answers_all_that_it_did(
    state_dir: Path,
) -> None:
    heard: list[list[bytes]] = [[] for _ in range(6)]

    def load(place: int) -> None:
        with Peer(state_dir) as peer:
            with suppress(ConnectionError):
                for start in range(place * 100_000, place * 100_000 + 50_000, 25):
                    peer.write(lines_of(*(add(mark) for mark in range(start, start + 25))))
                    heard[place] += [peer.line() for _ in range(25)]
            heard[place] += peer.rest()

    with Serve(state_dir) as running:
        running.ready()
        threads = [threading.Thread(target=load, args=(place,)) for place in range(len(heard))]
        for thread in threads:
            thread.start()
        eventually(lambda: all(len(each) > 100 for each in heard))
        assert running.terminate() == 0, running.complaint()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    answers = [orjson.loads(line) for lines in heard for line in lines if line]
    assert {refusal(answer) for answer in answers} <= {None, "authority_overloaded"}
    done = sorted(answer["seq"] for answer in answers if refusal(answer) is None)
    assert done == [row[0] for row in journal_rows(state_dir)], "each row has its answer"
    assert report_of("replay", "--state-dir", state_dir)["rows"] == len(done)
    assert report_of("verify", "--state-dir", state_dir)["rows"] == len(done)
