"""When to look for something to claim, and what of it to claim: no herd, and no race.

Looks that find nothing come less and less often, until somebody says that there is something.
Whoever was slower than others waits a moment, and then takes its pick from further down the list,
where they are not. What went wrong by itself is left alone for a while, longer every time; where
everything goes wrong, so is everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from .moment import DICE_MAX, Moment

_IDLE_MS = 100  # after a look that found nothing; doubled every time
_IDLE_MS_MAX = 5_000
_SPACING_MS = 20  # between two looks
_CONTENDED_MS_MAX = 100  # a part of this, after others were faster
_WAKE_MS_MAX = 100  # news reaches everybody at once; so each waits for a part of this
_OLD_MS = 20_000  # a list of this age is thrown away
_TROUBLE_MS = 1_000  # after something went wrong; doubled every time
_TROUBLE_MS_MAX = 60_000
_SPREAD_MAX = 64
_AVOIDED_MAX = 4_096


@dataclass(slots=True)
class Lookout:
    look_ms: int = 0  # when to look next
    cursor: str | None = None  # where to go on with the list, if all before has to wait
    spread: int = 1
    _looked_ms: int = 0
    _misses: int = 0
    _troubles: int = 0
    _rest_ms: int = 0  # nothing is claimed before then
    _is_contended: bool = False  # somebody else was faster at the last list
    _listed: list[str] = field(default_factory=list)
    _avoided: dict[str, tuple[int, int]] = field(default_factory=dict)  # id -> times, until when

    # --- looking --------------------------------------------------------------------------------

    def wants_look(self, moment: Moment) -> bool:
        return moment.ms >= max(self.look_ms, self._rest_ms) and not self._listed

    def next_ms(self) -> int:
        """When there will be something to do, if nobody says anything before."""
        return max(self._rest_ms, 0 if self._listed else self.look_ms)

    def listed(self, ids: Sequence[str], cursor: str | None, moment: Moment) -> None:
        """Take a page in, oldest first, and where the next one begins."""
        self._listed = [each for each in ids if self._is_free(each, moment)]
        self._looked_ms = moment.ms
        self.cursor = None if self._listed else cursor
        if not self._is_contended:
            self.spread = max(1, self.spread // 2)
        self._is_contended = False
        if self._listed or self.cursor:
            self._misses = 0
            self.look_ms = moment.ms + _SPACING_MS  # as soon as the list is used up
            return
        self.look_ms = moment.jittered(min(_IDLE_MS << min(self._misses, 16), _IDLE_MS_MAX))
        self._misses += 1

    def wake(self, moment: Moment) -> None:
        """Somebody says that something has changed, and says it to others, too."""
        self._misses = 0
        if not self._listed:
            self.look_ms = min(self.look_ms, moment.within(_WAKE_MS_MAX))

    def _is_free(self, subject: str, moment: Moment) -> bool:
        return self._avoided.get(subject, (0, 0))[1] <= moment.ms

    # --- claiming -------------------------------------------------------------------------------

    def pick(self, count: int, moment: Moment) -> list[str]:
        """So many that can be claimed now, the oldest first; they are not picked again."""
        if moment.ms < self._rest_ms or count <= 0:
            return []
        if moment.ms >= self._looked_ms + _OLD_MS:
            self._listed.clear()
        reach = list(islice(self._listed, count * self.spread))
        while len(reach) > count:
            del reach[moment.dice() * len(reach) // (DICE_MAX + 1)]
        if reach:
            picked = set(reach)
            self._listed = [each for each in self._listed if each not in picked]
        return reach

    def contended(self, moment: Moment) -> None:
        """Somebody was faster. The list is old, and others have the same one."""
        if self._is_contended:
            return  # that is known of this list
        self._is_contended = True
        self._listed.clear()
        self.look_ms = max(self.look_ms, moment.within(_CONTENDED_MS_MAX))
        self.spread = min(2 * self.spread, _SPREAD_MAX)

    # --- what went wrong ------------------------------------------------------------------------

    def avoid(self, subject: str, moment: Moment) -> None:
        """Leave one alone for a while."""
        times = self._avoided.pop(subject, (0, 0))[0]
        until_ms = moment.jittered(_trouble_ms(times))
        self._avoided[subject] = (times + 1, until_ms)
        while len(self._avoided) > _AVOIDED_MAX:
            del self._avoided[next(iter(self._avoided))]

    def rest(self, moment: Moment) -> None:
        """Leave everything alone for a while."""
        if moment.ms < self._rest_ms:
            return  # that is known
        self._listed.clear()
        self._rest_ms = moment.jittered(_trouble_ms(self._troubles))
        self._troubles += 1

    def prosper(self, subject: str) -> None:
        """It goes well again."""
        self._troubles = 0
        self._avoided.pop(subject, None)


def _trouble_ms(times: int) -> int:
    return min(_TROUBLE_MS << min(times, 16), _TROUBLE_MS_MAX)
