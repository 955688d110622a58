"""When something happens, and the dice that are thrown then: what a step is given from outside."""

from collections.abc import Callable
from typing import NamedTuple

DICE_MAX = 1_000
Dice = Callable[[], int]  # 0 to 1000, anew at every call


class Moment(NamedTuple):
    ms: int  # of a clock that never goes back
    dice: Dice

    def jittered(self, pause_ms: int) -> int:
        """The end of a pause that lasts between half of this and all of it."""
        return self.ms + pause_ms - pause_ms * self.dice() // (2 * DICE_MAX)

    def within(self, span_ms: int) -> int:
        """Some time of a span that begins now."""
        return self.ms + span_ms * self.dice() // DICE_MAX


def doubled_ms(first_ms: int, times: int, most_ms: int) -> int:
    """A pause that is doubled every time, up to the longest."""
    return min(first_ms << min(times, 16), most_ms)
