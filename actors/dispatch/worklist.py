"""Which issues are claimed, and from when on: those that are wanted, when their pause is over.

An issue that was tried before has a time before which it is left alone. The dispatcher that let go
of it a moment ago knows that time. Otherwise it is what the policy says for its attempts, less the
excused ones, counted from when the authority last wrote its record; that is all that survives a
restart, and it is enough: only the failure class, and so which pause was meant, is forgotten, and
the pause of a lost worker taken. An issue whose attempts are all excused does not rest: a person
has opened it again. When to look, and what of a list to claim, is in `leasing.polling`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...contracts import ESCALATION, RetryPolicy, backoff_ms, retry_decision
from ..leasing.moment import Moment
from ..leasing.polling import Candidate, Polling
from .escalation import LABEL
from .orders import Listed, Listing, Story

LOST = ("job_worker_lost",)  # what a worker counts as of whom nothing more is known
RETRY = "retry pause"  # why an issue rests
STORIES_MAX = 64  # issues that are read whole at once


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which issues are taken up at all."""

    labels: tuple[str, ...] = ()
    issue_type: str | None = None

    def fits(self, listing: Listing | Story) -> bool:
        if listing.issue_type == ESCALATION:  # it waits for a person
            return False
        if self.issue_type is not None and listing.issue_type != self.issue_type:
            return False
        if LABEL in listing.labels and LABEL not in self.labels:
            return False
        return all(label in listing.labels for label in self.labels)


@dataclass(frozen=True, slots=True)
class Pause:
    """Until when an issue is left alone, for as long as it has so many attempts."""

    attempts: int
    excused: int | None  # None: however many
    due_ms: int
    why: str

    def covers(self, listing: Listing) -> bool:
        is_same = self.excused in (None, listing.excused)
        return is_same and self.attempts == listing.attempts


@dataclass(slots=True)
class Worklist:
    policy: RetryPolicy
    wanted: Wanted
    polling: Polling = field(default_factory=Polling)
    _due: dict[str, Pause] = field(default_factory=dict)  # by issue

    def listed(self, listed: Listed, taken: set[str], moment: Moment) -> tuple[str, ...]:
        """Take a list in; the issues of which more must be known before they can be claimed."""
        fitting = [
            each
            for each in listed.issues
            if each.issue_id not in taken and not each.assignee and self.wanted.fits(each)
        ]
        if listed.is_whole:
            there = {each.issue_id for each in fitting}
            self._due = {key: due for key, due in self._due.items() if key in there}
        known, unknown = [], []
        for each in fitting:
            pause = self._due.get(each.issue_id)
            if pause is not None and pause.covers(each):
                known.append(Candidate(each.issue_id, pause.due_ms, each.attempts))
            elif each.attempts == each.excused:
                known.append(Candidate(each.issue_id, 0, each.attempts))
            else:
                unknown.append(each.issue_id)
        unknown += [each for each in listed.lapsed_ids if each not in taken]
        self.polling.listed(known, moment)
        if listed.more_ms is not None:
            self.polling.look_by(moment.ms + listed.more_ms)
        return tuple(unknown[:STORIES_MAX])

    def told(self, stories: Iterable[Story], taken: set[str], moment: Moment) -> None:
        """Take in what is known of issues that were tried before."""
        known = {each.name for each in self.polling.candidates} | taken
        for story in stories:
            if story.issue_id in known or not self.wanted.fits(story):
                continue
            if not story.is_lapsed and story.status != "open":
                continue
            decision = retry_decision(self.policy, LOST, max(1, story.tries))
            pause_ms = backoff_ms(
                self.policy, decision.backoff_class, decision.attempt, moment.dice()
            )
            due_ms = moment.ms + (max(0, pause_ms - story.quiet_ms) if story.tries else 0)
            if not story.is_lapsed:
                pause = Pause(story.attempts, story.excused, due_ms, RETRY)
                self.put_off(story.issue_id, pause)
            exhausted = story.is_lapsed and not decision.retry
            candidate = Candidate(story.issue_id, due_ms, story.attempts, exhausted)
            self.polling.candidates.append(candidate)

    def put_off(self, issue_id: str, pause: Pause) -> None:
        """Leave an issue alone that we let go of."""
        self._due[issue_id] = pause

    def rests(self, now_ms: int) -> list[tuple[str, int, str]]:
        """Which issues rest, for how long, and why; the first that is due first."""
        found = [(each.due_ms - now_ms, name, each.why) for name, each in self._due.items()]
        return [(name, left_ms, why) for left_ms, name, why in sorted(found) if left_ms > 0]

    def granted(self, issue_id: str) -> None:
        """It is in our hands."""
        self._due.pop(issue_id, None)
        self.polling.granted(issue_id)
