"""A tree that serves agents: its gateway dies and freezes, and they notice nothing."""

import os
import signal
from pathlib import Path

import pytest

from tests.long import few
from tests.mcp.gateway.agents import Agent
from tests.patience import eventually
from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up, accepted, add, prove, statuses
from understudy.actors.tree import gateway as seen


def test_a_tree_without_workers_serves_agents_and_claims_nothing(state_dir: Path) -> None:
    add(state_dir, "a")
    with Up(state_dir, "--mcp") as up, Agent(up.ready().state_dir) as agent:
        assert [child["id"] for child in up.picture()["tree"]] == [
            "authority_client",
            "evidence_writer",
            "gateway",
        ]
        held = agent.greet().take()
        assert up.picture()["gateway"]["leases"] == 1
        assert up.picture()["gateway"]["house"] == "tree"
        found = {child["id"]: child for child in up.picture()["tree"]}
        assert found["gateway"]["upMs"] > 0, "a picture is no reason to wait for an answer"
        said = understudy("status", "--state-dir", state_dir).stdout.decode()
        assert "1 agents with 1 leases" in said
        drawn = understudy("tree", "--state-dir", state_dir).stdout.decode()
        assert f"process {seen.look(state_dir)['pid']}" in drawn
        findings = report_of("doctor", "--state-dir", state_dir)["findings"]
        assert {each["status"] for each in findings if each["check"] == "tree"} == {"ok"}
        assert agent.call("work_complete", **held)["result"] == "accepted"
        assert understudy("down", "--state-dir", state_dir).returncode == 0
        assert up.wait() == 0
        agent.kill()
    prove(state_dir)


def test_a_tree_with_workers_serves_agents_beside_them(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    with (
        Up(state_dir, "--mcp", "--exec", "true") as up,
        Agent(up.ready().state_dir) as agent,
    ):
        eventually(lambda: set(statuses(state_dir).values()) == {"closed"})
        agent.greet().call("issue_add", id="c", title="c")
        eventually(lambda: statuses(state_dir)["c"] == "closed")
        agent.kill()
        assert up.terminate() == 0


@pytest.mark.parametrize("number", few([signal.SIGKILL, signal.SIGSTOP]))
def test_a_gateway_that_dies_or_freezes_is_replaced_and_costs_no_agent_anything(
    state_dir: Path, number: signal.Signals
) -> None:
    names = add(state_dir, *(f"us-{each}" for each in range(12)))
    with Up(state_dir, "--mcp") as up:
        up.ready()
        agents = [Agent(state_dir, "--name", "ann").greet() for _ in range(4)]
        try:
            held = [agent.take() for agent in agents]
            first = seen.look(state_dir)["pid"]
            os.kill(first, number)
            # Every agent has something in flight while no gateway serves.
            for agent in agents:
                call = {"name": "work_next", "arguments": {"leaseTtlSeconds": 30}}
                agent.post("tools/call", call)
            more = [agent.answer()["result"]["structuredContent"] for agent in agents]
            assert all(each["found"] for each in more)
            taken = [each["id"] for each in held] + [each["issue"]["id"] for each in more]
            assert len(set(taken)) == len(taken) == 8
            eventually(lambda: seen.look(state_dir).get("leases") == 8)
            assert seen.look(state_dir)["pid"] != first
            for agent, lease in zip(agents, held, strict=True):
                assert agent.call("work_complete", **lease)["result"] == "accepted"
            child = next(each for each in up.picture()["tree"] if each["id"] == "gateway")
            assert child["restarts"] == 1
        finally:
            for agent in agents:
                agent.__exit__(None, None, None)
        assert up.terminate() == 0
    assert set(accepted(state_dir, "issue.close").values()) == {1}
    assert len(names) == 12
    prove(state_dir)


def test_a_gateway_that_agents_had_started_makes_room_for_a_tree(state_dir: Path) -> None:
    add(state_dir, "a")
    with Agent(state_dir) as agent:
        held = agent.greet().take()
        assert seen.look(state_dir)["house"] == "alone"
        with Up(state_dir, "--mcp") as up:
            up.ready()
            assert agent.call("work_complete", **held)["result"] == "accepted"
            assert seen.look(state_dir)["house"] == "tree"
            agent.kill()
            assert up.terminate() == 0


def test_a_second_tree_leaves_the_gateway_of_the_first_alone(state_dir: Path) -> None:
    with Up(state_dir, "--mcp") as up:
        up.ready()
        before = seen.look(state_dir)["pid"]
        second = understudy("up", "--mcp", "--state-dir", state_dir)
        assert second.returncode == 75
        assert b"made room" not in second.stderr
        assert seen.look(state_dir)["pid"] == before
        assert up.terminate() == 0


@pytest.mark.parametrize(
    "words", [(), ("--exec", "true", "--handler", "a:b", "--mcp"), ("--mcp", "--until-done")]
)
def test_a_tree_that_could_do_nothing_is_a_mistake(state_dir: Path, words: tuple[str, ...]) -> None:
    assert understudy("up", "--state-dir", state_dir, *words).returncode == 2
