"""The stage: how long supervision takes, and what the whole tree gets through.

    child killed to restarted    a supervisor's child, ended by SIGKILL (in Erlang: `kill`)
    one of so many children      started one by one under a dynamic supervisor
    start of the tree            from nothing to a tree that would work
    lease broken to gone         from an operator's word to the end of the command
    issues                       through dispatcher, workers, authority and evidence, to `closed`

A child of ours is a process of the operating system; a child of Erlang's is one of its own, and
actors of Pykka are threads. They are shown beside ours to say what that costs, not as rivals. What
Pykka and Ray lack (both restart nothing by themselves) is left out.
"""

import importlib
import importlib.util
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.progress import Progress
from benchmarks.systems.understudy import fill
from understudy.actors.otp import (
    ChildInfo,
    ChildSpec,
    Flags,
    GenServer,
    Start,
    StartChild,
    WhichChildren,
    supervise,
)
from understudy.actors.otp import supervise_dynamic as dynamic
from understudy.actors.otp.carriers.inline.system import Inline
from understudy.actors.otp.carriers.process import Troupe
from understudy.actors.otp.identity import identity
from understudy.actors.tree import Plan, Tree, handler_command, shell_command
from understudy.authority.service import client

OURS, INLINE, ERLANG, PYKKA, RAY = "ours", "ours, one thread", "Erlang", "Pykka", "Ray"
SYSTEMS = (OURS, INLINE, ERLANG, PYKKA, RAY)
RESTART = "child killed to restarted, ms"
FEW, MANY = "one of 50 children, ms", "one of 1,000 children, ms"
START, BROKEN = "start of the tree, ms", "lease broken to its command gone, ms"
COMMANDS, HANDLERS = "issues a second, no-op command", "issues a second, Python handler"

Found = dict[str, dict[str, list[float]]]  # measure, system, a figure a round
_PATIENCE_SECONDS = 60.0
_Value = TypeVar("_Value")


