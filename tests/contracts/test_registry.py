"""The registry of host actions: complete, frozen, and bound to the digests of the protocol."""

import os
import subprocess
import sys

import pytest

from tests.together import together
from understudy.contracts import canonical, documents
from understudy.contracts.requests.host_actions import (
    HostAction,
    action_id,
    contract,
    contract_digest,
    host_actions,
    semantic_digest,
)

# The protocol's own host actions, by operation id.
PROTOCOL = {
    "coherence.check": "op/ci.coherence_check",
    "dep.add": "op/mcp.dep_add",
    "dep.diagnostics": "op/mcp.dep_diagnostics",
    "dep.remove": "op/mcp.dep_remove",
    "dep.replace": "op/mcp.dep_replace",
    "fiber.cancel": "op/transport.fiber_cancel",
    "fiber.join": "op/transport.fiber_join",
    "fiber.spawn": "op/transport.fiber_spawn",
    "harness.feature.check": "op/harness.feature_check",
    "harness.feature.next": "op/harness.feature_next",
    "harness.feature.read": "op/harness.feature_read",
    "harness.feature.write": "op/harness.feature_write",
    "harness.session.bootstrap": "op/harness.session_bootstrap",
    "harness.session.read": "op/harness.session_read",
    "harness.session.write": "op/harness.session_write",
    "harness.trajectory.append": "op/harness.trajectory_append",
    "harness.trajectory.query": "op/harness.trajectory_query",
    "instruction.check": "op/mcp.instruction_check",
    "instruction.run": "op/mcp.instruction_run",
    "issue.backend_status": "op/mcp.issue_backend_status",
    "issue.blocked": "op/mcp.issue_blocked",
    "issue.check": "op/mcp.issue_check",
    "issue.claim": "op/mcp.issue_claim",
    "issue.claim_next": "op/transport.issue_claim_next",
    "issue.discover": "op/mcp.issue_discover",
    "issue.lease_release": "op/mcp.issue_lease_release",
    "issue.lease_renew": "op/mcp.issue_lease_renew",
    "issue.list": "op/mcp.issue_list",
    "issue.ready": "op/mcp.issue_ready",
    "issue.update": "op/mcp.issue_update",
    "observe.instruction": "op/mcp.observe_instruction",
    "observe.latest": "op/mcp.observe_latest",
    "observe.needs_attention": "op/mcp.observe_needs_attention",
    "observe.projection": "op/mcp.observe_projection",
    "required.decision_verify": "op/ci.verify_required_decision",
    "required.delta": "op/ci.required_delta",
    "required.gate_ref": "op/ci.required_gate_ref",
    "required.projection": "op/ci.required_projection",
    "required.witness": "op/ci.required_witness",
    "required.witness_decide": "op/ci.decide_required",
    "required.witness_verify": "op/ci.verify_required_witness",
}
OURS = {
    "issue.add": "op/mcp.issue_add",
    "issue.show": "op/mcp.issue_show",
    "issue.close": "op/mcp.issue_close",
    "issue.handover": "op/mcp.issue_handover",
    "harness.join.check": "op/harness.join_check",
    "issue.import": "op/cli.issue_import",
    "issue.lease_projection": "op/mcp.issue_lease_projection",
    "issue.lease_reconcile": "op/mcp.issue_lease_reconcile",
    "issue.lease_break": "op/mcp.issue_lease_break",
    "sublease.grant": "op/mcp.sublease_grant",
    "sublease.revoke": "op/mcp.sublease_revoke",
    "instance.open": "op/mcp.instance_open",
    "instance.close": "op/mcp.instance_close",
    "job.schedule": "op/mcp.job_schedule",
    "job.claim": "op/mcp.job_claim",
    "job.complete": "op/mcp.job_complete",
    "job.yield": "op/mcp.job_yield",
    "job.expire": "op/mcp.job_expire",
    "job.admit": "op/transport.job_admit",
    "job.show": "op/mcp.job_show",
    "job.roster": "op/mcp.job_roster",
    "route.set": "op/cli.route_set",
    "coordinator.designate": "op/cli.coordinator_designate",
    "node.register": "op/cli.node_register",
    "node.unregister": "op/cli.node_unregister",
    "node.list": "op/mcp.node_list",
    "route.list": "op/mcp.route_list",
    "job.list": "op/mcp.job_list",
    "limit.set": "op/mcp.limit_set",
    "limit.clear": "op/mcp.limit_clear",
    "limit.list": "op/mcp.limit_list",
    "schedule.set": "op/mcp.schedule_set",
    "schedule.clear": "op/mcp.schedule_clear",
    "schedule.fire": "op/cli.schedule_fire",
    "schedule.list": "op/mcp.schedule_list",
    "spec.submit": "op/mcp.spec_submit",
    "spec.claim": "op/mcp.spec_claim",
    "spec.materialize": "op/mcp.spec_materialize",
    "spec.release": "op/mcp.spec_release",
    "spec.show": "op/mcp.spec_show",
    "spec.list": "op/mcp.spec_list",
    "dispatch.claim": "op/mcp.dispatch_claim",
    "dispatch.complete": "op/mcp.dispatch_complete",
    "dispatch.release": "op/mcp.dispatch_release",
    "dispatch.roster": "op/mcp.dispatch_roster",
    "issue.cancel": "op/mcp.issue_cancel",
    "issue.retry": "op/mcp.issue_retry",
    "issue.prioritize": "op/mcp.issue_prioritize",
    "job.cancel": "op/mcp.job_cancel",
    "job.retry": "op/mcp.job_retry",
    "pause.set": "op/mcp.pause_set",
    "pause.clear": "op/mcp.pause_clear",
    "pause.list": "op/mcp.pause_list",
    "approval.ask": "op/mcp.approval_ask",
    "approval.give": "op/mcp.approval_give",
    "spend.report": "op/mcp.work_spend",
    "spend.show": "op/mcp.spend_show",
    "budget.set": "op/mcp.budget_set",
    "budget.clear": "op/mcp.budget_clear",
    "budget.list": "op/mcp.budget_list",
    "descent.cover": "op/mcp.descent_cover",
    "descent.abort": "op/mcp.descent_abort",
    "descent.section": "op/cli.descent_section",
    "descent.overlap": "op/cli.descent_overlap",
    "descent.glue": "op/cli.descent_glue",
    "descent.seal": "op/cli.descent_seal",
    "descent.obstruct": "op/cli.descent_obstruct",
    "descent.show": "op/mcp.descent_show",
    "glue.claim": "op/cli.glue_claim",
    "glue.release": "op/cli.glue_release",
    "policy.set": "op/cli.policy_set",
    "world.route_binding": "op/transport.world_route_binding",
}
EVERYWHERE = {"cli", "coordinator", "local-repl", "mcp"}
NARROW = {
    "issue.lease_renew": {"coordinator", "mcp"},
    "issue.lease_release": {"coordinator", "mcp"},
    "issue.import": {"cli", "coordinator"},
    "policy.set": {"cli", "coordinator"},
    "descent.section": {"cli", "coordinator"},
    "descent.overlap": {"cli", "coordinator"},
    "descent.glue": {"cli", "coordinator"},
    "descent.seal": {"cli", "coordinator"},
    "descent.obstruct": {"cli", "coordinator"},
    "glue.claim": {"cli", "coordinator"},
    "glue.release": {"cli", "coordinator"},
    "approval.give": {"cli", "local-repl", "mcp"},
    "route.set": {"cli", "coordinator"},
    "coordinator.designate": {"cli", "coordinator"},
    "node.register": {"cli", "coordinator"},
    "node.unregister": {"cli", "coordinator"},
    "schedule.fire": {"cli", "coordinator"},
}
READS = {
    "dep.diagnostics", "descent.show", "issue.backend_status", "issue.blocked", "issue.check",
    "issue.list",
    "issue.ready", "issue.show", "issue.lease_projection", "world.route_binding",
    "harness.feature.check", "harness.feature.next", "harness.feature.read", "harness.join.check",
    "harness.session.bootstrap", "harness.session.read", "harness.trajectory.query",
    "observe.instruction", "observe.latest", "observe.needs_attention", "observe.projection",
    "coherence.check", "instruction.check", "required.decision_verify", "required.delta",
    "required.gate_ref", "required.projection", "required.witness_verify",
    "job.show", "job.roster", "job.list", "node.list", "route.list", "limit.list", "schedule.list",
    "spec.show", "spec.list", "dispatch.roster", "pause.list",
    "spend.show", "budget.list",
}  # fmt: skip


