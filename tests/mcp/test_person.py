"""Work that waits for a person, and the person at the client who is asked for it."""

from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from tests.mcp.visitor import ERAS, Guest, connect, refused, said, text
from tests.surfaces.process import UNDERSTUDY, commanded, environment
from understudy.actors.agents.authority_link import AuthorityLink

pytestmark = pytest.mark.anyio


class Person:
    """Whom the client asks; it writes down what it was shown."""

    def __init__(self, action: str = "accept", **content: Any) -> None:
        self.asked: list[str] = []
        self._said = ElicitResult(action=action, content=content or None)  # type: ignore[arg-type]  # of the table

    async def __call__(
        self,
        context: object,
        params: ElicitRequestParams,
    ) -> ElicitResult | ErrorData:
        self.asked.append(params.message)
        return self._said


async def _waiting(desk: AuthorityLink, *, job: bool = False) -> None:
    operator = AuthorityLink(desk.state_dir, "cli")  # agents set no policy
    await operator.ask("policy.set", {"approve": ["label/prod", "kind/deploy"]})
    await operator.close()
    await desk.ask("issue.add", {"id": "a", "title": "release it", "labels": ["prod"]})
    if job:
        await desk.ask("job.schedule", {"jobId": "j", "kind": "deploy"})


@pytest.mark.parametrize("era", ERAS)
async def test_a_claim_goes_on_when_the_person_at_the_client_approves(
    desk: AuthorityLink, era: str
) -> None:
    await _waiting(desk, job=True)
    person = Person(decision="approve", reason="go")
    async with connect(desk, Guest(), era, elicitation_callback=person) as client:
        held = said(await client.call_tool("issue_claim", {"id": "a"}))["issue"]
        job = said(await client.call_tool("job_claim", {"jobId": "j"}))["job"]
    assert held["lease"]["owner"] == "ada-1"
    assert held["steered"] == {"byName": "a person at ada-1", "reason": "go"}
    assert job["state"] == "claimed"
    assert person.asked == [
        "ada-1 wants to go on with issue a (release it), which waits for a person.",
        "ada-1 wants to go on with job j (deploy), which waits for a person.",
    ]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("person", "approval", "words"),
    [
        (Person(decision="approve"), "approved", "approved it"),
        (Person(decision="reject", reason="no"), "rejected", "rejected it"),
        (Person("decline"), "waiting", "not decided"),
        (Person("cancel"), "waiting", "not decided"),
        (Person(decision="whatever"), "waiting", "not decided"),
        (Person(), "waiting", "not decided"),
    ],
)
async def test_who_asks_for_approval_hears_what_the_person_said(
    desk: AuthorityLink, era: str, person: Person, approval: str, words: str
) -> None:
    await desk.ask("issue.add", {"id": "a", "title": "release it"})
    person.asked.clear()
    async with connect(desk, Guest(), era, elicitation_callback=person) as client:
        lease = said(await client.call_tool("work_next", {}))["lease"]
        proof = {"id": "a", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        told = await client.call_tool("approval_ask", proof | {"reason": "it is live"})
    assert said(told)["issue"]["approval"] == approval
    assert words in text(told)
    assert [each.endswith("Why: it is live") for each in person.asked] == [True]
    shown = (await desk.ask("issue.show", {"id": "a"}))["issue"]
    assert shown["approval"] == approval


@pytest.mark.parametrize("era", ERAS)
async def test_without_an_answer_or_a_person_it_goes_on_waiting(
    desk: AuthorityLink, era: str
) -> None:
    await _waiting(desk)
    async with connect(desk, Guest(), era) as client:
        assert refused(await client.call_tool("issue_claim", {"id": "a"})) == "approval_missing"
        own = {"id": "a", "decision": "approved"}
        assert refused(await client.call_tool("approval_give", own)) == "operator_required"
        found = await client.call_tool("work_next", {})
    assert said(found)["waitsForPerson"] == ["a"]
    assert "1 waits for a person" in text(found)
    person = Person(decision="approve")
    silent = Guest(asks_person=False)
    async with connect(desk, silent, era, elicitation_callback=person) as client:
        assert refused(await client.call_tool("issue_claim", {"id": "a"})) == "approval_missing"
    assert person.asked == []
    async with connect(desk, Guest(), era, elicitation_callback=Person("decline")) as client:
        assert refused(await client.call_tool("issue_claim", {"id": "a"})) == "approval_missing"


@pytest.mark.parametrize("era", ERAS)
async def test_a_pause_is_told_to_who_looks_for_work(desk: AuthorityLink, era: str) -> None:
    await desk.ask("issue.add", {"id": "a", "title": "t"})
    await desk.ask("pause.set", {"byName": "eve", "reason": "release"})
    async with connect(desk, Guest(), era) as client:
        found = await client.call_tool("work_next", {})
    assert [each["scope"] for each in said(found)["pauses"]] == ["*"]
    assert text(found).startswith("Nothing is ready: work is paused (*)")


@pytest.mark.parametrize(
    ("mode", "options"), [("auto", []), ("legacy", []), ("auto", ["--no-elicitation"])]
)
async def test_a_launched_agents_person_is_asked_unless_its_operator_forbids_it(
    tmp_path: Path, mode: str, options: list[str]
) -> None:
    home = tmp_path / "state"
    assert commanded("--state-dir", home, "init").returncode == 0
    commanded("--state-dir", home, "policy", "set", "--approve", "label/prod")
    commanded("--state-dir", home, "issue", "add", "t", "--id", "a", "--label", "prod")
    words = ["mcp", "--state-dir", str(home), *options]
    launched = StdioServerParameters(command=str(UNDERSTUDY), args=words, env=environment())
    person = Person(decision="approve")
    async with Client(stdio_client(launched), mode=mode, elicitation_callback=person) as client:
        claimed = await client.call_tool("issue_claim", {"id": "a"})
    if options:
        assert refused(claimed) == "approval_missing"
        assert person.asked == []
        return
    held = said(claimed)["issue"]
    assert held["steered"]["byName"].startswith("a person at agent-")
    assert len(person.asked) == 1
    assert commanded("--state-dir", home, "replay").returncode == 0
