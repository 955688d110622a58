"""The Inspector's command line, through HTTP and through the pump, in both eras."""

import json
from typing import Any

import pytest

from tests.long import pairs
from tests.mcp.outside import node
from tests.mcp.stand import Stand

ERAS = ("modern", "legacy")
ROADS = ("http", "stdio")


def inspected(stand: Stand, road: str, era: str, *method: str) -> dict[str, Any]:
    """What it prints; it leaves with 6 where it finds a schema that other clients refuse."""
    target = (
        ("--server-url", stand.url, "--transport", "http") if road == "http" else (*stand.pump,)
    )
    words = ("--cli", *target, "--protocol-era", era, "--format", "json", "-q", "--method", *method)
    said = node.run(node.INSPECTOR, *words)
    assert said.returncode in (0, 5), said.stdout + said.stderr
    printed: dict[str, Any] = json.loads(said.stdout)["result"]
    return printed


@pytest.mark.parametrize(("road", "era"), pairs(ROADS, ERAS))
def test_every_list_is_without_fault(stand: Stand, road: str, era: str) -> None:
    tools = inspected(stand, road, era, "tools/list", "--strict")["tools"]
    assert {"work_next", "issue_claim", "issue_lease_renew"} <= {each["name"] for each in tools}
    resources = inspected(stand, road, era, "resources/list")["resources"]
    assert "mesh://status" in {each["uri"] for each in resources}
    assert inspected(stand, road, era, "prompts/list")["prompts"]


@pytest.mark.parametrize(("road", "era"), pairs(ROADS, ERAS))
def test_a_call_is_accepted_and_another_refused(stand: Stand, road: str, era: str) -> None:
    call = ("tools/call", "--tool-name")
    added = inspected(stand, road, era, *call, "issue_add", "--tool-arg", "title=from outside")
    assert added["structuredContent"]["result"] == "accepted"
    refused = inspected(stand, road, era, *call, "issue_claim", "--tool-arg", "id=nowhere")
    assert refused["isError"]
    assert refused["structuredContent"]["failureClasses"] == ["lease_not_found"]
