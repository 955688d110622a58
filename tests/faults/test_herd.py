"""Many want the same issue, or two want it at the very moment when its lease is over."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.authority.sidecar.peer import Peer, refusal
from tests.surfaces.process import Serve, journal_rows, report_of, room_for_files
from understudy.authority import Office
from understudy.authority.engine import ffi
from understudy.authority.service.native_local import NativeOffice
from understudy.contracts import Door, limits

HERD = 500
START_MS = 4_000_000_000_000  # ahead of any clock, so that only `now` moves the time
TTL_MS = limits.TTL_SECONDS_MIN * 1000
OFFICES = [Office, *([NativeOffice] if ffi.available() else [])]


def ask(action: str, now: int | None = None, /, **payload: object) -> dict[str, Any]:
    request: dict[str, Any] = {"action": action, "payload": payload}
    return request if now is None else request | {"now": now}


def holder_of(answer: dict[str, Any]) -> dict[str, Any]:
    lease = answer["issue"]["lease"]
    return {
        "id": answer["issue"]["id"],
        "assignee": lease["owner"],
        "leaseId": lease["leaseId"],
        "fence": lease["fence"],
    }


@pytest.mark.parametrize("action", ["issue.claim", "issue.claim_next"])
def test_of_a_herd_that_waits_for_one_issue_one_gets_it(state_dir: Path, action: str) -> None:
    which = {"id": "x"} if action == "issue.claim" else {}
    fences = []
    with room_for_files(2 * HERD + 500), ExitStack() as everybody:
        running = everybody.enter_context(Serve(state_dir)).ready()
        herd = [everybody.enter_context(Peer(state_dir)) for _ in range(HERD)]
        herd[0].ask(ask("issue.add", id="x", title="work"))
        for _ in range(3):
            for place, peer in enumerate(herd):
                peer.send(ask(action, assignee=f"w{place}", **which))
            answers = [peer.answer() for peer in herd]
            winners = [place for place, each in enumerate(answers) if "issue" in each]
            assert len(winners) == 1
            others = Counter(refusal(each) for each in answers if "issue" not in each)
            busy = "lease_contention_active" if which else None  # nothing ready is no refusal
            assert others == {busy: HERD - 1}
            held = holder_of(answers[winners[0]])
            fences.append(held["fence"])
            assert held["assignee"] == f"w{winners[0]}"
            assert refusal(herd[winners[0]].ask(ask("issue.lease_release", **held))) is None
        assert running.terminate() == 0, running.complaint()
    assert fences == sorted(set(fences))
    rows = 1 + 3 * (HERD + 1)
    assert len(journal_rows(state_dir)) == rows
    assert report_of("replay", "--state-dir", state_dir)["rows"] == rows


# --- the moment when a lease is over --------------------------------------------------------------


class Scene:
    """Ada holds `x` until `END`; what is asked is asked in one batch."""

    END = START_MS + TTL_MS

    def __init__(self, office: Office) -> None:
        self._office = office
        self.ask(ask("issue.add", START_MS, id="x", title="work"))
        ttl = {"leaseTtlSeconds": limits.TTL_SECONDS_MIN}
        [claim] = self.ask(ask("issue.claim", START_MS, id="x", assignee="ada", **ttl))
        self.ada = holder_of(claim)

    def ask(self, *requests: dict[str, Any]) -> list[dict[str, Any]]:
        door = Door("mcp", frozen_clock=True)
        lines = [(orjson.dumps(request), door) for request in requests]
        return [orjson.loads(answer) for answer in self._office.submit_lines(lines)]


@pytest.mark.parametrize("office", OFFICES, ids=lambda office: office.boundary)
@pytest.mark.parametrize("last", ["issue.close", "issue.lease_release", "issue.lease_renew"])
def test_a_holder_that_acts_on_the_last_tick_is_not_rescued(
    state_dir: Path, office: type[Office], last: str
) -> None:
    with office(state_dir) as opened:
        scene = Scene(opened)
        acted, rescued = scene.ask(
            ask(last, scene.END, **scene.ada),
            ask("issue.claim_next", scene.END + 1, assignee="bob"),
        )
        assert refusal(acted) is None
        assert ("issue" in rescued) is (last == "issue.lease_release"), "only what is free"


@pytest.mark.parametrize("office", OFFICES, ids=lambda office: office.boundary)
@pytest.mark.parametrize("rescue", ["issue.claim_next", "issue.claim"])
@pytest.mark.parametrize(
    "late", ["issue.close", "issue.lease_release", "issue.lease_renew", "issue.update"]
)
def test_a_holder_that_comes_behind_its_rescue_changes_nothing(
    state_dir: Path, office: type[Office], rescue: str, late: str
) -> None:
    """Even with a time of its own that lies before it: the journal's order counts."""
    which = {"id": "x"} if rescue == "issue.claim" else {}
    with office(state_dir) as opened:
        scene = Scene(opened)
        rescued, acted, shown = scene.ask(
            ask(rescue, scene.END + 1, assignee="bob", **which),
            ask(late, scene.END, **scene.ada),
            ask("issue.show", scene.END, id="x"),
        )
        assert refusal(acted) == "lease_fence_stale"
        assert acted["effect"]["fence"] == rescued["issue"]["lease"]["fence"]
        assert shown["issue"]["lease"]["owner"] == "bob"
        assert shown["issue"]["status"] == "in_progress"


