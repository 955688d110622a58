"""Agents in worktrees of their own, on one repository, through the real gateway."""

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import orjson
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.long import LONG
from tests.mcp.gateway.agents import Agent, proof
from tests.mcp.stand import standing
from tests.mcp.test_check_tools import _policy
from tests.mcp.visitor import Guest, connect, refused, said, text
from tests.patience import eventually
from tests.surfaces.process import UNDERSTUDY, Serve, environment, journal_rows
from understudy.actors.agents import AuthorityLink, KeepPolicy, LeaseKeeper, gateway_lock
from understudy.actors.tree import gateway as seen
from understudy.authority import create_state_dir
from understudy.authority.service.open import open_authority
from understudy.surfaces.mcp import wire

pytestmark = pytest.mark.anyio

_SOUND = ["sh", "-c", "test ! -e broken || { echo it is broken; exit 3; }"]


@dataclass(frozen=True)
class Shop:
    """A repository on branch main, with a state directory in it."""

    top: Path
    state_dir: Path

    def git(self, *words: str | Path) -> str:
        done = subprocess.run(["git", *words], cwd=self.top, check=True, capture_output=True)
        return os.fsdecode(done.stdout).removesuffix("\n")

    def ask(self, action: str, **payload: Any) -> dict[str, Any]:
        with open_authority(self.state_dir, "cli", writable=True) as authority:
            answer = authority.ask(action, payload)
        assert answer["result"] == "accepted", answer
        return answer

    def add(self, *ids: str, **members: Any) -> None:
        for each in ids:
            self.ask("issue.add", id=each, title=f"do {each}", **members)

    def issue(self, name: str) -> dict[str, Any]:
        issue: dict[str, Any] = self.ask("issue.show", id=name)["issue"]
        return issue

    def refs(self, kind: str) -> dict[str, str]:
        """Commits by issue and fence."""
        rows = self.git("for-each-ref", "--format=%(refname) %(objectname)", f"refs/{kind}/")
        pairs = (row.split() for row in rows.splitlines())
        return {ref.removeprefix(f"refs/{kind}/"): commit for ref, commit in pairs}

    @property
    def trees(self) -> list[Path]:
        """All working trees but the main one."""
        rows = self.git("worktree", "list", "--porcelain").splitlines()
        found = [Path(row[9:]) for row in rows if row.startswith("worktree ")]
        return [each for each in found if each != self.top]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    top = tmp_path / "repository"
    top.mkdir()
    made = Shop(top, top / "state")
    made.git("init", "--quiet", "--initial-branch", "main")
    made.git("config", "user.name", "Ada")
    made.git("config", "user.email", "ada@example.org")
    (top / "one").write_text("1\n")
    (top / ".gitignore").write_text("*.o\n/gateway.log\n")
    made.git("add", "--all")
    made.git("commit", "--quiet", "--message", "start")
    create_state_dir(made.state_dir, "local")
    yield made
    gateway_lock.clear(made.state_dir / wire.LOCK)


@asynccontextmanager
async def _agent(shop: Shop, mode: str = "auto", **more: Any) -> AsyncIterator[Client]:
    """The SDK's own client, which launches the pump as any agent does."""
    words = ["mcp", "--state-dir", str(shop.state_dir)]
    server = StdioServerParameters(command=str(UNDERSTUDY), args=words, env=environment())
    async with Client(server, mode=mode, **more) as client:
        yield client


async def _taken(client: Client, **arguments: Any) -> dict[str, Any]:
    answer = said(await client.call_tool("work_next", {"worktree": True, **arguments}))
    assert answer["found"], answer
    return answer


def _path(answer: dict[str, Any]) -> Path:
    return Path(answer["worktree"]["path"])


