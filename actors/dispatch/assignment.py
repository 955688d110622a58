"""A piece of work in a worker's hands, from the grant until nothing of it is left.

            exit             all answered
    running -----> settling -------------> gone
       |              ^
       |stop          |exit
       '--> stopping -'

The time of its lease is in `leasing.holding`.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..leasing.holding import Holding
from .escalation import FailedAttempt
from .orders import WorkerExited


class Phase(Enum):
    RUNNING = "running"
    STOPPING = "stopping"
    SETTLING = "settling"


class Why(Enum):
    """Why a worker was stopped; what follows its end hangs on it."""

    LOST = "lease lost"  # another may hold it: nothing is written
    UNCONFIRMED = "lease not confirmed in time"  # it may still be ours: it is given back
    TIMEOUT = "time is up"  # a failed attempt
    LEAVING = "the dispatcher stops"  # it is given back


class EndStep(Enum):
    """One thing to ask on the way out."""

    CLOSE = "close"
    RELEASE = "release"
    READ = "read"  # the notes that ours is put under
    FILE = "file"
    BLOCK = "block"
    NOTE = "note"
    STOP = "stop"  # of the dispatcher; no request is sent


@dataclass(slots=True)
class Assignment(Holding):
    """Mutable, and the dispatcher's alone."""

    attempt: int  # 0 where only the authority knows
    started_ms: int  # when we took it up
    since_ms: int  # when it was granted, also to a dispatcher before us
    title: str = ""  # for people
    labels: tuple[str, ...] = ()
    excused: int = 0  # of the attempts before
    phase: Phase = Phase.RUNNING
    why: Why | None = None
    kill_ms: int = 0  # when to say again that it must end
    exit: WorkerExited | None = None  # heard before the attempt was known
    steps: deque[EndStep] = field(default_factory=deque)
    failure: FailedAttempt | None = None
    reason: str = ""  # why it is given back, if it is
    handed_back: bool = False  # and whether nothing has failed
    artifacts: tuple[Mapping[str, Any], ...] = ()  # that the worker has left
    notes: str = ""  # as they were when the end was near

    @property
    def name(self) -> str:
        """Of the work."""
        return self.lease.name

    @property
    def worker(self) -> str:
        return self.lease.owner

    @property
    def tries(self) -> int:
        """Which attempt this is, as the retry policy counts them."""
        return max(1, self.attempt - self.excused)

    @property
    def is_working(self) -> bool:
        """Whether there may be a worker."""
        return self.phase is not Phase.SETTLING and self.exit is None

    @property
    def is_ours(self) -> bool:
        """Whether it makes sense to ask for more time."""
        return self.is_working and self.why is not Why.LOST

    def summary(self, now_ms: int) -> Mapping[str, Any]:
        """For people who look at the tree."""
        return {
            "issue": self.name,
            "title": self.title,
            "runsMs": now_ms - self.since_ms,
            "worker": self.worker,
            "fence": self.lease.fence,
            "attempt": self.attempt,
            "phase": self.phase.value,
            "remainingMs": self.asked_ms + self.timing.ttl_ms - now_ms,
        }
