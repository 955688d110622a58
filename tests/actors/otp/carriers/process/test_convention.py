"""Two systems on one machine that form a convention, as two machines would."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.actors.otp.carriers.process.cast import Fragile
from tests.actors.otp.carriers.process.stage import Stage, puppet
from tests.patience import eventually
from understudy.actors.otp import KILL, NORMAL, Down, ExitReason, Ref, Start, StartFailed
from understudy.actors.otp.carriers.process.birth import Charter
from understudy.actors.otp.carriers.process.registry import RegistryFolder
from understudy.actors.otp.carriers.process.thespian_actor import BUILD, Player, Requirements
from understudy.actors.otp.identity import Identity

pytestmark = pytest.mark.timeout(90)

GPU = {"gpu": True}
SECRET = b"of this convention"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Stage]]:
    folder = tmp_path_factory.mktemp("pair")
    shared = {"secret": SECRET, "sockets": folder / "sockets"}
    home = Stage(folder / "home", **shared)
    with home.troupe:
        leader = home.troupe.address
        away = Stage(folder / "away", capabilities=GPU, convention_leader=leader, **shared)
        with away.troupe:
            yield home, away


def _spawned(home: Stage) -> Ref:
    """A cell on the other system; that takes a moment to join."""
    found: list[Ref] = []

    def spawn() -> bool:
        try:
            found.append(home.troupe.spawn(Start(puppet, (True,), "guest"), on=GPU))
        except StartFailed as error:
            assert error.reason.kind == "noproc"  # noqa: PT017 - nothing else may be the matter
        return bool(found)

    eventually(spawn)
    return found[0]


def test_a_cell_is_spawned_where_the_capability_is(pair: tuple[Stage, Stage]) -> None:
    home, away = pair
    guest = _spawned(home)
    pid = home.tell(guest, "pid")
    assert pid in {each.pid for each in away.troupe.processes()}
    assert pid not in {each.pid for each in home.troupe.processes()}
    assert guest.system == home.troupe.name


def test_messages_and_answers_cross_the_border(pair: tuple[Stage, Stage]) -> None:
    home, _ = pair
    guest, local = _spawned(home), home.puppet()
    home.tell(local, "burst", guest, 1_000)
    eventually(lambda: home.tell(guest, "count") == 1_000)
    assert home.tell(guest, "numbers") == list(range(1_000))
    home.tell(local, "register", "at home")
    home.tell(guest, "send", "at home", "greetings")
    eventually(lambda: "greetings" in home.heard(local))
    assert home.tell(guest, "register", "at home too") is False


def test_a_cell_of_the_other_system_is_reached_by_its_own_reference(
    pair: tuple[Stage, Stage],
) -> None:
    home, away = pair
    host, visitor = away.puppet(), home.puppet()
    me = away.tell(host, "me")
    home.tell(visitor, "send", me, "hello over there")
    eventually(lambda: "hello over there" in away.heard(host))


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (lambda home, guest, pid: home.tell(guest, "leave", NORMAL), "normal"),
        (lambda home, guest, pid: home.troupe.signal(guest, ExitReason("shutdown")), "shutdown"),
        (lambda home, guest, pid: home.troupe.signal(guest, KILL), "killed"),
        (lambda home, guest, pid: os.kill(pid, signal.SIGKILL), "killed"),
    ],
    ids=["leave", "shutdown", "kill", "kill -9"],
)
def test_the_end_of_a_guest_is_heard_at_home(
    pair: tuple[Stage, Stage], end: Callable[[Stage, Ref, int], object], kind: str
) -> None:
    home, _ = pair
    guest, watcher = _spawned(home), home.puppet()
    pid = home.tell(guest, "pid")
    assert isinstance(pid, int)
    home.tell(watcher, "monitor", guest)
    home.tell(watcher, "pid")
    end(home, guest, pid)
    eventually(lambda: home.heard(watcher, Down))
    (down,) = home.heard(watcher, Down)
    assert isinstance(down, Down)
    assert (down.ref, down.reason.kind) == (guest, kind)


def test_a_guest_watches_who_is_at_home(pair: tuple[Stage, Stage]) -> None:
    home, _ = pair
    guest, local = _spawned(home), home.puppet()
    monitor = home.tell(guest, "monitor", local)
    home.tell(guest, "pid")
    os.kill(local.place.pid, signal.SIGKILL)
    eventually(lambda: home.heard(guest, Down))
    assert home.heard(guest, Down) == [
        Down(str(monitor), local, ExitReason("signal", "SIGKILL", 9))
    ]


def test_a_guest_has_children_of_its_own(pair: tuple[Stage, Stage]) -> None:
    home, away = pair
    guest = _spawned(home)
    one, other = (home.child(guest) for _ in range(2))
    assert one.place.pid in {each.pid for each in away.troupe.processes()}
    os.kill(one.place.pid, signal.SIGKILL)
    assert home.exited(guest, one).reason == ExitReason("signal", "SIGKILL", 9)
    home.tell(guest, "signal", other, ExitReason("shutdown"))
    assert home.exited(guest, other).reason == ExitReason("shutdown")


def test_a_guest_does_not_outlive_its_parent(pair: tuple[Stage, Stage]) -> None:
    home, _ = pair
    _spawned(home)
    parent = home.puppet()
    (guest,) = home.refs(parent, "spawn_on", Start(Fragile, (), "guest"), GPU)
    eventually(lambda: guest in home.started(parent))
    entry = home.troupe.run_dir / "live" / "cells" / guest.serial
    eventually(entry.exists)
    pids = {each.pid for each in pair[1].troupe.processes()}
    os.kill(parent.place.pid, signal.SIGKILL)
    eventually(lambda: len({each.pid for each in pair[1].troupe.processes()}) == len(pids) - 1)


def test_a_capability_that_no_system_has_is_refused(pair: tuple[Stage, Stage]) -> None:
    home, _ = pair
    with pytest.raises(StartFailed) as failed:
        home.troupe.spawn(Start(puppet, (True,)), on={"gpu": "quantum"})
    assert failed.value.reason == ExitReason("noproc", "no system could start it")


def test_a_system_with_other_code_hosts_no_cell() -> None:
    me = Ref("t", "0.1", "", RegistryFolder(""))
    charter = Charter(me, None, Identity(1, 1), b"")
    wanted = Requirements(charter, "ours", GPU)
    for build, gpu, may in (("ours", True, True), ("theirs", True, False), ("ours", 1.5, False)):
        found = Player.actorSystemCapabilityCheck({BUILD: build, "gpu": gpu}, wanted)
        assert found is may
    assert not Player.actorSystemCapabilityCheck({"gpu": True}, wanted)
    assert not Player.actorSystemCapabilityCheck({BUILD: "ours"}, None)