def test_every_action_of_the_protocol_and_every_one_of_ours_is_registered() -> None:
    registered = {name: action.operation_id for name, action in host_actions().items()}
    assert len(PROTOCOL) == 41
    assert registered == PROTOCOL | OURS


@together("action", sorted(PROTOCOL | OURS))
def test_an_action_is_bound_to_its_transports(action: str) -> None:
    assert host_actions()[action].transports == NARROW.get(action, EVERYWHERE)


@together("action", sorted(PROTOCOL | OURS))
def test_an_action_mutates_unless_it_is_a_read(action: str) -> None:
    assert host_actions()[action].mutates == (action not in READS)


def test_a_mutation_needs_the_capability_of_its_own_name_and_a_read_none() -> None:
    for name, row in host_actions().items():
        expected = f"capabilities.change_morphisms.{name.replace('.', '_')}"
        assert row.capability == (expected if row.mutates else None)


def test_a_read_only_projection_never_mutates() -> None:
    rows = [row for row in host_actions().values() if row.operation_class == "read_only_projection"]
    assert rows
    assert not any(row.mutates for row in rows)


def test_issue_and_dependency_records_change_outside_any_world() -> None:
    for name in (
        "issue.add",
        "issue.close",
        "issue.import",
        "issue.update",
        "dep.add",
        "policy.set",
    ):
        row = host_actions()[name]
        assert row.operation_class == "tooling_only"
        assert (row.route_family, row.world_id, row.morphism_row_id) == (None, None, None)
        assert row.resolver_ref is None


