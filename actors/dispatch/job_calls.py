"""The dialect of jobs: the dispatcher's orders as actions of the job lane, and what answers mean.

    look      job.roster, what is pending for us and what is overdue
    expire    job.expire, before a lapsed job can be claimed again
    claim     job.claim, and job.show for the worker
    renew     job.claim again, with the fence
    close     job.complete, with what was produced
    release   job.yield, with the reason

All workers of a node claim under the node's name, since that is what routes go by. Each job has its
own lease and fence; among ourselves a worker still has a name of its own.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace

from ...contracts import PRIORITY_DEFAULT, Reason, RetryPolicy, limits, retry
from ..leasing.outstanding import Answer
from ..leasing.work_kind import WORK, WorkKind
from . import orders
from .dialect import Call, Dialect, named
from .escalation import BLOCKED
from .kinds import Kinds
from .orders import Ask, Event
from .worklist import LOST


@dataclass(frozen=True)  # without slots, which know no super()
class Jobs(Dialect):
    """What one node says and hears. Of all trees on one authority only one has this name."""

    node: str
    kinds: Kinds
    kind: ClassVar[WorkKind] = WORK["job"]
    absent: ClassVar[Reason] = Reason.JOB_NOT_FOUND

    def owner(self, worker: str) -> str:  # noqa: ARG002 - all have the node's name
        return self.node

    # --- how it is spelled ----------------------------------------------------------------------

    def calls_of(self, ask: Ask) -> list[Call]:
        if isinstance(ask, orders.Release):
            # Who takes over in the middle may say it with another reason: another request.
            named_after = hashlib.sha256(ask.reason.encode()).hexdigest()[:8]
            ask = dataclasses.replace(ask, token=f"{ask.token}.{named_after}")
        return super().calls_of(ask)

    def _calls_of(self, ask: Ask) -> list[Call]:
        match ask:
            case orders.AskDiagnostics():
                return []  # a circle of jobs is refused when it is scheduled
            case orders.AskReady():
                asked = [self._roster("pending", kind) for kind in self.kinds.asked()]
                return [*asked, self._roster("overdue")]
            case orders.AskHeld():
                return [self._roster("claimed")]
            case orders.CloseWork(token, holder, artifacts):
                return [named(token, *self.kind.completion(self.spelled(holder), artifacts))]
            case orders.Expire(token, job_id, claim_id, fence):
                lapsed = {"jobId": job_id, "worker": self.node, "claim": claim_id, "fence": fence}
                return [named(token, "job.expire", lapsed)]
            case _:
                raise AssertionError("no job is escalated")

    def _roster(self, query: str, kind: str | None = None) -> Call:
        page = {"query": query, "limit": limits.ROSTER_PAGE_MAX, "worker": self.node}
        return Call("job.roster", page if kind is None else page | {"kind": kind})

    # --- what it means --------------------------------------------------------------------------

    def _event(self, ask: Ask, answers: Sequence[Answer]) -> Event:
        match ask:
            case orders.AskDiagnostics(token):
                return orders.Diagnosed(token, (), ())
            case orders.AskReady(token):
                *pending, overdue = answers
                return self._listed(token, pending, overdue)
            case orders.AskHeld(token):
                leases = tuple(self._mine(answers[0], job) for job in answers[0]["jobs"])
                return orders.Held(token, leases, is_whole="cursor" not in answers[0])
            case orders.AskIssues(token):
                return orders.Shown(token, tuple(_story(each["job"]) for each in answers))
            case _:
                return super()._event(ask, answers)

    def _listed(self, token: str, pending: Sequence[Answer], overdue: Answer) -> orders.Listed:
        """Urgent first, then the oldest, of whatever kind."""
        found = [job for page in pending for job in page["jobs"]]
        found.sort(key=_rank)
        lapses = [
            orders.Lapse(job["jobId"], job["lease"]["claim"], job["lease"]["fence"])
            for job in overdue["jobs"]
            if self.kinds.command_of(job["kind"]) is not None
        ]
        listings = (
            orders.Listing(each["jobId"], each["attempts"], "", "", excused=each.get("excused", 0))
            for each in found
        )
        is_whole = not any("cursor" in page for page in pending)
        coming = [
            max(0, page["claimableMs"] - page["stamp"]["wallMs"])
            for page in pending
            if "claimableMs" in page
        ]
        more_ms = min(coming, default=None)
        return orders.Listed(token, tuple(listings), (), is_whole, tuple(lapses), more_ms)

    def _mine(self, answer: Answer, job: Answer) -> orders.HeldIssue:
        held = self.kind.held(job)
        remaining_ms = job["lease"]["deadlineMs"] - answer["stamp"]["wallMs"]
        holder = dataclasses.replace(held, owner=f"{self.node}/{held.fence}")
        held_ms = answer["stamp"]["wallMs"] - job["lease"]["grantedMs"]
        known = ((), job.get("excused", 0), held_ms, job["kind"])
        return orders.HeldIssue(holder, job["attempts"], remaining_ms, *known)


def policy_of(policy: RetryPolicy) -> RetryPolicy:
    """How jobs are tried again: as often as the authority grants them, with the policy's pauses.

    A class that is never to be tried again has no pause of its own, and gets that of a lost worker.
    """
    pause = policy.rules[LOST[0]].backoff_class

    def patient(rule: retry.Rule) -> retry.Rule:
        return replace(
            rule,
            max_attempts=limits.JOB_ATTEMPTS_MAX,
            backoff_class=pause if rule.backoff_class == "none" else rule.backoff_class,
            escalation_action=BLOCKED,
        )

    rules = {name: patient(rule) for name, rule in policy.rules.items()}
    return replace(policy, default=patient(policy.default), rules=rules)


def _rank(job: Answer) -> tuple[int, int, str]:
    return job.get("priority", PRIORITY_DEFAULT), job["scheduledMs"], job["jobId"]


def _story(job: Answer) -> orders.Story:
    """When it was given back is not told, so that it rests from when we hear of it."""
    status = "open" if job["state"] == "pending" else job["state"]
    known = {"quiet_ms": 0, "is_lapsed": False, "excused": job.get("excused", 0)}
    return orders.Story(job["jobId"], status, job["attempts"], **known)
