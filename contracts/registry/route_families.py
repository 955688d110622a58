"""The route families as they have to be, whatever a document says: the pins of the world check."""

from collections.abc import Mapping

from msgspec import Struct


class FamilyRoute(Struct, frozen=True):
    """One route family as it has to be. An operation without an action is not a host action."""

    family: str
    world: str
    morphism_row: str
    morphisms: frozenset[str]
    operations: Mapping[str, str | None]  # operation -> host action


def _route(
    family: str, world: str, morphism_row: str, morphisms: str, operations: dict[str, str | None]
) -> FamilyRoute:
    names = frozenset("dm." + name for name in morphisms.split())
    return FamilyRoute(family, world, morphism_row, names, operations)


ROUTES = (
    _route(
        "route.issue_claim_lease",
        "world.lease.v1",
        "wm.control.lease.mutation",
        "commitment.attest identity profile.execution",
        {
            "op/mcp.issue_claim": "issue.claim",
            "op/mcp.issue_lease_renew": "issue.lease_renew",
            "op/mcp.issue_lease_release": "issue.lease_release",
            "op/mcp.issue_discover": "issue.discover",
            "op/mcp.issue_handover": "issue.handover",
            "op/transport.issue_claim_next": "issue.claim_next",
            "op/mcp.issue_lease_reconcile": "issue.lease_reconcile",
            "op/mcp.issue_lease_break": "issue.lease_break",
            "op/mcp.sublease_grant": "sublease.grant",
            "op/mcp.sublease_revoke": "sublease.revoke",
            "op/mcp.instance_open": "instance.open",
            "op/mcp.instance_close": "instance.close",
            "op/mcp.work_spend": "spend.report",
            "op/mcp.budget_set": "budget.set",
            "op/mcp.budget_clear": "budget.clear",
        },
    ),
    _route(
        "route.fiber.lifecycle",
        "world.fiber.v1",
        "wm.control.fiber.lifecycle",
        "identity profile.execution transport.world",
        {
            "op/transport.fiber_spawn": "fiber.spawn",
            "op/transport.fiber_join": "fiber.join",
            "op/transport.fiber_cancel": "fiber.cancel",
        },
    ),
    _route(
        "route.job.lifecycle",
        "world.job.v1",
        "wm.control.job.lifecycle",
        "commitment.attest identity profile.execution",
        {
            "op/mcp.job_schedule": "job.schedule",
            "op/mcp.job_claim": "job.claim",
            "op/mcp.job_complete": "job.complete",
            "op/mcp.job_yield": "job.yield",
            "op/mcp.job_expire": "job.expire",
            "op/mcp.job_cancel": "job.cancel",
            "op/mcp.job_retry": "job.retry",
            "op/transport.job_admit": "job.admit",
            "op/cli.route_set": "route.set",
            "op/cli.coordinator_designate": "coordinator.designate",
            "op/cli.node_register": "node.register",
            "op/cli.node_unregister": "node.unregister",
            "op/mcp.limit_set": "limit.set",
            "op/mcp.limit_clear": "limit.clear",
            "op/mcp.schedule_set": "schedule.set",
            "op/mcp.schedule_clear": "schedule.clear",
            "op/cli.schedule_fire": "schedule.fire",
        },
    ),
    _route(
        "route.spec.lifecycle",
        "world.spec.v1",
        "wm.control.spec.lifecycle",
        "commitment.attest identity profile.execution",
        {
            "op/mcp.spec_submit": "spec.submit",
            "op/mcp.spec_claim": "spec.claim",
            "op/mcp.spec_materialize": "spec.materialize",
            "op/mcp.spec_release": "spec.release",
            "op/mcp.dispatch_claim": "dispatch.claim",
            "op/mcp.dispatch_complete": "dispatch.complete",
            "op/mcp.dispatch_release": "dispatch.release",
        },
    ),
    _route(
        "route.descent.lifecycle",
        "world.descent.v1",
        "wm.control.descent.lifecycle",
        "commitment.attest identity profile.execution",
        {
            "op/mcp.descent_cover": "descent.cover",
            "op/mcp.descent_abort": "descent.abort",
            "op/cli.descent_section": "descent.section",
            "op/cli.descent_overlap": "descent.overlap",
            "op/cli.descent_glue": "descent.glue",
            "op/cli.descent_seal": "descent.seal",
            "op/cli.descent_obstruct": "descent.obstruct",
            "op/cli.glue_claim": "glue.claim",
            "op/cli.glue_release": "glue.release",
        },
    ),
    _route(
        "route.transport.dispatch",
        "world.transport.v1",
        "wm.control.transport.dispatch",
        "identity transport.world",
        {"op/transport.world_route_binding": "world.route_binding"},
    ),
    _route(
        "route.instruction_execution",
        "world.instruction.v1",
        "wm.control.instruction.execution",
        "commitment.attest identity profile.execution",
        {"op/mcp.instruction_run": "instruction.run", "op/ci.run_instruction": None},
    ),
    _route(
        "route.required_decision_attestation",
        "world.ci_witness.v1",
        "wm.control.ci_witness.attest",
        "commitment.attest identity presentation.projection",
        {
            "op/ci.decide_required": "required.witness_decide",
            "op/ci.verify_required_decision": "required.decision_verify",
            "op/ci.verify_required_witness": "required.witness_verify",
        },
    ),
    _route(
        "route.session_projection",
        "world.control_plane.bundle.v0",
        "wm.control.bundle.projection",
        "identity presentation.projection",
        {
            "op/harness.feature_check": "harness.feature.check",
            "op/harness.feature_next": "harness.feature.next",
            "op/harness.feature_read": "harness.feature.read",
            "op/harness.session_bootstrap": "harness.session.bootstrap",
            "op/harness.session_read": "harness.session.read",
            "op/harness.trajectory_query": "harness.trajectory.query",
            "op/harness.join_check": "harness.join.check",
            "op/mcp.observe_instruction": "observe.instruction",
            "op/mcp.observe_latest": "observe.latest",
            "op/mcp.observe_needs_attention": "observe.needs_attention",
            "op/mcp.observe_projection": "observe.projection",
        },
    ),
    _route(
        "route.gate_execution",
        "world.kernel.semantic.v1",
        "wm.kernel.semantic.runtime_gate",
        "identity profile.execution transport.location transport.world",
        {"op/ci.run_gate": None, "op/ci.run_gate_terraform": None},
    ),
)

BY_FAMILY = {route.family: route for route in ROUTES}
BY_OPERATION = {operation: route for route in ROUTES for operation in route.operations}
ACTION_OF = {
    operation: action for route in ROUTES for operation, action in route.operations.items()
}
PINNED_ACTIONS = {action: operation for operation, action in ACTION_OF.items() if action}
