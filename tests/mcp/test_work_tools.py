"""Taking work, handing it over and finishing it, and what the visit learns on the way."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.mcp.visitor import ERAS, Guest, connect, refused, said, text
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.actors.leasing.work_kind import HeldLease
from understudy.actors.process.guard.descendants import now_ms
from understudy.contracts import limits
from understudy.surfaces.mcp.tools.catalogue import HANDOVER

pytestmark = pytest.mark.anyio


async def _add(desk: AuthorityLink, *ids: str, **members: Any) -> None:
    for each in ids:
        await desk.ask("issue.add", {"id": each, "title": f"do {each}"} | members)


def _proof(answer: dict[str, Any]) -> dict[str, Any]:
    lease = answer["lease"]
    return {"id": answer["issue"]["id"], "leaseId": lease["leaseId"], "fence": lease["fence"]}


@pytest.mark.parametrize("era", ERAS)
async def test_work_comes_with_everything_that_is_known_of_it(
    desk: AuthorityLink, era: str
) -> None:
    await _add(desk, "base", notes="it is in base.py")
    await _add(desk, "top", acceptanceCriteria="all green", description="more", priority=1)
    await desk.ask("dep.add", {"id": "top", "dependsOnId": "base"})
    await desk.ask("issue.close", {"id": "base"})
    guest = Guest()
    async with connect(desk, guest, era) as client:
        result = await client.call_tool("work_next", {"leaseTtlSeconds": 60})
    answer = said(result)
    assert answer["found"] is True
    assert answer["brief"] == {
        "title": "do top",
        "description": "more",
        "acceptanceCriteria": "all green",
        "attempt": 1,
        "dependsOn": [
            {"id": "base", "title": "do base", "status": "closed", "notes": "it is in base.py"}
        ],
    }
    lease = answer["lease"]
    assert guest.kept == [HeldLease("top", "ada-1", lease["leaseId"], lease["fence"], 1)]
    assert [ttl_ms for ttl_ms, _ in guest.spans] == [60_000]
    for word in (lease["leaseId"], f"fence {lease['fence']}", "all green", "base.py"):
        assert word in text(result)


async def test_finished_work_is_closed_and_no_longer_kept(desk: AuthorityLink) -> None:
    await _add(desk, "a")
    guest = Guest()
    async with connect(desk, guest) as client:
        proof = _proof(said(await client.call_tool("work_next", {})))
        closed = said(await client.call_tool("work_complete", proof | {"reason": "it works"}))
    assert closed["issue"]["status"] == "closed"
    assert guest.dropped == [("issue/a", proof["fence"])]


async def test_nothing_ready_is_an_answer_that_says_why_and_when(desk: AuthorityLink) -> None:
    await _add(desk, "a", "b")
    await desk.ask("dep.add", {"id": "b", "dependsOnId": "a"})
    async with connect(desk, Guest("bob")) as other, connect(desk, Guest()) as client:
        said(await other.call_tool("work_next", {"leaseTtlSeconds": 30}))
        result = await client.call_tool("work_next", {})
    answer = said(result)
    assert answer["found"] is False
    assert answer["blocked"] == [{"id": "b", "title": "do b", "blockedBy": ["a"]}]
    assert [(each["id"], each["owner"]) for each in answer["held"]] == [("a", "bob")]
    assert 5 <= answer["askAgainSeconds"] <= 31
    assert text(result).startswith("Nothing is ready: 1 blocked, 1 held")


async def test_an_empty_authority_has_nothing_left_to_do(desk: AuthorityLink) -> None:
    async with connect(desk, Guest()) as client:
        result = await client.call_tool("work_next", {})
    assert text(result).startswith("Nothing is left to do.")


@pytest.mark.parametrize("era", ERAS)
async def test_who_waits_for_work_hears_of_it_and_of_the_waiting(
    desk: AuthorityLink, era: str
) -> None:
    told: list[str | None] = []
    waits = anyio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        assert progress <= (total or 0)
        told.append(message)
        waits.set()

    async with connect(desk, Guest(), era) as client, anyio.create_task_group() as group:

        async def file_some() -> None:
            await waits.wait()
            await _add(desk, "late")

        group.start_soon(file_some)
        answer = said(
            await client.call_tool("work_next", {"waitSeconds": 600}, progress_callback=progress)
        )
    assert answer["issue"]["id"] == "late"
    assert told[0] == "nothing is ready yet"


@pytest.mark.parametrize("wait", [-1, limits.MCP_WAIT_SECONDS_MAX + 1, 1.5, True, "soon", None])
async def test_no_agent_waits_for_a_time_that_is_none(desk: AuthorityLink, wait: object) -> None:
    async with connect(desk, Guest()) as client:
        result = await client.call_tool("work_next", {"waitSeconds": wait})
    assert refused(result) == "lease_invalid_payload"


async def test_who_gives_up_waiting_holds_nothing(desk: AuthorityLink) -> None:
    guest = Guest()
    async with connect(desk, guest, "modern over streams") as client:
        with anyio.move_on_after(0.2) as scope:
            await client.call_tool("work_next", {"waitSeconds": 600})
        assert scope.cancelled_caught
        await _add(desk, "a")
        answer = said(await client.call_tool("work_next", {}))  # it was not taken meanwhile
    assert answer["issue"]["id"] == "a"


@pytest.mark.parametrize(
    ("family", "named", "free"),
    [("issue", {"id": "a"}, ("status", "open")), ("job", {"jobId": "a"}, ("state", "pending"))],
)
async def test_a_claim_that_is_not_waited_for_any_more_is_given_back(
    desk: AuthorityLink, family: str, named: dict[str, str], free: tuple[str, str]
) -> None:
    await _add(desk, "a")
    await desk.ask("job.schedule", {"jobId": "a", "kind": "k"})
    guest = Guest()
    granted, cancelled, ask = anyio.Event(), anyio.Event(), desk.ask

    async def slowly(
        action: str, payload: dict[str, Any], context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        answer = await ask(action, payload, context)
        if action == f"{family}.claim":
            granted.set()
            await cancelled.wait()
        return answer

    desk.ask = slowly  # type: ignore[method-assign]  # the fault
    async with connect(desk, guest, "modern over streams") as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, f"{family}_claim", named)
            await granted.wait()
            group.cancel_scope.cancel()
        await client.list_prompts()  # the server reads in order: it knows of the cancellation
        cancelled.set()
        while not guest.dropped:
            await checkpoint()
    assert [held.resource for held in guest.kept] == [f"{family}/a"]
    shown = (await ask(f"{family}.show", named))[family]
    assert (shown[free[0]], "lease" in shown) == (free[1], False)


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("issue_lease_release", {}),
        ("issue_close", {}),
        ("issue_update", {"status": "open"}),
        ("issue_update", {"status": "blocked", "notes": "waits for a person"}),
    ],
)
async def test_whatever_ends_a_lease_ends_its_keeping(
    desk: AuthorityLink, tool: str, more: dict[str, Any]
) -> None:
    await _add(desk, "a")
    guest = Guest()
    async with connect(desk, guest) as client:
        proof = _proof(said(await client.call_tool("work_next", {})))
        said(await client.call_tool(tool, proof | more))
    assert guest.dropped == [("issue/a", proof["fence"])]


async def test_a_lease_counts_from_when_its_claim_was_asked_for(
    desk: AuthorityLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authority counts from some time before its answer is heard, and so may not the keeper."""
    await _add(desk, "a")
    ask, heard_ms = desk.ask, []

    async def late(*words: Any) -> dict[str, Any]:
        answer = await ask(*words)
        await anyio.sleep(0.02)
        heard_ms.append(now_ms())
        return answer

    monkeypatch.setattr(desk, "ask", late)
    guest = Guest()
    async with connect(desk, guest) as client:
        said(await client.call_tool("issue_claim", {"id": "a"}))
    assert guest.spans[0][1] <= heard_ms[0] - 20


