"""When to look for work, and what of it to claim: one look for all free workers, and no herd.

A list is used up before the next one is asked for, or thrown away when it is old. Looks that find
nothing come less and less often, until somebody says that there is something. Whoever meets others
at the same issue waits a moment, and then takes its pick from further down the list, where they are
not.

An issue that was tried before has a time before which it is left alone. Whoever let go of it a
moment ago knows that time. Otherwise it is what the policy says for its attempts, counted from when
the authority last wrote its record; that is all that survives a restart, and it is enough: only the
failure class, and so which pause was meant, is forgotten, and the pause of a lost worker taken.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...contracts import RetryPolicy, backoff_ms, retry_decision
from .escalation import LABEL
from .orders import Listed, Listing, Story

Dice = Callable[[], int]  # 0 to 1000, anew at every call

LOST = ("job_worker_lost",)  # what a worker counts as of whom nothing more is known
STORIES_MAX = 64  # issues that are read whole at once
_IDLE_MS = 100  # after a look that found nothing; doubled every time
_IDLE_MS_MAX = 5_000
_CONTENDED_MS_MAX = 100  # a part of this, after others were faster
_SPACING_MS = 20  # between two looks, whatever is said
_WAKE_MS_MAX = 100  # news reaches everybody at once; so each waits for a part of this
_STALE_MS = 1_000  # news makes a list of this age worth replacing
_OLD_MS = 20_000  # no lease that was granted after a list was made has lapsed while it is used
_SPREAD_MAX = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which issues are taken up at all."""

    labels: tuple[str, ...] = ()
    issue_type: str | None = None

    def fits(self, listing: Listing | Story) -> bool:
        if self.issue_type is not None and listing.issue_type != self.issue_type:
            return False
        if LABEL in listing.labels and LABEL not in self.labels:
            return False
        return all(label in listing.labels for label in self.labels)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An issue that can be claimed; one that is exhausted only to say that it is."""

    issue_id: str
    attempts: int  # before this claim
    due_ms: int
    is_exhausted: bool = False


@dataclass(slots=True)
class Search:
    policy: RetryPolicy
    wanted: Wanted
    look_ms: int = 0  # when to look next
    looked_ms: int = -_SPACING_MS
    misses: int = 0
    spread: int = 1
    candidates: list[Candidate] = field(default_factory=list)
    _is_contended: bool = False  # somebody else was faster at the last list
    _due: dict[str, tuple[int, int]] = field(default_factory=dict)  # issue -> attempts, due_ms

    # --- looking --------------------------------------------------------------------------------

    def wants_look(self, now_ms: int) -> bool:
        """Whether it is time, and nothing that is known can be claimed instead."""
        return now_ms >= self.look_ms and not any(each.due_ms <= now_ms for each in self.candidates)

    def looks(self, now_ms: int) -> None:
        """A list has been asked for."""
        self.looked_ms = now_ms

    def next_ms(self) -> int:
        """When there will be something to do, if nobody says anything before."""
        return min([self.look_ms, *(each.due_ms for each in self.candidates)])

    def listed(self, listed: Listed, taken: set[str], now_ms: int, dice: Dice) -> tuple[str, ...]:
        """Take a list in; the issues of which more must be known before they can be claimed."""
        fitting = [
            each
            for each in listed.issues
            if each.issue_id not in taken and not each.assignee and self.wanted.fits(each)
        ]
        if listed.is_whole:
            there = {each.issue_id for each in fitting}
            self._due = {key: due for key, due in self._due.items() if key in there}
        self.candidates, unknown = [], []
        for each in fitting:
            attempts, due_ms = self._due.get(each.issue_id, (0, 0))
            if attempts == each.attempts:
                self.candidates.append(Candidate(each.issue_id, attempts, due_ms))
            else:
                unknown.append(each.issue_id)
        unknown += [each for each in listed.lapsed_ids if each not in taken]
        if not self._is_contended:
            self.spread = max(1, self.spread // 2)
        self._is_contended = False
        self._pause(now_ms, dice)
        return tuple(unknown[:STORIES_MAX])

    def told(self, stories: Iterable[Story], taken: set[str], now_ms: int, dice: Dice) -> None:
        """Take in what is known of issues that were tried before."""
        known = {each.issue_id for each in self.candidates} | taken
        for story in stories:
            if story.issue_id in known or not self.wanted.fits(story):
                continue
            if not story.is_lapsed and story.status != "open":
                continue
            decision = retry_decision(self.policy, LOST, max(1, story.attempts))
            pause_ms = backoff_ms(self.policy, decision.backoff_class, decision.attempt, dice())
            due_ms = now_ms + max(0, pause_ms - story.quiet_ms)
            if not story.is_lapsed:
                self._due[story.issue_id] = (story.attempts, due_ms)
            exhausted = story.is_lapsed and not decision.retry
            self.candidates.append(Candidate(story.issue_id, story.attempts, due_ms, exhausted))

    def _pause(self, now_ms: int, dice: Dice) -> None:
        if any(each.due_ms <= now_ms for each in self.candidates):
            self.misses = 0
            self.look_ms = now_ms + _SPACING_MS  # as soon as the list is used up
            return
        pause_ms = min(_IDLE_MS << min(self.misses, 16), _IDLE_MS_MAX)
        self.misses += 1
        self.look_ms = now_ms + pause_ms - pause_ms * dice() // 2_000

    # --- claiming -------------------------------------------------------------------------------

    def pick(self, count: int, taken: set[str], now_ms: int, dice: Dice) -> Sequence[Candidate]:
        """So many that can be claimed now, the first first; they are not picked again."""
        if now_ms >= self.looked_ms + _OLD_MS:
            self.candidates.clear()
        due = (each for each in self.candidates if each.due_ms <= now_ms)
        due = (each for each in due if each.issue_id not in taken)
        reach = list(islice(due, count * self.spread))
        while len(reach) > count:
            del reach[dice() * len(reach) // 1_001]
        if reach:
            picked = {each.issue_id for each in reach}
            self.candidates = [each for each in self.candidates if each.issue_id not in picked]
        return reach

    def granted(self, issue_id: str) -> None:
        """It is in our hands, perhaps by a claim of an earlier run: nobody picks it from a list."""
        self._due.pop(issue_id, None)
        self.candidates = [each for each in self.candidates if each.issue_id != issue_id]

    def contended(self, now_ms: int, dice: Dice) -> None:
        """Somebody was faster. The list is old, and others have the same one."""
        if self._is_contended:
            return  # that is known of this list
        self._is_contended = True
        self.candidates.clear()
        self.look_ms = max(self.look_ms, now_ms + _CONTENDED_MS_MAX * dice() // 1_000)
        self.spread = min(2 * self.spread, _SPREAD_MAX)

    def put_off(self, issue_id: str, attempts: int, due_ms: int) -> None:
        """Leave an issue alone that we let go of, for as long as it has this many attempts."""
        self._due[issue_id] = (attempts, due_ms)

    # --- news -----------------------------------------------------------------------------------

    def stir(self, now_ms: int, delay_ms: int = 0) -> None:
        """Something has changed: the list may be longer, or there may be one at last."""
        self.misses = 0
        if any(each.due_ms <= now_ms for each in self.candidates):
            if now_ms < self.looked_ms + _STALE_MS:
                return
            self.candidates.clear()
        soon_ms = max(now_ms + delay_ms, self.looked_ms + _SPACING_MS)
        self.look_ms = min(self.look_ms, soon_ms)

    def wake(self, now_ms: int, dice: Dice) -> None:
        """Somebody says that something has changed, and says it to others, too."""
        self.stir(now_ms, _WAKE_MS_MAX * dice() // 1_000)
