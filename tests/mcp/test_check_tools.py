"""Running an instruction over MCP: the checks run here, tell how far they are, and can be ended."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.mcp.visitor import Guest, connect, refused, said, text
from tests.patience import eventually
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.authority.service import client as authority
from understudy.contracts import canonical

pytestmark = pytest.mark.anyio


def _policy(**commands: list[str]) -> dict[str, Any]:
    """A check policy of these commands, with the digest that binds it."""
    policy: dict[str, Any] = {
        "schema": 1,
        "policyKind": "ci.check.policy.v1",
        "policyId": "policy.test.v1",
        "checks": [
            {"checkId": name, "command": words, "timeoutSeconds": 600}
            for name, words in sorted(commands.items())
        ],
        "instructionTypes": ["ci.check"],
        "allowedNormalizers": ["nf.understudy.v1"],
        "allowedChecks": sorted(commands),
        "rules": [],
        "docsPaths": [],
        "docsChecks": [],
        "defaultChecks": sorted(commands),
        "closeRequires": "none",
    }
    return policy | {"policyDigest": canonical.digest("pol1", canonical.encode(policy))}


def _enacted(state_dir: Path, policy: dict[str, Any]) -> dict[str, Any]:
    """What asks for all checks of a policy that is now in force."""
    with authority.Client(state_dir, "cli") as clerk:
        answer = clerk.ask("policy.set", {"checks": policy})
    assert answer["result"] == "accepted", answer
    envelope = {
        "schema": 1,
        "instructionType": "ci.check",
        "intent": "is it sound",
        "scope": "src/",
        "normalizerId": "nf.understudy.v1",
        "policyDigest": policy["policyDigest"],
        "requestedChecks": policy["allowedChecks"],
    }
    return {"instructionId": "i-1", "envelope": envelope}


async def test_checks_run_where_they_are_told_to_and_leave_a_witness(
    desk: AuthorityLink, state_dir: Path, tmp_path: Path
) -> None:
    asked = _enacted(state_dir, _policy(a=["test", "-e", "here"], b=["true"]))
    (tmp_path / "here").touch()
    told: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        assert total == 2
        told.append(message)

    async with connect(desk, Guest()) as client:
        await client.list_tools()
        result = await client.call_tool(
            "instruction_run", asked | {"cwd": str(tmp_path)}, progress_callback=progress
        )
    answer = said(result)
    assert answer["witness"]["verdictClass"] == "accepted"
    assert answer["witnessRef"] in text(result)
    assert told == ["a: runs", "a: passed", "b: runs", "b: passed"]


async def test_a_check_that_fails_is_a_verdict_and_no_refusal(
    desk: AuthorityLink, state_dir: Path
) -> None:
    asked = _enacted(state_dir, _policy(a=["false"]))
    async with connect(desk, Guest()) as client:
        answer = said(await client.call_tool("instruction_run", asked))
    assert answer["witness"]["verdictClass"] == "rejected"


async def test_no_agent_hands_in_results_of_its_own(desk: AuthorityLink, state_dir: Path) -> None:
    asked = _enacted(state_dir, _policy(a=["false"]))
    results = [{"checkId": "a", "status": "passed", "exitCode": 0}]
    async with connect(desk, Guest()) as client:
        result = await client.call_tool("instruction_run", asked | {"results": results})
        assert refused(result) == "transport_invalid_request"
        for odd in ("here", 7, "/no/such/folder", "\0"):
            assert refused(await client.call_tool("instruction_run", asked | {"cwd": odd}))


async def test_what_the_policy_does_not_allow_runs_nothing(
    desk: AuthorityLink, state_dir: Path
) -> None:
    asked = _enacted(state_dir, _policy(a=["true"]))
    asked["envelope"]["policyDigest"] = "pol1_" + "0" * 64
    async with connect(desk, Guest()) as client:
        assert refused(await client.call_tool("instruction_run", asked))
    assert not (state_dir / "ciwitness").exists()


async def test_a_cancelled_call_ends_what_runs(
    desk: AuthorityLink, state_dir: Path, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    script = f"echo $$ > {pid}.new && mv {pid}.new {pid} && exec sleep 600"
    asked = _enacted(state_dir, _policy(a=["sh", "-c", script]))
    async with connect(desk, Guest(), "modern over streams") as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "instruction_run", asked)
            await anyio.to_thread.run_sync(eventually, pid.exists)
            group.cancel_scope.cancel()
        process = Path("/proc") / (await anyio.Path(pid).read_text()).strip()
        await anyio.to_thread.run_sync(eventually, lambda: not process.exists())