async def test_what_does_not_end_it_does_not(desk: AuthorityLink) -> None:
    await _add(desk, "a")
    guest = Guest()
    async with connect(desk, guest) as client:
        proof = _proof(said(await client.call_tool("work_next", {})))
        said(await client.call_tool("issue_discover", proof | {"title": "another"}))
        said(await client.call_tool("issue_update", proof | {"notes": "half"}))
        said(await client.call_tool("issue_lease_renew", proof | {"leaseTtlSeconds": 90}))
        assert refused(await client.call_tool("issue_close", proof | {"leaseId": "x"}))
        assert refused(await client.call_tool("issue_close", proof | {"assignee": "bob"}))
        borrowed = {"subleaseId": "s", "fence": 0}  # a subagent on the same connection, too late
        assert refused(await client.call_tool("issue_close", proof | borrowed))
    assert guest.dropped == []
    assert [ttl_ms for ttl_ms, _ in guest.spans] == [limits.TTL_SECONDS_DEFAULT * 1000, 90_000]


async def test_a_lost_lease_is_dropped_when_the_client_meets_it(desk: AuthorityLink) -> None:
    await _add(desk, "a")
    guest = Guest()
    async with connect(desk, guest) as client:
        proof = _proof(said(await client.call_tool("work_next", {})))
        await desk.ask("issue.lease_break", {"id": "a", "reason": "it hangs"})
        result = await client.call_tool("work_complete", proof)
    assert refused(result) == "lease_missing"
    assert guest.dropped == [("issue/a", proof["fence"])]


