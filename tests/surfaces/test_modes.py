"""One journal, whatever writes it: C or Python, in this process or behind a socket, in any order.

The same lines are taken by one mode, and by others that take turns; whatever is on disk in the end
is the same to the byte.
"""

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.authority.sidecar.peer import Peer
from tests.fakes.desk import Desk
from tests.native.walk import Walk
from tests.surfaces.conftest import Run
from tests.surfaces.process import Serve
from understudy.authority import TABLES, TRAJECTORY, Office, create_state_dir, open_journal
from understudy.authority.engine import ffi
from understudy.authority.engine.engine import recover
from understudy.authority.journal.journal import Row
from understudy.authority.law.image import dump
from understudy.authority.service.client import Client
from understudy.authority.service.native_local import NativeOffice
from understudy.authority.views.replay import replay
from understudy.authority.views.trajectory import verify
from understudy.contracts import Door, parse

START_MS = 4_000_000_000_000  # ahead of any clock, so that only `now` moves the time
LINES = 120  # in one part
Line = tuple[bytes, Door]
Submit = Callable[[Sequence[Line]], list[bytes]]


# --- modes ----------------------------------------------------------------------------------------


@contextmanager
def reference(state_dir: Path) -> Iterator[Submit]:
    with Office(state_dir) as office:
        yield office.submit_lines


@contextmanager
def in_c(state_dir: Path) -> Iterator[Submit]:
    with NativeOffice(state_dir) as office:
        yield office.submit_lines


@contextmanager
def served(state_dir: Path, *flags: str, killed: bool = False) -> Iterator[Submit]:
    """A process, and a connection for each door; one door waits for the other."""
    with Serve(state_dir, "--frozen-clock", *flags) as running, ExitStack() as doors:
        running.ready()
        peers: dict[Door, Peer] = {}

        def submit(lines: Sequence[Line]) -> list[bytes]:
            answers: list[bytes] = []
            for door, run in groupby(lines, lambda each: each[1]):
                if door not in peers:
                    peers[door] = doors.enter_context(Peer(state_dir, _hello(door)))
                data = [line for line, _ in run]
                peers[door].write(b"".join(line + b"\n" for line in data))
                answers += [peers[door].line().removesuffix(b"\n") for _ in data]
            return answers

        yield submit
        if not killed:
            assert running.terminate() == 0, running.complaint()


def _hello(door: Door) -> dict[str, Any]:
    said = {"protocol": 1, "transport": door.transport, "frozenClock": door.frozen_clock}
    return {"hello": said}


MODES: dict[str, Callable[[Path], Any]] = {
    "reference": reference,
    "sidecar": served,
    "sidecar of the reference": lambda folder: served(folder, "--boundary", "reference"),
    "killed sidecar": lambda folder: served(folder, killed=True),
}
if ffi.available():
    MODES["native"] = in_c


# --- what is written ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """All that a state directory holds, but for snapshots, which may be taken at any time."""

    answers: list[bytes]
    rows: list[Row]
    trajectory: bytes
    tables: dict[str, list[Any]]
    image: bytes


def parts_of(seed: int, count: int) -> list[list[Line]]:
    """Parts of a random walk that reads its answers, as the reference gives them."""
    walk = Walk(seed)
    walk.now_ms = START_MS
    lines: list[Line] = []
    authority = Desk().authority
    for line, door in walk.lines(3 * count * LINES):
        if line.strip() and b"\n" not in line:  # else it is no line, or two
            lines.append((line, door))
            walk.heard(authority.submit([parse(line, door)])[0][0])
        if len(lines) == count * LINES:
            break
    return [lines[start : start + LINES] for start in range(0, len(lines), LINES)]


def write(state_dir: Path, parts: Sequence[Sequence[Line]], modes: Sequence[str]) -> Written:
    """Each part in its mode, in batches of any size; then a line that brings all up to date."""
    answers = []
    for number, (part, mode) in enumerate(zip(parts, modes, strict=True)):
        chance, start = random.Random(number), 0
        with MODES[mode](state_dir) as submit:
            while start < len(part):
                end = start + chance.choice((1, 2, 7, 40))
                answers += submit(part[start:end])
                start = end
    with Office(state_dir) as office:
        last = b'{"action":"issue.add","payload":{"id":"last","title":"t"},"now":%d}'
        line = last % (START_MS + 10**10)
        answers += office.submit_lines([(line, Door("cli", frozen_clock=True))])
    return _written(state_dir, answers)


