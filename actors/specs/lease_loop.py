"""What a runner and a courier have in common: look, claim, hold, give back. No clock, no I/O.

    [free] --claim--> [held] --done, lost, lapsed or given back--> [free]

A turn is `asks`, the answers to which are `heard` (or `unheard`, where nobody answered). Time and
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
from ...contracts import limits
from ..dispatch.answers import Answer, class_of
from .docket import Docket
from .hold import Hold
from .lookout import Lookout
from .moment import Moment

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOST = "lease_"  # how the classes begin that say that a lease is not ours any more


@dataclass(frozen=True, slots=True)
class Post:
    """Who works, and for how long at a time. Raises `ValueError` for what cannot work.

    Several may have one `name`, which is that of a node; `run` is nobody else's.
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
class Report:
    """Something that people may want to know."""

    what: str
    detail: str
    subject: str | None = None


@dataclass(slots=True)
class Term:
    """Something that is held."""

    hold: Hold
    in_flight: int = 0  # requests that are not answered
    reason: str | None = None  # to give it back


T = TypeVar("T", bound=Term)


class Rounds(ABC, Generic[T]):
    """`terms` are what is held, by id."""

    room: ClassVar[int]  # how much is held at once
    grasp: ClassVar[int]  # how much of it is claimed in one turn: the rest is left to others
    topic: ClassVar[str]  # the first half of the actions: `spec.claim`, `spec.release`
    role: ClassVar[str]  # the member that names us
    subject: ClassVar[str]  # the member that names what is claimed

    def __init__(self, post: Post) -> None:
        self.post = post
        self.terms: dict[str, T] = {}
        self.reports: list[Report] = []  # for the shell to take away
        self.stopping: str | None = None
        self._docket = Docket(f"{self.topic}-{post.name}-{post.run}")
        self._lookout = Lookout()
        self._claiming: set[str] = set()
        self._is_looking = False

    # --- for the shell --------------------------------------------------------------------------

    def asks(self, moment: Moment) -> list[client.Call]:
        """What is to be asked now, in flight together."""
        if moment.ms < self._docket.again_ms:
            return []
        for term in list(self.terms.values()):
            self._tend(term, moment)
        if self.stopping is None:
            self._seek(moment)
        return self._docket.calls(moment)

    def heard(self, answers: Sequence[Answer], moment: Moment) -> None:
        """The answers to what was asked, in the same order."""
        self._docket.heard(answers, moment)

    def unheard(self, moment: Moment) -> None:
        """Nobody answered: the same is asked again later."""
        self._docket.unheard(moment)

    def wake(self, moment: Moment) -> None:
        """There may be something to claim."""
        self._lookout.wake(moment)

    def stop(self, reason: str) -> None:
        """Give everything back (I3)."""
        self.stopping = self.stopping or reason
        self._docket.again_ms = 0

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
        is_busy = self.terms or len(self._docket) or self.stopping is not None
        return max(self._docket.again_ms, 0 if is_busy else self._lookout.next_ms())

    def summary(self, now_ms: int) -> dict[str, Any]:
        """What is in hand, for people."""
        return {
            "name": self.post.name,
            "claiming": len(self._claiming),
            "stopping": self.stopping,
            "terms": [
                {
                    self.subject: subject,
                    "fence": term.hold.fence,
                    "remainingMs": term.hold.until_ms - now_ms,
                }
                for subject, term in self.terms.items()
            ],
        }

    # --- looking and claiming -------------------------------------------------------------------

    def _seek(self, moment: Moment) -> None:
        free = self.room - len(self.terms) - len(self._claiming)
        if free <= 0:
            return
        for subject in self._lookout.pick(min(free, self.grasp), moment):
            self._claim(subject, moment)
        if not self._is_looking and self._lookout.wants_look(moment):
            self._is_looking = True
            action, payload = self._look()
            cursor = self._lookout.cursor
            self._docket.read(
                action, payload | ({"cursor": cursor} if cursor else {}), self._listed, moment
            )

    def _listed(self, answer: Answer, _asked_ms: int, moment: Moment) -> None:
        self._is_looking = False
        failed = class_of(answer)
        if failed is not None:
            self._lookout.cursor = None
            self._lookout.rest(moment)
            self._report("cannot look", f"{failed}: {answer['diagnostic']}")
            return
        taken = self.terms.keys() | self._claiming
        ids = [each for each in self._ids(answer) if each not in taken]
        self._lookout.listed(ids, answer.get("cursor"), moment)

    def _claim(self, subject: str, moment: Moment) -> None:
        self._claiming.add(subject)
        payload: dict[str, Any] = {self.subject: subject, self.role: self.post.name}
        payload["leaseDurationMs"] = self.post.ttl_ms

        def then(answer: Answer, asked_ms: int, now: Moment) -> None:
            self._claiming.discard(subject)
            self._claimed(subject, answer, asked_ms, now)

        self._docket.change(f"{self.topic}.claim", payload, then, moment)

    def _claimed(self, subject: str, answer: Answer, asked_ms: int, moment: Moment) -> None:
        failed = class_of(answer)
        if failed is None:
            hold = Hold.granted(subject, self._lease(answer), self.post.ttl_ms, asked_ms)
            self.terms[subject] = self._term(hold, answer)
        elif failed.startswith(_LOST):  # somebody holds it, perhaps under our name
            self._lookout.contended(moment)
        elif failed not in self._settled:
            self._lookout.rest(moment)
            self._report("not granted", f"{failed}: {answer['diagnostic']}", subject)

    # --- holding --------------------------------------------------------------------------------

    def _tend(self, term: T, moment: Moment) -> None:
        if term.in_flight:
            return
        subject = term.hold.subject
        if moment.ms >= term.hold.until_ms:  # I2
            self._report("lapsed", f"fence {term.hold.fence}", subject)
            del self.terms[subject]
            return
        if term.reason is None and self.stopping is not None and self._can_stop(term):
            term.reason = self.stopping
        if term.reason is not None:
            reason = term.reason[: limits.REASON_LENGTH_MAX]
            self._under(term, "release", {"reason": reason}, self._released, moment)
            return
        if moment.ms >= term.hold.renew_ms:
            extension = {"leaseDurationMs": self.post.ttl_ms}
            self._under(term, "claim", extension, self._renewed, moment)
        self._work(term, moment)

    def _under(
        self,
        term: T,
        verb: str,
        payload: dict[str, Any],
        then: Callable[[T, Answer, int, Moment], None],
        moment: Moment,
    ) -> None:
        """Ask for something that only the holder may have."""
        term.in_flight += 1
        holder = {self.subject: term.hold.subject, self.role: self.post.name} | term.hold.proof

        def answered(answer: Answer, asked_ms: int, now: Moment) -> None:
            term.in_flight -= 1
            if self.terms.get(term.hold.subject) is term and not self._is_lost(term, answer):
                then(term, answer, asked_ms, now)

        self._docket.change(f"{self.topic}.{verb}", holder | payload, answered, moment)

    def _is_lost(self, term: T, answer: Answer) -> bool:
        """Whether the lease is not ours any more, or there is nothing more to do under it."""
        failed = class_of(answer)
        if failed is None or not (failed.startswith(_LOST) or failed in self._settled):
            return False
        if failed not in self._settled:
            self._report("lost", f"{failed}: {answer['diagnostic']}", term.hold.subject)
        del self.terms[term.hold.subject]
        return True

    def _renewed(self, term: T, answer: Answer, asked_ms: int, moment: Moment) -> None:
        if class_of(answer) is None:
            term.hold.renewed(asked_ms)
        else:
            self._give_back(term, answer, moment)

    def _released(self, term: T, answer: Answer, _asked_ms: int, _moment: Moment) -> None:
        failed = class_of(answer)
        if failed is not None:  # it lapses by itself
            self._report("not given back", f"{failed}: {answer['diagnostic']}", term.hold.subject)
        del self.terms[term.hold.subject]

    def _give_back(self, term: T, answer: Answer, moment: Moment) -> None:
        """It was refused for a reason that will not go away by itself."""
        if term.reason is not None:
            return  # several requests were
        term.reason = f"{class_of(answer)}: {answer['diagnostic']}"
        self._lookout.avoid(term.hold.subject, moment)
        self._report("given back", term.reason, term.hold.subject)

    def _report(self, what: str, detail: str, subject: str | None = None) -> None:
        self.reports.append(Report(what, detail, subject))

    # --- what a subclass says -------------------------------------------------------------------

    _settled: ClassVar[frozenset[str]]  # classes that say that somebody else has done it

    @abstractmethod
    def _look(self) -> tuple[str, dict[str, Any]]:
        """The question for what can be claimed."""

    @abstractmethod
    def _ids(self, answer: Answer) -> list[str]:
        """What can be claimed, the oldest first."""

    @abstractmethod
    def _lease(self, answer: Answer) -> dict[str, Any]:
        """What was granted."""

    @abstractmethod
    def _term(self, hold: Hold, answer: Answer) -> T: ...

    @abstractmethod
    def _work(self, term: T, moment: Moment) -> None:
        """Ask for what comes next under a lease that holds, where nothing is in flight."""

    def _can_stop(self, term: T) -> bool:  # noqa: ARG002 - for subclasses
        """Whether it can be given back as it is."""
        return True