async def test_two_agents_with_one_name_never_take_the_same_work(desk: AuthorityLink) -> None:
    await _add(desk, "a", "b")
    one, two = Guest("twin"), Guest("twin")
    async with connect(desk, one) as first, connect(desk, two) as second:
        mine = said(await first.call_tool("work_next", {}))
        yours = said(await second.call_tool("work_next", {}))
        assert {mine["issue"]["id"], yours["issue"]["id"]} == {"a", "b"}
        assert mine["lease"]["fence"] != yours["lease"]["fence"]
        # A claim by name is the name's; the text says what that may mean.
        again = await second.call_tool("issue_claim", {"id": mine["issue"]["id"]})
    assert said(again)["issue"]["lease"]["fence"] == mine["lease"]["fence"]
    assert "another agent has your name" in text(again)


async def test_the_same_call_delivered_twice_is_done_once(desk: AuthorityLink) -> None:
    await _add(desk, "a", "b")
    guest = Guest()
    answers = []
    for _ in range(2):  # a new server that gets the request of the one before it again
        async with connect(desk, guest) as client:
            answers.append(said(await client.call_tool("work_next", {"verbose": True})))
    assert answers[0]["lease"] == answers[1]["lease"]
    assert answers[0]["effect"] == answers[1]["effect"]


async def test_a_repeated_claim_whose_lease_is_gone_finds_other_work(desk: AuthorityLink) -> None:
    await _add(desk, "a", priority=0)
    await _add(desk, "b")
    guest = Guest()
    async with connect(desk, guest) as client:
        proof = _proof(said(await client.call_tool("work_next", {})))
    await desk.ask("issue.close", proof | {"assignee": guest.name})
    async with connect(desk, guest) as client:
        assert said(await client.call_tool("work_next", {}))["issue"]["id"] == "b"


# --- hand-over ------------------------------------------------------------------------------------


async def test_the_next_holder_gets_what_the_one_before_left(desk: AuthorityLink) -> None:
    await _add(desk, "a")
    checkpoint = {"summary": "half", "done": ["parser"], "next": ["printer"], "artifacts": ["br"]}
    one, two = Guest("one"), Guest("two")
    async with connect(desk, one) as first, connect(desk, two) as second:
        proof = _proof(said(await first.call_tool("work_next", {})))
        left = {"checkpoint": checkpoint, "verbose": True}
        given = said(await first.call_tool("work_handover", proof | left))
        assert given["handover"]["checkpoint"] == checkpoint
        assert [step["action"] for step in given["steps"]] == [HANDOVER, "issue.lease_release"]
        assert one.dropped == [("issue/a", proof["fence"])]
        taken = said(await second.call_tool("work_next", {}))
    assert taken["handover"]["checkpoint"] == checkpoint
    assert taken["handover"]["owner"] == "one"
    assert taken["brief"]["attempt"] == 2


