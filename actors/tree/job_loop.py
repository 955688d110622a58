"""The worker loop for jobs: the dispatcher's cell once more, in the dialect of the job lane.

    roster -> expire what lapsed -> claim -> work -> complete, or yield with the reason

What workers owe the mesh is kept by the machine that issues have: it claims no more than it has
free workers, looks less and less often while there is nothing, with jitter, takes its pick from
further down the list where others were faster, and yields when a handler fails or the tree stops.
"""

from typing import Final

from ..dispatch import orders
from ..dispatch.dispatcher import Dispatcher
from ..dispatch.issue_calls import Clerk
from ..dispatch.job_calls import Jobs, policy_of
from ..otp import Start
from .job_worker import JobWorker
from .lease_dispatcher import LeaseDispatcher

NAME: Final = "job_loop"
JOB_SUP: Final = "job_sup"


class JobLoop(LeaseDispatcher):
    """A `LeaseDispatcher` that works on jobs."""

    name = NAME
    crew = JOB_SUP
    subject = "job"

    def _new_dispatcher(self, run: str) -> Dispatcher:
        return Dispatcher(self._plan.job_settings(run), policy_of(self._plan.policy))

    def _new_clerk(self) -> Clerk:
        node = self._plan.job_settings("any").name
        return Clerk(self._plan.state_dir, dialect=Jobs(node, self._plan.kinds))

    def _new_worker(self) -> Start:
        return Start(JobWorker, (self._plan, self.name), "worker")

    def _man(self, effect: orders.StartWorker) -> None:
        late = effect.issue.get("quarantined")
        if late is not None:
            said = f"of {late['worker']}, fence {late['fence']}; the handler is shown it"
            self._report("late result", said, effect.holder.name)
        super()._man(effect)
