"""The state as bytes: what snapshots hold, and digests cover."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ...contracts import (
    Author,
    Budget,
    CheckPolicy,
    Cover,
    Decision,
    Dependency,
    Designation,
    Directive,
    Feature,
    Fiber,
    GlueTarget,
    Handover,
    Instance,
    Issue,
    JobRecord,
    KindLimit,
    Lease,
    Member,
    Obstruction,
    Policy,
    Schedule,
    ScopePause,
    Section,
    SectionOverlap,
    Spec,
    Sublease,
    Tally,
    Witness,
    WorkerSession,
    WorkSpend,
    issue_resource,
)
from . import outcome
from .state import State, apply, file_overdue


class Image(msgspec.Struct, frozen=True):
    """The records of a state, in one order."""

    issues: list[Issue]
    dependencies: list[Dependency]
    leases: list[Lease]
    overdue: list[str]  # resources that were filed as lapsed
    subleases: list[Sublease]
    instances: list[Instance]
    policy: Policy
    answers: list[tuple[str, str, str, int]]
    # An image from before there were any has none of these.
    fibers: list[Fiber] = []
    handovers: list[Handover] = []
    sessions: list[WorkerSession] = []
    features: list[Feature] = []
    checks: CheckPolicy | None = None
    witnesses: list[Witness] = []
    decisions: list[Decision] = []
    jobs: list[JobRecord] = []
    directives: list[Directive] = []
    members: list[Member] = []
    designation: Designation | None = None
    specs: list[Spec] = []
    authors: list[Author] = []
    # Left out where there are none, so that snapshots from before are still the state's bytes.
    limits: list[KindLimit] | msgspec.UnsetType = msgspec.UNSET
    schedules: list[Schedule] | msgspec.UnsetType = msgspec.UNSET
    ripe_ms: int | msgspec.UnsetType = msgspec.UNSET  # up to when delayed jobs are filed
    pauses: list[ScopePause] | msgspec.UnsetType = msgspec.UNSET
    spends: list[WorkSpend] | msgspec.UnsetType = msgspec.UNSET
    tallies: list[Tally] | msgspec.UnsetType = msgspec.UNSET
    budgets: list[Budget] | msgspec.UnsetType = msgspec.UNSET
    covers: list[Cover] | msgspec.UnsetType = msgspec.UNSET  # in the order of their making
    sections: list[Section] | msgspec.UnsetType = msgspec.UNSET
    overlaps: list[SectionOverlap] | msgspec.UnsetType = msgspec.UNSET
    targets: list[GlueTarget] | msgspec.UnsetType = msgspec.UNSET
    obstructions: list[Obstruction] | msgspec.UnsetType = msgspec.UNSET  # the oldest first


_IMAGE_DECODER = msgspec.json.Decoder(Image)


def dump(state: State) -> bytes:
    """The canonical bytes of a state; equal states give equal bytes."""
    image = Image(
        issues=[state.issues[key] for key in sorted(state.issues)],
        dependencies=[one for key in sorted(state.dependencies) for one in state.dependencies[key]],
        leases=[state.leases[key] for key in sorted(state.leases)],
        overdue=sorted(issue_resource(place.issue_id) for place in state.overdue),
        subleases=_flat(state.subleases),
        instances=_flat(state.instances),
        policy=state.policy,
        answers=[(key, *state.answers[key]) for key in state.forgetting],
        fibers=_flat(state.fibers),
        handovers=[one for key in sorted(state.handovers) for one in state.handovers[key]],
        sessions=[state.sessions[key] for key in sorted(state.sessions)],
        features=_flat(state.features),
        checks=state.checks,
        witnesses=[*state.witnesses.values()],
        decisions=[state.decisions[key] for key in sorted(state.decisions)],
        jobs=[state.lane.jobs[key] for key in sorted(state.lane.jobs)],
        directives=[state.lane.directives[key] for key in sorted(state.lane.directives)],
        members=[state.lane.members[key] for key in sorted(state.lane.members)],
        designation=state.lane.designation,
        specs=[state.lane.specs[key] for key in sorted(state.lane.specs)],
        authors=[state.lane.authors[key] for key in sorted(state.lane.authors)],
        limits=_some(state.lane.limits),
        schedules=_some(state.lane.schedules),
        ripe_ms=state.lane.ripe_ms or msgspec.UNSET,
        pauses=_some(state.pauses),
        spends=[state.spends[key] for key in sorted(state.spends)] or msgspec.UNSET,
        tallies=[state.tallies[key] for key in sorted(state.tallies)] or msgspec.UNSET,
        budgets=_flat(state.budgets) or msgspec.UNSET,
        covers=[*state.descent.covers.values()] or msgspec.UNSET,
        sections=_some(state.descent.sections),
        overlaps=_some(state.descent.overlaps),
        targets=_some(state.descent.targets),
        obstructions=[*state.descent.obstructions.values()] or msgspec.UNSET,
    )
    return msgspec.json.encode(image, order="sorted")


def load(data: bytes) -> State:
    """The state that `dump` wrote. Raises `msgspec.MsgspecError` for anything else."""
    image = _IMAGE_DECODER.decode(data)
    state = State()
    apply(state, [outcome.IssueAdded(each) for each in image.issues])
    apply(state, [outcome.DependencyAdded(each) for each in image.dependencies])
    state.lane.ripe_ms = image.ripe_ms or 0
    apply(state, [outcome.JobPut(each) for each in image.jobs])
    apply(state, [outcome.SpecPut(each) for each in image.specs])
    apply(state, [outcome.DirectivePut(each) for each in image.directives])
    apply(state, [outcome.MemberPut(each) for each in image.members])
    if image.designation is not None:
        apply(state, [outcome.Designated(image.designation)])
    state.lane.authors.update({each.node: each for each in image.authors})
    apply(state, [outcome.LimitPut(each) for each in image.limits or ()])
    apply(state, [outcome.SchedulePut(each) for each in image.schedules or ()])
    apply(state, [outcome.LeasePut(each) for each in image.leases])
    file_overdue(state, [(state.leases[key].deadline_ms, key) for key in image.overdue])
    apply(state, [outcome.SubleasePut(each) for each in image.subleases])
    apply(state, [outcome.InstancePut(each) for each in image.instances])
    apply(state, [outcome.FiberPut(each) for each in image.fibers])
    apply(state, [outcome.HandoverPut(each) for each in image.handovers])
    apply(state, [outcome.SessionPut(each) for each in image.sessions])
    apply(state, [outcome.FeaturePut(each) for each in image.features])
    if image.checks is not None:
        apply(state, [outcome.ChecksSet(image.checks)])
    apply(state, [outcome.WitnessPut(each) for each in image.witnesses])
    apply(state, [outcome.DecisionPut(each) for each in image.decisions])
    apply(state, [outcome.PausePut(each) for each in image.pauses or ()])
    apply(state, [outcome.SpendPut(each) for each in image.spends or ()])
    apply(state, [outcome.TallyPut(each) for each in image.tallies or ()])
    apply(state, [outcome.BudgetPut(each) for each in image.budgets or ()])
    apply(state, [outcome.CoverPut(each) for each in image.covers or ()])
    apply(state, [outcome.SectionPut(each) for each in image.sections or ()])
    apply(state, [outcome.OverlapPut(each) for each in image.overlaps or ()])
    apply(state, [outcome.TargetPut(each) for each in image.targets or ()])
    apply(state, [outcome.ObstructionPut(each) for each in image.obstructions or ()])
    apply(state, [outcome.PolicySet(image.policy)])
    apply(state, [outcome.Answered(*each) for each in image.answers])
    return state


def _some(records: Mapping[Any, Any]) -> list[Any] | msgspec.UnsetType:
    return [records[key] for key in sorted(records)] or msgspec.UNSET


def _flat(nested: dict[str, dict[str, Any]]) -> list[Any]:
    return [nested[key][inner] for key in sorted(nested) for inner in sorted(nested[key])]
