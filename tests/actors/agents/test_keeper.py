"""A keeper with a real authority, on a clock that the test turns."""

import asyncio
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
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.actors.agents.holds import KeepPolicy
from understudy.actors.agents.keeper import KeptCaller, LeaseKeeper
from understudy.actors.leasing.work_kind import HeldLease
from understudy.actors.otp.identity import Identity
from understudy.actors.process.guard.descendants import now_ms
from understudy.authority.service.client import Client

TTL = 30
Test = Callable[[LeaseKeeper, AuthorityLink], Coroutine[Any, Any, None]]


@asynccontextmanager
async def _kept(
    state_dir: Path, policy: KeepPolicy | None = None
) -> AsyncIterator[tuple[LeaseKeeper, AuthorityLink]]:
    desk = await AuthorityLink.open(state_dir)
    keeper = LeaseKeeper(desk, policy or KeepPolicy())
    try:
        yield keeper, desk
    finally:
        await keeper.settle()
        await desk.close()


async def _claimed(desk: AuthorityLink, caller: KeptCaller, issue: str) -> HeldLease:
    await desk.ask("issue.add", {"id": issue, "title": issue})
    payload = {"id": issue, "assignee": caller.name, "leaseTtlSeconds": TTL}
    answer = await desk.ask("issue.claim", payload)
    lease = answer["issue"]["lease"]
    held = HeldLease(issue, lease["owner"], lease["leaseId"], lease["fence"])
    caller.keep(held, TTL * 1000, now_ms())
    return held


async def _lease(desk: AuthorityLink, issue: str) -> dict[str, Any] | None:
    shown = await desk.ask("issue.show", {"id": issue})
    lease: dict[str, Any] | None = shown["issue"].get("lease")
    return lease


async def _turn(keeper: LeaseKeeper, ahead_ms: int = 0) -> None:
    """What is due by then is done, and answered, when this returns."""
    keeper.tick(now_ms() + ahead_ms)
    await keeper.settle()


class Notebook:
    """A pump that writes down what it is told."""

    def __init__(self) -> None:
        self.leases: dict[int, bytes] = {}
        self.forgotten: list[int] = []

    def remember(self, fence: int, lease: bytes) -> None:
        self.leases[fence] = lease

    def forget(self, fence: int) -> None:
        self.forgotten.append(fence)


def _sent(child: int, number: signal.Signals, event: int) -> None:
    """A signal, and the kernel's word that it has worked."""
    os.kill(child, number)
    os.waitid(os.P_PID, child, event | os.WNOWAIT)


@pytest.fixture
def served(state_dir: Path) -> Any:
    with Serve(state_dir) as sidecar:
        yield sidecar.ready()


