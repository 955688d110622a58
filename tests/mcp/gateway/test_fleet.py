"""Sixteen agents at once, and what becomes of the work of those who hang, leave and die."""

import os
import signal
import threading
from collections import Counter
from itertools import chain
from pathlib import Path

import orjson
import pytest

from tests.long import LONG, few
from tests.mcp.gateway.agents import Agent, Door, Wire
from tests.patience import eventually
from tests.surfaces.process import commanded, report_of
from tests.tree.house import accepted, prove
from understudy.actors.tree import gateway as seen

AGENTS, ISSUES = 16, 400


def _file(state_dir: Path, count: int) -> None:
    """Issues, in one go."""
    rows = [{"id": f"us-{each}", "title": f"t{each}", "status": "open"} for each in range(count)]
    path = state_dir / "issues.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert commanded("import", path, "--state-dir", state_dir).returncode == 0


def _work(agent: Agent, done: list[str]) -> None:
    """Take and finish until nothing is left."""
    while (found := agent.call("work_next", leaseTtlSeconds=60))["found"]:
        lease = found["issue"]["lease"]
        held = {"id": found["issue"]["id"], "assignee": lease["owner"]}
        held |= {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        answer = agent.call("work_complete", **held)
        assert answer["result"] == "accepted", answer
        done.append(held["id"])


def _fleet(agents: list[Agent]) -> list[list[str]]:
    done: list[list[str]] = [[] for _ in agents]
    threads = [threading.Thread(target=_work, args=each) for each in zip(agents, done, strict=True)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return done


@pytest.mark.parametrize("killed", few([True, False]))
def test_sixteen_agents_do_four_hundred_issues_once_each(state_dir: Path, killed: bool) -> None:
    """Also if the gateway is killed in the middle."""
    _file(state_dir, ISSUES)
    agents = [Agent(state_dir, "--name", "ann") for _ in range(AGENTS)]
    try:
        for each in agents:
            each.greet()
        if killed:
            threading.Timer(0.5, os.kill, (seen.look(state_dir)["pid"], signal.SIGKILL)).start()
        done = _fleet(agents)
        assert Counter(chain.from_iterable(done)) == Counter(f"us-{each}" for each in range(ISSUES))
        assert all(each.finish() == 0 for each in agents)
    finally:
        for each in agents:
            each.__exit__(None, None, None)
    prove(state_dir)
    assert set(accepted(state_dir, "issue.close").values()) == {1}
    listed = report_of("issue", "list", "--state-dir", state_dir)["issues"]
    assert {each["attempts"] for each in listed} == {1}


def test_the_work_of_an_agent_that_is_killed_goes_to_the_next(state_dir: Path) -> None:
    _file(state_dir, 1)
    with Agent(state_dir) as first, Agent(state_dir) as second:
        held = first.greet().take()
        assert not second.greet().call("work_next")["found"]
        first.kill()
        found = second.call("work_next", waitSeconds=60)  # it is released after a moment
        assert found["issue"]["id"] == held["id"]
        posing = second.call("work_complete", **held)
        assert posing["failureClasses"] == ["agent_name_mismatch"]
        del held["assignee"]
        stale = second.call("work_complete", **held)
        assert stale["failureClasses"] == ["lease_fence_stale"]


@LONG
def test_an_agent_that_hangs_loses_its_lease_and_a_live_one_does_not(state_dir: Path) -> None:
    """The smallest lease is thirty seconds, so this test takes as long."""
    _file(state_dir, 2)
    with Agent(state_dir, "--name", "hung") as hung, Agent(state_dir, "--name", "live") as live:
        lost, kept = hung.greet().take(), live.greet().take()
        hung.halt()
        found = live.call("work_next", waitSeconds=60, leaseTtlSeconds=30)
        assert found["issue"]["id"] == lost["id"]
        assert live.call("work_complete", **kept)["result"] == "accepted"  # beyond its first time
        hung.wake()
        assert hung.call("work_complete", **lost)["failureClasses"] == ["lease_fence_stale"]


def test_a_client_that_sends_garbage_harms_no_other(state_dir: Path) -> None:
    _file(state_dir, 20)
    with Door(state_dir) as door:
        door.ready()
        stop = threading.Event()

        def vandal() -> None:
            while not stop.is_set():
                with Wire(state_dir) as line:
                    line.write(os.urandom(3_000) + b'\n{"jsonrpc":"2.0"}\n#7 {\n#hold x\n#\n')

        vandals = [threading.Thread(target=vandal) for _ in range(2)]
        for thread in vandals:
            thread.start()
        agents = [Agent(state_dir).greet() for _ in range(2)]
        try:
            assert sum(map(len, _fleet(agents))) == 20
        finally:
            stop.set()
            for thread in vandals:
                thread.join()
            for each in agents:
                each.__exit__(None, None, None)
        eventually(lambda: door.look().get("clients") == 0)
