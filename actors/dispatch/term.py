"""One lease in our hands, from the grant until nothing of it is left, and when to do what about it.

            exit             all answered
    running -----> settling -------------> gone
       |              ^
       |stop          |exit
       '--> stopping -'

Times are those of our own steady clock. A lease is ours for its time to live, counted from before
it was asked for; so we are always early, never late:

    asked       renewed at a third        stop        until      deadline of the authority
    |-----------------|---------------------|-----------|------------|
                                             grace, kill    slack

I1  At `stop_ms` without a renewal the worker is told to end, and at `until_ms` it has ended.
I2  `until_ms` lies before the deadline of the authority, however far its clock may be ahead.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...contracts import limits
from .escalation import Failure
from .orders import Holder, WorkerExited

_KILL_MS = 1_000  # from the end of the grace until the last descendant is gone


@dataclass(frozen=True, slots=True)
class Timing:
    """How long leases last here, and how long a worker may take to end."""

    ttl_ms: int
    grace_ms: int

    @property
    def slack_ms(self) -> int:
        """How much sooner than we think a lease may lapse: stamps of others, and clock rates."""
        return limits.CLOCK_DRIFT_MS_MAX + self.ttl_ms // 1_000

    @property
    def ending_ms(self) -> int:
        """How long it takes to end a worker that does not want to."""
        return self.grace_ms + _KILL_MS

    @property
    def again_ms(self) -> int:
        """After so long, a renewal that nobody answered is asked for again."""
        return self.ttl_ms // 12

    def renew_ms(self, asked_ms: int, permille: int) -> int:
        """A third of the time to live, less some jitter."""
        return asked_ms + self.ttl_ms // 3 - self.ttl_ms // 30 * permille // 1_000

    def until_ms(self, asked_ms: int) -> int:
        return asked_ms + self.ttl_ms - self.slack_ms

    def stop_ms(self, asked_ms: int) -> int:
        return self.until_ms(asked_ms) - self.ending_ms


class Phase(Enum):
    RUNNING = "running"
    STOPPING = "stopping"
    SETTLING = "settling"


class Why(Enum):
    """Why a worker was stopped; what follows its end hangs on it."""

    LOST = "lease lost"  # somebody else may hold it: nothing is written
    UNCONFIRMED = "lease not confirmed in time"  # it may still be ours: it is given back
    TIMEOUT = "time is up"  # a failed attempt
    LEAVING = "the dispatcher stops"  # it is given back


class Step(Enum):
    """One thing to ask on the way out."""

    CLOSE = "close"
    RELEASE = "release"
    READ = "read"  # the notes that ours is put under
    FILE = "file"
    BLOCK = "block"
    NOTE = "note"
    STOP = "stop"  # of the dispatcher; nobody is asked


@dataclass(slots=True)
class Term:
    """Mutable, and the dispatcher's alone."""

    holder: Holder
    attempt: int  # 0 where only the authority knows
    asked_ms: int  # from when the lease is known to be ours
    renew_ms: int  # when to ask for more time
    started_ms: int
    labels: tuple[str, ...] = ()
    phase: Phase = Phase.RUNNING
    why: Why | None = None
    kill_ms: int = 0  # when to say again that it must end
    exit: WorkerExited | None = None  # heard before the attempt was known
    renewals: dict[str, int] = field(default_factory=dict)  # token -> when it was asked for
    steps: deque[Step] = field(default_factory=deque)
    failure: Failure | None = None
    reason: str = ""  # why it is given back, if it is
    artifacts: tuple[Mapping[str, Any], ...] = ()  # that the worker has left
    notes: str = ""  # as they were when the end was near

    @property
    def worker(self) -> str:
        return self.holder.assignee

    @property
    def is_working(self) -> bool:
        """Whether there may be a worker."""
        return self.phase is not Phase.SETTLING and self.exit is None

    @property
    def is_ours(self) -> bool:
        """Whether it makes sense to ask for more time."""
        return self.is_working and self.why is not Why.LOST

    def summary(self) -> Mapping[str, Any]:
        """For people who look at the tree."""
        return {
            "issue": self.holder.issue_id,
            "worker": self.worker,
            "fence": self.holder.fence,
            "attempt": self.attempt,
            "phase": self.phase.value,
        }
