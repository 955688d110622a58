"""The way to the authority: lost, and found again."""

import pytest

from tests.mcp.visitor import Guest, connect, refused
from tests.surfaces.process import Serve
from understudy.actors.agents.authority_link import AuthorityLink

pytestmark = pytest.mark.anyio


async def test_who_is_not_answered_is_told_why(desk: AuthorityLink, sidecar: Serve) -> None:
    desk._client._retry_seconds = 0.1
    sidecar.kill()
    async with connect(desk, Guest()) as client:
        assert refused(await client.call_tool("issue_ready", {})) == "sidecar_unreachable"
    with Serve(sidecar.state_dir) as again:
        again.ready()
        async with connect(desk, Guest()) as client:
            assert not (await client.call_tool("issue_ready", {})).is_error
