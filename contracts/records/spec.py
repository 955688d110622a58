"""The life of a spec, as one table: a document of steps, of which every step becomes one job.

    pending --materialize--> in_progress --finish--> materialized
       \\--finish----------------------------------------^

A claim and a release move its lease on `spec/<id>` and leave the state alone. The job of a step is
named `<specId>:<stepKey>`; while a dispatcher hands it on, its lease lies on `dispatch/<jobId>`.
"""

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType


class SpecState(StrEnum):
    UNSUBMITTED = "unsubmitted"
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    MATERIALIZED = "materialized"


class SpecMove(StrEnum):
    SUBMIT = "submit"
    CLAIM = "claim"
    RELEASE = "release"
    MATERIALIZE = "materialize"  # a job of one of its steps is made
    FINISH = "finish"  # and this was the last


_S, _M = SpecState, SpecMove

SPEC_TRANSITIONS: dict[tuple[SpecState, SpecMove], SpecState] = {
    (_S.UNSUBMITTED, _M.SUBMIT): _S.PENDING,
    (_S.PENDING, _M.CLAIM): _S.PENDING,
    (_S.PENDING, _M.RELEASE): _S.PENDING,
    (_S.PENDING, _M.MATERIALIZE): _S.IN_PROGRESS,
    (_S.PENDING, _M.FINISH): _S.MATERIALIZED,
    (_S.IN_PROGRESS, _M.CLAIM): _S.IN_PROGRESS,
    (_S.IN_PROGRESS, _M.RELEASE): _S.IN_PROGRESS,
    (_S.IN_PROGRESS, _M.MATERIALIZE): _S.IN_PROGRESS,
    (_S.IN_PROGRESS, _M.FINISH): _S.MATERIALIZED,
}


class Step(Struct, frozen=True, kw_only=True):
    """One step of a spec, and so one job."""

    step_key: str
    kind: str
    inputs: str = "{}"  # canonical JSON, kept as it came
    depends_on: tuple[str, ...] = ()  # keys of steps of the same spec
    approve: bool | UnsetType = UNSET  # its job waits for a person; rows of before have it not
    priority: int | UnsetType = UNSET  # of its job, the smaller the sooner


class Spec(Struct, frozen=True, kw_only=True):
    """A document of steps. Its lease, while a runner has it, lies on `spec/<id>`."""

    spec_id: str
    title: str = ""
    author: str
    digest: str  # of title and steps
    steps: tuple[Step, ...]
    state: SpecState = SpecState.PENDING
    created: int = 0  # steps that have their job
    attempts: int = 0  # grants so far; counted at the claim
    fence: int = 0  # of the last grant
    reason: str = ""  # why it was given back the last time
    submitted_seq: int
    submitted_ms: int
    materialized_ms: int | None = None


class Dispatched(Struct, frozen=True, kw_only=True):
    """Who wrote the file of a job, under which fence, when, and what it wrote."""

    by: str
    fence: int
    at_ms: int
    file: str
    digest: str


def spec_resource(spec_id: str) -> str:
    return f"spec/{spec_id}"


def is_spec(resource: str) -> bool:
    return resource.startswith("spec/")


def dispatch_resource(job_id: str) -> str:
    return f"dispatch/{job_id}"


def is_dispatch(resource: str) -> bool:
    return resource.startswith("dispatch/")


def step_job(spec_id: str, step_key: str) -> str:
    """The id of the job of a step. No spec id has a colon, so that it can be read back."""
    return f"{spec_id}:{step_key}"


def job_step(job_id: str) -> tuple[str, str] | None:
    """The spec and the step that a job id names; None for the id of any other job."""
    spec_id, colon, step_key = job_id.partition(":")
    return (spec_id, step_key) if colon else None
