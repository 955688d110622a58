"""Agents of one gateway: none passes for another, and none is shown the proofs of another."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp.visitor import Guest, connect, refused, said
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.contracts import host_actions
from understudy.contracts.requests.host_actions import OPERATORS_ACTIONS
from understudy.surfaces.mcp.tools.catalogue import entries

pytestmark = pytest.mark.anyio

PROOFS = {"leaseId", "parentLeaseId", "subleaseId", "fence", "fenceToken", "claim"}
BREAK = {"issue.lease_break"}
LEFT = {"checkpoint": {"summary": "half of it"}}
STEPS = [{"stepKey": "one", "kind": "k"}, {"stepKey": "two", "kind": "k"}]
LENT = {"holder": "sub", "capabilityScope": ["issue.update"], "newSubleaseId": "sub-secret"}
ARGUMENTS: dict[str, Any] = {
    "id": "a", "jobId": "j", "specId": "s", "title": "t", "dependsOnId": "b", "reason": "r",
    "newDependsOnId": "b", "stepKeys": ["two"], "steps": STEPS, "kind": "k", "file": "f",
    "digest": "d", "claim": "x", "fiberId": "f1", "instanceId": "i1", "taskRef": "t", **LENT,
    **LEFT, "revokedSubleaseId": "sub-secret", "instructionRef": "i", "instruction": {},
    "fence": 1, "leaseId": "guessed", "query": "all",
}  # fmt: skip


class Holder:
    """Ada, who holds one of everything, with all that can hang on it."""

    def __init__(self, desk: AuthorityLink) -> None:
        self._desk = desk
        self.proofs: dict[str, dict[str, Any]] = {}

    async def _ask(self, action: str, **payload: object) -> dict[str, Any]:
        answer = await self._desk.ask(action, payload)
        assert answer["result"] == "accepted", answer
        return answer

    async def settle(self) -> None:
        for each in ("a", "b"):
            await self._ask("issue.add", id=each, title=each)
        await self._ask("job.schedule", jobId="j", kind="k")
        await self._ask("spec.submit", specId="s", steps=STEPS)
        issue = await self._ask("issue.claim", id="a", assignee="ada", leaseId="issue-secret")
        mine = self._prove("issue", issue["issue"]["lease"], id="a", assignee="ada")
        await self._ask("issue.handover", **mine, **LEFT)
        await self._ask("sublease.grant", **mine, **LENT)
        await self._ask("instance.open", **mine, instanceId="i1")
        await self._ask("fiber.spawn", **mine, fiberId="f1", taskRef="one part")
        job = await self._ask("job.claim", jobId="j", worker="ada")
        self._prove("job", job["job"]["lease"], jobId="j", worker="ada")
        spec = await self._ask("spec.claim", specId="s", runner="ada")
        held = self._prove("spec", spec["spec"]["lease"], specId="s", runner="ada")
        await self._ask("spec.materialize", **held, stepKeys=["one"])
        hand = {"jobId": "s:one", "dispatcher": "ada"}
        taken = await self._ask("dispatch.claim", **hand)
        self._prove("dispatch", taken["job"]["dispatchLease"], jobId="s:one", dispatcher="ada")
        await self._desk.ask("issue.close", mine | {"fence": 1})  # a refusal that names her fence

    def _prove(self, what: str, lease: dict[str, Any], **names: str) -> dict[str, Any]:
        proof = names | {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        self.proofs[what] = proof
        return proof

    @property
    def fences(self) -> set[int]:
        return {each["fence"] for each in self.proofs.values()}

    def seen_in(self, text: str) -> list[str]:
        """What a text gives away of hers."""
        secrets = {each["leaseId"] for each in self.proofs.values()} | {"sub-secret"}
        found = [each for each in secrets if each in text]
        return found + [str(each) for each in _proofs(text) if each in self.fences]


def _proofs(text: str) -> Iterator[object]:
    """The values of members that prove a lease, wherever there is JSON in a text."""
    stack: list[object] = []
    for line in text.splitlines():
        start = min((at for at in (line.find("{"), line.find("[")) if at >= 0), default=-1)
        if start >= 0:
            try:
                stack.append(orjson.loads(line[start:]))
            except orjson.JSONDecodeError:
                continue
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            yield from (value[name] for name in PROOFS & value.keys())
            stack += value.values()
        elif isinstance(value, list):
            stack += value


async def _heard(client: Client, holder: Holder) -> dict[str, str]:
    """All that another agent hears of everything it can ask for."""
    heard = {}
    for tool, entry in entries().items():
        known = entry.tool["inputSchema"]["properties"]
        arguments = {name: value for name, value in ARGUMENTS.items() if name in known}
        result = await client.call_tool(tool, arguments | {"verbose": True})
        heard[tool] = orjson.dumps(result.structured_content).decode() + "\n"
        heard[tool] += "\n".join(block.text for block in result.content if block.type == "text")
    listed = [str(each.uri) for each in (await client.list_resources()).resources]
    more = ("job://j", "job://s:one", "spec://s", "trajectory://a", "lease://a")
    for uri in (*listed, *more):
        contents = (await client.read_resource(uri)).contents
        heard[uri] = "\n".join(getattr(each, "text", "") for each in contents)
    for prompt in ("pick_up_work", "hand_over", "triage"):
        arguments = {"issue": "a"} if prompt != "triage" else {}
        found = await client.get_prompt(prompt, arguments)
        heard[prompt] = "\n".join(getattr(each.content, "text", "") for each in found.messages)
    assert {"issue://a", "lease://a", "trajectory://failed", "mesh://status"} <= heard.keys()
    return heard


async def test_nothing_that_an_agent_can_ask_shows_the_proofs_of_another(
    desk: AuthorityLink,
) -> None:
    ada = Holder(desk)
    await ada.settle()
    async with connect(desk, Guest("bob")) as client:
        heard = await _heard(client, ada)
    assert {name: found for name, text in heard.items() if (found := ada.seen_in(text))} == {}
    assert "expiresAt" in heard["issue_show"]  # until when it is held is no secret


async def test_the_walk_would_notice_what_an_operator_sees(desk: AuthorityLink) -> None:
    ada = Holder(desk)
    await ada.settle()
    for action, payload in (("issue.show", {"id": "a"}), ("job.show", {"jobId": "j"})):
        assert ada.seen_in(orjson.dumps(await desk.ask(action, payload)).decode())


async def test_what_a_job_carries_is_shown_as_it_is_and_hides_nothing_else(
    desk: AuthorityLink,
) -> None:
    payload = {"leaseId": "pending", "fence": 7, "claim": "k"}
    await desk.ask("job.schedule", {"jobId": "j", "kind": "k", "payload": payload})
    async with connect(desk, Guest("bob")) as client:
        job = said(await client.call_tool("job_show", {"jobId": "j"}))["job"]
    assert (job["payload"], job["state"], job["kind"]) == (payload, "pending", "k")


async def test_an_agent_sees_its_own_proofs(desk: AuthorityLink) -> None:
    ada = Holder(desk)
    await ada.settle()
    async with connect(desk, Guest("ada")) as client:
        issue = said(await client.call_tool("issue_show", {"id": "a"}))["issue"]
        assert issue["lease"]["fence"] == ada.proofs["issue"]["fence"]
        assert issue["subleases"][0]["subleaseId"] == "sub-secret"
        assert issue["fibers"][0]["fence"] == ada.proofs["issue"]["fence"]


@pytest.mark.parametrize(
    ("tool", "what"),
    [
        *((name, "issue") for name in ("work_complete", "work_handover", "issue_close")),
        *((name, "issue") for name in ("issue_update", "issue_discover", "issue_lease_release")),
        *((name, "issue") for name in ("issue_lease_renew", "issue_handover", "fiber_spawn")),
        *((name, "issue") for name in ("sublease_grant", "instance_open", "dep_add")),
        *((name, "job") for name in ("job_claim", "job_complete", "job_yield")),
        *((name, "spec") for name in ("spec_claim", "spec_materialize", "spec_release")),
        *((name, "dispatch") for name in ("dispatch_claim", "dispatch_complete")),
    ],
)
async def test_the_whole_proof_of_another_makes_nobody_the_other(
    desk: AuthorityLink, tool: str, what: str
) -> None:
    ada = Holder(desk)
    await ada.settle()
    known = entries()[tool].tool["inputSchema"]["properties"]
    needed = {name: value for name, value in ARGUMENTS.items() if name in known}
    async with connect(desk, Guest("bob")) as client:
        result = await client.call_tool(tool, needed | ada.proofs[what])
    assert refused(result) == "agent_name_mismatch"


async def test_an_agent_says_nothing_that_its_door_says(desk: AuthorityLink) -> None:
    await desk.ask("issue.add", {"id": "a", "title": "t"})
    claims = ({"agent": {"name": "ada"}}, {"escalatedFrom": "cli"}, ["agent"], "agent")
    async with connect(desk, Guest("bob")) as client:
        for context in claims:
            result = await client.call_tool("issue_claim", {"id": "a", "context": context})
            assert refused(result) == "transport_invalid_request"


async def test_a_subagent_works_through_the_connection_of_the_one_who_lent(
    desk: AuthorityLink,
) -> None:
    ada = Holder(desk)
    await ada.settle()
    lent = ada.proofs["issue"] | {"assignee": "sub", "subleaseId": "sub-secret", "notes": "n"}
    async with connect(desk, Guest("ada")) as own, connect(desk, Guest("bob")) as other:
        assert refused(await other.call_tool("issue_update", lent)) == "agent_name_mismatch"
        assert said(await own.call_tool("issue_update", lent))["result"] == "accepted"


async def test_a_caller_without_a_name_goes_on_under_the_one_that_it_claimed_with(
    desk: AuthorityLink,
) -> None:
    await desk.ask("issue.add", {"id": "a", "title": "t"})
    async with connect(desk, Guest("tool-1", is_named=False)) as client:
        lease = said(await client.call_tool("issue_claim", {"id": "a"}))["issue"]["lease"]
    proof = {"id": "a", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    async with connect(desk, Guest("tool-2", is_named=False)) as client:
        assert refused(await client.call_tool("work_complete", proof)) == "lease_owner_mismatch"
        said(await client.call_tool("work_complete", proof | {"assignee": "tool-1"}))


# --- what is for operators ------------------------------------------------------------------------


async def test_a_lease_is_broken_by_an_agent_only_where_that_was_granted(
    desk: AuthorityLink,
) -> None:
    ada = Holder(desk)
    await ada.settle()
    asked = {"id": "a", "reason": "it hangs"}
    async with connect(desk, Guest("bob")) as client:
        assert refused(await client.call_tool("issue_lease_break", asked)) == "operator_required"
    granted = Guest("eve", terms={"grants": sorted(BREAK)})
    async with connect(desk, granted) as client:
        broken = said(await client.call_tool("issue_lease_break", asked | {"verbose": True}))
    assert broken["effect"]["agent"] == "eve"


STEERING = frozenset(
    {"approval.give", "issue.cancel", "issue.prioritize", "issue.retry", "job.cancel", "job.retry"}
    | {"budget.clear", "budget.set", "pause.clear", "pause.set"}
    | {"limit.clear", "limit.set", "schedule.clear", "schedule.set"}
    | {"descent.abort", "descent.cover"}
)


def test_every_action_of_operators_exists_and_those_that_steer_work_are_tools() -> None:
    assert host_actions().keys() >= OPERATORS_ACTIONS
    tools = {each.action.action for each in entries().values() if each.action}
    assert tools & OPERATORS_ACTIONS == BREAK | STEERING


async def test_an_agent_holds_no_more_than_it_may(desk: AuthorityLink) -> None:
    for each in "abc":
        await desk.ask("issue.add", {"id": each, "title": each})
    async with connect(desk, Guest(terms={"heldMax": 2})) as client:
        for each in "ab":
            said(await client.call_tool("issue_claim", {"id": each}))
        for tool, arguments in (("issue_claim", {"id": "c"}), ("work_next", {})):
            assert refused(await client.call_tool(tool, arguments)) == "agent_holds_full"
        said(await client.call_tool("issue_claim", {"id": "b"}))  # more time for what it has
        await desk.ask(
            "issue.lease_break", {"id": "a", "reason": "r"}
        )  # it counts what it holds now
        assert said(await client.call_tool("work_next", {}))["issue"]["id"] == "a"


async def test_a_tool_that_is_not_offered_cannot_be_called(desk: AuthorityLink) -> None:
    async with connect(desk, Guest(), tools="core,job_show") as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert {"work_next", "job_show"} <= listed
        with pytest.raises(MCPError, match="it is not offered here, see tools://all"):
            await client.call_tool("issue_lease_break", {"id": "a", "reason": "r"})
        (rows,) = (await client.read_resource("tools://all")).contents
    directory = {row["name"]: row["offered"] for row in orjson.loads(getattr(rows, "text", ""))}
    assert directory.keys() == entries().keys()
    assert {name for name, offered in directory.items() if offered} == listed
