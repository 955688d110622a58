"""The evidence writer: a process that follows the journal, and may die at any moment."""

import os
import random
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import apsw
import orjson
import pytest

from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import UNDERSTUDY, Program, Serve, Words, journal_rows, report_of
from understudy.actors.run import evidence_process
from understudy.actors.run.evidence_process import EvidenceWriter, follow, stirs
from understudy.authority import TRAJECTORY, Office, Unavailable, create_state_dir, open_journal
from understudy.authority.service.client import Client, ClientCall
from understudy.authority.views import trajectory
from understudy.contracts import Reason, limits
from understudy.surfaces.cli.main import cli
from understudy.surfaces.cli.session import run

ROUNDS = int(os.environ.get("UNDERSTUDY_CRASH_ROUNDS", "3"))


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "n1")
    return folder


def adds(office: Office, *names: str) -> None:
    for name in names:
        assert office.ask("issue.add", {"id": name, "title": "t"})["result"] == "accepted"


def shown(state_dir: Path) -> tuple[int, str | None]:
    with open_journal(state_dir, read_only=True) as journal:
        return trajectory.verify(state_dir / TRAJECTORY, journal)


@contextmanager
def refused(reason: Reason) -> Iterator[None]:
    with pytest.raises(Unavailable) as failure:
        yield
    assert failure.value.reason is reason


# --- one writer at a time -------------------------------------------------------------------------


def test_an_office_that_leaves_the_evidence_outside_writes_none(state_dir: Path) -> None:
    with Office(state_dir, evidence="outside") as office:
        assert office.evidence == "outside"
        adds(office, "a", "b")
        assert office.behind == 0
        assert not (state_dir / TRAJECTORY).exists()
        with EvidenceWriter(state_dir) as writer:
            assert [row.seq for row in writer.turn()] == [1, 2]
            assert shown(state_dir) == (2, None)
            adds(office, "c")
            assert [row.seq for row in writer.turn()] == [3]
            assert list(writer.turn()) == []
    assert shown(state_dir) == (3, None)


def test_a_command_leaves_the_trajectory_to_the_writer_that_has_it(state_dir: Path) -> None:
    with EvidenceWriter(state_dir) as writer:
        with Office(state_dir) as office:
            assert office.evidence == "outside"
            adds(office, "a")
        assert shown(state_dir)[0] == 0
        writer.turn()
        assert shown(state_dir) == (1, None)
        with Office(state_dir) as office:
            adds(office, "b")
    with Office(state_dir) as office:
        assert office.evidence == "inside"
        adds(office, "c")
    assert shown(state_dir) == (3, None), "the next one fills in what the writer left out"


def test_a_second_writer_waits_and_names_the_first(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 20)
    with EvidenceWriter(state_dir):
        with pytest.raises(Unavailable, match=f"held by process {os.getpid()}"):
            EvidenceWriter(state_dir)
        with Office(state_dir), refused(Reason.AUTHORITY_BUSY):
            EvidenceWriter(state_dir, wait_ms=0)
    EvidenceWriter(state_dir).close()
    with Office(state_dir), refused(Reason.AUTHORITY_BUSY):
        EvidenceWriter(state_dir)


def test_the_trajectory_is_not_rebuilt_under_its_writer(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 20)
    with EvidenceWriter(state_dir):
        assert run(cli, ["rebuild", "--state-dir", str(state_dir)]) == 75
    assert "authority_busy" in capsys.readouterr().err
    assert report_of("rebuild", "--state-dir", state_dir)["rows"] == 0


def test_without_a_journal_there_is_nothing_to_follow(tmp_path: Path) -> None:
    with refused(Reason.STATE_DIR_MISSING):
        EvidenceWriter(tmp_path)


# --- what it finds --------------------------------------------------------------------------------


def test_a_torn_last_line_is_cut_off_and_the_gap_is_filled(state_dir: Path) -> None:
    path = state_dir / TRAJECTORY
    with Office(state_dir) as office:
        adds(office, "a", "b", "c")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:-40])
    with EvidenceWriter(state_dir) as writer:
        assert path.read_bytes() == lines[0]
        assert [row.seq for row in writer.turn()] == [2, 3]
    assert path.read_bytes() == whole


