"""A keeper with a real authority, on a clock that the test turns."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.surfaces.process import Serve
from understudy.authority.client import Client
from understudy.surfaces.mcp.desk import Desk
from understudy.surfaces.mcp.holds import Policy
from understudy.surfaces.mcp.keeper import Caller, Keeper, Process, now_ms
from understudy.surfaces.mcp.visit import Held

TTL = 30
Test = Callable[[Keeper, Desk], Coroutine[Any, Any, None]]


@asynccontextmanager
async def _kept(
    state_dir: Path, policy: Policy | None = None
) -> AsyncIterator[tuple[Keeper, Desk]]:
    desk = await Desk.open(state_dir)
    keeper = Keeper(desk, policy or Policy())
    try:
        yield keeper, desk
    finally:
        await keeper.settle()
        await desk.close()


async def _claimed(desk: Desk, caller: Caller, issue: str) -> Held:
    await desk.ask("issue.add", {"id": issue, "title": issue})
    payload = {"id": issue, "assignee": caller.name, "leaseTtlSeconds": TTL}
    answer = await desk.ask("issue.claim", payload)
    lease = answer["issue"]["lease"]
    held = Held(issue, lease["owner"], lease["leaseId"], lease["fence"], TTL)
    caller.keep(held)
    return held


async def _lease(desk: Desk, issue: str) -> dict[str, Any] | None:
    shown = await desk.ask("issue.show", {"id": issue})
    lease: dict[str, Any] | None = shown["issue"].get("lease")
    return lease


async def _turn(keeper: Keeper, ahead_ms: int = 0) -> None:
    """What is due by then is done, and answered, when this returns."""
    keeper.tick(now_ms() + ahead_ms)
    await keeper.settle()


def _sent(child: int, number: signal.Signals, event: int) -> None:
    """A signal, and the kernel's word that it has worked."""
    os.kill(child, number)
    os.waitid(os.P_PID, child, event | os.WNOWAIT)


@pytest.fixture
def served(state_dir: Path) -> Any:  # noqa: ANN401
    with Serve(state_dir) as sidecar:
        yield sidecar.ready()


