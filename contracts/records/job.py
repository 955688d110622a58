"""The life of a job, as one table, and what the authority remembers about jobs and their mesh.

    pending --claim--> claimed --complete--> completed
       ^                  |  \\--claim (by its holder)--> claimed
       \\--yield, expire, fault--/

    pending, claimed --cancel--> cancelled        pending --retry--> pending, with attempts anew

`waiting` and `blocked` are seen, not written: a pending job waits while an operation that it
depends on is missing or its time has not come, and is blocked once it has waited too long for an
operation or used up its attempts.
"""

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from .. import canonical, limits
from ..requests.shapes import Artifact, CallerStamp
from .records import Issue
from .spec import Dispatched


class JobState(StrEnum):
    UNSCHEDULED = "unscheduled"
    PENDING = "pending"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    WAITING = "waiting"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


class JobMove(StrEnum):
    """What an operation does to a job; the value is the operation's kind on the log."""

    SCHEDULE = "ScheduleJob"
    CLAIM = "ClaimWork"
    COMPLETE = "CompleteJob"
    YIELD = "YieldWork"
    EXPIRE = "ExpireWork"
    FAULT = "IntegrityFault"  # its claim's stamp was used for something else
    CANCEL = "CancelJob"
    RETRY = "RetryJob"
    RULE = "RuleJob"  # a person approves or rejects it


_S, _M = JobState, JobMove

JOB_TRANSITIONS: dict[tuple[JobState, JobMove], JobState] = {
    (_S.UNSCHEDULED, _M.SCHEDULE): _S.PENDING,
    (_S.PENDING, _M.CLAIM): _S.CLAIMED,
    (_S.CLAIMED, _M.CLAIM): _S.CLAIMED,  # its holder's, before the deadline: a renewal
    (_S.CLAIMED, _M.COMPLETE): _S.COMPLETED,
    (_S.CLAIMED, _M.YIELD): _S.PENDING,
    (_S.CLAIMED, _M.EXPIRE): _S.PENDING,
    (_S.CLAIMED, _M.FAULT): _S.PENDING,
    (_S.PENDING, _M.CANCEL): _S.CANCELLED,
    (_S.CLAIMED, _M.CANCEL): _S.CANCELLED,
    (_S.PENDING, _M.RETRY): _S.PENDING,
    (_S.PENDING, _M.RULE): _S.PENDING,
}

PRIORITY_DEFAULT = 2  # as that of issues
SNAPSHOT_TYPE = "likewise.inference.snapshot"


class Quarantine(Struct, frozen=True, kw_only=True):
    """A result that came after the deadline: without an owner, until a later holder adopts it."""

    worker: str
    fence: int
    received_ms: int
    artifacts: tuple[Artifact, ...]


class JobOrder(Struct, frozen=True, kw_only=True):
    """When a job is to be done, before which others, and how long one term of it may last."""

    priority: int = PRIORITY_DEFAULT  # the smaller, the sooner
    run_at_ms: int = 0  # not before
    timeout_ms: int = 0  # 0: as its kind's limit says


_PLAIN = JobOrder()


class JobRecord(Struct, frozen=True, kw_only=True):
    """One scheduled piece of work. Its lease, while it is claimed, lies on `job/<id>`."""

    job_id: str
    kind: str
    payload: str = "{}"  # canonical JSON, kept as it came
    author: str
    causal_deps: tuple[str, ...] = ()
    scheduled_seq: int
    scheduled_ms: int
    state: JobState = JobState.PENDING
    attempts: int = 0  # grants so far; counted at the claim
    fence: int = 0  # of the last grant
    claim: str = ""  # the operation that granted or last renewed the lease
    claim_stamp: CallerStamp | None = None  # the author's own, where the claim came with one
    claim_digest: str = ""  # of the operation as it came, then
    last_op: str
    reason: str = ""  # why it was given back the last time
    completed_ms: int | None = None
    completed_by: str = ""
    artifacts: tuple[Artifact, ...] = ()
    quarantine: Quarantine | None = None
    spec_id: str = ""  # of the step that it was made of, if any
    step_key: str = ""
    dispatched: Dispatched | None = None
    # Rows of before have none of these.
    excused: int | UnsetType = UNSET  # of the attempts
    order: JobOrder | UnsetType = UNSET  # nor has any where nothing was said about it
    approval: str | UnsetType = UNSET
    steered_by: str | UnsetType = UNSET  # who cancelled, approved or rejected it, or tried it again

    @property
    def ordered(self) -> JobOrder:
        return _PLAIN if self.order is UNSET else self.order


def excused_of(record: Issue | JobRecord) -> int:
    """How many of its attempts count for nothing: handed back in order, or forgiven by a person."""
    return 0 if record.excused is UNSET else record.excused


TERMINAL = (JobState.COMPLETED, JobState.CANCELLED)


def is_spent(job: JobRecord) -> bool:
    """Whether it was tried as often as it may be."""
    return job.attempts - excused_of(job) >= limits.JOB_ATTEMPTS_MAX


class Directive(Struct, frozen=True, kw_only=True):
    """What the owner said about a kind, or about all kinds with a prefix."""

    kind: str
    route: str = ""
    derivation: bool = False
    audited: bool = False
    stamp: CallerStamp  # the last write by this stamp is in force


class Member(Struct, frozen=True, kw_only=True):
    """A node of the mesh, as its owner registered it."""

    node: str
    registered: bool = False  # by the owner; one that is not is only known as quarantined
    public_key: str = ""  # Ed25519, in hex; a node that has one signs
    capabilities: tuple[str, ...] = ()
    kind_prefixes: tuple[str, ...] = ()  # kinds, and prefixes with a dot at the end; none: all
    quarantined: bool = False


class Author(Struct, frozen=True, kw_only=True):
    """The newest stamps that operations of a node were admitted under, with their digests."""

    node: str
    sealed: tuple[tuple[int, int, str], ...] = ()  # time and counter, ascending, and the digest


class Designation(Struct, frozen=True, kw_only=True):
    """Who runs the derivation pass, from when on, and when it was last heard of."""

    node: str
    stamp: CallerStamp
    since_ms: int
    heard_ms: int


def job_resource(job_id: str) -> str:
    return f"job/{job_id}"


def is_job(resource: str) -> bool:
    return resource.startswith("job/")


def completion_of(job_id: str) -> str:
    """The id of the operation that completes a job: known before it happens, since a job is
    completed once."""
    return f"complete/{job_id}"


def completed_job(op_id: str) -> str | None:
    """The job that an operation completes; None for the id of any other operation."""
    head, slash, job_id = op_id.partition("/")
    return job_id if head == "complete" and slash and "/" not in job_id and job_id else None


def snapshot_id(artifact: Artifact) -> str:
    """The id that follows from what a snapshot says."""
    members = {
        "artifactType": artifact.artifact_type,
        "modelId": artifact.model_id,
        "modelVersion": artifact.model_version,
        "outputDigest": artifact.output_digest,
        "promptDigest": artifact.prompt_digest,
        "sourceJob": artifact.source_job,
    }
    return canonical.digest("art1", canonical.encode(members))