def test_a_long_gap_is_filled_in_turns(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_process, "TURN_ROWS_MAX", 2)
    with Office(state_dir, evidence="outside") as office:
        adds(office, *"abcde")
    with EvidenceWriter(state_dir) as writer:
        turns = [[row.seq for row in writer.turn()] for _ in range(4)]
    assert turns == [[1, 2], [3, 4], [5], []]
    assert shown(state_dir) == (5, None)


def test_a_row_without_a_route_is_refused_and_so_is_all_behind_it(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Office(state_dir, evidence="outside") as office, EvidenceWriter(state_dir) as writer:
        adds(office, "a")
        writer.turn()
        adds(office, "b")
        with monkeypatch.context() as patch:
            patch.setattr(trajectory, "evidence_routes", dict)
            for _ in range(2):
                with refused(Reason.EVIDENCE_ROUTE_MISSING):
                    writer.turn()
        assert shown(state_dir)[0] == 1
        writer.turn()
    assert shown(state_dir) == (2, None)


@pytest.mark.parametrize("who", ["office", "writer"])
def test_a_journal_that_the_evidence_has_overtaken_is_not_gone_on_with(
    state_dir: Path, who: str
) -> None:
    with Office(state_dir) as office:
        adds(office, "a")
    with apsw.Connection(str(state_dir / "journal.db")) as db:
        db.execute("DELETE FROM journal")
    with refused(Reason.TRAJECTORY_MISMATCH):
        EvidenceWriter(state_dir) if who == "writer" else Office(state_dir, evidence="outside")


def test_a_line_that_is_not_the_journal_s_is_the_writers_to_refuse(state_dir: Path) -> None:
    """The sidecar starts: only the writer of the trajectory can say whether it can be mended."""
    with Office(state_dir) as office:
        adds(office, "a")
    with (state_dir / TRAJECTORY).open("ab") as file:
        file.write(b"no step of ours\n")
    with Office(state_dir, evidence="outside") as office:
        adds(office, "b")
    with refused(Reason.TRAJECTORY_MISMATCH):
        EvidenceWriter(state_dir)


# --- following ------------------------------------------------------------------------------------


class Turns(threading.Event):
    """An event that is never waited for, and is set after so many turns."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        if len(self.waits) == self.count:
            self.set()
        return self.is_set()


def test_a_journal_that_stands_still_is_looked_at_four_times_a_second(state_dir: Path) -> None:
    turns = Turns(8)
    follow(state_dir, turns)
    assert turns.waits == [0.04, 0.08, 0.16, *5 * [0.25]]


def test_a_writer_that_is_told_to_stop_goes_to_the_end_first(state_dir: Path) -> None:
    with Office(state_dir, evidence="outside") as office:
        adds(office, "a", "b")
    stop = threading.Event()
    stop.set()
    heard: list[int] = []
    follow(state_dir, stop, lambda rows: heard.extend(row.seq for row in rows))
    assert heard == [1, 2]
    assert shown(state_dir) == (2, None)


def test_rows_that_can_make_work_ready_stir(state_dir: Path) -> None:
    with Office(state_dir) as office:
        adds(office, "a")
        claim = office.ask("issue.claim", {"id": "a", "assignee": "ann"})
        office.ask("issue.claim", {"id": "a", "assignee": "bob"})
        lease = claim["issue"]["lease"]
        held = {"id": "a", "assignee": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        office.ask("issue.close", {"id": "a"})
        office.ask("issue.close", held)
        rows = list(office.journal.read())
    assert [stirs(row) for row in rows] == [True, False, False, False, True]


# --- real processes -------------------------------------------------------------------------------


class Load:
    """A client in a thread that asks on, over every restart, until it is told to stop."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _ask(self) -> None:
        try:
            with Client(self._state_dir, "mcp", retry_seconds=PATIENCE_SECONDS) as client:
                first = 0
                while not self._over.is_set():
                    client.ask_many([each for k in range(20) for each in _pair(first + k)])
                    first += 20
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._failure = error


def _pair(number: int) -> list[ClientCall]:
    issue = {"id": f"i{number}"}
    return [
        ClientCall("issue.add", issue | {"title": "t"}),
        ClientCall("issue.claim", issue | {"assignee": "ann"}),
    ]


def _has_grown(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size > size


def writer_of(state_dir: Path, failpoint: str = "") -> Program:
    words: Words = [UNDERSTUDY, "authority", "evidence", "--state-dir", state_dir]
    return Program(words, env={"UNDERSTUDY_FAILPOINT": failpoint} if failpoint else {})


def served(state_dir: Path) -> Serve:
    return Serve(state_dir, "--evidence", "outside")


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_a_writer_that_is_killed_under_load_leaves_one_unbroken_chain(state_dir: Path) -> None:
    chance = random.Random(4)
    path = state_dir / TRAJECTORY
    with ExitStack() as everybody:
        running = everybody.enter_context(served(state_dir)).ready()
        load = Load(state_dir)
        everybody.callback(load.end)
        for number in range(ROUNDS):
            before = path.stat().st_size if path.exists() else 0
            place = chance.choice(["trajectory.written", "trajectory.synced", ""])
            failpoint = f"{place}:{chance.randrange(1, 12)}" if place else ""
            with writer_of(state_dir, failpoint) as writer:
                eventually(partial(_has_grown, path, before))
                if failpoint:
                    assert writer.wait() == -signal.SIGKILL
                else:
                    threading.Event().wait(chance.random() * 0.2)
                    assert writer.process.poll() is None, writer.complaint()
                    writer.kill()
            if number % 3 == 2:  # the sidecar dies as well, or is told to leave
                running.kill() if number % 2 else running.terminate()
                running = everybody.enter_context(served(state_dir)).ready()
        load.end()
        with writer_of(state_dir) as writer:
            eventually(lambda: shown(state_dir)[1] is None)
            assert writer.terminate() == 0, writer.complaint()
        assert running.terminate() == 0, running.complaint()

    rows = len(journal_rows(state_dir))
    assert rows > 40 * ROUNDS, "there was no load"
    assert report_of("verify", "--state-dir", state_dir)["rows"] == rows
    assert report_of("replay", "--state-dir", state_dir)["rows"] == rows
    copy = state_dir.with_name("copy")
    shutil.copytree(state_dir, copy)
    assert report_of("rebuild", "--state-dir", copy)["rows"] == rows
    assert (copy / TRAJECTORY).read_bytes() == path.read_bytes()
    prev = None
    for line in path.read_bytes().splitlines():
        step = orjson.loads(line)
        assert prev is None or step["lineageRefs"] == [prev], "restarts do not break the lineage"
        prev = step["digest"]


def test_a_writer_keeps_up_with_a_sidecar_under_load(state_dir: Path) -> None:
    with served(state_dir) as running, writer_of(state_dir) as writer:
        running.ready()
        load = Load(state_dir)
        try:
            eventually(lambda: shown(state_dir)[0] > 2_000)
        finally:
            load.end()
        eventually(lambda: shown(state_dir)[1] is None)
        assert writer.terminate() == 0, writer.complaint()
        assert running.terminate() == 0, running.complaint()


def test_of_two_writers_the_second_takes_over_when_the_first_is_killed(state_dir: Path) -> None:
    with (
        served(state_dir) as running,
        writer_of(state_dir) as first,
        Client(running.ready().state_dir, "mcp") as client,
    ):
        client.ask("issue.add", {"id": "a", "title": "t"})
        eventually(lambda: shown(state_dir) == (1, None))
        with writer_of(state_dir) as second:
            first.kill()
            client.ask("issue.add", {"id": "b", "title": "t"})
            eventually(lambda: shown(state_dir) == (2, None))
            assert second.terminate() == 0, second.complaint()
