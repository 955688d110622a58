"""Who is in the tree, in which order, and what follows when one of them ends."""

from dataclasses import replace
from typing import Final

from ..otp import ChildSpec, Flags, Start, supervise, supervise_dynamic
from ..process import sidecar_child
from . import (
    authority_client,
    chain_runner,
    evidence_writer,
    gateway,
    gluer,
    job_dispatcher,
    job_loop,
    lease_dispatcher,
    notifier,
    scheduler,
    tracer,
)
from .plan import Plan

NAME: Final = "coord_sup"
# A tree that falls apart this often does not heal by being put together once more.
FLAGS: Final = Flags("rest_for_one", intensity=8, period_ms=60_000, auto_shutdown="any_significant")
_FAREWELL_MS = 20_000  # for leases to be handed back, beyond the grace of workers
_SIDECAR_MS = 15_000


def coord_sup(plan: Plan) -> Start:
    """How to start the tree. Who works on issues and on jobs ends when both loops have."""
    is_both = plan.argv and plan.kinds
    flags = replace(FLAGS, auto_shutdown="all_significant") if is_both else FLAGS
    return supervise(children(plan), flags, NAME)


def children(plan: Plan) -> tuple[ChildSpec, ...]:
    """In the order of their start; a child that ends takes along those behind."""
    issues, jobs = lease_dispatcher.LeaseDispatcher, job_loop.JobLoop
    work = _labour(plan, issues, plan.slots) if plan.argv else ()
    if plan.kinds:
        work += _labour(plan, jobs, plan.job_settings("any").slots)
    return (
        ChildSpec(
            authority_client.NAME,
            Start(authority_client.AuthorityClient, (plan,), authority_client.NAME),
            shutdown=_SIDECAR_MS,
            start_timeout_ms=sidecar_child.START_MS + 5_000,
        ),
        ChildSpec(
            evidence_writer.NAME,
            Start(
                evidence_writer.EvidenceCell,
                (plan, lease_dispatcher.NAME, job_loop.NAME),
                evidence_writer.NAME,
            ),
        ),
        *((notifier.child(plan),) if plan.hooks else ()),
        *work,
        *((gateway.child(plan),) if plan.door else ()),
        *((chain_runner.child(plan), job_dispatcher.child(plan)) if plan.job_files else ()),
        *((scheduler.child(plan),) if plan.schedules else ()),
        *((gluer.child(plan),) if plan.gluer else ()),
        *((tracer.child(plan),) if plan.tracer else ()),
    )


def _labour(
    plan: Plan, loop: type[lease_dispatcher.LeaseDispatcher], slots: int
) -> tuple[ChildSpec, ...]:
    """Those who find work and do it; a tree that only serves agents has none."""
    restarts = Flags(intensity=max(3, slots), period_ms=5_000)
    return (
        ChildSpec(loop.crew, supervise_dynamic(slots, restarts, loop.crew), type="supervisor"),
        ChildSpec(
            loop.name,
            Start(loop, (plan,), loop.name),
            # It ends clean only where the policy says `stop`; then the tree ends with it.
            restart="transient",
            significant=True,
            shutdown=plan.grace_ms + _FAREWELL_MS,
        ),
    )
