"""What may be asked: one frozen shape per host action, decoded strictly.

`schemas/request.schema.json` says the same in JSON Schema; `tests/contracts/test_shapes.py` holds
the two against each other with generated and mutated documents. Members are camelCase on the wire.
"""

from .atoms import ID_PATTERN as ID_PATTERN
from .atoms import JOB_ID_PATTERN as JOB_ID_PATTERN
from .atoms import LINE_PATTERN as LINE_PATTERN
from .atoms import PLAIN_JOB_ID_PATTERN as PLAIN_JOB_ID_PATTERN
from .atoms import SCHEDULE_ID_PATTERN as SCHEDULE_ID_PATTERN
from .atoms import STEP_KEY_PATTERN as STEP_KEY_PATTERN
from .atoms import Id as Id
from .atoms import Mark as Mark
from .atoms import Mutation as Mutation
from .atoms import Name as Name
from .atoms import Nothing as Nothing
from .atoms import OfHolder as OfHolder
from .atoms import Ref as Ref
from .atoms import Shape as Shape
from .atoms import TermClaim as TermClaim
from .atoms import TermHeld as TermHeld
from .atoms import TimedHeld as TimedHeld
from .atoms import TimedMutation as TimedMutation
from .checks import CheckInstruction as CheckInstruction
from .checks import CheckResult as CheckResult
from .checks import DecideWitness as DecideWitness
from .checks import GateRef as GateRef
from .checks import ProjectRequired as ProjectRequired
from .checks import RecordWitness as RecordWitness
from .checks import RequiredDelta as RequiredDelta
from .checks import RunInstruction as RunInstruction
from .checks import VerifyDecision as VerifyDecision
from .checks import VerifyWitness as VerifyWitness
from .context import STRENGTH as STRENGTH
from .context import AgentPass as AgentPass
from .context import CallerStamp as CallerStamp
from .context import Context as Context
from .context import Transport as Transport
from .descent import AbortCover as AbortCover
from .descent import ClaimGlue as ClaimGlue
from .descent import CoverIssues as CoverIssues
from .descent import GlueSections as GlueSections
from .descent import HeldGlue as HeldGlue
from .descent import ObstructSection as ObstructSection
from .descent import OverlapFound as OverlapFound
from .descent import RecordOverlaps as RecordOverlaps
from .descent import RecordSection as RecordSection
from .descent import ReleaseGlue as ReleaseGlue
from .descent import SealGlue as SealGlue
from .descent import ShowDescent as ShowDescent
from .fiber import CancelFiber as CancelFiber
from .fiber import JoinFiber as JoinFiber
from .fiber import SpawnFiber as SpawnFiber
from .harness import AppendStep as AppendStep
from .harness import CheckFeatures as CheckFeatures
from .harness import CheckJoin as CheckJoin
from .harness import Ledger as Ledger
from .harness import LedgerFeature as LedgerFeature
from .harness import ObserveInstruction as ObserveInstruction
from .harness import OfWorker as OfWorker
from .harness import QuerySteps as QuerySteps
from .harness import WriteFeature as WriteFeature
from .harness import WriteSession as WriteSession
from .issue import AddDependency as AddDependency
from .issue import AddIssue as AddIssue
from .issue import Checkpoint as Checkpoint
from .issue import CloseIssue as CloseIssue
from .issue import DiscoverIssue as DiscoverIssue
from .issue import HandOverIssue as HandOverIssue
from .issue import ImportIssues as ImportIssues
from .issue import ListIssues as ListIssues
from .issue import RecordedDependency as RecordedDependency
from .issue import RecordedIssue as RecordedIssue
from .issue import RecordedLease as RecordedLease
from .issue import RemoveDependency as RemoveDependency
from .issue import ReplaceDependency as ReplaceDependency
from .issue import ShowIssue as ShowIssue
from .issue import UpdateIssue as UpdateIssue
from .job import AdmitOperations as AdmitOperations
from .job import Artifact as Artifact
from .job import ClaimJob as ClaimJob
from .job import ClearLimit as ClearLimit
from .job import CompleteJob as CompleteJob
from .job import DesignateCoordinator as DesignateCoordinator
from .job import ExpireJob as ExpireJob
from .job import HeldJob as HeldJob
from .job import ListJobs as ListJobs
from .job import ListNodes as ListNodes
from .job import RegisterNode as RegisterNode
from .job import Roster as Roster
from .job import ScheduleJob as ScheduleJob
from .job import SetLimit as SetLimit
from .job import SetRoute as SetRoute
from .job import ShowJob as ShowJob
from .job import SignedOperation as SignedOperation
from .job import UnregisterNode as UnregisterNode
from .job import YieldJob as YieldJob
from .lease import Break as Break
from .lease import ClaimIssue as ClaimIssue
from .lease import ClaimNext as ClaimNext
from .lease import CloseInstance as CloseInstance
from .lease import GrantSublease as GrantSublease
from .lease import OpenInstance as OpenInstance
from .lease import Reconcile as Reconcile
from .lease import ReleaseIssue as ReleaseIssue
from .lease import Renew as Renew
from .lease import RevokeSublease as RevokeSublease
from .ruling import RouteBinding as RouteBinding
from .ruling import SetPolicy as SetPolicy
from .schedule import ClearSchedule as ClearSchedule
from .schedule import FireSchedule as FireSchedule
from .schedule import JobTemplate as JobTemplate
from .schedule import SetSchedule as SetSchedule
from .schedule import SpecTemplate as SpecTemplate
from .spec import ClaimDispatch as ClaimDispatch
from .spec import ClaimSpec as ClaimSpec
from .spec import CompleteDispatch as CompleteDispatch
from .spec import DispatchRoster as DispatchRoster
from .spec import HeldDispatch as HeldDispatch
from .spec import HeldSpec as HeldSpec
from .spec import ListSpecs as ListSpecs
from .spec import MaterializeSpec as MaterializeSpec
from .spec import ReleaseDispatch as ReleaseDispatch
from .spec import ReleaseSpec as ReleaseSpec
from .spec import ShowSpec as ShowSpec
from .spec import SpecStep as SpecStep
from .spec import SubmitSpec as SubmitSpec
from .spend import ClearBudget as ClearBudget
from .spend import ReportSpend as ReportSpend
from .spend import SetBudget as SetBudget
from .spend import ShowSpend as ShowSpend
from .steering import AskApproval as AskApproval
from .steering import CancelIssue as CancelIssue
from .steering import CancelJob as CancelJob
from .steering import ClearPause as ClearPause
from .steering import GiveApproval as GiveApproval
from .steering import PrioritizeIssue as PrioritizeIssue
from .steering import RetryIssue as RetryIssue
from .steering import RetryJob as RetryJob
from .steering import SetPause as SetPause

