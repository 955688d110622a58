"""An agent on the official TypeScript client takes work, is refused, finishes, and hears of it."""

import json

import pytest

from tests.long import pairs
from tests.mcp.outside import node
from tests.mcp.stand import Stand


@pytest.mark.parametrize(("road", "era"), pairs(["http", "stdio"], ["modern", "legacy"]))
def test_an_agent_in_typescript_does_a_piece_of_work(stand: Stand, road: str, era: str) -> None:
    target = [stand.url] if road == "http" else stand.pump
    said = node.run("client.mjs", era, road, *target)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    assert told["refused"] == ["agent_name_mismatch"]
    assert told["owner"].startswith("typescript" if road == "http" else "agent-")
