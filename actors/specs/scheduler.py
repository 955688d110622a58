"""The scheduler: looks which schedules are due, and proposes each firing. No clock, no I/O.

    look --what is due--> fire, all of it in order --> look again when the next one is due

What the time is, the authority says with each look, so that the clock of this host does not matter.
The authority takes a firing once; that another scheduler was faster is nothing to speak of.

I1  What was missed is made up for as the schedule says: the newest moment, the newest hundred, or
    none that is over for longer than the grace.
I2  A firing that is refused for another reason is given up, with its moment, and reported.
"""

from collections.abc import Sequence
from typing import Any

from ...authority.service import client
from ...contracts import Reason, Schedule, due, limits, schedule_of
from ..leasing.moment import Moment
from ..leasing.outstanding import Answer, class_of, is_decided
from .lease_loop import RoundsReport

LOOK_MS = 2_000  # between two looks: other hosts change schedules, too
_TROUBLE_MS = 1_000
_FIRES_MAX = limits.SCHEDULE_MISSED_MAX  # in one turn
_SETTLED = frozenset(
    each.wire for each in (Reason.SCHEDULE_FIRED, Reason.SCHEDULE_MISSED, Reason.SCHEDULE_NOT_FOUND)
)
_EARLY = Reason.SCHEDULE_NOT_DUE.wire

Firing = tuple[str, int]  # a schedule, and the moment at which it was due


class Scheduler:
    """Turns as `shell.Shift` wants them."""

    def __init__(self) -> None:
        self.reports: list[RoundsReport] = []
        self.next_ms = 0
        self.fired = 0
        self._known = 0
        self._firings: list[Firing] = []  # to be proposed, in order
        self._sent: list[Firing] = []
        self._given_up: dict[str, int] = {}
        self._unread: set[str] = set()
        self.is_over = False

    def asks(self, moment: Moment) -> list[client.ClientCall]:
        """What is to be asked now."""
        if self.is_over or moment.ms < self.next_ms:
            return []
        self._sent, self._firings = self._firings[:_FIRES_MAX], self._firings[_FIRES_MAX:]
        if not self._sent:
            return [client.ClientCall("schedule.list", {})]
        return [
            client.ClientCall("schedule.fire", {"scheduleId": name, "dueMs": due_ms})
            for name, due_ms in self._sent
        ]

    def heard(self, answers: Sequence[Answer], moment: Moment) -> None:
        """The answers to what was asked, in the same order."""
        if not self._sent:
            self._listed(answers[0], moment)
            return
        for firing, answer in zip(self._sent, answers, strict=True):
            self._answered(firing, answer)
        self._sent = []
        self.next_ms = moment.ms

    def unheard(self, moment: Moment) -> None:
        """Nobody answered: what is due is looked up anew."""
        self._firings, self._sent = [], []
        self.next_ms = moment.jittered(_TROUBLE_MS)

    def wake(self, moment: Moment) -> None:
        """A schedule was changed."""
        self.next_ms = min(self.next_ms, moment.ms)

    def stop(self, reason: str) -> None:  # noqa: ARG002 - as others are stopped
        """It holds nothing."""
        self.is_over = True

    def summary(self, now_ms: int) -> dict[str, Any]:
        """For people."""
        pause_ms = max(0, self.next_ms - now_ms)
        counts = {"schedules": self._known, "fired": self.fired, "pauseMs": pause_ms}
        return counts | {"terms": [], "claiming": len(self._firings)}

    def _listed(self, answer: Answer, moment: Moment) -> None:
        if class_of(answer) is not None:
            self.next_ms = moment.jittered(_TROUBLE_MS)
            return
        now_ms = int(answer["stamp"]["wallMs"])
        next_ms = now_ms + LOOK_MS
        self._known = answer["count"]
        for each in answer["schedules"]:
            schedule = schedule_of(each)
            try:
                self._firings += self._due(schedule, now_ms)
                next_ms = min(next_ms, next(due.due_after(schedule, now_ms), next_ms))
            except (LookupError, ValueError, OSError) as error:  # a calendar that is not known here
                self._complain(schedule.schedule_id, error)
        self.next_ms = moment.ms if self._firings else moment.ms + next_ms - now_ms

    def _due(self, schedule: Schedule, now_ms: int) -> list[Firing]:
        """What is to be fired now (I1)."""
        name = schedule.schedule_id
        after_ms = max(schedule.last_due_ms, self._given_up.get(name, 0))
        if schedule.missed == "skip":
            after_ms = max(after_ms, now_ms - limits.SCHEDULE_GRACE_MS - 1)
        found = due.due_between(schedule, after_ms, now_ms)
        return [(name, each) for each in (found[-1:] if schedule.missed == "one" else found)]

    def _answered(self, firing: Firing, answer: Answer) -> None:
        failed = class_of(answer)
        name, due_ms = firing
        if failed is None:
            self.fired += 1
        elif is_decided(answer) and failed not in _SETTLED and failed != _EARLY:
            self._given_up[name] = max(due_ms, self._given_up.get(name, 0))
            self._report("schedule not fired", f"for {due_ms}: {failed}", name)

    def _complain(self, name: str, error: Exception) -> None:
        if name not in self._unread:
            self._unread.add(name)
            self._report("schedule not read", f"{type(error).__name__}: {error}", name)

    def _report(self, what: str, detail: str, name: str) -> None:
        self.reports.append(RoundsReport(what, detail, f"schedule/{name}"))
