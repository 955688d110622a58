"""Which issues are claimed, and from when on: those that are wanted, when their pause is over.

An issue that was tried before has a time before which it is left alone. The dispatcher that let go
of it a moment ago knows that time. Otherwise it is what the policy says for its attempts, counted
from when the authority last wrote its record; that is all that survives a restart, and it is
enough: only the failure class, and so which pause was meant, is forgotten, and the pause of a lost
worker taken. When to look, and what of a list to claim, is in `leasing.polling`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...contracts import RetryPolicy, backoff_ms, retry_decision
from ..leasing.moment import Moment
from ..leasing.polling import Candidate, Polling
from .escalation import LABEL
from .orders import Listed, Listing, Story

LOST = ("job_worker_lost",)  # what a worker counts as of whom nothing more is known
STORIES_MAX = 64  # issues that are read whole at once


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


@dataclass(slots=True)
class Worklist:
    policy: RetryPolicy
    wanted: Wanted
    polling: Polling = field(default_factory=Polling)
    _due: dict[str, tuple[int, int]] = field(default_factory=dict)  # issue -> attempts, due_ms

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
            attempts, due_ms = self._due.get(each.issue_id, (0, 0))
            if attempts == each.attempts:
                known.append(Candidate(each.issue_id, due_ms, attempts))
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
            decision = retry_decision(self.policy, LOST, max(1, story.attempts))
            pause_ms = backoff_ms(
                self.policy, decision.backoff_class, decision.attempt, moment.dice()
            )
            due_ms = moment.ms + max(0, pause_ms - story.quiet_ms)
            if not story.is_lapsed:
                self.put_off(story.issue_id, story.attempts, due_ms)
            exhausted = story.is_lapsed and not decision.retry
            candidate = Candidate(story.issue_id, due_ms, story.attempts, exhausted)
            self.polling.candidates.append(candidate)

    def put_off(self, issue_id: str, attempts: int, due_ms: int) -> None:
        """Leave an issue alone that we let go of, for as long as it has this many attempts."""
        self._due[issue_id] = (attempts, due_ms)

    def granted(self, issue_id: str) -> None:
        """It is in our hands."""
        self._due.pop(issue_id, None)
        self.polling.granted(issue_id)
