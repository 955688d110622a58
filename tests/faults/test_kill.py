"""A sidecar that is killed under the load of clients that keep a log."""

import os
import random
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.authority.sidecar.peer import Peer, add, refusal, served_by
from tests.faults.crew import CREW, ISSUES, Crew
from tests.faults.history import assert_one_holder, history, linearizable
from tests.patience import eventually
from tests.surfaces.process import Serve, journal_rows, report_of
from understudy.authority import SOCKET, Office

ROUNDS = int(os.environ.get("UNDERSTUDY_CRASH_ROUNDS", "12"))
SEEDS = range(3)


def prove(state_dir: Path, calls: Sequence[dict[str, Any]]) -> None:
    """Nothing that was heard is lost, nothing was done twice, nobody ever shared a lease."""
    rows = journal_rows(state_dir)
    by_request: dict[str, dict[str, Any]] = {}
    for _, _, request, response in rows:
        name = orjson.loads(request)["payload"].get("requestId")
        if name is not None:
            assert name not in by_request, "it was done twice"
            by_request[name] = orjson.loads(response)
    heard = [call for call in calls if "answer" in call]
    assert len(heard) > 20, "there was no load"
    for call in heard:
        assert by_request[call["payload"]["requestId"]] == call["answer"]
    for issue in ISSUES:
        ops = history(calls, issue)
        assert_one_holder(ops)
        assert linearizable(ops)
    assert report_of("replay", "--state-dir", state_dir)["rows"] == len(rows)
    assert report_of("verify", "--state-dir", state_dir)["rows"] == len(rows)


def prepare(state_dir: Path) -> None:
    with Office(state_dir) as office:
        for issue in ISSUES:
            assert office.ask("issue.add", {"id": issue, "title": "t"})["result"] == "accepted"


@pytest.mark.timeout(120 + 12 * ROUNDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_kills_of_a_sidecar_under_the_load_of_many_clients_lose_nothing(
    state_dir: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    prepare(state_dir)
    with ExitStack() as everybody:
        running = everybody.enter_context(Serve(state_dir)).ready()
        crew = everybody.enter_context(Crew(state_dir, tmp_path, seed)).assemble()
        for _ in range(ceil(ROUNDS / len(SEEDS))):
            crew.hear(chance.randrange(1, 80))
            for _ in range(chance.randrange(2000)):
                os.sched_yield()  # until some moment of a commit, or between two
            running.kill()
            running = everybody.enter_context(Serve(state_dir))
        crew.hear(40)
        crew.kill(chance.choice(CREW))  # it never hears what became of its last call
        crew.hear(10)
        crew.finish()
        assert running.terminate() == 0, running.complaint()
        prove(state_dir, crew.calls())


def test_what_a_killed_sidecar_left_behind_is_in_nobody_s_way(state_dir: Path) -> None:
    with Serve(state_dir) as first:
        first.ready()
        with Peer(state_dir) as peer:
            peer.ask(add(1))
        first.kill()
    assert (state_dir / SOCKET).is_socket()
    assert (state_dir / "lock").read_text() == f"{first.pid}\n"
    assert report_of("issue", "add", "t", "--id", "i2", "--state-dir", state_dir)["seq"] == 2
    with Serve(state_dir) as second:
        second.ready()
        with Peer(state_dir) as peer:
            assert peer.ask(add(3))["seq"] == 3
        assert second.terminate() == 0
    assert not (state_dir / SOCKET).exists()
    assert report_of("verify", "--state-dir", state_dir)["rows"] == 3


def test_of_many_starters_one_serves_and_another_takes_its_place(state_dir: Path) -> None:
    with ExitStack() as everybody:
        starters = {
            each.pid: each for each in (everybody.enter_context(Serve(state_dir)) for _ in "8" * 8)
        }
        for place, number in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
            eventually(lambda: served_by(state_dir) in starters)
            with Peer(state_dir) as peer:
                winner = starters.pop(peer.server["pid"])
                assert refusal(peer.ask(add(place))) is None
            assert all(each.process.poll() is None for each in starters.values()), "they wait"
            winner.signal(number)
            winner.wait()
        eventually(lambda: served_by(state_dir) in starters)
    rows = journal_rows(state_dir)
    assert [row[1] for row in rows] == [1, 2, 3], "each was the only writer of its time"
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 3
