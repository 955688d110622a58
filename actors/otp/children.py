"""What a supervisor can be asked, and what it answers.

Refusals are values, with the words that OTP has for them. A refusal changes nothing.
"""

from dataclasses import dataclass
from typing import Literal

from .cell import ExitReason, Ref
from .spec import ChildSpec, ChildType

ChildState = Literal["running", "starting", "stopping", "restarting", "undefined"]


@dataclass(frozen=True, slots=True)
class WhichChildren:
    """A list of `ChildInfo`, last started first, as OTP has it."""


@dataclass(frozen=True, slots=True)
class CountChildren:
    """A `Counts`."""


@dataclass(frozen=True, slots=True)
class StartChild:
    """Add a child and start it: `Done` with its reference when it is ready."""

    spec: ChildSpec


@dataclass(frozen=True, slots=True)
class TerminateChild:
    """Stop a child. Its spec stays, unless it is temporary; a dynamic child goes by reference."""

    id: str | Ref


@dataclass(frozen=True, slots=True)
class RestartChild:
    """Start a child that was stopped or ended: `Done` with its reference when it is ready."""

    id: str


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Forget the spec of a child that does not run."""

    id: str


@dataclass(frozen=True, slots=True)
class GetChildSpec:
    id: str


@dataclass(frozen=True, slots=True)
class ChildInfo:
    """One child as `WhichChildren` shows it."""

    id: str
    ref: Ref | None
    state: ChildState
    type: ChildType
    pid: int | None = None  # of its operating-system process, where it has one
    restarts: int = 0
    since_ms: int = 0  # when it got into this state, on the supervisor's clock


@dataclass(frozen=True, slots=True)
class Counts:
    specs: int
    active: int
    supervisors: int
    workers: int


@dataclass(frozen=True, slots=True)
class Done:
    ref: Ref | None = None


Refusal = Literal[
    "already_started",  # and runs: `ref` says who
    "already_present",  # and does not run: restart or delete it
    "running",
    "restarting",
    "not_found",
    "max_children",
    "start_failed",  # `reason` says why
    "invalid_spec",  # `reason.detail` says what is wrong
]


@dataclass(frozen=True, slots=True)
class ChildRefused:
    why: Refusal
    ref: Ref | None = None
    reason: ExitReason | None = None
