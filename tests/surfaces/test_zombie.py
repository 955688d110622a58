"""A holder that comes back after its lease: refused through every door, with the same words.

What differs from door to door is the door's name and the moment. The class, the digest of what was
asked, the witnesses and the state stay the same; with a fixed time all bytes do.
"""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.authority.sidecar.peer import Peer
from tests.surfaces.conftest import Run
from tests.surfaces.process import Dispatch, Serve, journal_rows
from understudy.authority import Office, create_state_dir
from understudy.authority.engine import ffi
from understudy.authority.service.client import AsyncClient, Client, ClientCall
from understudy.authority.service.native_local import NativeOffice
from understudy.contracts import Door, limits

LONG_AGO_MS = 1_000_000_000_000
TTL_MS = limits.TTL_SECONDS_MIN * 1000
ADA = {"id": "x", "assignee": "ada", "leaseId": "lease-a", "fence": 3}
SHOWN = ("--assignee", "ada", "--lease-id", "lease-a", "--fence", "3")
BOB = {"id": "x", "assignee": "bob", "leaseId": "lease-b", "fence": 4}
STALE = "lease_fence_stale"

# What the zombie tries, as a request and as a command.
MOVES: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("issue.lease_renew", {}, ("issue", "renew", "x")),
    ("issue.lease_renew", {"leaseTtlSeconds": 60}, ("issue", "renew", "x", "--ttl", "60")),
    ("issue.lease_release", {}, ("issue", "release", "x")),
    ("issue.lease_reconcile", {}, ("issue", "reconcile", "x")),
    ("issue.update", {"notes": "mine"}, ("issue", "update", "x", "--notes", "mine")),
    ("issue.update", {"status": "open"}, ("issue", "update", "x", "--status", "open")),
    ("issue.close", {}, ("issue", "close", "x")),
    ("issue.discover", {"title": "f", "newId": "n"}, ("issue", "discover", "x", "f", "--new-id",
                                                      "n")),
    ("issue.handover", {"checkpoint": {"summary": "mine"}}, ("issue", "handover", "x",
                                                             "--summary", "mine")),
    ("sublease.grant", {"holder": "s", "capabilityScope": ["issue.close"]},
     ("sublease", "grant", "x", "--holder", "s", "--scope", "issue.close")),
    ("sublease.revoke", {"revokedSubleaseId": "s1"}, ("sublease", "revoke", "x", "s1")),
    ("instance.open", {"instanceId": "t"}, ("instance", "open", "x", "t")),
    ("instance.close", {"instanceId": "t"}, ("instance", "close", "x", "t")),
    ("fiber.spawn", {"taskRef": "r"}, ("fiber", "spawn", "x", "--task", "r")),
    ("fiber.join", {"fiberId": "f"}, ("fiber", "join", "x", "f")),
    ("fiber.cancel", {"fiberId": "f"}, ("fiber", "cancel", "x", "f")),
    ("dep.add", {"dependsOnId": "y"}, ("dep", "add", "x", "y")),
    ("dep.remove", {"dependsOnId": "y"}, ("dep", "remove", "x", "y")),
]  # fmt: skip
CALLS = [
    ClientCall(action, ADA | more | {"requestId": f"r{place}"})
    for place, (action, more, _) in enumerate(MOVES)
]


def line(action: str, payload: dict[str, Any], now: int) -> bytes:
    return orjson.dumps({"action": action, "payload": payload, "now": now})


def frozen(office: Office, lines: Sequence[bytes]) -> list[bytes]:
    door = Door("mcp", frozen_clock=True)
    return office.submit_lines([(each, door) for each in lines])


@pytest.fixture(scope="module")
def haunted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ada held `x` long ago."""
    state_dir = tmp_path_factory.mktemp("haunted") / "state"
    create_state_dir(state_dir, "local")
    claim = {name: ADA[name] for name in ("id", "assignee", "leaseId")}
    claim |= {"leaseTtlSeconds": limits.TTL_SECONDS_MIN}
    with Office(state_dir) as office:
        answers = frozen(
            office,
            [
                line("issue.add", {"id": "x", "title": "work"}, LONG_AGO_MS),
                line("issue.add", {"id": "y", "title": "more"}, LONG_AGO_MS),
                line("issue.claim", claim, LONG_AGO_MS),
            ],
        )
    assert orjson.loads(answers[-1])["issue"]["lease"]["fence"] == ADA["fence"]
    return state_dir


# --- in our own time ------------------------------------------------------------------------------


def in_this_interpreter(state_dir: Path) -> list[dict[str, Any]]:
    with Office(state_dir) as office:
        return [office.ask(*call, transport="mcp") for call in CALLS]


def in_c(state_dir: Path, _: Run) -> list[dict[str, Any]]:
    with NativeOffice(state_dir) as office:
        return [office.ask(*call, transport="mcp") for call in CALLS]


def by_client(state_dir: Path, _: Run) -> list[dict[str, Any]]:
    with Serve(state_dir) as running, Client(running.ready().state_dir, "mcp") as client:
        return client.ask_many(CALLS)


def by_client_of_the_reference(state_dir: Path, _: Run) -> list[dict[str, Any]]:
    with (
        Serve(state_dir, "--boundary", "reference") as running,
        Client(running.ready().state_dir, "mcp") as client,
    ):
        return [client.ask(*call) for call in CALLS]


def in_tasks(state_dir: Path, _: Run) -> list[dict[str, Any]]:
    async def ask() -> list[dict[str, Any]]:
        async with AsyncClient(state_dir, "mcp") as client:
            return list(await asyncio.gather(*(client.ask(*call) for call in CALLS)))

    with Serve(state_dir) as running:
        running.ready()
        return asyncio.run(ask())


def by_dispatch(state_dir: Path, _: Run) -> list[dict[str, Any]]:
    with Dispatch(state_dir) as running:
        return [running.ask(call.action, **call.payload) for call in CALLS]


def by_command(state_dir: Path, run: Run) -> list[dict[str, Any]]:
    answers = []
    for place, (_, _, words) in enumerate(MOVES):
        named = ("--request-id", f"r{place}", "--state-dir", state_dir, "--json")
        said = run(*words, *SHOWN, *named)
        assert said.code == 6, said.out
        answers.append(said.json)
    return answers


def by_command_and_sidecar(state_dir: Path, run: Run) -> list[dict[str, Any]]:
    with Serve(state_dir) as running:
        running.ready()
        return by_command(state_dir, run)


WAYS: dict[str, Callable[[Path, Run], list[dict[str, Any]]]] = {
    each.__name__: each
    for each in (
        by_client, by_client_of_the_reference, in_tasks, by_dispatch, by_command,
        by_command_and_sidecar, *([in_c] if ffi.available() else []),
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def taken_over(haunted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bob has taken over, just now."""
    state_dir = tmp_path_factory.mktemp("taken") / "state"
    shutil.copytree(haunted, state_dir)
    with Office(state_dir) as office:
        claim = {"id": "x", "assignee": "bob", "leaseId": "lease-b"}
        assert office.ask("issue.claim", claim)["issue"]["lease"]["fence"] == BOB["fence"]
    return state_dir


