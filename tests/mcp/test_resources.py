"""What can be read, page by page, and what is heard of its changes, in both eras."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceUpdatedNotification

from tests.mcp.visitor import ERAS, Guest, connect, said
from tests.patience import PATIENCE_SECONDS
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.authority.service import client as authority
from understudy.contracts import limits, rfc3339

pytestmark = [
    pytest.mark.anyio,
    # What the modern era has removed is what the other one needs.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


async def _add(desk: AuthorityLink, *ids: str) -> None:
    for each in ids:
        await desk.ask("issue.add", {"id": each, "title": f"do {each}"})


async def _claim(desk: AuthorityLink, issue: str, owner: str = "bob") -> dict[str, Any]:
    claim = {"id": issue, "assignee": owner, "leaseId": f"lease-{issue}"}
    answer = await desk.ask("issue.claim", claim)
    return claim | {"fence": answer["issue"]["lease"]["fence"]}


async def _read(client: Client, uri: str) -> Any:
    read = await client.read_resource(uri)
    assert read.ttl_ms == 0
    assert read.cache_scope == "private"
    (content,) = read.contents
    assert content.mime_type == "application/json"
    return orjson.loads(content.text)


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_everything_can_be_read_by_name(desk: AuthorityLink, era: str) -> None:
    await _add(desk, "a", "b", "c")
    await desk.ask("dep.add", {"id": "b", "dependsOnId": "a"})
    proof = await _claim(desk, "a")
    await desk.ask("issue.close", proof | {"fence": 0})
    async with connect(desk, Guest(), era) as client:
        assert (await _read(client, "issue://a"))["lease"]["owner"] == "bob"
        assert (await _read(client, "lease://a"))["lease"].keys() >= {"owner", "expiresAt"}
        ready = await _read(client, "mesh://ready")
        assert [each["id"] for each in ready["issues"]] == ["c"]
        status = await _read(client, "mesh://status")
        assert status["issuesByStatus"] == {"in_progress": 1, "open": 2}
        assert (status["leaseCount"], status["readyCount"], status["tree"]) == (1, 1, None)
        latest = await _read(client, "trajectory://latest")
        assert [row["action"] for row in latest[:2]] == ["issue.close", "issue.claim"]
        failed = await _read(client, "trajectory://failed")
        assert [row["resultClass"] for row in failed] == ["lease_fence_stale"]
        rows = await _read(client, "trajectory://b")
        assert [row["action"] for row in rows] == ["dep.add", "issue.add"]


async def test_a_spec_and_its_jobs_can_be_read(desk: AuthorityLink) -> None:
    steps = [{"stepKey": "root", "kind": "k"}, {"stepKey": "b:2", "kind": "k"}]
    await desk.ask("spec.submit", {"specId": "s", "steps": steps})
    lease = (await desk.ask("spec.claim", {"specId": "s", "runner": "r"}))["spec"]["lease"]
    held = {"runner": "r", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    await desk.ask("spec.materialize", {"specId": "s", "stepKeys": ["b:2"], **held})
    async with connect(desk, Guest()) as client:
        spec = await _read(client, "spec://s")
        assert [each.get("state") for each in spec["steps"]] == [None, "pending"]
        assert (await _read(client, "job://s:b:2"))["stepKey"] == "b:2"


async def test_what_does_not_exist_is_said_not_to(desk: AuthorityLink) -> None:
    await _add(desk, "a")
    missing = ("issue://nowhere", "lease://a", "job://1", "spec://1", "mesh://moon")
    async with connect(desk, Guest()) as client:
        for uri in (*missing, "file:///etc/passwd", "issue://", "trajectory://", "x"):
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(uri)


async def test_a_trajectory_of_nothing_is_empty(desk: AuthorityLink) -> None:
    async with connect(desk, Guest()) as client:
        assert await _read(client, "trajectory://nowhere") == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_list_comes_in_pages_and_nothing_is_lost(
    desk: AuthorityLink, era: str
) -> None:
    ids = [f"n{number:03}" for number in range(limits.MCP_PAGE_MAX + 1)]
    await _add(desk, *ids)
    await _claim(desk, ids[0])
    async with connect(desk, Guest(), era) as client:
        first = await client.list_resources()
        assert first.next_cursor is not None
        second = await client.list_resources(cursor=first.next_cursor)
        assert second.next_cursor is None
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor="7")
    uris = [each.uri for each in (*first.resources, *second.resources)]
    assert [uri for uri in uris if uri.startswith("issue://")] == [f"issue://{id_}" for id_ in ids]
    assert uris.count(f"lease://{ids[0]}") == 1
    assert {"mesh://status", "mesh://ready", "trajectory://latest"} <= set(uris)


@pytest.mark.parametrize("era", ERAS)
async def test_templates_say_what_can_be_named(desk: AuthorityLink, era: str) -> None:
    async with connect(desk, Guest(), era) as client:
        listed = await client.list_resource_templates()
    assert [each.uri_template.partition("://")[0] for each in listed.resource_templates] == [
        "issue",
        "lease",
        "trajectory",
        "job",
        "spec",
    ]


# --- changes --------------------------------------------------------------------------------------


@asynccontextmanager
async def _hearing(desk: AuthorityLink, era: str, *uris: str) -> AsyncIterator[Any]:
    """A client that hears of these resources, and a call that waits until it has of one."""
    heard: set[str] = set()
    bell = anyio.Event()

    def ring(uri: str) -> None:
        nonlocal bell
        heard.add(uri)
        bell.set()
        bell = anyio.Event()

    async def until(uri: str) -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            while uri not in heard:
                await bell.wait()
        heard.remove(uri)

    async def message(received: Any) -> None:
        if isinstance(received, ResourceUpdatedNotification):
            ring(str(received.params.uri))

    async with connect(desk, Guest(), era, message_handler=message) as client:
        if era == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)
            yield until
            return
        async with (
            client.listen(resource_subscriptions=list(uris)) as stream,
            anyio.create_task_group() as group,
        ):

            async def listen() -> None:
                async for event in stream:
                    ring(event.uri)

            group.start_soon(listen)
            yield until
            group.cancel_scope.cancel()


@pytest.mark.parametrize("era", ERAS)
async def test_new_work_is_heard_of(desk: AuthorityLink, era: str) -> None:
    async with _hearing(desk, era, "mesh://ready") as until:
        await _add(desk, "a")
        await until("mesh://ready")


@pytest.mark.parametrize("era", ERAS)
async def test_a_lease_that_is_taken_away_is_heard_of(desk: AuthorityLink, era: str) -> None:
    await _add(desk, "a")
    await _claim(desk, "a")
    async with _hearing(desk, era, "lease://a") as until:
        await desk.ask("issue.lease_break", {"id": "a", "reason": "it hangs"})
        await until("lease://a")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lease_that_runs_out_is_heard_of_though_it_leaves_no_row(
    desk: AuthorityLink, state_dir: Path, era: str, when: str
) -> None:
    def import_one() -> None:
        now_ms = time.time_ns() // 1_000_000
        lease = {
            "lease_id": "short",
            "owner": "bob",
            "acquired_at": rfc3339.record_text(now_ms),
            "expires_at": rfc3339.record_text(now_ms + 1_500),
        }
        times = {"created_at": lease["acquired_at"], "updated_at": lease["acquired_at"]}
        record = {"id": "a", "title": "a", "status": "in_progress", "assignee": "bob"}
        with authority.Client(state_dir, "coordinator") as clerk:
            answer = clerk.ask("issue.import", {"records": [record | times | {"lease": lease}]})
        assert answer["result"] == "accepted"

    if when == "before":
        await anyio.to_thread.run_sync(import_one)
    async with _hearing(desk, era, "lease://a", "mesh://ready") as until:
        if when == "after":
            await anyio.to_thread.run_sync(import_one)
            await until("lease://a")  # the grant, and after it the end
            await until("mesh://ready")
        await until("lease://a")
        await until("mesh://ready")
    answer = await desk.ask("issue.claim_next", {"assignee": "carol"})
    assert answer["issue"]["id"] == "a"


@pytest.mark.parametrize("era", ERAS)
async def test_what_others_do_beside_us_is_heard_of(
    desk: AuthorityLink, state_dir: Path, era: str
) -> None:
    await _add(desk, "a")

    def update() -> None:
        with authority.Client(state_dir, "cli") as clerk:
            clerk.ask("issue.update", {"id": "a", "notes": "from elsewhere"})

    uris = ("issue://a", "mesh://status", "trajectory://latest", "trajectory://a")
    async with _hearing(desk, era, *uris) as until:
        await anyio.to_thread.run_sync(update)
        for uri in uris:
            await until(uri)


@pytest.mark.parametrize("era", ERAS)
async def test_no_client_is_told_of_what_it_did_not_ask_for(desk: AuthorityLink, era: str) -> None:
    await _add(desk, "a", "b")
    async with _hearing(desk, era, "issue://b") as until:
        await desk.ask("issue.update", {"id": "a", "notes": "x"})
        await desk.ask("issue.update", {"id": "b", "notes": "x"})
        await until("issue://b")
        with pytest.raises(TimeoutError), anyio.fail_after(0.1):
            await until("issue://a")


async def test_the_journal_is_followed_while_a_client_listens_and_no_longer(
    desk: AuthorityLink,
) -> None:
    changes = desk.changes
    assert changes._following is None
    async with _hearing(desk, "legacy", "issue://a"), _hearing(desk, "modern", "issue://b"):
        task = changes._following
        assert task is not None
    assert changes._following is None
    with pytest.raises(anyio.get_cancelled_exc_class()):
        await task


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_leaves_is_told_nothing_more(desk: AuthorityLink, era: str) -> None:
    async with _hearing(desk, era, "mesh://ready"):
        pass
    await _add(desk, "a")
    assert desk.changes._listeners == {}


async def test_a_watch_can_be_given_up(desk: AuthorityLink) -> None:
    async with connect(desk, Guest(), "legacy") as client:
        await client.subscribe_resource("issue://a")
        assert desk.changes._listeners
        await client.unsubscribe_resource("issue://a")
        assert not desk.changes._listeners


async def test_no_client_watches_more_than_may_be_watched(
    desk: AuthorityLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MCP_WATCHES_MAX", 2)
    async with connect(desk, Guest(), "legacy") as client:
        await client.subscribe_resource("issue://a")
        await client.subscribe_resource("issue://b")
        await client.subscribe_resource("issue://b")
        with pytest.raises(MCPError, match="limit"):
            await client.subscribe_resource("issue://c")


async def test_work_that_is_done_is_read_as_done(desk: AuthorityLink) -> None:
    await _add(desk, "a")
    async with connect(desk, Guest()) as client:
        taken = said(await client.call_tool("work_next", {}))
        proof = {"id": "a", "leaseId": taken["lease"]["leaseId"], "fence": taken["lease"]["fence"]}
        assert (await _read(client, "issue://a"))["status"] == "in_progress"
        said(await client.call_tool("work_complete", proof))
        assert (await _read(client, "issue://a"))["status"] == "closed"
