"""When to look for work, and what of it to claim: no herd, and no race.

A list is used up before the next one is asked for, or thrown away when it is old. Looks that find
nothing come less and less often, until there is news. Who was slower than others waits a moment,
and then takes its pick from further down the list, where they are not. What went wrong by itself is
left alone for a while, longer every time; where everything goes wrong, so is everything.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from .moment import DICE_MAX, Moment, doubled_ms

_IDLE_MS = 100  # after a look that found nothing; doubled every time
_IDLE_MS_MAX = 5_000
_CONTENDED_MS_MAX = 100  # a part of this, after others were faster
_SPACING_MS = 20  # between two looks, whatever is said
_WAKE_MS_MAX = 100  # news reaches everybody at once; so each waits for a part of this
_STALE_MS = 1_000  # news makes a list of this age worth replacing
_OLD_MS = 20_000  # no lease that was granted after a list was made has lapsed while it is used
_TROUBLE_MS = 1_000  # after something went wrong; doubled every time
_TROUBLE_MS_MAX = 60_000
_SPREAD_MAX = 64
_AVOIDED_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that can be claimed; what is exhausted only to say that it is."""

    name: str
    due_ms: int = 0  # from then on
    attempts: int = 0  # before this claim
    is_exhausted: bool = False


@dataclass(slots=True)
class Polling:
    look_ms: int = 0  # when to look next
    looked_ms: int = -_SPACING_MS
    cursor: str | None = None  # where to go on with the list, if all before has to wait
    spread: int = 1
    candidates: list[Candidate] = field(default_factory=list)
    _misses: int = 0
    _troubles: int = 0
    _rest_ms: int = 0  # nothing is claimed before then
    _is_contended: bool = False  # another holder was faster at the last list
    _avoided: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> times, until when

    # --- looking --------------------------------------------------------------------------------

    def wants_look(self, now_ms: int) -> bool:
        """Whether it is time, and nothing that is known can be claimed instead."""
        return now_ms >= max(self.look_ms, self._rest_ms) and not self._has_due(now_ms)

    def looks(self, now_ms: int) -> None:
        """A list has been asked for."""
        self.looked_ms = now_ms

    def next_ms(self) -> int:
        """When there will be something to do, if there is no news before."""
        due_ms = min([self.look_ms, *(each.due_ms for each in self.candidates)])
        return max(self._rest_ms, due_ms)

    def listed(
        self, candidates: Iterable[Candidate], moment: Moment, cursor: str | None = None
    ) -> None:
        """Take a list in, the first first, and where the next page of it begins."""
        self.candidates = [each for each in candidates if self._is_free(each.name, moment.ms)]
        is_due = self._has_due(moment.ms)
        self.cursor = None if is_due else cursor
        if not self._is_contended:
            self.spread = max(1, self.spread // 2)
        self._is_contended = False
        if is_due or self.cursor:
            self._misses = 0
            self.look_ms = moment.ms + _SPACING_MS  # as soon as the list is used up
            return
        self.look_ms = moment.jittered(doubled_ms(_IDLE_MS, self._misses, _IDLE_MS_MAX))
        self._misses += 1

    def look_by(self, moment_ms: int) -> None:
        """There may be more from this moment on."""
        self.look_ms = min(self.look_ms, max(moment_ms, self.looked_ms + _SPACING_MS))

    def _has_due(self, now_ms: int) -> bool:
        return any(each.due_ms <= now_ms for each in self.candidates)

    def _is_free(self, name: str, now_ms: int) -> bool:
        return self._avoided.get(name, (0, 0))[1] <= now_ms

    # --- news -----------------------------------------------------------------------------------

    def stir(self, now_ms: int, delay_ms: int = 0) -> None:
        """Something has changed: the list may be longer, or there may be one at last."""
        self._misses = 0
        if self._has_due(now_ms):
            if now_ms < self.looked_ms + _STALE_MS:
                return
            self.candidates.clear()
        soon_ms = max(now_ms + delay_ms, self.looked_ms + _SPACING_MS)
        self.look_ms = min(self.look_ms, soon_ms)

    def wake(self, moment: Moment) -> None:
        """Something has changed, and others are told so, too."""
        self.stir(moment.ms, moment.within(_WAKE_MS_MAX) - moment.ms)

    # --- claiming -------------------------------------------------------------------------------

    def pick(self, count: int, taken: set[str], moment: Moment) -> list[Candidate]:
        """So many that can be claimed now, the first first; they are not picked again."""
        if moment.ms < self._rest_ms or count <= 0:
            return []
        if moment.ms >= self.looked_ms + _OLD_MS:
            self.candidates.clear()
        due = (each for each in self.candidates if each.due_ms <= moment.ms)
        reach = list(islice((each for each in due if each.name not in taken), count * self.spread))
        while len(reach) > count:
            del reach[moment.dice() * len(reach) // (DICE_MAX + 1)]
        if reach:
            picked = {each.name for each in reach}
            self.candidates = [each for each in self.candidates if each.name not in picked]
        return reach

    def granted(self, name: str) -> None:
        """It is in our hands, perhaps by a claim of an earlier run: it is on no list for us."""
        self.candidates = [each for each in self.candidates if each.name != name]

    def contended(self, moment: Moment) -> None:
        """Another holder was faster. The list is old, and others have the same one."""
        if self._is_contended:
            return  # that is known of this list
        self._is_contended = True
        self.candidates.clear()
        self.look_ms = max(self.look_ms, moment.within(_CONTENDED_MS_MAX))
        self.spread = min(2 * self.spread, _SPREAD_MAX)

    # --- what went wrong ------------------------------------------------------------------------

    def avoid(self, name: str, moment: Moment) -> None:
        """Leave one alone for a while."""
        times = self._avoided.pop(name, (0, 0))[0]
        until_ms = moment.jittered(doubled_ms(_TROUBLE_MS, times, _TROUBLE_MS_MAX))
        self._avoided[name] = (times + 1, until_ms)
        while len(self._avoided) > _AVOIDED_MAX:
            del self._avoided[next(iter(self._avoided))]

    def rest(self, moment: Moment) -> None:
        """Leave everything alone for a while."""
        if moment.ms < self._rest_ms:
            return  # that is known
        self.candidates.clear()
        self._rest_ms = moment.jittered(doubled_ms(_TROUBLE_MS, self._troubles, _TROUBLE_MS_MAX))
        self._troubles += 1

    def prosper(self, name: str) -> None:
        """It goes well again."""
        self._troubles = 0
        self._avoided.pop(name, None)
