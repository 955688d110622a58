"""A worker for jobs: what is run is the kind's to say, and what it produced goes with its end.

Beside the attempt's log lies the file in which the command names its artefacts. It is read when the
command has ended well, and all of its descendants are gone.
"""

from dataclasses import replace
from pathlib import Path

from ...contracts import Reason, job_resource
from ..dispatch.orders import Holder, WorkerExited
from ..process.port import Ended
from ..run.artifacts import VARIABLE, ArtifactsInvalid, members, read_artifacts
from ..trade import Held
from .worker import Begin, Worker


class JobWorker(Worker):
    """A `Worker` whose orders are about jobs."""

    subject = "job"

    def _shelf(self, holder: Holder) -> str:
        return job_resource(holder.issue_id)

    def _words(self, order: Begin) -> tuple[str, ...]:
        words = self._plan.kinds.command_of(order.issue["kind"])
        if words is None:
            raise OSError(f"no handler for {order.issue['kind']}")
        return words

    def _environment(self, order: Begin) -> dict[str, str]:
        node, holder = self._plan.job_settings("any").name, order.holder
        lease = (holder.lease_id, holder.fence)
        held = Held(holder.issue_id, node, *lease, order.attempt, "job", order.issue["kind"])
        return held.environment(self._plan.state_dir) | {VARIABLE: str(self._left())}

    def _exit_of(self, ended: Ended) -> WorkerExited:
        exited = super()._exit_of(ended)
        assert self._holder is not None
        if exited.code != 0 or exited.was_stopped:
            return exited
        try:
            found = read_artifacts(self._left(), self._holder.issue_id)
        except ArtifactsInvalid as error:
            invalid = Reason.JOB_ARTIFACT_INVALID.wire
            return replace(exited, unsound=str(error), failure_classes=(invalid,))
        return replace(exited, artifacts=tuple(members(found)))

    def _left(self) -> Path:
        """Where the command says what it produced; it goes when the log goes."""
        assert self._attempt is not None
        return self._attempt.path.with_name(f"{self._attempt.path.name}.artifacts")