SHAPES: dict[str, type[Shape]] = {
    "issue.claim": ClaimIssue,
    "issue.claim_next": ClaimNext,
    "issue.lease_renew": Renew,
    "issue.lease_release": ReleaseIssue,
    "issue.lease_reconcile": Reconcile,
    "issue.lease_break": Break,
    "issue.lease_projection": Nothing,
    "sublease.grant": GrantSublease,
    "sublease.revoke": RevokeSublease,
    "instance.open": OpenInstance,
    "instance.close": CloseInstance,
    "fiber.spawn": SpawnFiber,
    "fiber.join": JoinFiber,
    "fiber.cancel": CancelFiber,
    "issue.add": AddIssue,
    "issue.update": UpdateIssue,
    "issue.close": CloseIssue,
    "issue.discover": DiscoverIssue,
    "issue.handover": HandOverIssue,
    "issue.import": ImportIssues,
    "issue.list": ListIssues,
    "issue.show": ShowIssue,
    "issue.ready": Nothing,
    "issue.blocked": Nothing,
    "issue.check": Nothing,
    "issue.backend_status": Nothing,
    "dep.add": AddDependency,
    "dep.remove": RemoveDependency,
    "dep.replace": ReplaceDependency,
    "dep.diagnostics": Nothing,
    "harness.session.read": OfWorker,
    "harness.session.write": WriteSession,
    "harness.session.bootstrap": OfWorker,
    "harness.feature.read": OfWorker,
    "harness.feature.write": WriteFeature,
    "harness.feature.check": CheckFeatures,
    "harness.feature.next": OfWorker,
    "harness.trajectory.append": AppendStep,
    "harness.trajectory.query": QuerySteps,
    "harness.join.check": CheckJoin,
    "observe.latest": Nothing,
    "observe.needs_attention": Nothing,
    "observe.instruction": ObserveInstruction,
    "observe.projection": Nothing,
    "instruction.check": CheckInstruction,
    "instruction.run": RunInstruction,
    "required.projection": ProjectRequired,
    "required.delta": RequiredDelta,
    "required.gate_ref": GateRef,
    "required.witness": RecordWitness,
    "required.witness_verify": VerifyWitness,
    "required.witness_decide": DecideWitness,
    "required.decision_verify": VerifyDecision,
    "coherence.check": Nothing,
    "job.schedule": ScheduleJob,
    "job.claim": ClaimJob,
    "job.complete": CompleteJob,
    "job.yield": YieldJob,
    "job.expire": ExpireJob,
    "job.admit": AdmitOperations,
    "job.show": ShowJob,
    "job.roster": Roster,
    "route.set": SetRoute,
    "coordinator.designate": DesignateCoordinator,
    "node.register": RegisterNode,
    "job.list": ListJobs,
    "route.list": Nothing,
    "node.list": ListNodes,
    "node.unregister": UnregisterNode,
    "limit.set": SetLimit,
    "limit.clear": ClearLimit,
    "limit.list": Nothing,
    "schedule.set": SetSchedule,
    "schedule.clear": ClearSchedule,
    "schedule.fire": FireSchedule,
    "schedule.list": Nothing,
    "policy.set": SetPolicy,
    "world.route_binding": RouteBinding,
    "spec.submit": SubmitSpec,
    "spec.claim": ClaimSpec,
    "spec.materialize": MaterializeSpec,
    "spec.release": ReleaseSpec,
    "spec.show": ShowSpec,
    "spec.list": ListSpecs,
    "dispatch.claim": ClaimDispatch,
    "dispatch.complete": CompleteDispatch,
    "dispatch.release": ReleaseDispatch,
    "dispatch.roster": DispatchRoster,
    "issue.cancel": CancelIssue,
    "issue.retry": RetryIssue,
    "issue.prioritize": PrioritizeIssue,
    "job.cancel": CancelJob,
    "job.retry": RetryJob,
    "pause.set": SetPause,
    "pause.clear": ClearPause,
    "pause.list": Nothing,
    "approval.ask": AskApproval,
    "approval.give": GiveApproval,
    "spend.report": ReportSpend,
    "spend.show": ShowSpend,
    "budget.set": SetBudget,
    "budget.clear": ClearBudget,
    "budget.list": Nothing,
    "descent.cover": CoverIssues,
    "descent.abort": AbortCover,
    "descent.section": RecordSection,
    "descent.overlap": RecordOverlaps,
    "descent.glue": GlueSections,
    "descent.seal": SealGlue,
    "descent.obstruct": ObstructSection,
    "descent.show": ShowDescent,
    "glue.claim": ClaimGlue,
    "glue.release": ReleaseGlue,
}
