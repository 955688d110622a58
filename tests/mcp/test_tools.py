"""Every tool: derived from the contract, once granted and once refused, in both eras."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.visitor import ERAS, Guest, connect, refused, said, text
from tests.surfaces.process import Serve
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.contracts import check, host_actions
from understudy.surfaces.mcp.tools.catalogue import entries, listing
from understudy.surfaces.mcp.tools.tool_texts import LESSONS

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class World:
    """`a` is ready, `b` waits for it, `c` is ready, `w` is held with all that can hang on it.

    The job `i` is pending, `j` is held. The spec `s` is held and has the job of its first step,
    which is being handed on; `t` is free.
    """

    prefix: str  # of all ids: worlds share an authority
    proof: dict[str, Any]  # of who holds `w`
    job: dict[str, Any]  # of who holds the job `j`
    run: dict[str, Any]  # of who holds the spec `s`
    hand: dict[str, Any]  # of who hands on its first job

    def __getattr__(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def held(self, **more: Any) -> dict[str, Any]:
        return self.proof | more

    def stale(self, **more: Any) -> dict[str, Any]:
        return self.proof | {"fence": 0} | more


Case = tuple[Callable[[World], dict[str, Any]], Callable[[World], dict[str, Any]], str]


_HALF = {"checkpoint": {"summary": "half of it"}}
_STEPS = [
    {"stepKey": "one", "kind": "test.one"},
    {"stepKey": "two", "kind": "test.one", "dependsOn": ["one"]},
]
_GRANTED = {"grants": ["issue.lease_break"]}
_SCOPE = {"holder": "sub", "capabilityScope": ["issue.update"]}


def _anything(world: World) -> dict[str, Any]:
    return {}


def _odd(world: World) -> dict[str, Any]:
    return {"deep": True}


# tool -> arguments that are granted, arguments that are refused, and the class of that
CASES: dict[str, Case] = {
    "work_next": (
        lambda w: {"labels": [w.prefix]}, lambda w: {"leaseTtlSeconds": 1}, "lease_invalid_ttl",
    ),
    "work_handover": (
        lambda w: w.held(**_HALF), lambda w: w.stale(**_HALF), "lease_fence_stale",
    ),
    "work_complete": (lambda w: w.held(), lambda w: w.stale(), "lease_fence_stale"),
    "dep_add": (
        lambda w: {"id": w.b, "dependsOnId": w.c},
        lambda w: {"id": w.a, "dependsOnId": w.a},
        "dep_self_loop",
    ),
    "dep_diagnostics": (_anything, _odd, "dep_invalid_payload"),
    "dep_remove": (
        lambda w: {"id": w.b, "dependsOnId": w.a},
        lambda w: {"id": w.a, "dependsOnId": w.b},
        "dep_not_found",
    ),
    "dep_replace": (
        lambda w: {"id": w.b, "dependsOnId": w.a, "newDependsOnId": w.c},
        lambda w: {"id": w.a, "dependsOnId": w.b, "newDependsOnId": w.c},
        "dep_not_found",
    ),
    "fiber_cancel": (
        lambda w: w.held(fiberId="f1"), lambda w: w.stale(fiberId="f1"), "lease_fence_stale",
    ),
    "fiber_join": (
        lambda w: w.held(fiberId="f1"), lambda w: w.held(fiberId="f9"), "fiber_not_found",
    ),
    "fiber_spawn": (
        lambda w: w.held(taskRef="lint"), lambda w: w.held(taskRef=""), "fiber_missing_field",
    ),
    "instance_close": (
        lambda w: w.held(instanceId="i1"),
        lambda w: w.held(instanceId="i9"),
        "lease_instance_missing",
    ),
    "instance_open": (
        lambda w: w.held(instanceId="i2"),
        lambda w: w.held(instanceId="i1"),
        "lease_instance_exists",
    ),
    "issue_add": (
        lambda w: {"title": "more"}, lambda w: {"id": w.a, "title": "again"}, "issue_id_exists",
    ),
    "issue_backend_status": (_anything, _odd, "issue_invalid_payload"),
    "issue_blocked": (_anything, _odd, "issue_invalid_payload"),
    "issue_check": (_anything, _odd, "issue_invalid_payload"),
    "issue_claim": (lambda w: {"id": w.a}, lambda w: {"id": w.b}, "lease_issue_blocked"),
    "issue_claim_next": (
        lambda w: {"labels": [w.prefix]}, lambda w: {"leaseTtlSeconds": 1}, "lease_invalid_ttl",
    ),
    "issue_close": (lambda w: w.held(), lambda w: w.stale(), "lease_fence_stale"),
    "issue_discover": (
        lambda w: w.held(title="found"), lambda w: w.stale(title="x"), "lease_fence_stale",
    ),
    "issue_handover": (
        lambda w: w.held(**_HALF), lambda w: w.stale(**_HALF), "lease_fence_stale",
    ),
    "issue_lease_break": (
        lambda w: {"id": w.w, "reason": "it hangs"},
        lambda w: {"id": w.a, "reason": "it hangs"},
        "lease_missing",
    ),
    "issue_lease_projection": (_anything, _odd, "lease_invalid_payload"),
    "issue_lease_reconcile": (
        lambda w: w.held(), lambda w: w.held(leaseId="another"), "lease_id_mismatch",
    ),
    "issue_lease_release": (lambda w: w.held(), lambda w: w.stale(), "lease_fence_stale"),
    "issue_lease_renew": (
        lambda w: w.held(), lambda w: w.held(assignee="bob"), "agent_name_mismatch",
    ),
    "issue_list": (
        lambda w: {"status": "open"}, lambda w: {"colour": "red"}, "issue_invalid_payload",
    ),
    "issue_ready": (_anything, _odd, "issue_invalid_payload"),
    "issue_show": (lambda w: {"id": w.a}, lambda w: {"id": "nowhere"}, "issue_not_found"),
    "issue_update": (
        lambda w: w.held(notes="so far"),
        lambda w: {"id": w.w, "notes": "who am I"},
        "lease_fence_missing",
    ),
    "sublease_grant": (
        lambda w: w.held(**_SCOPE), lambda w: w.stale(**_SCOPE), "lease_fence_stale",
    ),
    "sublease_revoke": (
        lambda w: w.held(revokedSubleaseId="s1"),
        lambda w: w.held(revokedSubleaseId="s9"),
        "lease_sublease_missing",
    ),
    "job_schedule": (
        lambda w: {"jobId": w.k, "kind": "test.one"},
        lambda w: {"jobId": w.j, "kind": "test.other"},
        "job_exists",
    ),
    "job_claim": (
        lambda w: {"jobId": w.i, "leaseDurationMs": 60_000},
        lambda w: {"jobId": w.j, "worker": "bob", "leaseDurationMs": 60_000},
        "agent_name_mismatch",
    ),
    "job_complete": (
        lambda w: w.job, lambda w: w.job | {"fence": 0}, "lease_fence_stale",
    ),
    "job_yield": (
        lambda w: w.job | {"reason": "tired"},
        lambda w: w.job | {"reason": "tired", "fence": 0},
        "lease_fence_stale",
    ),
    "job_expire": (
        lambda w: {"jobId": w.j, "claim": "claim/old/1", "fence": 1},
        lambda w: {"jobId": w.none, "claim": "claim/old/1", "fence": 1},
        "lease_not_found",
    ),
    "job_show": (
        lambda w: {"jobId": w.j}, lambda w: {"jobId": w.none}, "job_not_found",
    ),
    "job_roster": (
        _anything, lambda w: {"cursor": "nowhere"}, "job_cursor_invalid",
    ),
    "spec_submit": (
        lambda w: {"specId": w.new, "steps": _STEPS},
        lambda w: {"specId": w.new, "steps": _STEPS[1:]},
        "spec_step_dependency_invalid",
    ),
    "spec_claim": (
        lambda w: {"specId": w.t},
        lambda w: {"specId": w.s, "runner": "bob"},
        "agent_name_mismatch",
    ),
    "spec_materialize": (
        lambda w: w.run | {"stepKeys": ["one", "two"]},
        lambda w: w.run | {"stepKeys": ["none"]},
        "spec_step_unknown",
    ),
    "spec_release": (
        lambda w: w.run | {"reason": "tired"}, lambda w: w.run | {"fence": 0}, "lease_fence_stale",
    ),
    "spec_show": (
        lambda w: {"specId": w.s}, lambda w: {"specId": w.none}, "spec_not_found",
    ),
    "spec_list": (
        _anything, lambda w: {"cursor": "nowhere"}, "job_cursor_invalid",
    ),
    "dispatch_claim": (
        lambda w: {"jobId": f"{w.s}:one", "dispatcher": "ada-1", "fence": w.hand["fence"]},
        lambda w: {"jobId": w.i},
        "job_not_dispatchable",
    ),
    "dispatch_complete": (
        lambda w: w.hand | {"file": "f", "digest": "d"},
        lambda w: w.hand | {"file": "f", "digest": "d", "fence": 0},
        "lease_fence_stale",
    ),
    "dispatch_release": (
        lambda w: w.hand, lambda w: w.hand | {"fence": 0}, "lease_fence_stale",
    ),
    "dispatch_roster": (
        _anything, lambda w: {"cursor": "nowhere"}, "job_cursor_invalid",
    ),
}  # fmt: skip


@pytest.fixture
def sidecar(common: Serve) -> Serve:
    """One for all tools: each has a world of its own in it."""
    return common


async def _world(desk: AuthorityLink, tool: str) -> World:
    """A world as one tool wants it."""
    prefix = f"{tool}-{uuid.uuid4().hex[:6]}"
    for each in ("a", "b", "c", "w"):
        await desk.ask("issue.add", {"id": f"{prefix}-{each}", "title": each, "labels": [prefix]})
    await desk.ask("dep.add", {"id": f"{prefix}-b", "dependsOnId": f"{prefix}-a"})
    claim = {"id": f"{prefix}-w", "assignee": "ada-1", "leaseId": f"lease-{prefix}"}
    answer = await desk.ask("issue.claim", claim)
    proof = claim | {"fence": answer["issue"]["lease"]["fence"]}
    await desk.ask("fiber.spawn", proof | {"fiberId": "f1", "taskRef": "one part"})
    await desk.ask("instance.open", proof | {"instanceId": "i1"})
    await desk.ask("sublease.grant", proof | _SCOPE | {"newSubleaseId": "s1"})
    if tool in {"work_complete", "issue_close"}:
        await desk.ask("fiber.join", proof | {"fiberId": "f1"})
    if tool == "issue_lease_reconcile":
        await desk.ask("issue.update", proof | {"newAssignee": "nobody"})
    for each in ("i", "j"):
        await desk.ask("job.schedule", {"jobId": f"{prefix}-{each}", "kind": "test.one"})
    mine = {"jobId": f"{prefix}-j", "worker": "ada-1"}
    taken = await desk.ask("job.claim", mine | {"leaseDurationMs": 60_000})
    lease = taken["job"]["lease"]
    job = mine | {"leaseId": lease["leaseId"], "fence": lease["fence"]}
    if not tool.startswith(("spec_", "dispatch_")):
        return World(prefix, proof, job, {}, {})
    for each in ("s", "t"):
        await desk.ask("spec.submit", {"specId": f"{prefix}-{each}", "steps": _STEPS})
    runner = {"specId": f"{prefix}-s", "runner": "ada-1"}
    run = runner | _shown((await desk.ask("spec.claim", runner))["spec"]["lease"])
    await desk.ask("spec.materialize", run | {"stepKeys": ["one"]})
    dispatcher = {"jobId": f"{prefix}-s:one", "dispatcher": "ada-1"}
    hand = (await desk.ask("dispatch.claim", dispatcher))["job"]["dispatchLease"]
    return World(prefix, proof, job, run, dispatcher | _shown(hand))


def _shown(lease: dict[str, Any]) -> dict[str, Any]:
    return {"leaseId": lease["leaseId"], "fence": lease["fence"]}


@pytest.mark.parametrize("tool", sorted(set(CASES) & set(entries())))
async def test_a_tool_is_granted_and_its_answer_is_what_it_declares(
    desk: AuthorityLink, tool: str
) -> None:
    world = await _world(desk, tool)
    async with connect(desk, Guest(terms=_GRANTED)) as client:
        await client.list_tools()  # from now on the client holds answers against their schemas
        answer = said(await client.call_tool(tool, CASES[tool][0](world) | {"verbose": True}))
    entry = entries()[tool]
    declared = entry.tool["outputSchema"]["properties"].keys()
    hidden = {"schema", "dispatchKind", "profileId", "actionId", "semanticDigest"}
    assert answer.keys() - declared - hidden <= {"worldBinding", "resolverWitnessRef"}
    assert answer["effect"]["witnessRefs"]
    assert answer["effect"]["transport"] == "mcp"
    if entry.action is not None:
        check.validator("response").validate(answer)


@pytest.mark.parametrize("tool", sorted(set(CASES) & set(entries())))
async def test_a_tool_refuses_with_a_class_and_says_what_to_do(
    desk: AuthorityLink, tool: str
) -> None:
    world = await _world(desk, tool)
    async with connect(desk, Guest(terms=_GRANTED)) as client:
        await client.list_tools()
        result = await client.call_tool(tool, CASES[tool][1](world) | {"verbose": True})
    wire = refused(result)
    assert wire == CASES[tool][2]
    assert wire in text(result)
    assert "\nNext: " in text(result)
    check.validator("response").validate(result.structured_content)


@pytest.mark.parametrize("tool", sorted(entries()))
async def test_unknown_arguments_are_refused_before_anything_happens(
    desk: AuthorityLink, tool: str
) -> None:
    world = await _world(desk, tool)
    before = (await desk.ask("issue.backend_status", {}))["seq"]
    arguments = CASES[tool][0](world) if tool in CASES else {}
    async with connect(desk, Guest()) as client:
        result = await client.call_tool(tool, arguments | {"deep": True})
    assert refused(result).endswith("_payload" if tool in CASES else "")
    assert (await desk.ask("issue.backend_status", {}))["seq"] == before


@pytest.mark.parametrize("era", ERAS)
async def test_both_eras_list_the_same_tools(desk: AuthorityLink, era: str) -> None:
    async with connect(desk, Guest(), era) as client:
        listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == list(entries())
    for tool in listed.tools:
        assert tool.title
        assert tool.description
        assert tool.output_schema is not None
        hints = tool.annotations
        assert hints is not None
        every = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
        assert None not in (*every, hints.open_world_hint)


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_an_error_of_the_protocol(desk: AuthorityLink, era: str) -> None:
    async with connect(desk, Guest(), era) as client:
        with pytest.raises(MCPError, match="Unknown tool: issue_eat"):
            await client.call_tool("issue_eat", {})


def test_what_the_contract_names_is_a_tool() -> None:
    named = {action.mcp_tool for action in host_actions().values() if action.mcp_tool}
    assert named <= set(entries())


def test_reads_promise_to_change_nothing_and_mutations_do_not() -> None:
    for entry in entries().values():
        if entry.action is not None:
            assert entry.reads is not entry.action.mutates


def test_a_schema_refers_to_nothing_outside_and_stays_small() -> None:
    for tool in listing():
        assert "$ref" not in str(tool)
        assert len(str(tool)) < 9_000, tool["name"]


def test_every_lesson_belongs_to_an_action() -> None:
    assert set(LESSONS) <= set(host_actions())
