"""Three authorities and one journal in PostgreSQL: whatever happens, one at a time is at work.

Clients know all three, or the one of their own host, and are told of nothing.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.authority.sidecar.peer import Peer, add
from tests.faults.crew import ISSUES, Crew
from tests.faults.history import problems
from tests.faults.test_kill import prove_evidence, prove_heard
from tests.long import LONG
from tests.patience import eventually
from tests.services.postgres import Postgres, ours
from tests.services.server import private_folder
from tests.services.shared import SETTINGS, Database, excused
from tests.services.wire import Wire
from tests.surfaces.process import Serve, report_of
from understudy.authority import TRAJECTORY, Office, create_state_dir
from understudy.contracts import Exit

CREW = ("ada", "bob", "cyd")
HOSTS = 3


@pytest.fixture
def server() -> Iterator[Postgres]:
    """One that a test may crash."""
    with (
        excused(),
        private_folder(Path("/var/tmp")) as folder,
        closing(ours(folder / "pg", SETTINGS | {"fsync": "on"})) as found,
    ):
        yield found


class Fleet:
    """Hosts with a state directory, a wire to the database, and an authority each."""

    def __init__(
        self, server: Postgres, folder: Path, everybody: ExitStack, *, at_home: bool = False
    ) -> None:
        """Clients are `at_home` where each knows the authority of its own host alone."""
        self.server, self._everybody = server, everybody
        self._database = Database(server.url)
        url = self._database.url()
        self.wires = [everybody.enter_context(Wire(self._database.socket)) for _ in range(HOSTS)]
        self.homes = [folder / f"host{number}" for number in range(HOSTS)]
        for home, wire in zip(self.homes, self.wires, strict=True):
            create_state_dir(home, "n1", self._database.through(wire, url))
        with Office(self.homes[0]) as office:
            for issue in ISSUES:
                assert office.ask("issue.add", {"id": issue, "title": "t"})["result"] == "accepted"
        self.running = [self._served(home) for home in self.homes]
        known: str | dict[str, Path] = os.pathsep.join(map(str, self.homes))
        if at_home:
            known = dict(zip(CREW, self.homes, strict=True))
        self.crew = everybody.enter_context(Crew(known, folder, 1, CREW)).assemble()

    def _served(self, home: Path) -> Serve:
        return self._everybody.enter_context(Serve(home)).ready()

    def active(self) -> int:
        """Which host is at work, once one is."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [place for place in range(HOSTS) if self._is_active(place)]
            return len(found) == 1

        eventually(look)
        return found[0]

    def _is_active(self, place: int) -> bool:
        if self.running[place].process.poll() is not None or place in self.frozen:
            return False
        try:
            with Peer(self.homes[place]) as peer:
                return not peer.server.get("standby")
        except (OSError, AssertionError):
            return False

    frozen: frozenset[int] = frozenset()

    def mend(self) -> None:
        """An authority so slow that it was deposed says so, and is started again."""
        for place, running in enumerate(self.running):
            if running.process.poll() is not None:
                assert running.wait() == Exit.TRY_LATER, running.complaint()
                self.again(place)

    def again(self, place: int) -> None:
        """Start an authority that has ended."""
        self.running[place].wait()
        self.running[place] = self._served(self.homes[place])

    def rows(self) -> list[tuple[Any, ...]]:
        """Every row, read past our own code."""
        with self._database.connect() as db:
            (schema,) = db.execute(
                "SELECT nspname FROM pg_namespace WHERE nspname ~ '^s[0-9]+_'"
            ).fetchone() or ("",)
            query = f"SELECT seq, epoch, request, response FROM {schema}.journal ORDER BY seq"
            return db.execute(query).fetchall()


def killed(fleet: Fleet) -> None:
    place = fleet.active()
    fleet.running[place].kill()
    fleet.crew.hear(60)
    assert fleet.active() != place
    fleet.again(place)


