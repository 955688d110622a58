"""What a runner can have in its charge: an issue or a job, and how each is asked for.

                 issue                  job
    take         issue.claim            job.claim
    more time    issue.lease_renew      job.claim, with the fence
    done         issue.close            job.complete, with what was produced
    give back    issue.lease_release    job.yield, with the reason

A `Trade` is the table's column. It builds requests and reads answers; it asks nobody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from ..authority import SOCKET
from ..contracts import Reason, limits, rfc3339

Family = Literal["issue", "job"]
Ask = tuple[str, dict[str, Any]]  # an action and its payload
Record = dict[str, Any]  # an issue or a job, as answers show it

_OWN = ("ISSUE", "ASSIGNEE", "JOB", "KIND", "WORKER", "ARTIFACTS")


@dataclass(frozen=True, slots=True)
class Held:
    """The lease that is worked under."""

    name: str  # of the issue or job
    owner: str
    lease_id: str
    fence: int
    attempt: int
    family: Family = "issue"
    kind: str = ""  # of the job

    @property
    def resource(self) -> str:
        return f"{self.family}/{self.name}"

    @property
    def title(self) -> str:
        """As people are told of it, and as its output is filed."""
        return self.name if self.family == "issue" else self.resource

    def environment(self, state_dir: Path) -> dict[str, str]:
        """How a command is told what it works on."""
        folder = state_dir.absolute()
        own = {"UNDERSTUDY_ISSUE": self.name, "UNDERSTUDY_ASSIGNEE": self.owner}
        if self.family == "job":
            own = {"UNDERSTUDY_JOB": self.name, "UNDERSTUDY_WORKER": self.owner}
            own["UNDERSTUDY_KIND"] = self.kind
        return own | {
            "UNDERSTUDY_LEASE": self.lease_id,
            "UNDERSTUDY_FENCE": str(self.fence),
            "UNDERSTUDY_SOCKET": str(folder / SOCKET),
            "UNDERSTUDY_STATE_DIR": str(folder),
        }


def without_work(env: Mapping[str, str]) -> dict[str, str]:
    """An environment without what names another piece of work, whose lease is not ours."""
    foreign = {f"UNDERSTUDY_{name}" for name in _OWN}
    return {name: value for name, value in env.items() if name not in foreign}


class Trade(Protocol):
    """How one sort of work is taken, kept and laid down."""

    done: Reason  # that the work is over, and no longer anybody's

    def taking(self, name: str, owner: str, ttl_seconds: int | None, proof: Record) -> Ask:
        """A claim; with the proof of a lease (`leaseId` and `fence`) more time for its holder."""

    def record(self, answer: dict[str, Any]) -> Record:
        """What an answer shows of the work."""

    def held(self, record: Record) -> Held:
        """The lease that a record shows."""

    def deadline_ms(self, record: Record) -> int:
        """When that lease ends, by the authority's clock."""

    def renewing(self, held: Held, ttl_seconds: int) -> Ask: ...

    def finishing(self, held: Held, artifacts: Sequence[Record]) -> Ask: ...

    def returning(self, held: Held, reason: str) -> Ask: ...

    def showing(self, name: str) -> Ask: ...

    def finished_by(self, record: Record) -> str | None:
        """Who finished the work; None where it is not finished."""


class _Issues:
    done = Reason.ISSUE_CLOSED

    def taking(self, name: str, owner: str, ttl_seconds: int | None, proof: Record) -> Ask:
        payload: dict[str, Any] = {"id": name, "assignee": owner, **proof}
        if ttl_seconds is not None:
            payload["leaseTtlSeconds"] = ttl_seconds
        return "issue.lease_renew" if proof else "issue.claim", payload

    def record(self, answer: dict[str, Any]) -> Record:
        return dict(answer.get("issue") or {})

    def held(self, record: Record) -> Held:
        lease = record["lease"]
        proof = (lease["owner"], lease["leaseId"], lease["fence"])
        return Held(record["id"], *proof, max(1, record["attempts"]))

    def deadline_ms(self, record: Record) -> int:
        deadline_ms = rfc3339.parse_ms(record["lease"]["expiresAt"])
        assert deadline_ms is not None, "the authority says when"
        return deadline_ms

    def renewing(self, held: Held, ttl_seconds: int) -> Ask:
        return "issue.lease_renew", _issue_proof(held) | {"leaseTtlSeconds": ttl_seconds}

    def finishing(self, held: Held, artifacts: Sequence[Record]) -> Ask:
        assert not artifacts, "issues have none"
        return "issue.close", _issue_proof(held)

    def returning(self, held: Held, reason: str) -> Ask:  # noqa: ARG002 - an issue has notes
        return "issue.lease_release", _issue_proof(held)

    def showing(self, name: str) -> Ask:
        return "issue.show", {"id": name}

    def finished_by(self, record: Record) -> str | None:
        return record.get("assignee") if record.get("status") == "closed" else None


class _Jobs:
    done = Reason.JOB_COMPLETED

    def taking(self, name: str, owner: str, ttl_seconds: int | None, proof: Record) -> Ask:
        payload: dict[str, Any] = {"jobId": name, "worker": owner, **proof}
        if ttl_seconds is not None:
            payload["leaseDurationMs"] = ttl_seconds * 1000
        return "job.claim", payload

    def record(self, answer: dict[str, Any]) -> Record:
        return dict(answer.get("job") or {})

    def held(self, record: Record) -> Held:
        lease = record["lease"]
        proof = (lease["owner"], lease["leaseId"], lease["fence"])
        return Held(record["jobId"], *proof, max(1, record["attempts"]), "job", record["kind"])

    def deadline_ms(self, record: Record) -> int:
        return int(record["lease"]["deadlineMs"])

    def renewing(self, held: Held, ttl_seconds: int) -> Ask:
        return "job.claim", _job_proof(held) | {"leaseDurationMs": ttl_seconds * 1000}

    def finishing(self, held: Held, artifacts: Sequence[Record]) -> Ask:
        produced = {"outputArtifacts": list(artifacts)} if artifacts else {}
        return "job.complete", _job_proof(held) | produced

    def returning(self, held: Held, reason: str) -> Ask:
        return "job.yield", _job_proof(held) | {"reason": reason[: limits.REASON_LENGTH_MAX]}

    def showing(self, name: str) -> Ask:
        return "job.show", {"jobId": name}

    def finished_by(self, record: Record) -> str | None:
        return record.get("completedBy") if record.get("state") == "completed" else None


TRADES: Final[dict[Family, Trade]] = {"issue": _Issues(), "job": _Jobs()}


def _issue_proof(held: Held) -> dict[str, Any]:
    lease = {"leaseId": held.lease_id, "fence": held.fence}
    return {"id": held.name, "assignee": held.owner} | lease


def _job_proof(held: Held) -> dict[str, Any]:
    lease = {"leaseId": held.lease_id, "fence": held.fence}
    return {"jobId": held.name, "worker": held.owner} | lease
