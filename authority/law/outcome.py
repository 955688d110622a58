"""What a decision gives back: an answer, and the few changes to make.

A refusal changes nothing that was decided. Changes are data: the journal keeps them, `apply` makes
them, and nothing else touches the state.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import Struct

from ...contracts import (
    FAILURES,
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
    Operation,
    Per,
    Policy,
    Quarantine,
    Reason,
    Schedule,
    ScopePause,
    Section,
    SectionOverlap,
    Spec,
    SpecState,
    Sublease,
    Tally,
    Witness,
    WorkerSession,
    WorkSpend,
)

# --- changes ------------------------------------------------------------------------------------


class IssueAdded(Struct, frozen=True, tag_field="change", tag="issue.added"):
    issue: Issue


class IssueSet(Struct, frozen=True, tag_field="change", tag="issue.set"):
    """Some members of an issue get new values; `updated_at` is always among them."""

    id: str
    members: dict[str, Any]


class LeasePut(Struct, frozen=True, tag_field="change", tag="lease.put"):
    """A grant or an extension. A grant with a new fence ends whatever hung on the old one."""

    lease: Lease


class LeaseDropped(Struct, frozen=True, tag_field="change", tag="lease.dropped"):
    resource: str


class Lapsed(Struct, frozen=True, tag_field="change", tag="lapsed"):
    """Leases past their deadline at this moment are filed as overdue, ready to be reclaimed."""

    wall_ms: int


class SubleasePut(Struct, frozen=True, tag_field="change", tag="sublease.put"):
    sublease: Sublease


class SubleaseDropped(Struct, frozen=True, tag_field="change", tag="sublease.dropped"):
    resource: str
    sublease_id: str


class InstancePut(Struct, frozen=True, tag_field="change", tag="instance.put"):
    instance: Instance


class InstanceDropped(Struct, frozen=True, tag_field="change", tag="instance.dropped"):
    resource: str
    instance_id: str


class FiberPut(Struct, frozen=True, tag_field="change", tag="fiber.put"):
    """A fiber is spawned, or has ended. An end of the lease's term orphans it without a change."""

    fiber: Fiber


class FiberDropped(Struct, frozen=True, tag_field="change", tag="fiber.dropped"):
    """A fiber that ended long ago is forgotten."""

    resource: str
    fiber_id: str


class HandoverPut(Struct, frozen=True, tag_field="change", tag="handover.put"):
    """The newest hand-over of an issue; the oldest one beyond the limit is forgotten."""

    handover: Handover


class SessionPut(Struct, frozen=True, tag_field="change", tag="session.put"):
    session: WorkerSession


class SessionDropped(Struct, frozen=True, tag_field="change", tag="session.dropped"):
    """A session that stopped long ago is forgotten, with its ledger."""

    worker: str


class FeaturePut(Struct, frozen=True, tag_field="change", tag="feature.put"):
    feature: Feature


class JobPut(Struct, frozen=True, tag_field="change", tag="job.put"):
    """A job is scheduled or moves. What waits for its completion is free without a change."""

    job: JobRecord


class JobQuarantined(Struct, frozen=True, tag_field="change", tag="job.quarantined"):
    """A result came too late: the completion is refused, and the result is kept."""

    job_id: str
    quarantine: Quarantine


class JobsDue(Struct, frozen=True, tag_field="change", tag="jobs.due"):
    """Delayed jobs whose time has come at this moment are filed as pending."""

    wall_ms: int


class LimitPut(Struct, frozen=True, tag_field="change", tag="limit.put"):
    limit: KindLimit


class LimitDrawn(Struct, frozen=True, tag_field="change", tag="limit.drawn"):
    """A claim took something out of a bucket, which holds this much at this moment."""

    kind: str
    parts: int
    at_ms: int


class LimitDropped(Struct, frozen=True, tag_field="change", tag="limit.dropped"):
    kind: str


class SchedulePut(Struct, frozen=True, tag_field="change", tag="schedule.put"):
    """A schedule is made or changed, or has fired."""

    schedule: Schedule


class ScheduleDropped(Struct, frozen=True, tag_field="change", tag="schedule.dropped"):
    schedule_id: str


class SpendPut(Struct, frozen=True, tag_field="change", tag="spend.put"):
    """What one piece of work has cost."""

    spend: WorkSpend


class TallyPut(Struct, frozen=True, tag_field="change", tag="tally.put"):
    """What was spent in one scope."""

    tally: Tally


class BudgetPut(Struct, frozen=True, tag_field="change", tag="budget.put"):
    budget: Budget


class BudgetDropped(Struct, frozen=True, tag_field="change", tag="budget.dropped"):
    scope: str
    per: Per


class CoverPut(Struct, frozen=True, tag_field="change", tag="cover.put"):
    """A cover is begun, has one member less to wait for, or is over; the oldest are forgotten."""

    cover: Cover


class SectionPut(Struct, frozen=True, tag_field="change", tag="section.put"):
    """The newest section of an issue. When it is over, its overlaps are forgotten."""

    section: Section


class OverlapPut(Struct, frozen=True, tag_field="change", tag="overlap.put"):
    overlap: SectionOverlap


class TargetPut(Struct, frozen=True, tag_field="change", tag="target.put"):
    """A move of a branch is authorised, or known to have happened, or never will."""

    target: GlueTarget


class ObstructionPut(Struct, frozen=True, tag_field="change", tag="obstruction.put"):
    """Why a section is not glued; the oldest are forgotten."""

    obstruction: Obstruction


