"""What a model is made to read: few tools, short schemas, and answers with what it needs."""

from typing import Any

import orjson
import pytest

from tests.mcp.visitor import ERAS, Guest, connect, said, text
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.contracts import limits
from understudy.surfaces.mcp.tools.catalogue import CORE, UnknownTool, chosen, entries, listing

pytestmark = pytest.mark.anyio

CORE_TOKENS_MAX = 4_000
CLAIM_BYTES_MAX = 600
_RESULT = {"content", "structured_content", "is_error"}
READ = ("name", "description", "inputSchema", "outputSchema")  # of a tool, by a model


def tokens(tools: list[dict[str, Any]]) -> int:
    """About as many as a model counts."""
    seen = [{name: each[name] for name in READ if name in each} for each in tools]
    return len(orjson.dumps(seen)) // 4


@pytest.mark.parametrize("linked", [False, True])
def test_the_core_is_short(linked: bool) -> None:
    assert tokens(listing(chosen("core"), linked=linked)) <= CORE_TOKENS_MAX
    assert len(CORE) <= 10


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_is_offered_what_was_chosen(desk: AuthorityLink, era: str) -> None:
    async with connect(desk, Guest(), era, tools="core") as client:
        listed = (await client.list_tools()).tools
        found = [each.model_dump(by_alias=True, exclude_none=True) for each in listed]
    assert {each["name"] for each in found} == set(CORE)
    assert tokens(found) <= CORE_TOKENS_MAX


def test_a_choice_is_a_word_or_names_and_nothing_else() -> None:
    assert chosen("all") == entries().keys()
    assert chosen("job_show, issue_show") == {"job_show", "issue_show"}
    assert chosen("core,job_show") == {*CORE, "job_show"}
    for words in ("most", "core,most", "Core"):
        with pytest.raises(UnknownTool):
            chosen(words)


@pytest.mark.parametrize("tool", ["issue_claim", "work_next"])
async def test_a_claim_is_told_in_few_words(desk: AuthorityLink, tool: str) -> None:
    await desk.ask("issue.add", {"id": "us-1", "title": "Write the parser of the grammar"})
    async with connect(desk, Guest("agent-1a2b3c4d")) as client:
        result = await client.call_tool(tool, {"id": "us-1"} if tool == "issue_claim" else {})
        whole = said(await client.call_tool("issue_claim", {"id": "us-1", "verbose": True}))
    told = result.model_dump(by_alias=True, include=_RESULT, exclude_none=True)
    lease = said(result)["issue"]["lease"]
    assert {"leaseId", "fence", "expiresAt"} <= lease.keys()
    assert lease["leaseId"] in text(result)
    if tool == "issue_claim":
        assert len(orjson.dumps(told)) < CLAIM_BYTES_MAX
    digests = ("argsDigest", "semanticDigest", "policyDigest")
    assert not [name for name in digests if name in str(told)]
    assert [name for name in digests if name in str(whole)] == [*digests]


async def test_evidence_is_asked_for_where_the_policy_wants_it(desk: AuthorityLink) -> None:
    link = AuthorityLink(desk.state_dir, "cli")
    async with connect(desk, Guest()) as client:
        before = {each.name: each.input_schema for each in (await client.list_tools()).tools}
        assert not [each for each in before.values() if "context" in each["properties"]]
    await link.ask("policy.set", {"mutation": "instruction-linked"})
    async with connect(desk, Guest()) as client:
        after = {each.name: each.input_schema for each in (await client.list_tools()).tools}
    await link.close()
    shown = {name for name, schema in after.items() if "context" in schema["properties"]}
    assert shown == {name for name, entry in entries().items() if not entry.reads}


def test_a_schema_says_what_the_rules_ask_for() -> None:
    asked = {each["name"]: each["inputSchema"] for each in listing()}
    for tool in ("work_next", "issue_claim", "issue_lease_renew", "sublease_grant"):
        ttl = asked[tool]["properties"]["leaseTtlSeconds"]
        bounds = (limits.TTL_SECONDS_MIN, limits.TTL_SECONDS_MAX)
        assert (ttl["minimum"], ttl["maximum"]) == bounds
    for tool in ("job_claim", "spec_claim", "dispatch_claim"):
        assert asked[tool]["properties"]["leaseDurationMs"]["minimum"] == 30_000
    assert "reason" in asked["issue_lease_break"]["required"]
    for tool in ("work_next", "issue_claim", "issue_claim_next"):
        assert "of your choice" in asked[tool]["properties"]["leaseId"]["description"]
    for tool, schema in asked.items():
        assert "requestId" not in schema["properties"], tool


def test_what_only_adds_is_not_called_destructive() -> None:
    hints = {each["name"]: each["annotations"]["destructiveHint"] for each in listing()}
    assert not hints["job_schedule"]
    assert hints["issue_lease_break"]
