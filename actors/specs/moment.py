"""When something happens, and the dice that are thrown then: what a step is given from outside."""

from collections.abc import Callable
from typing import NamedTuple

DICE_MAX = 1_000


class Moment(NamedTuple):
    ms: int  # of a clock that never goes back
    dice: Callable[[], int]  # 0 to 1000, anew at every call

    def jittered(self, pause_ms: int) -> int:
        """The end of a pause that lasts between half of this and all of it."""
        return self.ms + pause_ms - pause_ms * self.dice() // (2 * DICE_MAX)

    def within(self, span_ms: int) -> int:
        """Some time of a span that begins now."""
        return self.ms + span_ms * self.dice() // DICE_MAX
