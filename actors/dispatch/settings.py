"""What an operator decides about a dispatcher, checked before anything begins."""

import re
from dataclasses import dataclass, field

from ...contracts import limits
from ..leasing.holding import Timing
from .worklist import Wanted

SLOTS_MAX = 4_096
TTL_SECONDS_DEFAULT = 60
GRACE_MS_DEFAULT = 5_000
STOP_AFTER_DEFAULT = 5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Settings:
    """Raises `ValueError` for what cannot work.

    Of all dispatchers that are alive on one authority only one has this `name`: leases under it
    that no dispatcher tends are taken for those of a dead one. `run` is new at every start.
    """

    name: str
    run: str
    slots: int  # workers, and so leases, at a time
    ttl_seconds: int = TTL_SECONDS_DEFAULT
    grace_ms: int = GRACE_MS_DEFAULT  # for a worker to end by itself when it is told to
    job_ms: int | None = None  # how long a worker may work
    wanted: Wanted = field(default_factory=Wanted)
    stop_after: int = STOP_AFTER_DEFAULT  # issues that fail in one way, in a row; 0: never

    def __post_init__(self) -> None:
        for name in (self.name, self.run):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name: letters, digits, `.`, `_`, `-`; at most 64")
        if not 1 <= self.slots <= SLOTS_MAX:
            raise ValueError(f"{self.slots} workers: there can be 1 to {SLOTS_MAX}")
        if not limits.TTL_SECONDS_MIN <= self.ttl_seconds <= limits.TTL_SECONDS_MAX:
            low, high = limits.TTL_SECONDS_MIN, limits.TTL_SECONDS_MAX
            raise ValueError(f"leases of {self.ttl_seconds} s: they last {low} to {high} s")
        if not 0 <= self.grace_ms <= self.ttl_seconds * 1_000 // 3:
            raise ValueError(f"a grace of {self.grace_ms} ms: at most a third of the lease")
        if self.job_ms is not None and self.job_ms <= 0:
            raise ValueError(f"{self.job_ms} ms to work: there must be some")
        if self.stop_after < 0:
            raise ValueError(f"a stop after {self.stop_after} failures: 0 is for never")

    @property
    def timing(self) -> Timing:
        return Timing(self.ttl_seconds * 1_000, self.grace_ms)

    @property
    def prefix(self) -> str:
        """How the names of our workers begin, in this run and in all others."""
        return f"{self.name}/"

    def worker(self, serial: int | str) -> str:
        """The name of a worker of this run; with nothing for its number, how they all begin."""
        return f"{self.name}/{self.run}/{serial}"
