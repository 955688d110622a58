"""The transport boundary on a running authority: what each door may ask, and may call itself."""

from typing import Any

import pytest

from tests.mcp.visitor import Guest, connect, said
from tests.surfaces.process import Serve
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.authority.service.client import Client
from understudy.contracts import STRENGTH, Transport

MCP_REQUIRED = "control_plane_host_action_mcp_transport_required"
STRONG = ("mcp", "coordinator")


def _claimed(door: Client, issue: str) -> dict[str, Any]:
    door.ask("issue.add", {"id": issue, "title": issue})
    lease = door.ask("issue.claim", {"id": issue, "assignee": "ada"})["issue"]["lease"]
    return {
        "id": issue,
        "assignee": "ada",
        "leaseId": lease["leaseId"],
        "fence": lease["fence"],
    }


@pytest.mark.parametrize("transport", STRENGTH)
def test_leases_are_renewed_and_released_through_strong_doors_alone(
    sidecar: Serve, transport: Transport
) -> None:
    with Client(sidecar.state_dir, transport) as door:
        held = _claimed(door, "a")
        for action in ("issue.lease_renew", "issue.lease_release"):
            answer = door.ask(action, held)
            refused = [] if transport in STRONG else [MCP_REQUIRED]
            assert answer["failureClasses"] == refused


@pytest.mark.parametrize("transport", STRENGTH)
def test_no_door_calls_itself_a_stronger_one(sidecar: Serve, transport: Transport) -> None:
    with Client(sidecar.state_dir, transport) as door:
        for name in STRENGTH:
            answer = door.ask("issue.add", {"title": name}, {"transport": name})
            is_stronger = STRENGTH[name] > STRENGTH[transport]
            wanted = ["transport_escalation_denied"] if is_stronger else []
            assert answer["failureClasses"] == wanted


@pytest.mark.anyio
async def test_an_agent_renews_what_the_weak_doors_could_not(
    sidecar: Serve, desk: AuthorityLink
) -> None:
    with Client(sidecar.state_dir, "local-repl") as door:
        held = _claimed(door, "a")
        assert door.ask("issue.lease_renew", held)["failureClasses"] == [MCP_REQUIRED]
    async with connect(desk, Guest(held["assignee"])) as client:
        assert said(await client.call_tool("issue_lease_renew", held))["result"] == "accepted"