async def test_two_agents_work_in_one_repository_without_meeting(shop: Shop) -> None:
    shop.add("a", "b")
    head = shop.git("rev-parse", "HEAD")
    async with _agent(shop) as ann, _agent(shop, "legacy") as bob:
        result = await ann.call_tool("work_next", {"worktree": True})
        first, second = said(result), await _taken(bob)
        place = first["worktree"]
        for word in (place["path"], place["branch"], "nowhere else", "work_complete"):
            assert word in text(result)
        assert place == {
            "path": str(shop.state_dir / "worktrees" / "a" / str(proof(first)["fence"])),
            "branch": f"understudy/a/{proof(first)['fence']}",
            "base": head,
            "target": "main",
        }
        assert first["asides"] == []
        assert shop.issue("a")["instances"][0]["worktreeRef"] == place["path"]
        (_path(first) / "one").write_text("of ann\n")
        (_path(second) / "one").write_text("of bob\n")
        (_path(second) / "two").write_text("new\n")
        done = [
            await ann.call_tool("work_complete", proof(first) | {"result": {"summary": "one"}}),
            await bob.call_tool("work_complete", proof(second)),
        ]
    for name, result, paths in (("a", done[0], ["one"]), ("b", done[1], ["one", "two"])):
        section = said(result)["section"]
        assert (section["paths"], section["base"], section["target"]) == (paths, head, "main")
        assert section["commit"][:12] in text(result)
        assert shop.refs("understudy/section")[section["sectionId"]] == section["commit"]
        assert shop.issue(name)["status"] == "gluing"
    assert shop.issue("a")["handover"]["checkpoint"]["summary"] == "one"
    assert shop.git("show", f"{said(done[0])['section']['commit']}:one") == "of ann"
    rows = [orjson.loads(row[3])["effect"] for row in journal_rows(shop.state_dir)]
    doors = [
        (each["transport"], each["escalatedFrom"], each["agent"])
        for each in rows
        if each["action"] == "descent.section"
    ]
    owners = [said(each)["section"]["owner"] for each in done]
    assert doors == [("coordinator", "mcp", each) for each in owners]
    assert shop.git("status", "--porcelain") == ""
    assert (shop.git("rev-parse", "HEAD"), shop.trees) == (head, [])
    assert shop.git("branch", "--list", "understudy/*") == ""


async def test_work_that_changed_nothing_is_closed_as_usual(shop: Shop) -> None:
    shop.add("a")
    async with _agent(shop) as ann:
        closed = said(await ann.call_tool("work_complete", proof(await _taken(ann))))
        assert closed["issue"]["status"] == "closed"
        await anyio.to_thread.run_sync(eventually, lambda: not shop.trees)
    assert (shop.refs("understudy/section"), shop.refs("understudy/aside")) == ({}, {})


async def test_checks_that_fail_are_told_and_the_agent_goes_on(shop: Shop) -> None:
    shop.add("a")
    shop.ask("policy.set", checks=_policy(sound=_SOUND))
    told: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with _agent(shop) as ann:
        work = await _taken(ann)
        (_path(work) / "broken").touch()
        result = await ann.call_tool("work_complete", proof(work), progress_callback=progress)
        assert refused(result) == "issue_close_unattested"
        assert result.structured_content["checks"] == [
            {"checkId": "sound", "status": "failed", "exitCode": 3, "output": "it is broken\n"}
        ]
        assert "it is broken" in text(result)
        assert "You still hold it" in text(result)
        assert told == ["sound: runs", "sound: failed"]
        assert shop.issue("a")["lease"]["fence"] == proof(work)["fence"]
        (_path(work) / "broken").unlink()
        (_path(work) / "whole").touch()
        section = said(await ann.call_tool("work_complete", proof(work)))["section"]
    assert section["paths"] == ["whole"]
    assert section["witness"]
    assert shop.trees == []


