"""A sidecar that is killed under the load of clients that keep a log."""

import os
import random
import signal
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.authority.sidecar.peer import Peer, add, refusal, served_by
from tests.faults.crew import CREW, ISSUES, Crew, told
from tests.faults.history import UNDECIDED, problems
from tests.patience import eventually
from tests.surfaces.process import Serve, journal_rows, report_of
from understudy.authority import SOCKET, TRAJECTORY, Office, open_journal
from understudy.authority.views.replay import replay

ROUNDS = int(os.environ.get("UNDERSTUDY_CRASH_ROUNDS", "3"))
ROUNDS_PER_STATE = min(ROUNDS, 10)  # a long journal makes each proof long
SEEDS = range(ceil(ROUNDS / ROUNDS_PER_STATE))


class Siege:
    """A sidecar and its crew; what is killed is proved, and started again."""

    def __init__(self, state_dir: Path, folder: Path, seed: int, everybody: ExitStack) -> None:
        self._state_dir, self._everybody = state_dir, everybody
        self._chance = random.Random(seed)
        self._serve()
        self.running.ready()
        self.crew = everybody.enter_context(Crew(state_dir, folder, seed)).assemble()

    def round(self) -> None:
        """Some load, some trouble, a kill at some moment, and a look at what is left."""
        chance = self._chance
        self.crew.hear(chance.randrange(1, 80))
        sleeper = self.crew.processes[chance.choice(CREW)]
        if chance.random() < 0.3:
            sleeper.halt()  # for longer than most of its leases last
        if chance.random() < 0.2:
            self.running.halt()
            self._pause(0.3)
            self.running.wake()
        for _ in range(chance.randrange(2000)):
            os.sched_yield()  # until some moment of a commit, or between two
        self.running.kill()
        self.prove()
        sleeper.wake()
        self._serve()
        if chance.random() < 0.2:
            self._pause(0.5)
            self.running.kill()  # while it starts, or when it has just begun
            self._serve()

    def finish(self) -> None:
        """A client dies as well, and everybody else ends in peace."""
        self.crew.hear(40)
        self.crew.processes[self._chance.choice(CREW)].kill()  # it never hears of its last call
        self.crew.hear(10)
        self.crew.finish()
        assert self.running.terminate() == 0, self.running.complaint()

    def prove(self) -> None:
        """Nothing that was heard is lost, nothing was done twice, and replay agrees."""
        rows = journal_rows(self._state_dir)
        prove_heard(rows, self.crew.calls())
        prove_evidence(self._state_dir / TRAJECTORY, rows)
        with open_journal(self._state_dir, read_only=True) as journal:
            result = replay(journal)
        assert (result.mismatch, result.rows) == (None, len(rows))

    def _serve(self) -> None:
        self.running = self._everybody.enter_context(Serve(self._state_dir, "--frozen-clock"))

    def _pause(self, seconds_max: float) -> None:
        threading.Event().wait(self._chance.random() * seconds_max)


def prove_heard(rows: Sequence[tuple[Any, ...]], calls: Sequence[dict[str, Any]]) -> None:
    """Each answer is that of its row; each row is of one call, and no call has two."""
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    by_request: dict[str, dict[str, Any]] = {}
    for _, _, request, response in rows[len(ISSUES) :]:
        name = orjson.loads(request)["payload"]["requestId"]
        assert name not in by_request, "it was done twice"
        by_request[name] = orjson.loads(response)
    changes = {
        call["payload"]["requestId"]: call for call in calls if call["action"] != "issue.show"
    }
    assert by_request.keys() <= changes.keys(), "it was not asked for"
    for name, call in changes.items():
        if call.get("answer", {}).get("failureClasses", [UNDECIDED]) != [UNDECIDED]:
            assert by_request[name] == call["answer"]


def prove_evidence(path: Path, rows: Sequence[tuple[Any, ...]]) -> None:
    """The trajectory may be behind, and its last line may be torn; what is there is right."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    assert len(lines) <= len(rows)
    for line, row in zip(lines, rows, strict=False):
        assert orjson.loads(line)["effect"] == orjson.loads(row[3])["effect"]


@pytest.mark.timeout(120 + 12 * ROUNDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_kills_of_a_sidecar_under_the_load_of_many_clients_lose_nothing(
    state_dir: Path, tmp_path: Path, seed: int
) -> None:
    with Office(state_dir) as office:
        for issue in ISSUES:
            assert office.ask("issue.add", {"id": issue, "title": "t"})["result"] == "accepted"
    with ExitStack() as everybody:
        siege = Siege(state_dir, tmp_path, seed, everybody)
        for _ in range(ROUNDS_PER_STATE):
            siege.round()
        siege.finish()
        siege.prove()
        calls = siege.crew.calls()
    assert sum("answer" in call for call in calls) > 20 * ROUNDS_PER_STATE, "there was no load"

    assert problems(calls, told) == []
    rows = len(journal_rows(state_dir))
    assert report_of("replay", "--state-dir", state_dir)["rows"] == rows
    assert report_of("verify", "--state-dir", state_dir)["rows"] == rows


def test_what_a_killed_sidecar_left_behind_is_in_no_one_s_way(state_dir: Path) -> None:
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