@pytest.fixture(scope="module")
def expected(taken_over: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    state_dir = tmp_path_factory.mktemp("expected") / "state"
    shutil.copytree(taken_over, state_dir)
    return in_this_interpreter(state_dir)


def essence(answer: dict[str, Any]) -> list[Any]:
    effect = answer["effect"]
    names = ("action", "argsDigest", "failureClasses", "fence", "stateDigest", "witnessRefs", "seq")
    return [answer["result"], answer["failureClasses"], *(effect[name] for name in names)]


def test_a_zombie_is_refused_whatever_it_tries(expected: list[dict[str, Any]]) -> None:
    assert [answer["failureClasses"] for answer in expected] == [[STALE]] * len(MOVES)
    assert {answer["effect"]["fence"] for answer in expected} == {BOB["fence"]}


@pytest.mark.parametrize("way", WAYS)
def test_a_zombie_gets_the_same_answer_through_every_door(
    taken_over: Path, expected: list[dict[str, Any]], tmp_path: Path, bare: Run, way: str
) -> None:
    state_dir = tmp_path / "state"
    shutil.copytree(taken_over, state_dir)

    def told(*words: str) -> dict[str, Any]:
        return bare(*words, "--state-dir", state_dir, "--json").json

    before = told("issue", "show", "x")["issue"]
    answers = WAYS[way](state_dir, bare)
    assert list(map(essence, answers)) == list(map(essence, expected))
    assert told("issue", "show", "x")["issue"] == before
    holder = ("--assignee", "bob", "--lease-id", "lease-b", "--fence", str(BOB["fence"]))
    assert told("issue", "close", "x", *holder)["changed"]
    assert told("replay")["rows"] == 4 + len(MOVES) + 1


# --- in a fixed time ------------------------------------------------------------------------------

TAKEOVER = {"id": "x", "assignee": "bob", "leaseId": "lease-b"}
LINES = [
    line("issue.claim", TAKEOVER, LONG_AGO_MS + TTL_MS + 1),
    *(line(*call[:2], now=LONG_AGO_MS + TTL_MS + 2) for call in CALLS),
    line("issue.close", BOB, LONG_AGO_MS + TTL_MS + 3),
]


def fixed_in_this_interpreter(state_dir: Path) -> list[bytes]:
    with Office(state_dir) as office:
        return frozen(office, LINES)


def fixed_in_c(state_dir: Path) -> list[bytes]:
    with NativeOffice(state_dir) as office:
        return frozen(office, LINES)


def fixed_by_dispatch(state_dir: Path) -> list[bytes]:
    with Dispatch(state_dir, "--frozen-clock") as running:
        running.write(b"\n".join(LINES) + b"\n")
        assert running.finish() == 0
        return running.rest()


def fixed_by_sidecar(state_dir: Path, *flags: str) -> list[bytes]:
    with Serve(state_dir, "--frozen-clock", *flags) as running:
        with Peer(running.ready().state_dir) as peer:
            peer.write(b"\n".join(LINES) + b"\n")
            answers = [peer.line().removesuffix(b"\n") for _ in LINES]
        assert running.terminate() == 0, running.complaint()
    return answers


def fixed_by_sidecar_of_the_reference(state_dir: Path) -> list[bytes]:
    return fixed_by_sidecar(state_dir, "--boundary", "reference")


FIXED: dict[str, Callable[[Path], list[bytes]]] = {
    each.__name__: each
    for each in (
        fixed_by_dispatch, fixed_by_sidecar, fixed_by_sidecar_of_the_reference,
        *([fixed_in_c] if ffi.available() else []),
    )
}  # fmt: skip


@pytest.mark.parametrize("way", FIXED)
def test_a_zombie_gets_the_same_bytes_at_a_fixed_time(
    haunted: Path, tmp_path: Path, way: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for state_dir in (first, second):
        shutil.copytree(haunted, state_dir)
    answers = fixed_in_this_interpreter(first)
    assert FIXED[way](second) == answers
    assert [orjson.loads(each)["failureClasses"] for each in answers[1:-1]] == [[STALE]] * len(
        MOVES
    )
    assert [row[2:] for row in journal_rows(first)] == [row[2:] for row in journal_rows(second)]
