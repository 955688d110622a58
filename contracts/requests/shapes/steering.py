"""Payloads of operators who steer work: cancel, retry, pause, approve, another priority.

`by_name` is the operator's own name, for the evidence and for those who look later.
"""

from typing import Literal

from .atoms import Id, JobId, Mutation, Name, OfHolder, Priority, ReasonText, Scope


class Steered(Mutation, frozen=True, kw_only=True):
    reason: ReasonText = ""
    by_name: Name = ""


class CancelIssue(Steered, frozen=True, kw_only=True):
    id: Id


class RetryIssue(Steered, frozen=True, kw_only=True):
    id: Id


class CancelJob(Steered, frozen=True, kw_only=True):
    job_id: JobId


class RetryJob(Steered, frozen=True, kw_only=True):
    job_id: JobId


class PrioritizeIssue(Mutation, frozen=True, kw_only=True):
    """Another priority, whether or not the issue is leased."""

    id: Id
    priority: Priority


class SetPause(Steered, frozen=True, kw_only=True):
    """With `now` the leases in the scope end as well, handed back in order."""

    scope: Scope = "*"
    now: bool = False


class ClearPause(Mutation, frozen=True, kw_only=True):
    scope: Scope = "*"


class AskApproval(OfHolder, frozen=True, kw_only=True):
    """The work waits for a person from now on; its holder gives it back by asking."""

    reason: ReasonText = ""


class GiveApproval(Steered, frozen=True, kw_only=True):
    """About one piece of work: an issue or a job."""

    id: Id | None = None
    job_id: JobId | None = None
    decision: Literal["approved", "rejected"]