async def test_a_checkpoint_can_be_kept_while_the_work_goes_on(desk: AuthorityLink) -> None:
    await _add(desk, "a")
    guest = Guest()
    async with connect(desk, guest) as client:
        proof = _proof(said(await client.call_tool("work_next", {})))
        keep = {"checkpoint": {"summary": "so far"}, "keep": True}
        said(await client.call_tool("work_handover", proof | keep))
        assert guest.dropped == []
        said(await client.call_tool("work_complete", proof))


async def test_a_result_is_there_for_those_who_depend_on_it(desk: AuthorityLink) -> None:
    await _add(desk, "a", priority=0)
    await _add(desk, "b")
    await desk.ask("dep.add", {"id": "b", "dependsOnId": "a"})
    async with connect(desk, Guest()) as client:
        proof = _proof(said(await client.call_tool("work_next", {})))
        result = {"summary": "it is in a.py", "artifacts": ["a.py"]}
        said(await client.call_tool("work_complete", proof | {"result": result}))
        brief = said(await client.call_tool("work_next", {}))["brief"]
    assert brief["dependsOn"][0]["handover"]["checkpoint"] == result


async def test_a_malformed_end_leaves_nothing_behind(desk: AuthorityLink) -> None:
    await _add(desk, "a")
    async with connect(desk, Guest()) as client:
        proof = _proof(said(await client.call_tool("work_next", {})))
        odd = {"result": {"summary": "s"}, "colour": "red"}
        assert refused(await client.call_tool("work_complete", proof | odd))
        shown = said(await client.call_tool("issue_show", {"id": "a"}))
    assert "handover" not in shown["issue"]


# --- jobs -----------------------------------------------------------------------------------------


async def test_a_job_that_is_claimed_is_kept_until_it_is_completed(desk: AuthorityLink) -> None:
    await desk.ask("job.schedule", {"jobId": "j", "kind": "k"})
    guest = Guest()
    async with connect(desk, guest) as client:
        claim = {"jobId": "j", "leaseDurationMs": 60_000}
        lease = said(await client.call_tool("job_claim", claim))["job"]["lease"]
        held = HeldLease("j", "ada-1", lease["leaseId"], lease["fence"], 1, "job", "k")
        assert guest.kept == [held]
        proof = {"jobId": "j", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        more = said(await client.call_tool("job_claim", claim | proof))
        assert (more["job"]["lease"]["renewals"], guest.kept) == (1, [held, held])
        assert said(await client.call_tool("job_complete", proof))["result"] == "accepted"
        assert guest.dropped == [("job/j", lease["fence"])]
        late = await client.call_tool("job_yield", proof)
        assert refused(late) == "job_completed"


async def test_a_job_that_is_lost_is_dropped_when_the_client_meets_it(desk: AuthorityLink) -> None:
    await desk.ask("job.schedule", {"jobId": "j", "kind": "k"})
    guest = Guest()
    async with connect(desk, guest) as client:
        answer = said(await client.call_tool("job_claim", {"jobId": "j"}))
        lease = answer["job"]["lease"]
        proof = {"jobId": "j", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        await desk.ask("job.yield", proof | {"worker": "ada-1"})
        assert refused(await client.call_tool("job_complete", proof)) == "lease_missing"
    assert guest.dropped == [("job/j", lease["fence"])]


async def test_a_claim_of_a_job_by_another_name_is_refused(desk: AuthorityLink) -> None:
    await desk.ask("job.schedule", {"jobId": "j", "kind": "k"})
    guest = Guest()
    async with connect(desk, guest) as client:
        refusal = await client.call_tool("job_claim", {"jobId": "j", "worker": "w1"})
        said(await client.call_tool("job_claim", {"jobId": "j"}))
    assert refused(refusal) == "agent_name_mismatch"
    assert [held.owner for held in guest.kept] == ["ada-1"]
