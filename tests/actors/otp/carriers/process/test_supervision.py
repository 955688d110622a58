"""Supervisors and servers as they are, on processes."""

import os
import signal
from pathlib import Path

import pytest

from tests.actors.otp.carriers.process.cast import Fragile, Scribe
from tests.actors.otp.carriers.process.stage import Stage, puppet
from tests.patience import eventually
from understudy.actors.otp import (
    ChildInfo,
    ChildSpec,
    ExitReason,
    Flags,
    Ref,
    Start,
    StartChild,
    StartFailed,
    WhichChildren,
    supervise,
    supervise_dynamic,
)

pytestmark = pytest.mark.timeout(90)


def _which(stage: Stage, supervisor: Ref) -> dict[str, ChildInfo]:
    found = stage.troupe.call(supervisor, WhichChildren(), 20_000)
    assert isinstance(found, list | tuple)
    return {info.id: info for info in found}


def _specs(names: str) -> list[ChildSpec]:
    return [ChildSpec(name, Start(puppet, (True,), name)) for name in names]


@pytest.mark.parametrize(
    ("strategy", "restarted"),
    [("one_for_one", "b"), ("rest_for_one", "bc"), ("one_for_all", "abc")],
)
def test_a_killed_child_is_started_again_by_the_strategy(
    shared: Stage, strategy: str, restarted: str
) -> None:
    flags = Flags(strategy=strategy)  # type: ignore[arg-type]  # one of three words
    supervisor = shared.troupe.spawn(supervise(_specs("abc"), flags))
    before = _which(shared, supervisor)
    ref = before["b"].ref
    assert isinstance(ref, Ref)
    os.kill(ref.place.pid, signal.SIGKILL)

    def is_back() -> bool:
        after = _which(shared, supervisor)
        changed = {name for name in "abc" if after[name].ref != before[name].ref}
        return changed == set(restarted) and all(isinstance(after[name].ref, Ref) for name in "abc")

    eventually(is_back)


def test_a_tree_that_gives_up_takes_its_children_along(shared: Stage) -> None:
    flags = Flags(intensity=1, period_ms=60_000)
    supervisor = shared.troupe.spawn(supervise(_specs("ab"), flags))
    first = _which(shared, supervisor)
    other = first["a"].ref
    assert isinstance(other, Ref)
    for _ in range(2):
        ref = _which(shared, supervisor)["b"].ref
        assert isinstance(ref, Ref)
        os.kill(ref.place.pid, signal.SIGKILL)
        _wait_for_another(shared, supervisor, ref)
    assert shared.troupe.join(supervisor, 20_000) in (ExitReason("shutdown"), ExitReason("noproc"))
    eventually(lambda: not other.place.identity.is_alive)


def _wait_for_another(stage: Stage, supervisor: Ref, ref: Ref) -> None:
    eventually(lambda: _is_replaced(stage, supervisor, ref))


def _is_replaced(stage: Stage, supervisor: Ref, ref: Ref) -> bool:
    if not supervisor.place.identity.is_alive:
        return True
    try:
        found = _which(stage, supervisor)["b"].ref
    except Exception:  # noqa: BLE001 - it gave up in the middle of the question
        return True
    return isinstance(found, Ref) and found != ref


def test_children_stop_in_reverse_order(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    specs = [ChildSpec(name, Start(Scribe, (str(path), name), name)) for name in "abc"]
    stage.troupe.spawn(supervise(specs))
    stage.troupe.stop(10_000)
    lines = path.read_text().splitlines()
    assert lines == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]


def test_a_tree_that_cannot_start_says_so(shared: Stage, tmp_path: Path) -> None:
    specs = [*_specs("a"), ChildSpec("bad", Start(Fragile, (1, 2, 3), "bad"))]
    with pytest.raises(StartFailed):
        shared.troupe.spawn(supervise(specs))


def test_forty_dynamic_children_come_and_go(stage: Stage) -> None:
    supervisor = stage.troupe.spawn(supervise_dynamic())
    for number in range(40):
        spec = ChildSpec(str(number), Start(Fragile, (), str(number)))
        stage.troupe.call(supervisor, StartChild(spec), 20_000)
    assert len(stage.troupe.processes()) == 4 + 1 + 40