async def test_what_was_handed_over_is_kept_and_offered(shop: Shop) -> None:
    shop.add("a")
    async with _agent(shop) as ann, _agent(shop) as bob:
        work = await _taken(ann)
        (_path(work) / "half").write_text("done\n")
        result = await ann.call_tool(
            "work_handover", proof(work) | {"checkpoint": {"summary": "half of it"}}
        )
        aside = said(result)["aside"]
        assert aside in text(result)
        assert shop.trees == []
        result = await bob.call_tool("work_next", {"worktree": True})
        more = said(result)
        assert more["handover"]["checkpoint"]["summary"] == "half of it"
        assert more["asides"] == [
            {"ref": aside, "commit": shop.git("rev-parse", aside), "fence": proof(work)["fence"]}
        ]
        assert f"git merge --no-commit {aside}" in text(result)
        shop.git("-C", _path(more), "merge", "--quiet", "--no-commit", aside)
        (_path(more) / "rest").write_text("too\n")
        section = said(await bob.call_tool("work_complete", proof(more)))["section"]
    assert section["paths"] == ["half", "rest"]


async def test_what_a_killed_agent_left_is_kept_and_offered(shop: Shop) -> None:
    shop.add("a")
    with Agent(shop.state_dir) as ann:
        work = await anyio.to_thread.run_sync(
            lambda: ann.greet().call("work_next", worktree=True, leaseTtlSeconds=30)
        )
        (_path(work) / "half").write_text("done\n")
        (_path(work) / "one").unlink()
        os.kill(ann.pid, signal.SIGKILL)
        await anyio.to_thread.run_sync(eventually, lambda: shop.issue("a")["status"] == "open")
    fence = proof(work)["fence"]
    assert shop.trees == []
    left = shop.refs("understudy/aside")[f"a/{fence}"]
    assert shop.git("ls-tree", "--name-only", left).split() == [".gitignore", "half"]
    async with _agent(shop) as bob:
        more = await _taken(bob)
        assert [each["commit"] for each in more["asides"]] == [left]


async def test_a_gateway_that_dies_costs_no_agent_its_worktree(shop: Shop) -> None:
    shop.add("a")
    async with _agent(shop) as ann:
        work = await _taken(ann, into="main", base="HEAD")
        (_path(work) / "two").touch()
        os.kill(seen.look(shop.state_dir)["pid"], signal.SIGKILL)
        section = said(await ann.call_tool("work_complete", proof(work)))["section"]
        again = said(await ann.call_tool("work_complete", proof(work)))["section"]
    assert (section["paths"], section["target"]) == (["two"], "main")
    assert again["commit"] == section["commit"]
    assert shop.trees == []


async def test_without_a_repository_nothing_is_claimed(shop: Shop) -> None:
    shop.add("a")
    shutil.rmtree(shop.top / ".git")
    async with _agent(shop) as ann:
        result = await ann.call_tool("work_next", {"worktree": True})
        assert refused(result) == "git_refused"
        assert "git init" in text(result)
        assert "Nothing was claimed" in result.structured_content["next"]
        issue = shop.issue("a")
        assert (issue["status"], issue["attempts"]) == ("open", 0)
        assert said(await ann.call_tool("work_next", {}))["found"]


async def test_a_claim_whose_worktree_cannot_be_made_is_handed_back(shop: Shop) -> None:
    shop.add("a")
    shop.git("branch", "understudy")  # where a folder of branches is to be
    async with _agent(shop) as ann:
        result = await ann.call_tool("work_next", {"worktree": True})
        assert refused(result) == "git_refused"
        assert "git branch -m understudy" in text(result)
        assert "a is free again" in text(result)
        issue = shop.issue("a")
        assert (issue["status"], issue["excused"], issue["attempts"]) == ("open", 1, 1)
        shop.git("branch", "-m", "understudy", "other")
        assert _path(await _taken(ann)).is_dir()


async def test_what_git_refuses_to_commit_leaves_the_agent_its_worktree(shop: Shop) -> None:
    shop.add("a")
    async with _agent(shop) as ann:
        work = await _taken(ann)
        (_path(work) / "two").touch()
        shop.git("-C", _path(work), "switch", "--quiet", "--create", "mine")
        result = await ann.call_tool("work_complete", proof(work))
        assert refused(result) == "git_refused"
        assert "not on understudy/a/" in text(result)
        assert "You still hold it" in text(result)
        shop.git("-C", _path(work), "switch", "--quiet", work["worktree"]["branch"])
        said(await ann.call_tool("work_complete", proof(work)))


