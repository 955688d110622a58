"""Time for the journal: a hybrid logical clock over a physical clock that cannot jump.

    I1  Stamps strictly grow, over restarts and over a wall clock that is set back.
    I2  A caller's stamp moves the clock only within the drift bound.
    I3  A wall clock that is set forward while the process runs expires no lease early.

The journal is the clock's memory: a stamp is on disk before its answer leaves, and the clock goes
on from the journal's last row.
"""

import time
from collections.abc import Callable

from ...contracts import CallerStamp, Stamp, limits

_SLEW_PER_MILLION = 500  # as slow as ntpd: a minute moves by at most 30 ms
_JUMP_NS = 1_000_000_000  # a wall clock further off than this has been set, and is not followed


class SteadyClock:
    """Milliseconds since 1970 that follow the wall clock's drift, and ignore its jumps."""

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    ) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        self._now_ns = wall_ns()
        self._read_ns = steady_ns()

    def __call__(self) -> int:
        read_ns = self._steady_ns()
        passed_ns, self._read_ns = read_ns - self._read_ns, read_ns
        self._now_ns += passed_ns
        off_ns = self._wall_ns() - self._now_ns
        if abs(off_ns) < _JUMP_NS:
            most_ns = passed_ns * _SLEW_PER_MILLION // 1_000_000
            self._now_ns += max(-most_ns, min(most_ns, off_ns))
        return self._now_ns // 1_000_000


class HybridClock:
    """Gives each row of the journal its stamp. `next_stamp` proposes, `advance` accepts."""

    def __init__(
        self, node: str, physical_ms: Callable[[], int], wall_ms: int = 0, counter: int = 0
    ) -> None:
        self.node = node
        self._physical_ms = physical_ms
        self._wall_ms, self._counter = wall_ms, counter

    @property
    def position(self) -> tuple[int, int]:
        """Wall time and counter of the last stamp that was accepted."""
        return self._wall_ms, self._counter

    def physical_ms(self) -> int:
        """What the clock below says now."""
        return self._physical_ms()

    def next_stamp(
        self,
        seq: int,
        *,
        now_ms: int | None = None,
        caller: CallerStamp | None = None,
        timeless: bool = False,
    ) -> Stamp:
        """The next stamp. `now_ms` stands in for the physical clock; a timeless row reads none."""
        if timeless:
            physical_ms = self._wall_ms
        else:
            physical_ms = self._physical_ms() if now_ms is None else now_ms
        wall_ms = max(self._wall_ms, physical_ms)
        counter = self._counter + 1 if wall_ms == self._wall_ms else 0
        # Measured against the physical clock: against our own, callers could lead it away.
        drift_ms = min(physical_ms + limits.CLOCK_DRIFT_MS_MAX, limits.NOW_MS_MAX)
        bound_ms = max(self._wall_ms, drift_ms)
        if caller is not None and caller.wall_ms <= bound_ms:
            if caller.wall_ms > wall_ms:
                wall_ms, counter = caller.wall_ms, caller.counter + 1
            elif caller.wall_ms == wall_ms:
                counter = max(counter, caller.counter + 1)
        if counter > limits.COUNTER_MAX:
            wall_ms, counter = wall_ms + 1, 0
        return Stamp(seq, wall_ms, counter, self.node)

    def advance(self, stamp: Stamp) -> None:
        assert (stamp.wall_ms, stamp.counter) > (self._wall_ms, self._counter), "I1"
        self._wall_ms, self._counter = stamp.wall_ms, stamp.counter
