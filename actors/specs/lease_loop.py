"""What a runner and a courier have in common: look, claim, hold, give back. No clock, no I/O.

    [free] --claim--> [held] --done, lost, lapsed or given back--> [free]

A turn is `asks`, the answers to which are `heard` (or `unheard`, where no answer came). Time and
dice come from outside with every step.

I1  What we hold is either worked on, or given back, or has lapsed; it is never kept idle.
I2  Nothing is asked under a lease that has lapsed by our own clock. The authority would refuse it;
    a file system would not.
I3  While it is told to stop, nothing new is claimed. It is over when nothing is held.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from ...authority.service import client
from ...contracts import Reason, ends_lease, limits
from ..leasing.holding import Holding, Timing
from ..leasing.moment import Moment
from ..leasing.outstanding import Answer, OpenRequest, Outstanding, class_of, is_decided
from ..leasing.polling import Candidate, Polling
from ..leasing.work_kind import Ask, Record, WorkKind

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Another holder has what was to be claimed, perhaps under our own name.
_CONTENDED = frozenset({Reason.LEASE_CONTENDED.wire, Reason.FENCE_MISSING.wire})

Then = Callable[[Answer, int, Moment], None]  # the answer, when it was first asked for, and now


@dataclass(frozen=True, slots=True)
class Post:
    """Who works, and for how long at a time. Raises `ValueError` for what cannot work.

    Several may have one `name`, which is that of a node; `run` is its own.
    """

    name: str
    run: str
    ttl_ms: int = limits.SPEC_TTL_MS_DEFAULT

    def __post_init__(self) -> None:
        for name in (self.name, self.run):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name: letters, digits, `.`, `_`, `-`; at most 64")
        low, high = limits.TTL_SECONDS_MIN * 1_000, limits.TTL_SECONDS_MAX * 1_000
        if not low <= self.ttl_ms <= high:
            raise ValueError(f"leases of {self.ttl_ms} ms: they last {low} to {high} ms")


@dataclass(frozen=True, slots=True)
class RoundsReport:
    """Something that people may want to know."""

    what: str
    detail: str
    subject: str | None = None


@dataclass(slots=True)
class Term(Holding):
    """Something that is held."""

    in_flight: int = 0  # requests that are not answered
    reason: str | None = None  # to give it back


@dataclass(slots=True)
class _Question(OpenRequest):
    call: client.ClientCall
    then: Then


T = TypeVar("T", bound=Term)


class Rounds(ABC, Generic[T]):
    """`terms` are what is held, by id."""

    kind: ClassVar[WorkKind]  # what is held
    room: ClassVar[int]  # how much is held at once
    grasp: ClassVar[int]  # how much of it is claimed in one turn: the rest is left to others

    def __init__(self, post: Post) -> None:
        self.post = post
        self.terms: dict[str, T] = {}
        self.reports: list[RoundsReport] = []  # for the shell to take away
        self.stopping: str | None = None
        self._questions = Outstanding[_Question]()
        self._sent: list[str] = []  # tokens of what was asked last
        self._serial = 0
        self._polling = Polling()
        self._claiming: set[str] = set()
        self._is_looking = False

    # --- for the shell --------------------------------------------------------------------------

    def asks(self, moment: Moment) -> list[client.ClientCall]:
        """What is to be asked now, in flight together."""
        if moment.ms < self._again_ms:
            return []
        for term in list(self.terms.values()):
            self._tend(term, moment)
        if self.stopping is None:
            self._seek(moment)
        due = self._questions.due(moment.ms)
        self._sent = [token for token, _ in due]
        return [self._questions.send(*each, moment.ms).call for each in due]

    def heard(self, answers: Sequence[Answer], moment: Moment) -> None:
        """The answers to what was asked, in the same order."""
        for token, answer in zip(self._sent, answers, strict=True):
            if not is_decided(answer):
                self._questions.put_off(token, moment)
            elif (question := self._questions.answered(token)) is not None:
                question.then(answer, question.asked_ms, moment)

    def unheard(self, moment: Moment) -> None:
        """No answer came: the same is asked again later."""
        for token in self._sent:
            self._questions.put_off(token, moment)

    def wake(self, moment: Moment) -> None:
        """There may be something to claim."""
        self._polling.wake(moment)

    def stop(self, reason: str) -> None:
        """Give everything back (I3)."""
        self.stopping = self.stopping or reason
        self._questions.hurry()

    @property
    def is_over(self) -> bool:
        return self.stopping is not None and not self.terms and not self._claiming

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held, and nothing known of that could be."""
        return not self.terms and not self._claiming

    @property
    def next_ms(self) -> int:
        """When the next turn is due; it may be past."""
        is_busy = self.terms or len(self._questions) or self.stopping is not None
        return max(self._again_ms, 0 if is_busy else self._polling.next_ms())

    @property
    def _again_ms(self) -> int:
        """While one question has to wait, nothing is asked."""
        return max((each.again_ms for each in self._questions), default=0)

    def summary(self, now_ms: int) -> dict[str, Any]:
        """What is in hand, for people."""
        return {
            "name": self.post.name,
            "claiming": len(self._claiming),
            "stopping": self.stopping,
            "terms": [
                {
                    self.kind.subject: subject,
                    "fence": term.lease.fence,
                    "remainingMs": term.until_ms - now_ms,
                }
                for subject, term in self.terms.items()
            ],
        }

    # --- looking and claiming -------------------------------------------------------------------

    def _seek(self, moment: Moment) -> None:
        free = self.room - len(self.terms) - len(self._claiming)
        if free <= 0:
            return
        for candidate in self._polling.pick(min(free, self.grasp), set(), moment):
            self._claim(candidate.name, moment)
        if not self._is_looking and self._polling.wants_look(moment.ms):
            self._is_looking = True
            self._polling.looks(moment.ms)
            action, payload = self._look()
            cursor = self._polling.cursor
            call = client.ClientCall(action, payload | ({"cursor": cursor} if cursor else {}))
            question = _Question(moment.ms, call, self._listed)
            self._questions.add(self._next_token(), question)

    def _listed(self, answer: Answer, _asked_ms: int, moment: Moment) -> None:
        self._is_looking = False
        failed = class_of(answer)
        if failed is not None:
            self._polling.cursor = None
            self._polling.rest(moment)
            self._report("cannot look", f"{failed}: {answer['diagnostic']}")
            return
        taken = self.terms.keys() | self._claiming
        found = [Candidate(each) for each in self._ids(answer) if each not in taken]
        self._polling.listed(found, moment, answer.get("cursor"))

    def _claim(self, subject: str, moment: Moment) -> None:
        self._claiming.add(subject)

        def then(answer: Answer, asked_ms: int, now: Moment) -> None:
            self._claiming.discard(subject)
            self._claimed(subject, answer, asked_ms, now)

        self._change(self.kind.claim(subject, self.post.name, self.post.ttl_ms), then, moment)

    def _claimed(self, subject: str, answer: Answer, asked_ms: int, moment: Moment) -> None:
        failed = class_of(answer)
        if failed is None:
            record = self.kind.shown(answer)
            held, timing = self.kind.held(record), Timing(self.post.ttl_ms)
            members = self._members(record)
            self.terms[subject] = self.term.granted(held, timing, asked_ms, moment, **members)
        elif failed in self.kind.settled:
            pass  # another runner has done it
        elif failed in _CONTENDED or ends_lease(failed):
            self._polling.contended(moment)
        else:
            self._polling.rest(moment)
            self._report("not granted", f"{failed}: {answer['diagnostic']}", subject)

    # --- holding --------------------------------------------------------------------------------

    def _tend(self, term: T, moment: Moment) -> None:
        if term.in_flight:
            return
        subject = term.lease.name
        if moment.ms >= term.until_ms:  # I2
            self._report("lapsed", f"fence {term.lease.fence}", subject)
            del self.terms[subject]
            return
        if term.reason is None and self.stopping is not None and self._can_stop(term):
            term.reason = self.stopping
        if term.reason is not None:
            release = self.kind.release(term.lease, term.reason)
            self._under(term, release, self._released, moment)
            return
        if moment.ms >= term.renew_ms:
            renewal = self.kind.renewal(term.lease, self.post.ttl_ms)
            self._under(term, renewal, self._renewed, moment)
        self._work(term, moment)

    def _under(
        self,
        term: T,
        ask: Ask,
        then: Callable[[T, Answer, int, Moment], None],
        moment: Moment,
    ) -> None:
        """Ask for something that only the holder may have."""
        term.in_flight += 1

        def answered(answer: Answer, asked_ms: int, now: Moment) -> None:
            term.in_flight -= 1
            if self.terms.get(term.lease.name) is not term:
                return
            failed = class_of(answer)
            if not ends_lease(failed):
                then(term, answer, asked_ms, now)
                return
            if failed not in self.kind.settled:  # else there is nothing more to do
                self._report("lost", f"{failed}: {answer['diagnostic']}", term.lease.name)
            del self.terms[term.lease.name]

        self._change(ask, answered, moment)

    def _renewed(self, term: T, answer: Answer, asked_ms: int, moment: Moment) -> None:
        if class_of(answer) is None:
            term.extend(asked_ms, moment)
        else:
            self._give_back(term, answer, moment)

    def _released(self, term: T, answer: Answer, _asked_ms: int, _moment: Moment) -> None:
        failed = class_of(answer)
        if failed is not None:  # it lapses by itself
            self._report("not given back", f"{failed}: {answer['diagnostic']}", term.lease.name)
        del self.terms[term.lease.name]

    def _give_back(self, term: T, answer: Answer, moment: Moment) -> None:
        """It was refused for a reason that will not go away by itself."""
        if term.reason is not None:
            return  # several requests were
        term.reason = f"{class_of(answer)}: {answer['diagnostic']}"
        self._polling.avoid(term.lease.name, moment)
        self._report("given back", term.reason, term.lease.name)

    def _change(self, ask: Ask, then: Then, moment: Moment) -> None:
        """Ask for something that is done once, however often it is asked."""
        action, payload = ask
        token = self._next_token()
        call = client.ClientCall(action, payload | {"requestId": token})
        self._questions.add(token, _Question(moment.ms, call, then))

    def _next_token(self) -> str:
        self._serial += 1
        return f"{self.kind.family}-{self.post.name}-{self.post.run}-{self._serial}"

    def _report(self, what: str, detail: str, subject: str | None = None) -> None:
        self.reports.append(RoundsReport(what, detail, subject))

    # --- what a subclass says -------------------------------------------------------------------

    term: type[T]

    @abstractmethod
    def _members(self, record: Record) -> dict[str, Any]:
        """What the term has beside its lease."""

    @abstractmethod
    def _look(self) -> Ask:
        """The question for what can be claimed."""

    @abstractmethod
    def _ids(self, answer: Answer) -> list[str]:
        """What can be claimed, the oldest first."""

    @abstractmethod
    def _work(self, term: T, moment: Moment) -> None:
        """Ask for what comes next under a lease that holds, where nothing is in flight."""

    def _can_stop(self, term: T) -> bool:  # noqa: ARG002 - for subclasses
        """Whether it can be given back as it is."""
        return True
