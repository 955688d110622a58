"""The dialect of jobs: the dispatcher's orders as actions of the job lane, and what answers mean.

    look      job.roster, what is pending for us and what is overdue
    expire    job.expire, before a lapsed job can be claimed again
    claim     job.claim, and job.show for whoever does the work
    renew     job.claim again, with the fence
    close     job.complete, with what was produced
    release   job.yield, with the reason

All workers of a node claim under the node's name, since that is what routes go by. Each job has its
own lease and fence; among ourselves a worker still has a name of its own.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from msgspec.structs import replace

from ...contracts import Reason, RetryPolicy, limits, retry
from . import orders
from .answers import Answer, Call, class_of, refusal, renewed
from .escalation import BLOCKED
from .kinds import Kinds
from .orders import Ask, Event, Holder
from .search import LOST


@dataclass(frozen=True, slots=True)
class Jobs:
    """What one node says and hears. Of all trees on one authority only one has this name."""

    node: str
    kinds: Kinds

    # --- how it is spelled ----------------------------------------------------------------------

    def calls_of(self, ask: Ask) -> list[Call]:
        """The host actions that an effect stands for; `requestId` makes a change happen once."""
        match ask:
            case orders.AskDiagnostics():
                return []  # a circle of jobs is refused when it is scheduled
            case orders.AskReady():
                asked = [self._roster("pending", kind) for kind in self.kinds.asked()]
                return [*asked, self._roster("overdue")]
            case orders.AskHeld():
                return [self._roster("claimed")]
            case orders.AskIssues(_, job_ids):
                return [Call("job.show", {"jobId": each}) for each in job_ids]
            case orders.Claim(token, job_id, _, ttl_seconds):
                claim = {"jobId": job_id, "worker": self.node, "requestId": token}
                return [
                    Call("job.claim", claim | {"leaseDurationMs": ttl_seconds * 1000}),
                    Call("job.show", {"jobId": job_id}),
                ]
            case orders.RenewMany(renewals):
                return [self._renew(each) for each in renewals]
            case orders.Close(token, holder, artifacts):
                left = {"outputArtifacts": [dict(each) for each in artifacts]}
                return [Call("job.complete", self._held(holder, token) | left)]
            case orders.Release(token, holder, reason):
                # Who takes over in the middle may say it with another reason: another request.
                named = f"{token}.{hashlib.sha256(reason.encode()).hexdigest()[:8]}"
                return [Call("job.yield", self._held(holder, named) | {"reason": reason})]
            case orders.Expire(token, job_id, claim_id, fence):
                lapsed = {"jobId": job_id, "worker": self.node, "claim": claim_id, "fence": fence}
                return [Call("job.expire", lapsed | {"requestId": token})]
            case orders.Discover() | orders.Amend():
                raise AssertionError("nobody escalates a job")
            case _:
                assert_never(ask)

    def _roster(self, query: str, kind: str | None = None) -> Call:
        page = {"query": query, "limit": limits.ROSTER_PAGE_MAX, "worker": self.node}
        return Call("job.roster", page if kind is None else page | {"kind": kind})

    def _renew(self, renewal: orders.Renewal) -> Call:
        held = self._held(renewal.holder, renewal.token)
        return Call("job.claim", held | {"leaseDurationMs": renewal.ttl_seconds * 1000})

    def _held(self, holder: Holder, token: str) -> dict[str, Any]:
        return {
            "jobId": holder.issue_id,
            "worker": self.node,
            "leaseId": holder.lease_id,
            "fence": holder.fence,
            "requestId": token,
        }

    # --- what it means --------------------------------------------------------------------------

    def events_of(self, ask: Ask, answers: Sequence[Answer]) -> list[Event]:
        """What the answers to `calls_of` mean."""
        if isinstance(ask, orders.RenewMany):
            return renewed(ask, answers)
        if isinstance(ask, orders.AskIssues):
            answers = [each for each in answers if class_of(each) != Reason.JOB_NOT_FOUND.wire]
        refused = refusal(ask.token, answers)
        if refused is not None:
            return [refused]
        if isinstance(ask, orders.Claim) and not _is_current(*answers):
            detail = "it was granted, and lost since"
            return [orders.Refused(ask.token, Reason.FENCE_STALE.wire, detail)]
        return [self._event(ask, answers)]

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
            case orders.Claim(token, _, assignee):
                job = answers[0]["job"]
                holder = _holder(job, assignee)
                return orders.Claimed(token, holder, job["attempts"], answers[1]["job"])
            case orders.Close(token) | orders.Release(token) | orders.Expire(token):
                return orders.Settled(token)
            case orders.RenewMany() | orders.Discover() | orders.Amend():
                raise AssertionError("renewals have an event for all, and nobody escalates a job")
            case _:
                assert_never(ask)

    def _listed(self, token: str, pending: Sequence[Answer], overdue: Answer) -> orders.Listed:
        """The oldest first, of whatever kind."""
        found = [job for page in pending for job in page["jobs"]]
        found.sort(key=lambda job: (job["scheduledMs"], job["jobId"]))
        lapses = [
            orders.Lapse(job["jobId"], job["lease"]["claim"], job["lease"]["fence"])
            for job in overdue["jobs"]
            if self.kinds.command_of(job["kind"]) is not None
        ]
        listings = (orders.Listing(each["jobId"], each["attempts"], "", "") for each in found)
        is_whole = not any("cursor" in page for page in pending)
        return orders.Listed(token, tuple(listings), (), is_whole, tuple(lapses))

    def _mine(self, answer: Answer, job: Answer) -> orders.HeldIssue:
        holder = _holder(job, f"{self.node}/{job['lease']['fence']}")
        remaining_ms = job["lease"]["deadlineMs"] - answer["stamp"]["wallMs"]
        return orders.HeldIssue(holder, job["attempts"], remaining_ms)


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


def _is_current(claim: Answer, show: Answer) -> bool:
    """Whether a grant stands: a claim that is asked again gets its first answer, however old."""
    lease = show["job"].get("lease", {})
    return bool(lease.get("fence") == claim["job"]["lease"]["fence"])


def _story(job: Answer) -> orders.Story:
    """When it was given back is not told, so that it rests from when we hear of it."""
    status = "open" if job["state"] == "pending" else job["state"]
    return orders.Story(job["jobId"], status, job["attempts"], quiet_ms=0, is_lapsed=False)


def _holder(job: Answer, worker: str) -> Holder:
    return Holder(job["jobId"], worker, job["lease"]["leaseId"], job["lease"]["fence"])
