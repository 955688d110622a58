"""What an agent launches: it begins by itself, outlives gateways, and never leaves a request."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from mcp import Client, StdioServerParameters

from tests.long import few
from tests.mcp.gateway.agents import HANDSHAKE, Agent, proof
from tests.patience import eventually
from tests.surfaces.process import UNDERSTUDY, commanded, environment, journal_rows, understudy
from tests.tree.house import add
from understudy.actors.tree import gateway as seen
from understudy.contracts import limits
from understudy.surfaces.mcp import wire

ASK = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


def _pid(state_dir: Path) -> int:
    pid: int = seen.look(state_dir)["pid"]
    return pid


def _hit(state_dir: Path, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(_pid(state_dir), number)


def test_the_first_agent_starts_a_gateway_and_others_share_it(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    with Agent(state_dir, "--name", "ann") as ann, Agent(state_dir, "--name", "bob") as bob:
        taken = {ann.greet().take()["id"], bob.greet().take()["id"]}
        assert taken == {"a", "b"}
        assert seen.look(state_dir)["clients"] == 2
        assert seen.look(state_dir)["house"] == "alone"
        assert ann.finish() == 0
        assert bob.finish() == 0
    eventually(lambda: seen.look(state_dir).get("leases") == 0)
    assert {each["status"] for each in _issues(state_dir)} == {"open"}  # both were handed back


def _issues(state_dir: Path) -> list[dict[str, Any]]:
    listed = commanded("issue", "list", "--state-dir", state_dir, "--json")
    found: list[dict[str, Any]] = orjson.loads(listed.stdout)["issues"]
    return found


def test_an_agent_may_wish_that_its_leases_outlive_it(state_dir: Path) -> None:
    add(state_dir, "a")
    with Agent(state_dir, "--on-leave", "expire", "--name", "ann") as ann:
        held = ann.greet().take()
        assert held["assignee"].startswith("ann-")
        assert ann.finish() == 0
    eventually(lambda: seen.look(state_dir)["leases"] == 0)
    (issue,) = _issues(state_dir)
    assert issue["lease"]["fence"] == held["fence"]
    assert understudy("gateway", "--stop", "--state-dir", state_dir).returncode == 0
    assert "missing" in seen.look(state_dir)
    assert commanded("authority", "status", "--state-dir", state_dir).returncode == 7


def test_two_agents_of_one_name_are_two_holders(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    with Agent(state_dir, "--name", "ann") as first, Agent(state_dir, "--name", "ann") as second:
        ours, theirs = first.greet().take(), second.greet().take()
        assert ours["assignee"] != theirs["assignee"]
        assert ours["id"] != theirs["id"]
        stolen = second.call("work_complete", **(theirs | {"id": ours["id"]}))
        assert stolen["result"] == "rejected"
        assert first.call("work_complete", **ours)["result"] == "accepted"


@pytest.mark.parametrize("number", few([signal.SIGKILL, signal.SIGTERM]))
def test_an_agent_does_not_notice_that_its_gateway_was_replaced(
    state_dir: Path, number: signal.Signals
) -> None:
    add(state_dir, "a", "b")
    with Agent(state_dir) as agent:
        held = agent.greet().take()
        first = _pid(state_dir)
        os.kill(first, number)
        other = agent.take()
        assert other["id"] != held["id"]
        assert other["assignee"] == held["assignee"]
        eventually(lambda: seen.look(state_dir).get("pid", first) != first)
        eventually(lambda: seen.look(state_dir)["leases"] == 2)  # it was told of the first one
        assert agent.call("work_complete", **held)["result"] == "accepted"
        assert agent.call("work_complete", **other)["result"] == "accepted"
        assert seen.look(state_dir)["leases"] == 0


def test_what_was_in_flight_is_done_once_however_often_the_gateway_dies(state_dir: Path) -> None:
    with Agent(state_dir) as agent:
        agent.greet()
        heard = 0
        for number in range(300):
            agent.post("tools/call", {"name": "issue_add", "arguments": {"title": f"t{number}"}})
            if number in (100, 200):
                assert "result" in agent.answer()  # some are done, some are not
                _hit(state_dir)
                # Read on: a pump that is not read from writes nothing, and asks nothing.
                assert all("result" in agent.answer() for _ in range(heard + 1, number + 1))
                heard = number + 1
        assert agent.finish() == 0
        assert len([line for line in agent.rest() if b'"result"' in line]) == 300 - heard
    assert sorted(each["title"] for each in _issues(state_dir)) == sorted(
        f"t{number}" for number in range(300)
    )


def test_a_client_that_uses_one_id_for_everything_asks_for_new_things(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    call = {"name": "work_next", "arguments": {"leaseTtlSeconds": 30}}
    with Agent(state_dir) as agent:
        agent.greet()
        taken = []
        for _ in range(2):
            agent.send({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": call})
            taken.append(proof(agent.answer()["result"]["structuredContent"])["id"])
        assert sorted(taken) == ["a", "b"]


def test_subscriptions_are_made_again_with_the_next_gateway(state_dir: Path) -> None:
    add(state_dir, "a")
    with Agent(state_dir) as agent:
        agent.greet()
        assert "result" in agent.rpc("resources/subscribe", {"uri": "issue://a"})
        _hit(state_dir)
        assert "result" in agent.rpc("tools/list")
        done = commanded("issue", "update", "a", "--notes", "new", "--state-dir", state_dir)
        assert done.returncode == 0
        said = agent.answer()
        assert said["method"] == "notifications/resources/updated"
        assert said["params"]["uri"] == "issue://a"


def test_what_is_said_before_anybody_listens_is_heard(state_dir: Path) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    said = b"".join(orjson.dumps(line) + b"\n" for line in lines) + b"garbage\n"
    done = understudy("mcp", "--state-dir", state_dir, stdin=said)
    answers = [orjson.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert {answer["id"] for answer in answers} == {1, 2, None}


def test_a_missing_state_directory_is_said_to_the_agent_and_on_stderr(tmp_path: Path) -> None:
    done = understudy("mcp", "--state-dir", tmp_path / "none", stdin=ASK)
    assert done.returncode == 78
    assert b"understudy init" in done.stderr
    assert "understudy init" in orjson.loads(done.stdout)["error"]["message"]


def test_a_gateway_that_says_no_is_heard_out(state_dir: Path, tmp_path: Path) -> None:
    """An impostor that knows no protocol of ours."""
    words = (
        "import os, socket, sys\n"
        "os.chdir(sys.argv[1]); s = socket.socket(socket.AF_UNIX); s.bind('mcp.sock')\n"
        "s.listen(); open(sys.argv[2], 'w').close(); c, _ = s.accept(); c.recv(9)\n"
        "c.sendall(b'#no not today\\n'); c.recv(9)"
    )
    ready = tmp_path / "ready"
    with subprocess.Popen([sys.executable, "-c", words, state_dir, ready]) as impostor:
        eventually(ready.exists)
        done = understudy("mcp", "--state-dir", state_dir, stdin=ASK)
        impostor.kill()
    assert done.returncode == 78
    assert b"not today" in done.stderr
    assert "not today" in orjson.loads(done.stdout)["error"]["message"]


def test_what_is_no_request_is_refused_once_and_not_asked_again(state_dir: Path) -> None:
    with Agent(state_dir) as agent:
        agent.greet()
        for mark, known in ((7, 7), ([1], None), ({}, None)):
            agent.send({"jsonrpc": "1.0", "id": mark, "method": "tools/list"})
            answer = agent.answer()
            assert (answer["id"], answer["error"]["code"]) == (known, -32600)
        _hit(state_dir)
        assert "result" in agent.rpc("tools/list")
        assert agent.finish() == 0
        assert agent.rest() == []


def test_a_line_that_is_too_long_is_refused_and_the_next_one_is_not(state_dir: Path) -> None:
    with Agent(state_dir) as agent:
        agent.greet()
        agent.write(b"x" * (wire.LINE_BYTES_MAX + 70_000) + b"\n")
        assert str(wire.LINE_BYTES_MAX) in agent.answer()["error"]["message"]
        assert "result" in agent.rpc("tools/list")


def test_a_cancelled_question_is_not_asked_again(state_dir: Path) -> None:
    with Agent(state_dir) as agent:
        agent.greet()
        call = {"name": "work_next", "arguments": {"waitSeconds": 600}}
        mark = agent.post("tools/call", call)
        params = {"requestId": mark}
        agent.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        assert "result" in agent.rpc("tools/list")
        _hit(state_dir)
        assert "result" in agent.rpc("tools/list")
        add(state_dir, "a")  # which the cancelled one must not get
        assert agent.take()["id"] == "a"


@pytest.mark.parametrize("mode", few(["auto", "legacy"]))
def test_the_official_client_is_carried_in_both_eras_across_a_restart(
    state_dir: Path, mode: str
) -> None:
    add(state_dir, "a", "b")
    words = StdioServerParameters(
        command=str(UNDERSTUDY), args=["mcp", "--state-dir", str(state_dir)], env=environment()
    )

    async def story() -> None:
        async with Client(words, mode=mode) as client:
            first = await client.call_tool("work_next", {"leaseTtlSeconds": 30})
            _hit(state_dir)
            second = await client.call_tool("work_next", {"leaseTtlSeconds": 30})
            assert first.structured_content is not None
            assert second.structured_content is not None
            held = [proof(each.structured_content) for each in (first, second)]
            assert {each["id"] for each in held} == {"a", "b"}
            for each in held:
                done = await client.call_tool("work_complete", each)
                assert not done.is_error

    anyio.run(story)
    claims = [row for row in journal_rows(state_dir) if b'"issue.claim_next"' in bytes(row[2])]
    assert len(claims) == 2


# --- what it is told at its start -----------------------------------------------------------------

_WITHOUT_SDK = """
import sys
sys.modules["mcp"] = None  # as if it were not installed
from understudy.surfaces.cli.entry import main
sys.exit(main())
"""


def test_an_install_without_the_extra_says_what_to_install_at_once(state_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SDK, "mcp", "--state-dir", state_dir],
        input=orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize"}) + b"\n",
        capture_output=True,
        timeout=10,  # far less than the patience with a gateway
        check=False,
    )
    advice = "pip install 'understudy[mcp]'"
    assert advice in orjson.loads(done.stdout)["error"]["message"]
    assert advice in done.stderr.decode()
    assert done.returncode == 78


def test_an_agent_gets_the_tools_the_rights_and_the_share_that_its_settings_say(
    state_dir: Path,
) -> None:
    add(state_dir, *"abcdefg")
    wide = ("--tools", "core,issue_lease_break", "--allow-break", "--max-held", "1")
    with Agent(state_dir) as plain, Agent(state_dir, *wide) as other:
        held = plain.greet().take()
        for _ in range(limits.MCP_HELD_DEFAULT - 1):
            plain.take()
        assert plain.call("work_next")["failureClasses"] == ["agent_holds_full"]
        listed = {each["name"] for each in plain.rpc("tools/list")["result"]["tools"]}
        assert "work_next" in listed
        assert "issue_lease_break" not in listed
        asked = {"id": held["id"], "reason": "it hangs"}
        answer = plain.rpc("tools/call", {"name": "issue_lease_break", "arguments": asked})
        assert "not offered here" in answer["error"]["message"]
        other.greet().take()
        full = other.call("work_next")
        assert full["failureClasses"] == ["agent_holds_full"]
        assert other.call("issue_lease_break", **asked)["result"] == "accepted"
        assert plain.call("work_complete", **held)["failureClasses"] == ["lease_missing"]


OPERATORS_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("limit_set", {"kind": "ci.", "concurrency": 2}),
    ("limit_clear", {"kind": "ci."}),
    ("schedule_set", {"scheduleId": "s", "cron": "0 3 * * *", "job": {"kind": "ci.build"}}),
    ("schedule_clear", {"scheduleId": "s"}),
    ("budget_set", {"scope": "*", "per": "work", "tokensMax": 9}),
    ("budget_clear", {"scope": "*"}),
    ("pause_set", {"scope": "*"}),
    ("pause_clear", {"scope": "*"}),
    ("issue_cancel", {"id": "a"}),
    ("issue_retry", {"id": "a"}),
    ("issue_lease_break", {"id": "a", "reason": "it hangs"}),
]


def test_a_client_of_an_operator_steers_and_another_is_refused(state_dir: Path) -> None:
    add(state_dir, "a")
    with (
        Agent(state_dir, "--tools", "all") as plain,
        Agent(state_dir, "--tools", "all", "--operator") as operator,
    ):
        plain.greet()
        operator.greet()
        for tool, asked in OPERATORS_CALLS:
            assert plain.call(tool, **asked)["failureClasses"] == ["operator_required"], tool
        for tool, asked in OPERATORS_CALLS[:-1]:
            assert operator.call(tool, **asked)["result"] == "accepted", tool
        plain.take()
        tool, asked = OPERATORS_CALLS[-1]
        assert operator.call(tool, **asked)["result"] == "accepted"


def test_a_tool_that_does_not_exist_is_said_at_once(state_dir: Path) -> None:
    with Agent(state_dir, "--tools", "core,job_shew") as agent:
        answer = agent.rpc("initialize", HANDSHAKE)
        assert "no tool `job_shew`" in answer["error"]["message"]