async def test_a_section_outside_of_its_scope_is_refused_and_can_be_mended(shop: Shop) -> None:
    shop.add("a", scope=["docs/**"])
    async with _agent(shop) as ann:
        work = await _taken(ann)
        (_path(work) / "two").touch()
        result = await ann.call_tool("work_complete", proof(work))
        assert refused(result) == "section_out_of_scope"
        assert "issue_discover" in text(result)
        (_path(work) / "two").unlink()
        (_path(work) / "docs").mkdir()
        (_path(work) / "docs" / "page").touch()
        section = said(await ann.call_tool("work_complete", proof(work)))["section"]
    assert section["paths"] == ["docs/page"]


async def test_nobody_finishes_or_leaves_the_worktree_of_another(shop: Shop) -> None:
    shop.add("a")
    async with _agent(shop) as ann, _agent(shop) as bob:
        work = await _taken(ann)
        (_path(work) / "two").touch()
        for assumed in (proof(work), proof(work) | {"assignee": None}):
            assert (await bob.call_tool("work_complete", assumed)).is_error
            assert (await bob.call_tool("work_handover", assumed | {"checkpoint": {}})).is_error
        assert _path(work).is_dir()
        assert shop.git("-C", _path(work), "rev-parse", "HEAD") == work["worktree"]["base"]
        assert said(await ann.call_tool("work_complete", proof(work)))["section"]


@LONG
async def test_a_lease_that_a_person_breaks_leaves_nothing_behind(shop: Shop) -> None:
    shop.add("a")
    async with _agent(shop) as ann:
        work = await _taken(ann, leaseTtlSeconds=30)
        (_path(work) / "two").touch()
        shop.ask("issue.lease_break", id="a", reason="it is needed elsewhere")
        await anyio.to_thread.run_sync(eventually, lambda: not shop.trees)
    assert list(shop.refs("understudy/aside")) == [f"a/{proof(work)['fence']}"]


async def test_a_client_that_gives_up_ends_the_checks_and_keeps_its_work(
    shop: Shop, tmp_path: Path
) -> None:
    shop.add("a")
    pid = tmp_path / "pid"
    script = f"echo $$ > {pid}.new && mv {pid}.new {pid} && exec sleep 600"
    shop.ask("policy.set", checks=_policy(slow=["sh", "-c", script]))
    async with _agent(shop) as ann:
        work = await _taken(ann)
        (_path(work) / "two").touch()
        async with anyio.create_task_group() as group:
            group.start_soon(ann.call_tool, "work_complete", proof(work))
            await anyio.to_thread.run_sync(eventually, pid.exists)
            group.cancel_scope.cancel()
        process = Path("/proc") / (await anyio.Path(pid).read_text()).strip()
        await anyio.to_thread.run_sync(eventually, lambda: not process.exists())
        assert (_path(work) / "two").exists()
        assert shop.issue("a")["lease"]["fence"] == proof(work)["fence"]


@LONG
async def test_checks_end_with_the_lease_that_they_run_under(shop: Shop, tmp_path: Path) -> None:
    shop.add("a")
    pid = tmp_path / "pid"
    script = f"echo $$ > {pid}.new && mv {pid}.new {pid} && exec sleep 600"
    shop.ask("policy.set", checks=_policy(slow=["sh", "-c", script]))
    async with _agent(shop) as ann:
        work = await _taken(ann, leaseTtlSeconds=30)
        (_path(work) / "two").touch()

        async def complete() -> None:
            result = await ann.call_tool("work_complete", proof(work))
            assert result.is_error

        async with anyio.create_task_group() as group:
            group.start_soon(complete)
            await anyio.to_thread.run_sync(eventually, pid.exists)
            shop.ask("issue.lease_break", id="a", reason="it is needed elsewhere")
        await anyio.to_thread.run_sync(eventually, lambda: not shop.trees)
    assert list(shop.refs("understudy/aside")) == [f"a/{proof(work)['fence']}"]