def test_leases_of_all_who_are_here_are_renewed_together(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            callers = [keeper.arrive(f"visit-{each}", "ann", {}) for each in range(3)]
            holds = [await _claimed(desk, each, f"us-{each.id}") for each in callers]
            before = [await _lease(desk, each.name) for each in holds]
            await _turn(keeper, 1_000)
            assert [await _lease(desk, each.name) for each in holds] == before
            await _turn(keeper, TTL * 1000 // 3)
            after = [await _lease(desk, each.name) for each in holds]
            pairs = zip(after, before, strict=True)
            assert all(new["expiresAt"] > old["expiresAt"] for new, old in pairs)
            assert [new["fence"] for new in after] == [old["fence"] for old in before]

    asyncio.run(story())


def test_a_strict_policy_sees_the_instruction_that_a_lease_was_claimed_under(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit-1", "ann", {})
            held = await _claimed(desk, caller, "us-1")
            caller.drop(held.resource, held.fence)
            caller.keep(held, TTL * 1000, now_ms(), "instr-1")
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
            assert keeper.callers
            await _turn(keeper, 6_000)
            assert not keeper.callers
            assert (await _lease(desk, held.name) is None) == (policy == "release")

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
            assert [each.lease for each in caller.holds] == [held]
            assert await _lease(desk, held.name) is not None

    asyncio.run(story())


def test_a_lease_that_is_lost_is_dropped_and_its_client_told(
    served: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            notebook = Notebook()
            caller.carried_by(object(), notebook)
            held = await _claimed(desk, caller, "us-1")
            await desk.ask("issue.lease_break", {"id": "us-1", "reason": "it hangs"})
            await _turn(keeper, TTL * 1000 // 3)
            assert f"lost issue/us-1, fence {held.fence}: lease_missing" in caplog.text
            assert not len(caller.holds)
            assert notebook.forgotten == [held.fence]

    asyncio.run(story())


def test_the_next_gateway_is_told_by_the_pump_what_the_last_one_kept(served: Serve) -> None:
    async def story() -> None:
        notebook = Notebook()
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            caller.carried_by(object(), notebook)
            held = await _claimed(desk, caller, "us-1")
            before = await _lease(desk, "us-1")
        line = notebook.leases[held.fence]
        async with _kept(served.state_dir) as (keeper, desk):
            again = keeper.arrive("visit", "ann", {})
            assert again.name == caller.name
            again.take_over(line)
            again.take_over(line)
            again.take_over(b'{"issue":7}')
            again.take_over(orjson.dumps(orjson.loads(line) | {"ttlSeconds": 10**9, "fence": 99}))
            assert [each.lease for each in again.holds] == [held]
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
            process = Identity.find(child)
            assert process is not None
            assert process.parent == Identity.find(os.getpid())
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
            assert [each.lease for each in caller.holds] == [held]

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
                assert [each.lease for each in caller.holds] == [held]
                assert await _lease(desk, "us-1") != before

    asyncio.run(story())


def test_the_same_request_has_the_same_key_and_no_other_has_it(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, _):
            caller, other = keeper.arrive("visit", "ann", {}), keeper.arrive("other", "ann", {})
            caller.numbers["a"] = other.numbers["a"] = 7
            assert caller.request_id("a") == caller.request_id("a")
            assert caller.request_id("a") != other.request_id("a")
            assert caller.request_id("b") != caller.request_id("b")  # that was not asked

    asyncio.run(story())


# --- jobs -----------------------------------------------------------------------------------------


async def _claimed_job(desk: AuthorityLink, caller: KeptCaller, job: str) -> HeldLease:
    await desk.ask("job.schedule", {"jobId": job, "kind": "k"})
    payload = {"jobId": job, "worker": caller.name, "leaseDurationMs": TTL * 1000}
    lease = (await desk.ask("job.claim", payload))["job"]["lease"]
    proof = (lease["owner"], lease["leaseId"], lease["fence"])
    held = HeldLease(job, *proof, family="job")
    caller.keep(held, TTL * 1000, now_ms())
    return held


async def _job(desk: AuthorityLink, job: str) -> dict[str, Any]:
    shown: dict[str, Any] = (await desk.ask("job.show", {"jobId": job}))["job"]
    return shown


def test_leases_of_jobs_are_renewed_beside_those_of_issues(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            await _claimed(desk, caller, "same")
            held = await _claimed_job(desk, caller, "same")
            assert len(caller.holds) == 2
            before = (await _job(desk, "same"))["lease"]
            await _turn(keeper, TTL * 1000 // 3)
            after = (await _job(desk, "same"))["lease"]
            assert after["deadlineMs"] > before["deadlineMs"]
            assert (after["fence"], after["leaseId"]) == (held.fence, held.lease_id)
            assert after["renewals"] == 1

    asyncio.run(story())


@pytest.mark.parametrize("policy", ["release", "expire"])
def test_jobs_of_a_client_that_goes_are_yielded_by_policy(served: Serve, policy: str) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller, connection = keeper.arrive("visit", "ann", {"onLeave": policy}), object()
            caller.carried_by(connection, None)
            await _claimed_job(desk, caller, "j")
            keeper.leave(caller, connection)
            await _turn(keeper, 6_000)
            assert not keeper.callers
            job = await _job(desk, "j")
            yielded = ("pending", "the agent that held it has left")
            kept = ("claimed", None)
            assert (job["state"], job.get("reason")) == (yielded if policy == "release" else kept)

    asyncio.run(story())


def test_a_job_is_held_no_longer_than_the_longest_hold(served: Serve) -> None:
    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {"maxHoldSeconds": 5})
            await _claimed_job(desk, caller, "j")
            await _turn(keeper, TTL * 1000 // 3)
            assert (await _job(desk, "j"))["lease"]["renewals"] == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        ("job.complete", "job_completed"),
        ("job.yield", "lease_missing"),
        ("", "lease_contention_active"),
    ],
)
def test_a_job_that_is_lost_is_dropped_and_never_claimed_again(
    served: Serve, end: str, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An agent that yields a job behind the keeper's back does not get it back by a renewal."""

    async def story() -> None:
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            held = await _claimed_job(desk, caller, "j")
            proof = {"jobId": "j", "worker": held.owner, "leaseId": held.lease_id}
            answer = await desk.ask(end or "job.yield", proof | {"fence": held.fence})
            assert answer["result"] == "accepted"
            if not end:  # and another agent takes it
                await desk.ask("job.claim", {"jobId": "j", "worker": "bob"})
            await _turn(keeper, TTL * 1000 // 3)
            assert f"lost job/j, fence {held.fence}: {failure}" in caplog.text
            assert not len(caller.holds)
            owner = (await _job(desk, "j")).get("lease", {}).get("owner")
            assert owner == (None if end else "bob")

    asyncio.run(story())


def test_the_next_gateway_goes_on_with_jobs(served: Serve) -> None:
    async def story() -> None:
        notebook = Notebook()
        async with _kept(served.state_dir) as (keeper, desk):
            caller = keeper.arrive("visit", "ann", {})
            caller.carried_by(object(), notebook)
            held = await _claimed_job(desk, caller, "j")
        line = notebook.leases[held.fence]
        async with _kept(served.state_dir) as (keeper, desk):
            again = keeper.arrive("visit", "ann", {})
            again.take_over(orjson.dumps(orjson.loads(line) | {"issue": "j"}))
            assert not len(again.holds), "it is one or the other"
            again.take_over(line)
            assert [each.lease for each in again.holds] == [held]
            await _turn(keeper)
            assert (await _job(desk, "j"))["lease"]["renewals"] == 1

    asyncio.run(story())
