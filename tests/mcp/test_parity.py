"""Lineage parity: one request through the command line, MCP and the coordinator, the same evidence.

What may differ is the door itself: `transport`, whence a request was handed on (`escalatedFrom`),
and the digest of the row before, which has the door in it.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.mcp.visitor import Guest, connect
from tests.surfaces.process import Serve
from understudy.actors.agents import AgentDoor
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.authority import create_state_dir
from understudy.authority.service import client as authority
from understudy.contracts import Transport, host_actions
from understudy.surfaces.cli.main import cli
from understudy.surfaces.cli.session import run
from understudy.surfaces.mcp.tools.catalogue import tool_name

pytestmark = pytest.mark.anyio

START_MS = 4_000_000_000_000
PROOF = {"assignee": "ada", "leaseId": "lease-a", "fence": 5}  # the claim is the fifth row


@dataclass(frozen=True)
class Step:
    """A request, how the command line says it, and what becomes of it."""

    action: str
    payload: dict[str, Any]
    words: str
    wire: str = ""


HELD = "--assignee ada --lease-id lease-a --fence 5"
STEPS = (
    Step("issue.add", {"id": "a", "title": "first"}, "issue add first --id a"),
    Step("issue.add", {"id": "b", "title": "second"}, "issue add second --id b"),
    Step("dep.add", {"id": "b", "dependsOnId": "a"}, "dep add b a"),
    Step(
        "dep.add", {"id": "a", "dependsOnId": "b"}, "dep add a b", "dep_cycle"
    ),
    Step(
        "issue.claim",
        {"id": "a", "assignee": "ada", "leaseId": "lease-a", "leaseTtlSeconds": 600},
        "issue claim a --assignee ada --lease-id lease-a --ttl 600",
    ),
    Step(
        "issue.claim",
        {"id": "a", "assignee": "bob"},
        "issue claim a --assignee bob",
        "lease_contention_active",
    ),
    Step(
        "issue.claim",
        {"id": "b", "assignee": "bob"},
        "issue claim b --assignee bob",
        "lease_issue_blocked",
    ),
    Step("issue.claim_next", {"assignee": "bob"}, "issue next --assignee bob"),
    Step(
        "issue.claim_next",
        {"assignee": "bob", "leaseTtlSeconds": 1},
        "issue next --assignee bob --ttl 1",
        "lease_invalid_ttl",
    ),
    Step(
        "issue.update",
        {"id": "a", "notes": "half"} | PROOF,
        f"issue update a --notes half {HELD}",
    ),
    Step(
        "issue.update",
        {"id": "a", "notes": "late"} | PROOF | {"fence": 4},
        f"issue update a --notes late {HELD} --fence 4",
        "lease_fence_stale",
    ),
    Step("issue.update", {"id": "a", "notes": "who"}, "issue update a --notes who",
         "lease_fence_missing"),
    Step(
        "issue.lease_renew",
        {"id": "a", "leaseTtlSeconds": 900} | PROOF,
        f"issue renew a --ttl 900 {HELD}",
    ),
    Step(
        "sublease.grant",
        {"id": "a", "holder": "sub", "capabilityScope": ["issue.update"], "newSubleaseId": "s1"}
        | PROOF,
        f"sublease grant a --holder sub --scope issue.update --new-sublease-id s1 {HELD}",
    ),
    Step(
        "fiber.spawn",
        {"id": "a", "taskRef": "lint", "fiberId": "f1"} | PROOF,
        f"fiber spawn a --task lint --fiber-id f1 {HELD}",
    ),
    Step("issue.close", {"id": "a"} | PROOF, f"issue close a {HELD}", "fiber_scope_open"),
    Step(
        "fiber.join",
        {"id": "a", "fiberId": "f1"} | PROOF,
        f"fiber join a f1 {HELD}",
    ),
    Step(
        "issue.discover",
        {"id": "a", "title": "found", "newId": "c"} | PROOF,
        f"issue discover a found --new-id c {HELD}",
    ),
    Step("issue.show", {"id": "a"}, "issue show a"),
    Step("issue.show", {"id": "x"}, "issue show x", "issue_not_found"),
    Step("issue.ready", {}, "issue ready"),
    Step("issue.close", {"id": "a"} | PROOF, f"issue close a {HELD}"),
    Step(
        "issue.lease_release",
        {"id": "a"} | PROOF,
        f"issue release a {HELD}",
        "lease_issue_closed",
    ),
    Step("dep.diagnostics", {}, "dep diagnostics"),
)  # fmt: skip


def _numbered() -> Iterator[tuple[Step, dict[str, Any]]]:
    """Every step with its payload; mutations have the ids that each door is to send."""
    for number, step in enumerate(STEPS):
        mutates = host_actions()[step.action].mutates
        yield step, step.payload | ({"requestId": f"r{number}"} if mutates else {})


def _lineage(answer: dict[str, Any]) -> dict[str, Any]:
    """What of an answer says what was asked, by what right, and what came of it."""
    names = ("result", "failureClasses", "action", "actionId", "semanticDigest")
    more = ("worldBinding", "resolverWitnessRef", "seq")
    told = {name: answer.get(name) for name in (*names, *more)}
    timed = {"transport", "escalatedFrom", "agent", "prev", "stamp", "stateDigest"}
    effect = {name: each for name, each in answer["effect"].items() if name not in timed}
    return told | {"effect": effect}


def _as_seen(lineage: dict[str, Any], by_agent: dict[str, Any]) -> dict[str, Any]:
    """A lineage without the proof of a lease, where the agents' door has left it out."""
    effect = lineage["effect"]
    if by_agent["effect"]["fence"] is not None:
        return lineage
    refs = [each for each in effect["witnessRefs"] if not each.startswith("lease://")]
    return lineage | {"effect": effect | {"fence": None, "witnessRefs": refs}}