def _written(state_dir: Path, answers: list[bytes]) -> Written:
    with open_journal(state_dir, read_only=True) as journal:
        state, head, _ = recover(journal)
        replayed = replay(journal)
        assert (replayed.mismatch, replayed.head) == (None, head)
        assert verify(state_dir / TRAJECTORY, journal) == (head.seq, None)
        rows = list(journal.read())
    trajectory = (state_dir / TRAJECTORY).read_bytes()
    return Written(answers, rows, trajectory, _tables(state_dir / TABLES), dump(state))


def _tables(path: Path) -> dict[str, list[Any]]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        names = [
            name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")
        ]
        return {name: sorted(db.execute(f"SELECT * FROM {name}"), key=repr) for name in names}
    finally:
        db.close()


# --- the same bytes -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts() -> list[list[Line]]:
    return parts_of(1, 2)


@pytest.fixture(scope="module")
def plain(parts: list[list[Line]], tmp_path_factory: pytest.TempPathFactory) -> Written:
    state_dir = tmp_path_factory.mktemp("plain") / "state"
    create_state_dir(state_dir, "local")
    found = write(state_dir, parts, ["reference"] * len(parts))
    assert len(found.rows) > LINES, "something happens"
    return found


def test_modes_take_turns_and_leave_no_trace(state_dir: Path, tmp_path: Path) -> None:
    turns = every_turn()
    assert {*pairwise(turns)} == {*product(MODES, repeat=2)}
    parts = parts_of(2, len(turns))
    other = tmp_path / "other"
    shutil.copytree(state_dir, other)
    assert write(state_dir, parts, turns) == write(other, parts, ["reference"] * len(turns))


def every_turn() -> list[str]:
    """An order in which each mode once follows each other one, and itself."""
    ahead = {mode: [*MODES] for mode in MODES}
    way, done = [*MODES][:1], []
    while way:
        if ahead[way[-1]]:
            way.append(ahead[way[-1]].pop())
        else:
            done.append(way.pop())
    return done[::-1]


def test_what_one_mode_wrote_every_mode_reads_alike(
    state_dir: Path, parts: list[list[Line]], plain: Written
) -> None:
    write(state_dir, parts, ["native" if "native" in MODES else "sidecar", "sidecar"])
    for office in (Office, NativeOffice) if ffi.available() else (Office,):
        with office(state_dir, writable=False) as opened:
            assert dump(opened.authority.state) == plain.image
            assert opened.authority.head.digest == plain.rows[-1].digest


# --- in our own time ------------------------------------------------------------------------------


def test_commands_and_sidecars_take_turns_on_one_lease(state_dir: Path, call: Run) -> None:
    assert call("issue", "add", "work", "--id", "w").code == 0
    with Serve(state_dir) as first:
        first.ready()
        lease = call("issue", "claim", "w", "--assignee", "ada", "--json").json["issue"]["lease"]
        holder = ("--assignee", "ada", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
        patient = Client(state_dir, "mcp")
        assert first.terminate() == 0
    assert call("issue", "renew", "w", *holder).code == 0
    held = {"id": "w", "assignee": "ada", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    with Serve(state_dir, "--boundary", "reference") as second, patient:
        asked = held | {"notes": "half", "requestId": "r1"}
        updated = patient.ask("issue.update", asked)
        assert patient.server["pid"] == second.pid
        assert call("issue", "claim", "w", "--assignee", "bob").code == 5
        second.kill()
        assert call("issue", "update", "w", *holder, "--notes", "more").code == 0
        with Serve(state_dir) as third:
            assert patient.ask("issue.update", asked) == updated, "the first answer, again"
            assert call("issue", "show", "w", "--json").json["issue"]["notes"] == "more"
            assert call("issue", "close", "w", *holder).code == 0
            assert third.terminate() == 0
    assert call("issue", "update", "w", *holder, "--notes", "late").code == 5
    with open_journal(state_dir, read_only=True) as journal:
        epochs = [row.epoch for row in journal.read()]
    assert epochs == [1, 2, 3, 4, 4, 5, 6, 7], "each writer has its own, and they do not mix"
    assert call("replay", "--json").json["rows"] == call("verify", "--json").json["rows"] == 8
