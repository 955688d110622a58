"""The rule of every action. `decide` looks it up by the action's name and calls it."""

from collections.abc import Callable
from typing import Any

from . import fiber, lease, policy, spend, steering, sublease
from .checks import coherence, instruction, join, required
from .descent import cover, glue, section
from .descent import view as descent
from .issues import dependency, handover, projection, work
from .jobs import job, job_dispatch, kind_limit, operations, roster, routes, schedule, spec
from .outcome import Outcome
from .turn import Turn
from .workers import features, observe, session, steps

Rule = Callable[[Turn, Any], Outcome]

RULES: dict[str, Rule] = {
    # Issues.
    "issue.add": work.add,
    "issue.update": work.update,
    "issue.close": work.close,
    "issue.discover": work.discover,
    "issue.import": work.import_issues,
    "issue.handover": handover.hand_over,
    "dep.add": dependency.add,
    "dep.remove": dependency.remove,
    "dep.replace": dependency.replace,
    # Their leases, and what hangs on them.
    "issue.claim": lease.claim,
    "issue.claim_next": lease.claim_next,
    "issue.lease_renew": lease.renew,
    "issue.lease_release": lease.release,
    "issue.lease_reconcile": lease.reconcile,
    "issue.lease_break": lease.break_lease,
    "sublease.grant": sublease.grant,
    "sublease.revoke": sublease.revoke,
    "instance.open": sublease.open_instance,
    "instance.close": sublease.close_instance,
    "fiber.spawn": fiber.spawn,
    "fiber.join": fiber.join,
    "fiber.cancel": fiber.cancel,
    # Reads of issues.
    "issue.list": projection.list_issues,
    "issue.ready": projection.ready,
    "issue.blocked": projection.blocked,
    "issue.show": projection.show,
    "issue.check": projection.check,
    "issue.lease_projection": projection.leases,
    "issue.backend_status": projection.backend_status,
    "dep.diagnostics": projection.diagnostics,
    "world.route_binding": projection.route_binding,
    # Jobs, and who may do them.
    "job.schedule": job.schedule,
    "job.claim": job.claim,
    "job.complete": job.complete,
    "job.yield": job.give_back,
    "job.expire": job.expire,
    "job.admit": operations.admit,
    "job.show": roster.show,
    "job.roster": roster.roster,
    "route.set": routes.set_route,
    "coordinator.designate": routes.designate,
    "node.register": routes.register,
    "node.unregister": routes.unregister,
    "node.list": routes.list_nodes,
    "route.list": routes.list_routes,
    "job.list": roster.list_jobs,
    "limit.set": kind_limit.set_limit,
    "limit.clear": kind_limit.clear_limit,
    "limit.list": kind_limit.list_limits,
    "schedule.set": schedule.set_schedule,
    "schedule.clear": schedule.clear_schedule,
    "schedule.fire": schedule.fire,
    "schedule.list": schedule.list_schedules,
    # Specs, and how their jobs are handed on.
    "spec.submit": spec.submit,
    "spec.claim": spec.claim,
    "spec.materialize": spec.materialize,
    "spec.release": spec.release,
    "spec.show": spec.show,
    "spec.list": spec.list_specs,
    "dispatch.claim": job_dispatch.claim,
    "dispatch.complete": job_dispatch.complete,
    "dispatch.release": job_dispatch.release,
    "dispatch.roster": job_dispatch.roster,
    # What operators say about work.
    "issue.cancel": steering.cancel_issue,
    "issue.retry": steering.retry_issue,
    "issue.prioritize": steering.prioritize,
    "job.cancel": steering.cancel_job,
    "job.retry": steering.retry_job,
    "pause.set": steering.pause,
    "pause.clear": steering.unpause,
    "pause.list": steering.list_pauses,
    "approval.ask": steering.ask_approval,
    "approval.give": steering.give_approval,
    # What work costs, and may cost.
    "spend.report": spend.report,
    "spend.show": spend.show,
    "budget.set": spend.set_budget,
    "budget.clear": spend.clear_budget,
    "budget.list": spend.list_budgets,
    # Work on one repository.
    "descent.cover": cover.start,
    "descent.abort": cover.abort,
    "descent.section": section.record,
    "descent.overlap": glue.overlap,
    "descent.glue": glue.glue,
    "descent.seal": glue.seal,
    "descent.obstruct": glue.obstruct,
    "descent.show": descent.show,
    "glue.claim": glue.claim,
    "glue.release": glue.release,
    # Policies and checks.
    "policy.set": policy.set_policy,
    "coherence.check": coherence.check,
    "instruction.check": instruction.check,
    "instruction.run": instruction.run,
    "required.projection": required.projection,
    "required.delta": required.delta,
    "required.gate_ref": required.gate_ref,
    "required.witness": required.witness,
    "required.witness_verify": required.witness_verify,
    "required.witness_decide": required.witness_decide,
    "required.decision_verify": required.decision_verify,
    # What workers keep and report.
    "harness.session.read": session.read,
    "harness.session.write": session.write,
    "harness.session.bootstrap": session.bootstrap,
    "harness.feature.read": features.read,
    "harness.feature.write": features.write,
    "harness.feature.check": features.check,
    "harness.feature.next": features.next_,
    "harness.join.check": join.check,
    "harness.trajectory.append": steps.append,
    "harness.trajectory.query": steps.query,
    # What an operator sees.
    "observe.latest": observe.latest,
    "observe.needs_attention": observe.needs_attention,
    "observe.instruction": observe.instruction,
    "observe.projection": observe.projection,
}

# The rules that read `turn.past`; for all others it is not fetched.
LOOKS_BACK = frozenset(
    {
        "harness.trajectory.query",
        "observe.instruction",
        "observe.latest",
        "observe.needs_attention",
        "observe.projection",
    }
)
