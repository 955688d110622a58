"""Prompts and completion: what people and models are offered before they ask."""

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from tests.mcp.visitor import ERAS, Guest, connect
from tests.surfaces.process import Serve
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.contracts import limits
from understudy.surfaces.mcp.tools.catalogue import entries

pytestmark = pytest.mark.anyio


@pytest.fixture
def sidecar(common: Serve) -> Serve:
    return common


async def _text(client: Client, name: str, **arguments: str) -> str:
    got = await client.get_prompt(name, arguments or None)
    (message,) = got.messages
    text: str = message.content.text
    return text


async def _fill(desk: AuthorityLink) -> None:
    for each in ("us-1", "us-2", "ux-1"):
        await desk.ask("issue.add", {"id": each, "title": f"do {each}"})
    await desk.ask("issue.claim", {"id": "us-2", "assignee": "bob"})


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_are_listed_and_say_how_things_stand(desk: AuthorityLink, era: str) -> None:
    await _fill(desk)
    async with connect(desk, Guest(), era) as client:
        listed = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert listed == ["pick_up_work", "hand_over", "triage"]
        assert "work_next" in await _text(client, "pick_up_work")
        assert "issue_claim and id us-1" in await _text(client, "pick_up_work", issue="us-1")
        assert "bob" in await _text(client, "hand_over", issue="us-2")
        triage = await _text(client, "triage")
    assert "do ux-1" in triage
    assert "bob" in triage


async def test_prompts_name_tools_that_exist(desk: AuthorityLink) -> None:
    await _fill(desk)
    async with connect(desk, Guest()) as client:
        texts = [
            await _text(client, "pick_up_work"),
            await _text(client, "hand_over", issue="us-2"),
            await _text(client, "triage"),
        ]
    families = ("work_", "issue_", "dep_", "fiber_")
    words = {word.strip(".,:;()") for text in texts for word in text.split()}
    named = {word for word in words if word.startswith(families)}
    assert named <= set(entries())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sing", {}),
        ("triage", {"issue": "us-1"}),
        ("hand_over", {}),
        ("hand_over", {"issue": "no"}),
    ],
)
async def test_what_cannot_be_prompted_is_an_error(
    desk: AuthorityLink, name: str, arguments: dict[str, str]
) -> None:
    async with connect(desk, Guest()) as client:
        with pytest.raises(MCPError):
            await client.get_prompt(name, arguments)


@pytest.mark.parametrize("era", ERAS)
async def test_ids_are_completed(desk: AuthorityLink, era: str) -> None:
    await _fill(desk)
    cases: list[tuple[PromptReference | ResourceTemplateReference, str, list[str]]] = [
        (PromptReference(name="pick_up_work"), "issue=us-", ["us-1", "us-2"]),
        (PromptReference(name="hand_over"), "issue=", ["us-2"]),
        (PromptReference(name="triage"), "issue=", []),
        (ResourceTemplateReference(uri="issue://{id}"), "id=ux", ["ux-1"]),
        (ResourceTemplateReference(uri="lease://{id}"), "id=", ["us-2"]),
        (ResourceTemplateReference(uri="trajectory://{which}"), "which=f", ["failed"]),
        (ResourceTemplateReference(uri="job://{id}"), "id=", []),
    ]
    async with connect(desk, Guest(), era) as client:
        for ref, typed, values in cases:
            name, _, value = typed.partition("=")
            done = await client.complete(ref, {"name": name, "value": value})
            assert done.completion.values == values
            assert done.completion.has_more is False


async def test_many_ids_are_completed_in_part(desk: AuthorityLink) -> None:
    count = limits.MCP_PAGE_MAX + 1
    for number in range(count):
        await desk.ask("issue.add", {"id": f"n{number}", "title": "t"})
    async with connect(desk, Guest()) as client:
        ref = ResourceTemplateReference(uri="issue://{id}")
        done = await client.complete(ref, {"name": "id", "value": "n"})
    completion = done.completion
    assert (len(completion.values), completion.total, completion.has_more) == (
        limits.MCP_PAGE_MAX,
        count,
        True,
    )