@pytest.fixture
async def desk(shop: Shop) -> AsyncIterator[AuthorityLink]:
    with Serve(shop.state_dir) as running:
        running.ready()
        opened = await AuthorityLink.open(shop.state_dir)
        yield opened
        await opened.close()


async def test_a_cancelled_call_leaves_neither_claim_nor_worktree(
    shop: Shop, desk: AuthorityLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add("a")
    begin, made, cancelled = desk.worktrees.begin, anyio.Event(), threading.Event()

    async def slow(*arguments: Any) -> Any:
        told = await begin(*arguments)
        made.set()
        await asyncio.to_thread(eventually, cancelled.is_set)
        return told

    monkeypatch.setattr(desk.worktrees, "begin", slow)
    async with connect(desk, Guest(), "modern over streams") as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "work_next", {"worktree": True})
            await made.wait()
            assert len(shop.trees) == 1
            group.cancel_scope.cancel()
        said(await client.call_tool("issue_list", {}))  # after the cancellation, in their order
        cancelled.set()
        await anyio.to_thread.run_sync(eventually, lambda: shop.issue("a")["status"] == "open")
    assert shop.issue("a")["excused"] == 1
    assert shop.trees == []


async def test_worktrees_are_looked_after_whoever_ended_their_leases(
    shop: Shop, desk: AuthorityLink
) -> None:
    shop.add("a", "b")
    keeper = LeaseKeeper(desk, KeepPolicy())
    async with connect(desk, Guest()) as client:  # whose leases no keeper renews
        first, second = await _taken(client), await _taken(client)
    (_path(first) / "two").touch()
    await keeper.look_after_worktrees()
    await desk.worktrees.settle()
    assert set(shop.trees) == {_path(first), _path(second)}
    shop.ask("issue.lease_break", id="a", reason="it is needed elsewhere")
    await keeper.look_after_worktrees()
    await desk.worktrees.settle()
    assert shop.trees == [_path(second)]
    assert list(shop.refs("understudy/aside")) == [f"a/{proof(first)['fence']}"]


@pytest.mark.parametrize(
    "odd",
    [
        {"worktree": "yes"},
        {"into": "main"},
        {"worktree": True, "into": "--force"},
        {"worktree": True, "base": "a\0b"},
        {"worktree": True, "base": 7},
        {"worktree": True, "into": ""},
    ],
)
async def test_a_wish_that_is_none_is_refused_before_anything_happens(
    shop: Shop, odd: dict[str, Any]
) -> None:
    shop.add("a")
    async with _agent(shop) as ann:
        assert refused(await ann.call_tool("work_next", odd)) == "lease_invalid_payload"
        for base in ("no-such", "HEAD~9"):
            result = await ann.call_tool("work_next", {"worktree": True, "base": base})
            assert refused(result) == "git_refused"
    assert shop.issue("a")["attempts"] == 0


@asynccontextmanager
async def _caller(url: str, **headers: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def test_over_http_the_repository_is_that_of_the_state_directory(shop: Shop) -> None:
    shop.add("a", "b")
    with standing(shop.top) as stand:
        async with _caller(stand.url, **{"understudy-agent": "ann"}) as ann:
            work = await _taken(ann)
            (_path(work) / "two").touch()
            assert said(await ann.call_tool("work_complete", proof(work)))["section"]["paths"]
        async with _caller(stand.url) as nobody:  # it says under which name it claimed
            work = await _taken(nobody)
            (_path(work) / "three").touch()
            section = said(await nobody.call_tool("work_complete", proof(work)))["section"]
            assert section["paths"] == ["three"]
    assert shop.trees == []