def stopped_and_woken(fleet: Fleet) -> None:
    """It is deposed while it sleeps, and when it wakes it says so and ends."""
    place = fleet.active()
    fleet.running[place].halt()
    fleet.frozen = frozenset({place})
    assert fleet.active() != place
    fleet.running[place].wake()
    assert fleet.running[place].wait() == Exit.TRY_LATER
    assert "journal_deposed" in fleet.running[place].complaint()
    fleet.frozen = frozenset()
    fleet.crew.hear(60)
    fleet.again(place)


def cut_off(fleet: Fleet) -> None:
    """Nothing reaches the database from there, and no error says so."""
    place = fleet.active()
    fleet.wires[place].cut()
    fleet.frozen = frozenset({place})
    assert fleet.active() != place
    fleet.wires[place].heal()
    assert fleet.running[place].wait() == Exit.TRY_LATER
    fleet.frozen = frozenset()
    fleet.crew.hear(60)
    fleet.again(place)


def disconnected(fleet: Fleet) -> None:
    """It connects again, finds out what became of its last batch, and goes on."""
    fleet.wires[fleet.active()].reset()
    fleet.crew.hear(60)


def database_crashed(fleet: Fleet) -> None:
    fleet.server.crash()
    fleet.crew.hear(60)


def told_to_end(fleet: Fleet) -> None:
    place = fleet.active()
    assert fleet.running[place].terminate() == 0
    fleet.crew.hear(60)
    assert fleet.active() != place
    fleet.again(place)


TROUBLES: tuple[Callable[[Fleet], None], ...] = (
    killed, stopped_and_woken, cut_off, disconnected, database_crashed, told_to_end,
)  # fmt: skip


def test_an_authority_that_is_started_without_its_database_waits_for_it(
    server: Postgres, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    create_state_dir(home, "n1", Database(server.url).url())
    server.close()
    with Serve(home) as running:
        eventually(lambda: "waiting" in running.complaint())
        server.start()
        running.ready()
        with Peer(home) as peer:
            assert peer.ask(add(1))["result"] == "accepted"
        assert running.terminate() == 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "troubles", [[killed, cut_off], pytest.param(TROUBLES, marks=LONG)], ids=["some", "all"]
)
def test_no_work_is_lost_or_doubled_whatever_happens_to_the_active_one(
    server: Postgres, tmp_path: Path, troubles: Sequence[Callable[[Fleet], None]]
) -> None:
    with ExitStack() as everybody:
        rows = prove(Fleet(server, tmp_path, everybody), troubles)
    assert len({row[1] for row in rows}) >= len(troubles) - 1, "they took turns"


@LONG
@pytest.mark.timeout(600)
def test_no_work_is_lost_or_doubled_where_clients_know_their_own_host_alone(
    server: Postgres, tmp_path: Path
) -> None:
    with ExitStack() as everybody:
        prove(Fleet(server, tmp_path, everybody, at_home=True), TROUBLES)


def prove(fleet: Fleet, troubles: Sequence[Callable[[Fleet], None]]) -> list[tuple[Any, ...]]:
    """Nothing that was heard is missing, nothing is there twice, and all of it has an order."""
    behind_ns = time.time_ns() - time.monotonic_ns()
    for trouble in troubles:
        fleet.crew.hear(30)
        trouble(fleet)
        fleet.mend()
    fleet.crew.finish()
    calls = fleet.crew.calls()
    for running in fleet.running:
        assert running.terminate() in (0, Exit.TRY_LATER), running.complaint()
    rows = fleet.rows()
    epochs = [row[1] for row in rows]
    assert epochs == sorted(epochs)
    prove_heard(rows, calls)
    for home in fleet.homes:
        prove_evidence(home / TRAJECTORY, rows)
    assert report_of("replay", "--state-dir", fleet.homes[0])["rows"] == len(rows)
    assert problems(calls, lambda ns: (ns + behind_ns) / 1e6 + 1_000) == []
    return rows
