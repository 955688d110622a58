"""The courier: hands every job of a spec that is free to run on, once, as a file.

    dispatch.roster --dispatch.claim--> [held] --written--> [written] --dispatch.complete--> done
                                           \\--cannot be written--> dispatch.release, later again

A courier that dies anywhere between leaves a lease that lapses; the next one finds the file, or
writes the same one, and completes. One that was frozen is refused by its fence when it wakes.

I1  `dispatch.complete` is asked when the file and its name are on disk, never before.
I2  What is written is not given back: a stop waits for its completion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ...contracts import limits
from ..leasing.moment import Moment
from ..leasing.outstanding import Answer, class_of
from ..leasing.work_kind import WORK, Ask, Record, WorkKind
from . import job_file_format
from .job_file_format import Sheet
from .lease_loop import Post, Rounds, Term

JOBS_MAX: Final = 32  # held at once
CLAIMS_MAX: Final = 16  # in one turn
_WRITES = 8  # between two turns, so that leases are renewed however slow the disk is


@dataclass(slots=True)
class JobDelivery(Term):
    """A job that is held, and its file."""

    job: dict[str, Any] = field(default_factory=dict)
    sheet: Sheet | None = None  # that was written


class Courier(Rounds[JobDelivery]):
    """`jobs` is how many it has dispatched so far, `failures` how many files it could not write."""

    kind: ClassVar[WorkKind] = WORK["dispatch"]
    room: ClassVar[int] = JOBS_MAX
    grasp: ClassVar[int] = CLAIMS_MAX
    term = JobDelivery

    def __init__(self, post: Post) -> None:
        super().__init__(post)
        self.jobs = self.failures = 0

    def summary(self, now_ms: int) -> dict[str, Any]:
        return super().summary(now_ms) | {"jobs": self.jobs, "failures": self.failures}

    # --- files ----------------------------------------------------------------------------------

    def writes(self, moment: Moment) -> list[Sheet]:
        """Files that are to be written now."""
        due = [
            each
            for each in self.terms.values()
            if each.sheet is None and each.reason is None and moment.ms < each.until_ms
        ]
        if self.stopping is not None:
            return []
        return [job_file_format.sheet(each.job, each.until_ms) for each in due[:_WRITES]]

    def written(
        self, sheets: Sequence[Sheet], outcomes: Sequence[job_file_format.Outcome], moment: Moment
    ) -> None:
        """What became of them. A folder that takes none is left alone, and so is the roster."""
        for sheet, outcome in zip(sheets, outcomes, strict=True):
            term = self.terms[sheet.job_id]
            match outcome:
                case job_file_format.Placed():
                    term.sheet = sheet
                case job_file_format.Late():
                    pass  # the next turn drops it
                case job_file_format.Failed(detail, of_folder):
                    self._fail(term, detail, of_folder=of_folder, moment=moment)

    def _fail(self, term: JobDelivery, detail: str, *, of_folder: bool, moment: Moment) -> None:
        self.failures += 1
        if of_folder:
            self._polling.rest(moment)
            held = [each for each in self.terms.values() if each.sheet is None]
        else:
            self._polling.avoid(term.lease.name, moment)
            held = [term]
        if term.reason is None:
            self._report("not written", detail, None if of_folder else term.lease.name)
        for each in held:
            each.reason = f"not written: {detail}"

    # --- what the rounds ask --------------------------------------------------------------------

    def _look(self) -> Ask:
        return "dispatch.roster", {"limit": limits.ROSTER_PAGE_MAX}

    def _ids(self, answer: Answer) -> list[str]:
        return [each["jobId"] for each in answer["jobs"]]

    def _members(self, record: Record) -> dict[str, Any]:
        return {"job": record}

    def _can_stop(self, term: JobDelivery) -> bool:
        return term.sheet is None  # I2

    def _work(self, term: JobDelivery, moment: Moment) -> None:
        if term.sheet is not None:  # I1
            action, proof = self.kind.completion(term.lease)
            about = {"file": term.sheet.name, "digest": term.sheet.digest}
            self._under(term, (action, proof | about), self._completed, moment)

    def _completed(self, term: JobDelivery, answer: Answer, _asked_ms: int, moment: Moment) -> None:
        if class_of(answer) is not None:
            term.sheet = None
            self._give_back(term, answer, moment)
            return
        self.jobs += 1
        self._polling.prosper(term.lease.name)
        del self.terms[term.lease.name]