async def _through_mcp(desk: AuthorityLink) -> list[dict[str, Any]]:
    answers = []
    async with connect(desk, Guest("ada")) as ada, connect(desk, Guest("bob")) as bob:
        for step, payload in _numbered():
            tool = tool_name(host_actions()[step.action])
            client = bob if payload.get("assignee") == "bob" else ada
            result = await client.call_tool(tool, payload | {"verbose": True})
            assert result.is_error is bool(step.wire)
            answers.append(result.structured_content)
    return answers


def _through_the_command_line(
    state_dir: Path, printed: pytest.CaptureFixture[bytes]
) -> list[dict[str, Any]]:
    answers = []
    for step, payload in _numbered():
        request_id = payload.get("requestId")
        more = ["--request-id", request_id] if request_id else []
        printed.readouterr()
        run(cli, [*step.words.split(), *more, "--state-dir", str(state_dir), "--json"])
        answers.append(orjson.loads(printed.readouterr().out))
    return answers


def _through_a_socket(state_dir: Path, transport: Transport) -> list[dict[str, Any]]:
    with authority.Client(state_dir, transport) as clerk:
        return [clerk.ask(step.action, payload) for step, payload in _numbered()]


async def test_every_door_gives_the_same_lineage(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with ExitStack() as doors:
        folders = {name: tmp_path / name for name in ("cli", "mcp", "coordinator")}
        for name, folder in folders.items():
            create_state_dir(folder, "local")
            if name != "cli":
                doors.enter_context(Serve(folder)).ready()
        desk = await AuthorityLink.open(folders["mcp"])
        answers = {
            "cli": _through_the_command_line(folders["cli"], capsysbinary),
            "mcp": await _through_mcp(desk),
            "coordinator": _through_a_socket(folders["coordinator"], "coordinator"),
        }
        await desk.close()
    for number, step in enumerate(STEPS):
        by_door = {door: each[number] for door, each in answers.items()}
        wires = [step.wire] if step.wire else []
        assert all(each["failureClasses"] == wires for each in by_door.values()), step
        lineages = {door: _lineage(each) for door, each in by_door.items()}
        for door in ("coordinator", "cli"):
            assert lineages["mcp"] == _as_seen(lineages[door], lineages["mcp"]), step
        transports = {door: each["effect"]["transport"] for door, each in by_door.items()}
        escalated = by_door["cli"]["effect"].get("escalatedFrom")
        local = "cli" if "cli" in host_actions()[step.action].transports else "mcp"
        assert transports == {"cli": local, "mcp": "mcp", "coordinator": "coordinator"}
        assert escalated == (None if local == "cli" else "cli")


# --- with the time held still, down to the digests of the state -----------------------------------


class FrozenDesk(AuthorityLink):
    """A desk whose requests bring their own time."""

    def __init__(self, state_dir: Path, clerk: authority.Client) -> None:
        super().__init__(state_dir)
        self._clerk = clerk
        self._times = count(START_MS, 1_000)

    async def ask(
        self, action: str, payload: dict[str, Any], context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        if action == "issue.backend_status":  # what a list of tools depends on
            return await super().ask(action, payload)
        return _frozen(self._clerk, next(self._times), action, payload)


def _frozen(
    clerk: authority.Client, now_ms: int, action: str, payload: dict[str, Any]
) -> dict[str, Any]:
    request = {"action": action, "payload": payload, "now": now_ms}
    answer: dict[str, Any] = orjson.loads(clerk.relay([orjson.dumps(request)])[0])
    return answer


async def test_with_a_frozen_clock_the_doors_give_the_same_bytes_but_for_their_names(
    tmp_path: Path,
) -> None:
    answers: dict[str, list[dict[str, Any]]] = {}
    doors: tuple[Transport, ...] = ("mcp", "coordinator", "cli")
    for door in doors:
        folder = tmp_path / door
        create_state_dir(folder, "local")
        with (
            Serve(folder, "--frozen-clock") as sidecar,
            authority.Client(sidecar.ready().state_dir, door, frozen_clock=True) as clerk,
        ):
            if door == "mcp":
                answers[door] = await _through_mcp(FrozenDesk(folder, clerk))
            else:
                answers[door] = [
                    _frozen(clerk, START_MS + 1_000 * number, step.action, payload)
                    for number, (step, payload) in enumerate(_numbered())
                ]
    for number, step in enumerate(STEPS):
        mcp, coordinator = (_nameless(answers[door][number]) for door in doors[:2])
        seen_by = Guest(step.payload.get("assignee", "ada"))
        coordinator = AgentDoor(AuthorityLink(tmp_path), seen_by).shown(coordinator, step.payload)
        assert orjson.dumps(mcp, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
            coordinator, option=orjson.OPT_SORT_KEYS
        )
        if "cli" not in host_actions()[step.action].transports:
            wire = "control_plane_host_action_mcp_transport_required"
            assert answers["cli"][number]["failureClasses"] == [wire]


def _nameless(answer: dict[str, Any]) -> dict[str, Any]:
    effect = {name: each for name, each in answer["effect"].items()
              if name not in {"transport", "prev"}}  # fmt: skip
    return answer | {"effect": effect}