class SpecPut(Struct, frozen=True, tag_field="change", tag="spec.put"):
    """A spec is submitted."""

    spec: Spec


class SpecMoved(Struct, frozen=True, kw_only=True, tag_field="change", tag="spec.moved"):
    """A spec is claimed, given back, or has more jobs than before; its steps stay."""

    spec_id: str
    state: SpecState
    created: int
    attempts: int
    fence: int
    reason: str
    materialized_ms: int | None


class DirectivePut(Struct, frozen=True, tag_field="change", tag="directive.put"):
    """A route or a mark; an empty one stays, so that no older write comes back."""

    directive: Directive


class MemberPut(Struct, frozen=True, tag_field="change", tag="member.put"):
    member: Member


class MemberDropped(Struct, frozen=True, tag_field="change", tag="member.dropped"):
    node: str


class Designated(Struct, frozen=True, tag_field="change", tag="coordinator.designated"):
    """A coordinator is designated, or was heard of."""

    designation: Designation


class OperationAdmitted(Struct, frozen=True, tag_field="change", tag="operation.admitted"):
    """The line of the operation log. The other changes do what it says; with it the stamp of its
    author is used up."""

    operation: Operation
    digest: str = ""  # of the operation as its node sent it, where one did


class DependencyAdded(Struct, frozen=True, tag_field="change", tag="dependency.added"):
    dependency: Dependency


class DependencyDropped(Struct, frozen=True, tag_field="change", tag="dependency.dropped"):
    dependency: Dependency


class PausePut(Struct, frozen=True, tag_field="change", tag="pause.put"):
    """Work in a scope is withheld; the leases that end with it have changes of their own."""

    pause: ScopePause


class PauseDropped(Struct, frozen=True, tag_field="change", tag="pause.dropped"):
    scope: str


class PolicySet(Struct, frozen=True, tag_field="change", tag="policy.set"):
    policy: Policy


class ChecksSet(Struct, frozen=True, tag_field="change", tag="checks.set"):
    """Another check policy is in force, and no decision under the one before counts any more."""

    checks: CheckPolicy


class WitnessPut(Struct, frozen=True, tag_field="change", tag="witness.put"):
    witness: Witness


class DecisionPut(Struct, frozen=True, tag_field="change", tag="decision.put"):
    decision: Decision


class Answered(Struct, frozen=True, tag_field="change", tag="answered"):
    """The first answer to this request id is the row `seq`."""

    request_id: str
    action: str
    args_digest: str
    seq: int


Change = (
    IssueAdded
    | IssueSet
    | LeasePut
    | LeaseDropped
    | Lapsed
    | SubleasePut
    | SubleaseDropped
    | InstancePut
    | InstanceDropped
    | FiberPut
    | FiberDropped
    | HandoverPut
    | SessionPut
    | SessionDropped
    | FeaturePut
    | JobPut
    | JobQuarantined
    | JobsDue
    | LimitPut
    | LimitDrawn
    | LimitDropped
    | SchedulePut
    | ScheduleDropped
    | SpendPut
    | TallyPut
    | BudgetPut
    | BudgetDropped
    | CoverPut
    | SectionPut
    | OverlapPut
    | TargetPut
    | ObstructionPut
    | SpecPut
    | SpecMoved
    | DirectivePut
    | MemberPut
    | MemberDropped
    | Designated
    | OperationAdmitted
    | DependencyAdded
    | DependencyDropped
    | PausePut
    | PauseDropped
    | PolicySet
    | ChecksSet
    | WitnessPut
    | DecisionPut
    | Answered
)

# --- outcomes -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """Granted. `body` goes into the answer, the other members into the evidence."""

    changes: tuple[Change, ...] = ()
    body: dict[str, Any] = field(default_factory=dict)
    issue_id: str | None = None
    fence: int | None = None
    witnesses: tuple[str, ...] = ()  # what else the effect rests on, in order
    job_id: str | None = None
    spec_id: str | None = None
    resource: str | None = None  # what the fence is of, where it is no issue and no job


@dataclass(frozen=True, slots=True)
class Refused:
    """Not granted, for the first reason that applies; a check names the others too."""

    reason: Reason
    detail: str
    issue_id: str | None = None
    fence: int | None = None  # the fence that is current, where the refusal is about fences
    changes: tuple[Change, ...] = ()  # only the memory of the answer, and a result that came late
    job_id: str | None = None
    spec_id: str | None = None
    resource: str | None = None  # as above
    others: tuple[Reason, ...] = ()

    def about(self, **members: Any) -> "Refused":
        """The same refusal, with what the ladder does not know: whose it is."""
        return replace(self, **members)

    @property
    def classes(self) -> list[str]:
        return [reason.wire for reason in (self.reason, *self.others)]

    @property
    def diagnostic(self) -> str:
        failure = FAILURES[self.reason]
        return f"{self.detail}: {failure.meaning}; {failure.remedy}"


@dataclass(frozen=True, slots=True)
class Repeated:
    """Asked and answered before; the answer is the journal's row `seq`."""

    seq: int


Outcome = Accepted | Refused | Repeated

# --- changes as bytes ---------------------------------------------------------------------------

_DECODER = msgspec.json.Decoder(list[Change])


def encode_changes(changes: tuple[Change, ...]) -> bytes:
    """Canonical bytes, for the journal and its digests."""
    return msgspec.json.encode(changes, order="sorted")


def decode_changes(data: bytes) -> list[Change]:
    return _DECODER.decode(data)