@pytest.mark.parametrize("office", OFFICES, ids=lambda office: office.boundary)
def test_a_lapsed_lease_that_was_not_taken_is_over_all_the_same(
    state_dir: Path, office: type[Office]
) -> None:
    with office(state_dir) as opened:
        scene = Scene(opened)
        closed, renewed = scene.ask(
            ask("issue.close", scene.END + 1, **scene.ada),
            ask("issue.lease_renew", scene.END, **scene.ada),
        )
        assert refusal(closed) == refusal(renewed) == "lease_stale"


@pytest.mark.parametrize("office", OFFICES, ids=lambda office: office.boundary)
def test_an_operator_who_breaks_what_was_just_finished_breaks_nothing(
    state_dir: Path, office: type[Office]
) -> None:
    with office(state_dir) as opened:
        scene = Scene(opened)
        closed, broken, shown = scene.ask(
            ask("issue.close", scene.END, **scene.ada),
            ask("issue.lease_break", scene.END, id="x", reason="it hangs"),
            ask("issue.show", scene.END, id="x"),
        )
        assert refusal(closed) is None
        assert refusal(broken) == "lease_issue_closed"
        assert shown["issue"]["status"] == "closed"


def test_of_a_holder_and_its_rescuer_at_the_same_time_one_wins(state_dir: Path) -> None:
    """Two connections, and one is heard first; a rescue moves the time, a close does not."""
    won: Counter[str] = Counter()
    ttl = {"leaseTtlSeconds": limits.TTL_SECONDS_MIN}
    with (
        Serve(state_dir, "--frozen-clock") as running,
        Peer(running.ready().state_dir) as ada,
        Peer(state_dir) as bob,
    ):
        for number in range(60):
            now, name = START_MS + number * 10 * TTL_MS, f"x{number}"
            ada.ask(ask("issue.add", now, id=name, title="work"))
            held = holder_of(ada.ask(ask("issue.claim", now, id=name, assignee="ada", **ttl)))
            close = ask("issue.close", now + TTL_MS, **held)
            claim = ask("issue.claim", now + TTL_MS + 1, id=name, assignee="bob", **ttl)
            turns = [(ada, close), (bob, claim)]
            for peer, request in turns if number % 2 else reversed(turns):
                peer.send(request)
            ended = (refusal(ada.answer()), refusal(bob.answer()))
            assert ended in {(None, "lease_issue_closed"), ("lease_fence_stale", None)}
            won["ada" if ended[0] is None else "bob"] += 1
        assert running.terminate() == 0, running.complaint()
    assert min(won["ada"], won["bob"]) > 0, "both happen"
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 240
