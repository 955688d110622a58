"""What can be held, and how each kind of work is spelled: an issue, a job, a spec, a dispatch, and
the glue of a branch.

               issue                job           spec             dispatch           glue
    take       issue.claim          job.claim     spec.claim       dispatch.claim     glue.claim
    more time  issue.lease_renew    job.claim     spec.claim       dispatch.claim     glue.claim
    done       issue.close          job.complete  (its last step)  dispatch.complete  glue.release
    give back  issue.lease_release  job.yield     spec.release     dispatch.release   glue.release
    look       issue.show           job.show      spec.show        job.show           descent.show

A dispatch is one of a job. A claim that shows a lease asks for more time. A `WorkKind` is one
column of the table: it builds requests and reads answers, and sends nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ...authority import SOCKET
from ...authority.journal import origin
from ...contracts import TRACEPARENT, Reason, SpanContext, limits, rfc3339, term_context

Family = Literal["issue", "job", "spec", "dispatch", "glue"]
Ask = tuple[str, dict[str, Any]]  # an action and its payload
Record = dict[str, Any]  # an issue, a job, a spec or a branch, as answers show it

_OWN = (
    "ISSUE", "ASSIGNEE", "JOB", "KIND", "WORKER", "GLUE", "GLUER", "ARTIFACTS", "SPEND_FILE",
    "SECTION_FILE", "WORKTREE", "BRANCH", "BASE",
)  # fmt: skip
_REASONED = ("job", "spec", "dispatch")  # what remembers why it was given back
_SECRETS = ("HTTP_TOKEN", "JOURNAL")  # what opens the gateway, and the database with its password


@dataclass(frozen=True, slots=True)
class HeldLease:
    """Who holds what, as every request under the lease shows it."""

    name: str  # of the issue, job, spec or branch
    owner: str
    lease_id: str
    fence: int
    attempt: int = 0  # 0 where it is not known
    family: Family = "issue"
    kind: str = ""  # of the job
    timeout_ms: int = 0  # how long it may be held; 0 where the authority sets no bound

    @property
    def resource(self) -> str:
        return f"{self.family}/{self.name}"

    @property
    def title(self) -> str:
        """As people are told of it, and as its output is filed."""
        return self.name if self.family == "issue" else self.resource

    def span(self, state_dir: Path) -> SpanContext | None:
        """The span of this term; None where the journal cannot be read now."""
        begun = origin.of_state_dir(state_dir)
        return term_context(begun, self.resource, self.fence) if begun else None

    def environment(self, state_dir: Path) -> dict[str, str]:
        """How a command is told what it works on, and which span it is a part of."""
        folder, role = state_dir.absolute(), WORK[self.family].role
        own = {"UNDERSTUDY_KIND": self.kind} if self.family == "job" else {}
        if (span := self.span(folder)) is not None:
            own[TRACEPARENT] = span.traceparent
        return own | {
            f"UNDERSTUDY_{self.family.upper()}": self.name,
            f"UNDERSTUDY_{role.upper()}": self.owner,
            "UNDERSTUDY_LEASE": self.lease_id,
            "UNDERSTUDY_FENCE": str(self.fence),
            "UNDERSTUDY_SOCKET": str(folder / SOCKET),
            "UNDERSTUDY_STATE_DIR": str(folder),
        }


def for_worker(env: Mapping[str, str]) -> dict[str, str]:
    """An environment without what names another piece of work, and without secrets of ours.

    The user's own secrets stay: agents need their keys.
    """
    hidden = {f"UNDERSTUDY_{name}" for name in (*_OWN, *_SECRETS)}
    return {name: value for name, value in env.items() if name not in hidden}


@dataclass(frozen=True, slots=True)
class WorkKind:
    """The words for one kind of work."""

    family: Family
    subject: str  # the member of a request that names the work
    role: str  # the member that names who holds it
    record: str  # the member of an answer that shows the work
    lease: str  # the member of the work that shows its lease
    claims: str  # actions, as in the table above
    renews: str
    completes: str
    gives_back: str
    shows: str
    settled: frozenset[str]  # classes that say that the work is done, by whomever
    finished: tuple[str, str, str] = ("", "", "")  # the member and its word; who did it

    # --- requests -------------------------------------------------------------------------------

    def claim(self, name: str, owner: str, ttl_ms: int | None, proof: Record | None = None) -> Ask:
        """A claim; with the proof of a lease (`leaseId` and `fence`) more time for its holder."""
        action = self.renews if proof else self.claims
        return action, {self.subject: name, self.role: owner} | (proof or {}) | self._time(ttl_ms)

    def renewal(self, held: HeldLease, ttl_ms: int) -> Ask:
        return self.renews, self.proof(held) | self._time(ttl_ms)

    def completion(
        self, held: HeldLease, artifacts: Sequence[Mapping[str, Any]] | None = None
    ) -> Ask:
        """With what was produced, where there is something to say of that: the artefacts of a job,
        or the section of an issue, which is closed when it is glued."""
        if self.family == "issue" and artifacts:
            return "descent.section", self.proof(held) | dict(artifacts[0])
        if artifacts is None or self.family == "issue":
            return self.completes, self.proof(held)
        produced = {"outputArtifacts": [dict(each) for each in artifacts]}
        return self.completes, self.proof(held) | produced

    def release(self, held: HeldLease, reason: str, *, handed_back: bool = False) -> Ask:
        """An issue has notes, and others remember the reason. Issues and jobs have attempts."""
        said: Record = {}
        if self.family in _REASONED:
            said["reason"] = reason[: limits.REASON_LENGTH_MAX]
        if handed_back and self.family in ("issue", "job"):
            said["handedBack"] = True
        return self.gives_back, self.proof(held) | said

    def look(self, name: str) -> Ask:
        return self.shows, {self.subject: name}

    def proof(self, held: HeldLease) -> Record:
        """What every request under a lease shows."""
        lease = {"leaseId": held.lease_id, "fence": held.fence}
        return {self.subject: held.name, self.role: held.owner} | lease

    def _time(self, ttl_ms: int | None) -> Record:
        if ttl_ms is None:
            return {}
        if self.family == "issue":
            return {"leaseTtlSeconds": ttl_ms // 1_000}
        return {"leaseDurationMs": ttl_ms}

    # --- answers --------------------------------------------------------------------------------

    def shown(self, answer: Mapping[str, Any]) -> Record:
        """What an answer shows of the work."""
        return dict(answer.get(self.record) or {})

    def held(self, record: Record) -> HeldLease:
        """The lease that a record shows."""
        lease = record[self.lease]
        proof = (lease["owner"], lease["leaseId"], lease["fence"])
        # What has no attempts is told apart by its fences, which grow as well.
        attempt, kind = max(1, record.get("attempts", lease["fence"])), record.get("kind", "")
        timeout_ms = record.get("timeoutMs", 0)
        return HeldLease(record[self.subject], *proof, attempt, self.family, kind, timeout_ms)

    def ttl_ms(self, answer: Mapping[str, Any]) -> int:
        """How long the lease in an answer lasts, from when it was decided."""
        lease = self.shown(answer)[self.lease]
        deadline_ms = lease.get("deadlineMs") or rfc3339.parse_ms(lease["expiresAt"])
        assert deadline_ms is not None, "the authority says when"
        return int(deadline_ms) - int(answer["stamp"]["wallMs"])

    def finished_by(self, record: Record) -> str | None:
        """Who finished the work; None where it is not finished."""
        member, word, by = self.finished
        return record.get(by) if record.get(member) == word else None


def _wires(*reasons: Reason) -> frozenset[str]:
    return frozenset(each.wire for each in reasons)


# fmt: off
WORK: Final[dict[Family, WorkKind]] = {each.family: each for each in (
    WorkKind(
        "issue", "id", "assignee", "issue", "lease",
        "issue.claim", "issue.lease_renew", "issue.close", "issue.lease_release", "issue.show",
        _wires(Reason.ISSUE_CLOSED), ("status", "closed", "assignee"),
    ),
    WorkKind(
        "job", "jobId", "worker", "job", "lease",
        "job.claim", "job.claim", "job.complete", "job.yield", "job.show",
        _wires(Reason.JOB_COMPLETED), ("state", "completed", "completedBy"),
    ),
    WorkKind(
        "spec", "specId", "runner", "spec", "lease",
        "spec.claim", "spec.claim", "spec.materialize", "spec.release", "spec.show",
        _wires(Reason.SPEC_MATERIALIZED),
    ),
    WorkKind(
        "dispatch", "jobId", "dispatcher", "job", "dispatchLease",
        "dispatch.claim", "dispatch.claim", "dispatch.complete", "dispatch.release", "job.show",
        _wires(Reason.JOB_DISPATCHED, Reason.JOB_COMPLETED, Reason.JOB_NOT_DISPATCHABLE),
    ),
    WorkKind(
        "glue", "target", "gluer", "glue", "lease",
        "glue.claim", "glue.claim", "glue.release", "glue.release", "descent.show",
        _wires(),
    ),
)}
# fmt: on
