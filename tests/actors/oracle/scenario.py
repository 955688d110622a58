"""Scenarios for supervisors: random ones from a seed, and how Erlang reads them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from understudy.actors.otp.spec import AutoShutdown, Flags, Restart, Shutdown

Outcome = Literal["ok", "crash", "ignore", "normal", "shutdown"]  # of a start
Ending = Literal["normal", "shutdown", "{shutdown, more}", "boom", "kill"]
Manner = Literal["polite", "rude", "stubborn"]  # when told to stop: ends, crashes, or does not

OUTCOMES: tuple[Outcome, ...] = ("ok", "crash", "ignore", "normal", "shutdown")
ENDINGS: tuple[Ending, ...] = ("normal", "shutdown", "{shutdown, more}", "boom", "kill")
HOUR_MS = 3_600_000  # a period that no scenario outlasts: only counts matter


@dataclass(frozen=True)
class Worker:
    id: str
    restart: Restart = "permanent"
    shutdown: Shutdown = 5_000
    significant: bool = False
    outcomes: tuple[Outcome, ...] = ()  # of the first starts; the rest is fine
    manner: Manner = "polite"


@dataclass(frozen=True)
class Sup:
    id: str
    flags: Flags
    children: "tuple[Worker | Sup, ...]" = ()
    restart: Restart = "permanent"
    shutdown: Shutdown = "infinity"
    significant: bool = False


@dataclass(frozen=True)
class Exit:
    id: str
    ending: Ending


@dataclass(frozen=True)
class Ask:
    sup: str
    request: Literal["start_child", "terminate_child", "restart_child", "delete_child"]
    child: "Worker | Sup | str"


@dataclass(frozen=True)
class Burst:
    """What a supervisor finds in its mailbox at once."""

    sup: str
    parts: tuple[Exit | Ask, ...]


@dataclass(frozen=True)
class Wait:
    delay_ms: int


Step = Exit | Ask | Burst | Wait


@dataclass(frozen=True)
class Scenario:
    seed: int
    tree: Sup
    steps: tuple[Step, ...] = field(default=())


# --- from a seed ----------------------------------------------------------------------------------


def scenario(seed: int) -> Scenario:
    """A tree of up to three levels, and up to eight things that happen to it."""
    chance = random.Random(seed)
    tree = _sup(chance, _names(), depth=0)
    nodes = list(_all(tree))
    sups = [node for node in nodes if isinstance(node, Sup)]
    fresh = (f"x{n}" for n in range(100))
    steps = tuple(_step(chance, nodes, sups, fresh) for _ in range(chance.randint(1, 8)))
    return Scenario(seed, tree, steps)


def _names() -> Iterator[str]:
    return (f"n{n}" for n in range(1_000))


def _all(node: Worker | Sup) -> Iterator[Worker | Sup]:
    yield node
    if isinstance(node, Sup):
        for child in node.children:
            yield from _all(child)


def _sup(chance: random.Random, names: Iterator[str], depth: int) -> Sup:
    name = next(names)
    auto: AutoShutdown = chance.choice(["never", "never", "any_significant", "all_significant"])
    flags = Flags(
        strategy=chance.choice(["one_for_one", "one_for_all", "rest_for_one"]),
        intensity=chance.choice([0, 1, 2, 3, 5, 8]),
        period_ms=HOUR_MS,
        auto_shutdown=auto,
    )
    children: list[Worker | Sup] = []
    for _ in range(chance.randint(0 if depth else 1, 4)):
        if depth < 2 and chance.random() < 0.25:
            child: Worker | Sup = _sup(chance, names, depth + 1)
        else:
            child = _worker(chance, next(names))
        children.append(_significant(chance, child, auto))
    restart: Restart = chance.choice(["permanent", "permanent", "transient", "temporary"])
    shutdown: Shutdown = chance.choice(["infinity", "infinity", 5_000])
    return Sup(name, flags, tuple(children), restart, shutdown)


def _worker(chance: random.Random, name: str) -> Worker:
    outcomes: tuple[Outcome, ...] = ()
    if chance.random() < 0.35:
        first: Outcome = chance.choice(OUTCOMES) if chance.random() < 0.1 else "ok"
        outcomes = (first, *(chance.choice(OUTCOMES) for _ in range(chance.randint(1, 4))))
    restart: Restart = chance.choice(["permanent", "permanent", "transient", "temporary"])
    shutdown: Shutdown = chance.choice([5_000, 5_000, "infinity", "brutal_kill"])
    manner: Manner = "polite" if chance.random() < 0.8 else chance.choice(["rude", "stubborn"])
    if manner == "stubborn" and shutdown != "brutal_kill":
        shutdown = 5  # or the test would take as long as it is stubborn
    return Worker(name, restart, shutdown, outcomes=outcomes, manner=manner)


def _significant(chance: random.Random, node: Worker | Sup, auto: AutoShutdown) -> Worker | Sup:
    if auto == "never" or node.restart == "permanent" or chance.random() < 0.4:
        return node
    return replace(node, significant=True)


def _step(
    chance: random.Random, nodes: list[Worker | Sup], sups: list[Sup], fresh: Iterator[str]
) -> Step:
    draw = chance.random()
    if draw < 0.5:
        return _exit(chance, nodes[1:] or [Worker("nobody")])
    sup = chance.choice(sups)
    if draw < 0.8:
        return _ask(chance, sup, fresh)
    workers = [child for child in sup.children if isinstance(child, Worker)]
    if not workers:
        return _ask(chance, sup, fresh)
    parts = [
        _exit(chance, list(workers)) if chance.random() < 0.6 else _ask(chance, sup, fresh)
        for _ in range(chance.randint(2, 4))
    ]
    if chance.random() < 0.4:  # orders for a child whose restart has perhaps just failed
        fragile = [worker for worker in workers if len(worker.outcomes) > 1] or workers
        ended = _exit(chance, list(fragile))
        requests: list[Any] = ["terminate_child", "restart_child", "delete_child"]
        asks = (Ask(sup.id, chance.choice(requests), ended.id) for _ in range(2))
        parts = [ended, *parts[:1], *asks]
    return Burst(sup.id, tuple(parts))


def _exit(chance: random.Random, nodes: list[Worker | Sup]) -> Exit:
    node = chance.choice(nodes)
    return Exit(node.id, "kill" if isinstance(node, Sup) else chance.choice(ENDINGS))


def _ask(chance: random.Random, sup: Sup, fresh: Iterator[str]) -> Ask:
    known = [child.id for child in sup.children] or ["nobody"]
    name = chance.choice([*known, *known, *known, "nobody"])
    request: Any = chance.choice(
        ["start_child", "terminate_child", "terminate_child", "restart_child", "delete_child"]
    )
    if request != "start_child":
        return Ask(sup.id, request, name)
    workers = [child.id for child in sup.children if isinstance(child, Worker)]
    taken = chance.choice(workers) if workers and chance.random() < 0.4 else None
    child = _worker(chance, taken or next(fresh))
    if chance.random() < 0.3 and child.restart != "permanent":
        child = replace(child, significant=True)
    return Ask(sup.id, request, child)


# --- to Erlang ------------------------------------------------------------------------------------


def erlang(scenario: Scenario) -> str:
    steps = ", ".join(_erlang_step(step) for step in scenario.steps)
    return f"{{scenario, {scenario.seed}, {_erlang_node(scenario.tree)}, [{steps}]}}"


def _erlang_node(node: Worker | Sup) -> str:
    rule = f"{{{node.restart}, {node.shutdown}, {str(node.significant).lower()}}}"
    if isinstance(node, Worker):
        outcomes = ", ".join(node.outcomes)
        return f"{{worker, {node.id}, {rule}, [{outcomes}], {node.manner}}}"
    flags = node.flags
    seconds, rest = divmod(flags.period_ms, 1_000)
    assert not rest
    limits = f"{{{flags.strategy}, {flags.intensity}, {seconds}, {flags.auto_shutdown}}}"
    children = ", ".join(_erlang_node(child) for child in node.children)
    return f"{{supervisor, {node.id}, {rule}, {limits}, [{children}]}}"


def _erlang_step(step: Step) -> str:
    match step:
        case Wait(delay_ms):
            return f"{{wait, {delay_ms}}}"
        case Exit(name, ending):
            return f"{{exit, {name}, {ending}}}"
        case Ask(sup):
            return f"{{call, {sup}, {_erlang_request(step)}}}"
        case Burst(sup, parts):
            shown = [
                _erlang_step(part)
                if isinstance(part, Exit)
                else f"{{call, {_erlang_request(part)}}}"
                for part in parts
            ]
            return f"{{burst, {sup}, [{', '.join(shown)}]}}"


def _erlang_request(ask: Ask) -> str:
    child = ask.child if isinstance(ask.child, str) else _erlang_node(ask.child)
    return f"{{{ask.request}, {child}}}"