def test_leases_of_all_who_are_here_are_renewed_together(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            callers = [keeper.arrive(f"visit-{each}", "ann", {}) for each in range(3)]
            holds = [await _claimed(desk, each, f"us-{each.id}") for each in callers]
            before = [await _lease(desk, each.issue) for each in holds]
            await _turn(keeper, 1_000)
            assert [await _lease(desk, each.issue) for each in holds] == before
            await _turn(keeper, TTL * 1000 // 3)
            after = [await _lease(desk, each.issue) for each in holds]
            assert all(new["expiresAt"] > old["expiresAt"] for new, old in zip(after, before))  # type: ignore[index] # noqa: B905
            assert [new["fence"] for new in after] == [old["fence"] for old in before]  # type: ignore[index]

    asyncio.run(story())


def test_a_strict_policy_sees_the_instruction_that_a_lease_was_claimed_under(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit-1", "ann", {})
            held = await _claimed(desk, caller, "us-1")
            caller.drop(held.issue, held.fence)
            caller.keep(dataclasses.replace(held, instruction="instr-1"))
            with Client(served.state_dir, "cli") as operator:
                strict = operator.ask("policy.set", {"mutation": "instruction-linked"})
            assert strict["result"] == "accepted"
            before = await _lease(desk, "us-1")
            await _turn(keeper, TTL * 1_000 // 2)
            renewed = await _lease(desk, "us-1")
            assert before is not None
            assert renewed is not None
            assert renewed["expiresAt"] > before["expiresAt"]

    asyncio.run(story())


def test_two_who_say_the_same_name_are_two(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, _):
            first, second = keeper.arrive("aaaa", "ann", {}), keeper.arrive("bbbb", "ann", {})
            assert first.name != second.name
            assert keeper.arrive("aaaa", "ann", {}) is first

    asyncio.run(story())


@pytest.mark.parametrize("policy", ["release", "expire"])
def test_a_client_that_goes_has_its_leases_laid_down_by_policy(served: Serve, policy: str) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller, connection = keeper.arrive("visit", "ann", {"onLeave": policy}), object()
            caller.carried_by(connection, None)
            held = await _claimed(desk, caller, "us-1")
            keeper.leave(caller, connection)
            await _turn(keeper, 4_000)
            assert keeper.visits
            await _turn(keeper, 6_000)
            assert not keeper.visits
            assert (await _lease(desk, held.issue) is None) == (policy == "release")

    asyncio.run(story())


def test_a_client_that_comes_back_in_time_goes_on_with_what_it_holds(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller, first, second = keeper.arrive("visit", "ann", {}), object(), object()
            caller.carried_by(first, None)
            held = await _claimed(desk, caller, "us-1")
            assert keeper.arrive("visit", "ann", {}) is caller
            caller.carried_by(second, None)
            keeper.leave(caller, first)  # the old connection ends after the new one has begun
            await _turn(keeper, 6_000)
            assert list(caller.stay) == [held]
            assert await _lease(desk, held.issue) is not None

    asyncio.run(story())


def test_a_lease_that_is_lost_is_dropped_and_its_client_told(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            said: list[bytes] = []
            caller.carried_by(object(), said.append)
            lost: list[tuple[Held, str]] = []
            caller.on_lost.append(lambda held, failure: lost.append((held, failure)))
            held = await _claimed(desk, caller, "us-1")
            await desk.ask("issue.lease_break", {"id": "us-1", "reason": "it hangs"})
            await _turn(keeper, TTL * 1000 // 3)
            assert lost == [(held, "lease_missing")]
            assert not len(caller.stay)
            assert said[-1] == b"#drop %d" % held.fence

    asyncio.run(story())


def test_the_next_gateway_is_told_by_the_pump_what_the_last_one_kept(served: Serve) -> None:
    async def story() -> None:
        said: list[bytes] = []
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            caller.carried_by(object(), said.append)
            held = await _claimed(desk, caller, "us-1")
            before = await _lease(desk, "us-1")
        word, key, line = said[0].split(b" ", 2)
        assert (word, key) == (b"#keep", b"%d" % held.fence)
        async with _kept(served.state_dir) as (keeper, desk):
            again = keeper.arrive("visit", "ann", {})
            assert again.name == caller.name
            again.take_over(line)
            again.take_over(line)
            again.take_over(b'{"issue":7}')
            again.take_over(orjson.dumps(orjson.loads(line) | {"ttlSeconds": 10**9, "fence": 99}))
            assert list(again.stay) == [held]
            await asyncio.sleep(0.002)
            await _turn(keeper)
            after = await _lease(desk, "us-1")
            assert before is not None
            assert after is not None
            assert after["expiresAt"] > before["expiresAt"]

    asyncio.run(story())


def test_nothing_is_renewed_while_a_process_of_the_client_is_stopped(served: Serve) -> None:
    async def story(child: int) -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            process = Process.find(child)
            assert process is not None
            assert process.parent == Process.find(os.getpid())
            caller.processes = [process]
            held = await _claimed(desk, caller, "us-1")
            before = await _lease(desk, "us-1")
            _sent(child, signal.SIGSTOP, os.WSTOPPED)
            await _turn(keeper, TTL * 500)
            assert await _lease(desk, "us-1") == before
            _sent(child, signal.SIGCONT, os.WCONTINUED)
            await _turn(keeper, TTL * 500)
            assert await _lease(desk, "us-1") != before
            _sent(child, signal.SIGKILL, os.WEXITED)
            assert not caller.is_awake
            assert list(caller.stay) == [held]

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        asyncio.run(story(child.pid))


def test_an_authority_that_is_away_for_a_while_costs_no_lease(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            held = await _claimed(desk, caller, "us-1")
            before = await _lease(desk, "us-1")
            served.kill()
            keeper.tick(now_ms() + TTL * 1000 // 3)  # asked now, answered by the next sidecar
            with Serve(served.state_dir) as successor:
                successor.ready()
                await keeper.settle()
                assert list(caller.stay) == [held]
                assert await _lease(desk, "us-1") != before

    asyncio.run(story())


def test_the_same_request_has_the_same_key_and_no_other_has_it(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, _):
            caller, other = keeper.arrive("visit", "ann", {}), keeper.arrive("other", "ann", {})
            caller.numbers["a"] = other.numbers["a"] = 7
            assert caller.request_id("a") == caller.request_id("a")
            assert caller.request_id("a") != other.request_id("a")
            assert caller.request_id("b") != caller.request_id("b")  # nobody has asked that

    asyncio.run(story())
