"""A lease in our hands, until when it is ours by our own clock, and when to ask for more of it.

Times are those of our own steady clock. A lease is ours for its time to live, counted from before
it was asked for; so we are always early, never late:

    asked       renewed at a third        stop        until      deadline of the authority
    |-----------------|---------------------|-----------|------------|
                                             grace, kill    slack

I1  A term counts from when it was asked for, not from when the grant was heard: the authority
    counts from some time between. An answer that was long under way is never believed for longer.
I2  `until_ms` lies before the deadline of the authority, however far its clock may be ahead.
I3  At `stop_ms` without a renewal whatever works under the lease is told to end, and at `until_ms`
    it has ended.
"""

from dataclasses import dataclass
from typing import Any, Self

from ...contracts import limits
from .moment import DICE_MAX, Moment
from .work_kind import HeldLease

_RENEW_PART = 3  # more time is asked for when this part of the term is gone
_JITTER_PART = 10  # of that, by which it may be sooner, so that not all come together
_AGAIN_PART = 12  # after this part, a renewal that has no answer is asked for again
_DRIFT_PART = 1_000  # of a term, by which two clocks may drift apart in it
_KILL_MS = 1_000  # from the end of the grace until the last descendant is gone


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a lease lasts, and how long what works under it may take to end."""

    ttl_ms: int
    grace_ms: int = 0

    @property
    def slack_ms(self) -> int:
        """How much sooner than we think a lease may lapse: stamps of others, and clock rates."""
        return limits.CLOCK_DRIFT_MS_MAX + self.ttl_ms // _DRIFT_PART

    @property
    def ending_ms(self) -> int:
        """How long it takes to end a worker that does not want to."""
        return self.grace_ms + _KILL_MS

    @property
    def again_ms(self) -> int:
        """After so long, a renewal that has no answer is asked for again."""
        return self.ttl_ms // _AGAIN_PART

    def renew_ms(self, asked_ms: int, permille: int) -> int:
        """A third of the time to live, less some jitter."""
        part_ms = self.ttl_ms // _RENEW_PART
        return asked_ms + part_ms - part_ms // _JITTER_PART * permille // DICE_MAX

    def until_ms(self, asked_ms: int) -> int:
        return asked_ms + self.ttl_ms - self.slack_ms

    def stop_ms(self, asked_ms: int) -> int:
        return self.until_ms(asked_ms) - self.ending_ms


@dataclass(slots=True)
class Holding:
    """Mutable, and its holder's alone. A holder that knows more of a lease makes a subclass."""

    lease: HeldLease
    timing: Timing
    asked_ms: int  # when the grant, or the newest extension, was asked for (I1)
    renew_ms: int  # when to ask for more time

    @classmethod
    def granted(
        cls,
        lease: HeldLease,
        timing: Timing,
        asked_ms: int,
        moment: Moment,
        **more: Any,  # the members of a subclass
    ) -> Self:
        """A new one; `asked_ms` is when it was first asked for, however late the answer comes."""
        assert asked_ms <= moment.ms, "it is answered after it is asked"
        return cls(lease, timing, asked_ms, timing.renew_ms(asked_ms, moment.dice()), **more)

    @property
    def until_ms(self) -> int:
        """Until then it is ours, and nothing is done under it later (I2)."""
        return self.timing.until_ms(self.asked_ms)

    @property
    def stop_ms(self) -> int:
        """When to end what works under it, unless there is more time by then (I3)."""
        return self.timing.stop_ms(self.asked_ms)

    def asking(self, now_ms: int) -> None:
        """More time is asked for; without an answer it is asked for again a while later."""
        self.renew_ms = now_ms + self.timing.again_ms

    def extend(self, asked_ms: int, moment: Moment) -> bool:
        """There is more time, counted from when it was asked for; False where more was known."""
        if asked_ms <= self.asked_ms:
            return False
        self.asked_ms = asked_ms
        self.renew_ms = self.timing.renew_ms(asked_ms, moment.dice())
        return True

    def put_off(self, moment: Moment) -> None:
        """Nothing was decided; more time is asked for again soon."""
        self.renew_ms = moment.jittered(self.timing.again_ms // 2)