def test_every_lease_action_lies_in_the_lease_world() -> None:
    names = {name for name, row in host_actions().items() if row.world_id == "world.lease.v1"}
    assert names == {
        "issue.claim", "issue.claim_next", "issue.discover", "issue.handover", "issue.lease_renew",
        "issue.lease_release", "issue.lease_reconcile", "issue.lease_break", "sublease.grant",
        "sublease.revoke", "instance.open", "instance.close", "spend.report", "budget.set",
        "budget.clear",
    }  # fmt: skip


def test_an_action_has_a_route_exactly_when_it_is_route_bound() -> None:
    for row in host_actions().values():
        parts = (row.route_family, row.world_id, row.morphism_row_id, row.resolver_ref)
        assert all(parts) == (row.operation_class == "route_bound")
        assert any(parts) == all(parts)


def test_the_dispatch_digest_of_a_claim_is_that_of_the_protocol() -> None:
    digest = "ts1_7012515c8279a81947b481e6e7acee0dbdde1662ac880ebadae8b5831f78e862"
    assert host_actions()["issue.claim"].semantic_digest == digest
    assert semantic_digest("issue.claim", "transport.action.issue_claim") == digest


def test_the_resolver_reference_of_a_claim_is_that_of_the_protocol() -> None:
    assert host_actions()["issue.claim"].resolver_ref == (
        "resolver://site-resolve/op_mcp.issue_claim/"
        "sr1_f93a12ce74f6c8e589cb9546bcd95457155ede3f01060ba84b7c89c5034e614f"
    )


def test_no_two_actions_share_a_digest_a_reference_a_tool_or_a_command() -> None:
    rows = host_actions().values()
    for values in (
        [row.semantic_digest for row in rows],
        [row.action_id for row in rows],
        [row.resolver_ref for row in rows if row.resolver_ref],
        [row.mcp_tool for row in rows if row.mcp_tool],
        [row.canonical_cli for row in rows if row.canonical_cli],
    ):
        assert len(set(values)) == len(values)


def test_an_action_id_has_no_dots_of_its_own() -> None:
    assert action_id("harness.feature.check") == "transport.action.harness_feature_check"


def test_the_registry_cannot_be_written_to() -> None:
    with pytest.raises(TypeError):
        host_actions()["issue.claim"] = host_actions()["issue.list"]
    with pytest.raises(AttributeError):
        host_actions()["issue.claim"].mutates = False  # type: ignore[misc]  # it is frozen
    with pytest.raises(TypeError):
        contract()["schema"] = 2


def test_the_registry_is_read_once() -> None:
    assert host_actions() is host_actions()
    assert isinstance(host_actions()["issue.claim"], HostAction)


def test_the_contract_digest_covers_the_whole_contract() -> None:
    document = documents.load(documents.CONTRACT)
    assert contract_digest() == canonical.digest("pol1", canonical.encode(document))
    document["leaseContract"]["ttlSeconds"]["max"] += 1
    assert contract_digest() != canonical.digest("pol1", canonical.encode(document))


@pytest.fixture
def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}


def test_neither_the_registry_nor_the_startup_check_loads_jsonschema(
    clean_environment: dict[str, str],
) -> None:
    program = (
        "import sys\n"
        "from understudy.contracts.registry.check import startup_check\n"
        "from understudy.contracts.requests.host_actions import host_actions\n"
        "assert host_actions() and startup_check()['result'] == 'accepted'\n"
        "sys.exit('jsonschema' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=clean_environment, check=False)
    assert done.returncode == 0
