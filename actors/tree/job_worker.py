"""A worker for jobs: what is run is the kind's to say, and what it produced goes with its end.

Beside the attempt's log lies the file in which the command names its artefacts. It is read when the
command has ended well, and all of its descendants are gone.
"""

from dataclasses import replace
from pathlib import Path

from ...authority.journal import private
from ...contracts import Reason
from ..dispatch.orders import StartWorker, WorkerExited
from ..process.port import Ended
from ..run.artifacts import VARIABLE, ArtifactsInvalid, members, read_artifacts
from ..run.attempts import Attempt
from .worker import Worker, WorkerJob


class JobWorker(Worker):
    """A `Worker` whose orders are about jobs."""

    subject = "job"

    def _words(self, order: StartWorker) -> tuple[str, ...]:
        words = self._plan.kinds.command_of(order.issue["kind"])
        if words is None:
            raise OSError(f"no handler for {order.issue['kind']}")
        return words

    def _environment(self, order: StartWorker, attempt: Attempt) -> dict[str, str]:
        held = replace(order.holder, owner=self._plan.job_settings("any").name)
        private.touch(_left(attempt))  # the command would make it by its umask
        return held.environment(self._plan.state_dir) | {VARIABLE: str(_left(attempt))}

    def _exit_of(self, job: WorkerJob, ended: Ended) -> WorkerExited:
        exited = super()._exit_of(job, ended)
        if exited.code != 0 or exited.was_stopped:
            return exited
        try:
            found = read_artifacts(_left(job.attempt), job.order.holder.name)
        except ArtifactsInvalid as error:
            invalid = Reason.JOB_ARTIFACT_INVALID.wire
            return replace(exited, unsound=str(error), failure_classes=(invalid,))
        return replace(exited, artifacts=tuple(members(found)))


def _left(attempt: Attempt) -> Path:
    """Where the command says what it produced; it goes when the log goes."""
    return attempt.path.with_name(f"{attempt.path.name}.artifacts")