class Idle(GenServer):
    """A child that has nothing to do."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name


def measure(
    folder: Path, rounds: int, issues: int, progress: Progress, *, quick: bool = False
) -> Found:
    folder.mkdir()
    found: Found = {}

    def note(name: str, system: str, figures: list[float]) -> None:
        found.setdefault(name, {}).setdefault(system, []).extend(figures)

    for number in range(rounds):
        at = f"stage, round {number + 1} of {rounds}"
        progress.say(f"{at}: supervision")
        with Troupe(folder / f"troupe-{number}") as system:
            note(RESTART, OURS, _restarts(system, 5))
            note(FEW, OURS, [_children(system, 50)])
        if number == 0 and not quick:  # a thousand processes take their time
            with Troupe(folder / "troupe-many") as system:
                note(MANY, OURS, [_children(system, 1_000)])
        note(MANY, INLINE, [_children(Inline(), 1_000)])
        for peer, figures in _peers():
            for name, figure in figures.items():
                note(name, peer, [figure])
        progress.say(f"{at}: the tree")
        with _tree(folder / f"idle-{number}", 1, shell_command("sleep 60"), 4) as (tree, started):
            note(START, OURS, [started * 1000])
            note(BROKEN, OURS, [_broken(tree)])
        for name, argv in ((COMMANDS, shell_command(":")), (HANDLERS, handler_command(_HANDLER))):
            progress.say(f"{at}: {name}")
            place = folder / f"{'exec' if name == COMMANDS else 'handler'}-{number}"
            with _tree(place, issues, argv, 4) as (tree, _):
                note(name, OURS, [_rate(tree, issues)])
    return found


_HANDLER = "benchmarks.handler:work"


# --- supervision ----------------------------------------------------------------------------------


def _restarts(system: Troupe, count: int) -> list[float]:
    spec = ChildSpec("one", Start(Idle, ("one",), "one"))
    system.spawn(supervise([spec], Flags(intensity=1_000, period_ms=1_000), "sup"))
    return [_restart(system) for _ in range(count)]


def _restart(system: Troupe) -> float:
    def child() -> ChildInfo:
        children = system.call("sup", WhichChildren(), 5_000)
        assert isinstance(children, list)
        assert isinstance(children[0], ChildInfo)
        return children[0]

    before = _until(lambda: child() if child().pid else None)
    assert before.pid is not None
    begun = time.perf_counter()
    identity(before.pid).kill()
    _until(lambda: child().pid not in (None, before.pid) or None)
    return (time.perf_counter() - begun) * 1000


def _children(system: Any, count: int) -> float:  # either carrier
    """Milliseconds for each."""
    system.spawn(dynamic(count, name="many"))
    spec = ChildSpec("idle", Start(Idle, (), "idle"), "temporary")
    begun = time.perf_counter()
    for _ in range(count):
        system.call("many", StartChild(spec), 30_000)
    return (time.perf_counter() - begun) * 1000 / count


def _peers() -> Iterator[tuple[str, dict[str, float]]]:
    if shutil.which("escript"):
        script = Path(__file__).with_name("stage.escript")
        said = subprocess.run(
            ["escript", script, "1000", "51"],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        found = dict(line.split() for line in said.splitlines())
        yield ERLANG, {RESTART: float(found["restart"]) / 1e3, MANY: float(found["start"]) / 1e3}
    if importlib.util.find_spec("pykka"):
        yield PYKKA, {MANY: _pykka_children(1_000)}
    if importlib.util.find_spec("ray"):
        yield RAY, {FEW: _ray_children(50)}


def _pykka_children(count: int) -> float:
    pykka: Any = importlib.import_module("pykka")

    class Actor(pykka.ThreadingActor):  # type: ignore[misc]  # pykka may be missing
        def ready(self) -> None: ...

    begun = time.perf_counter()
    for _ in range(count):
        Actor.start().proxy().ready().get()
    took = time.perf_counter() - begun
    pykka.ActorRegistry.stop_all()
    return took * 1000 / count


def _ray_children(count: int) -> float:
    ray: Any = importlib.import_module("ray")

    class Actor:
        def ready(self) -> None: ...

    ray.init(num_cpus=2, log_to_driver=False)
    begun = time.perf_counter()
    for _ in range(count):
        ray.get(ray.remote(Actor).options(num_cpus=0).remote().ready.remote())
    took = time.perf_counter() - begun
    ray.shutdown()
    return took * 1000 / count


# --- the tree -------------------------------------------------------------------------------------


@contextmanager
def _tree(
    folder: Path, issues: int, argv: tuple[str, ...], slots: int
) -> Iterator[tuple[Tree, float]]:
    """A tree over so many issues, and how long it took to start."""
    fill(folder, issues)
    root = Path(__file__).parents[1]
    plan = Plan(folder.absolute(), argv, slots, grace_ms=1_000, cwd=root)
    begun = time.perf_counter()
    with Tree(plan) as tree:
        yield tree, time.perf_counter() - begun


def _broken(tree: Tree) -> float:
    def pid() -> int | None:
        terms = tree.picture()["dispatcher"].get("terms", [])
        return terms[0]["pid"] if terms else None

    command = identity(_until(pid))
    with client.Client(tree.plan.state_dir, "cli") as door:
        begun = time.perf_counter()
        answer = door.ask("issue.lease_break", {"id": "i0", "reason": "bench"})
        assert answer["result"] == "accepted", answer
        _until(lambda: not command.is_alive or None)
        return (time.perf_counter() - begun) * 1000


def _rate(tree: Tree, issues: int) -> float:
    """From the first claim to the last close, by the authority's own stamps."""
    with client.Client(tree.plan.state_dir, "cli") as door:

        def closed() -> bool | None:
            found = door.ask("issue.list", {"status": "closed"})["issues"]
            return len(found) == issues or None

        begun = time.perf_counter()
        _until(closed, pause_seconds=0.05)
        return issues / (time.perf_counter() - begun)


def _until(look: Callable[[], _Value | None], pause_seconds: float = 0.001) -> _Value:
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while (found := look()) is None:
        if time.monotonic() > give_up:
            raise TimeoutError("it never came to that")
        time.sleep(pause_seconds)
    return found


def summary(found: Found) -> dict[str, dict[str, float]]:
    """Medians."""
    return {
        name: {system: statistics.median(figures) for system, figures in by_system.items()}
        for name, by_system in found.items()
    }
