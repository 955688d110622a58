"""The chain runner: makes a job of every step of a spec, once, under the spec's lease.

    open specs --spec.claim--> [held] --spec.materialize, 64 steps at a time--> jobs

The grant says which steps lack a job, so a runner that takes a spec over goes on where the last one
ended; and to make a job that is there already changes nothing. Steps go in the order of their
dependencies, though a job may be made before those that it waits for.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ...contracts import limits
from ..leasing.moment import Moment
from ..leasing.outstanding import Answer, class_of
from ..leasing.work_kind import WORK, Ask, Record, WorkKind
from .lease_loop import Post, Rounds, Term

SPECS_MAX: Final = 4  # held at once
_PORTIONS = 4  # requests for one spec in flight together
_PAGE = 64  # specs of one look


@dataclass(slots=True)
class Chain(Term):
    """A spec that is held, and which of its steps have no job yet."""

    left: deque[str] = field(default_factory=deque)


class ChainRunner(Rounds[Chain]):
    """`specs` and `jobs` are what it has made so far."""

    kind: ClassVar[WorkKind] = WORK["spec"]
    room: ClassVar[int] = SPECS_MAX
    grasp: ClassVar[int] = 1
    term = Chain

    def __init__(self, post: Post) -> None:
        super().__init__(post)
        self.specs = self.jobs = 0

    def summary(self, now_ms: int) -> dict[str, Any]:
        return super().summary(now_ms) | {"specs": self.specs, "jobs": self.jobs}

    def _look(self) -> Ask:
        return "spec.list", {"query": "open", "limit": _PAGE}

    def _ids(self, answer: Answer) -> list[str]:
        return [each["specId"] for each in answer["specs"]]

    def _members(self, record: Record) -> dict[str, Any]:
        steps = record["steps"]
        bare = {each["stepKey"] for each in steps if "jobId" not in each}
        return {"left": deque(key for key in in_order(steps) if key in bare)}

    def _work(self, term: Chain, moment: Moment) -> None:
        if not term.left:
            term.reason = "every step that the grant named has its job"
        for _ in range(_PORTIONS):
            count = min(limits.SPEC_BATCH_MAX, len(term.left))
            portion = [term.left.popleft() for _ in range(count)]
            if portion:
                action, proof = self.kind.completion(term.lease)
                self._under(term, (action, proof | {"stepKeys": portion}), self._made, moment)

    def _made(self, term: Chain, answer: Answer, _asked_ms: int, moment: Moment) -> None:
        if class_of(answer) is not None:
            self._give_back(term, answer, moment)
            return
        self.jobs += len(answer["created"])
        self._polling.prosper(term.lease.name)
        if answer["spec"]["state"] == "materialized":
            self.specs += 1
            del self.terms[term.lease.name]  # its lease went with it


def in_order(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of steps, each behind those that it depends on; else in the order of the spec.

    The authority takes no circles; should there be one, its steps come last.
    """
    waits = {each["stepKey"]: set(each.get("dependsOn", ())) for each in steps}
    freed: dict[str, list[str]] = {}
    for key, needs in waits.items():
        for need in needs:
            freed.setdefault(need, []).append(key)
    ready = deque(key for key, needs in waits.items() if not needs & waits.keys())
    order: dict[str, None] = {}
    while ready:
        key = ready.popleft()
        order[key] = None
        for each in freed.get(key, ()):
            waits[each].discard(key)
            if not waits[each] & waits.keys():
                ready.append(each)
    return [*order, *(key for key in waits if key not in order)]
