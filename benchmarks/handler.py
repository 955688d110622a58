"""The handler that `stage` measures: it has nothing to do."""

from understudy.actors.handlers import Job


def work(job: Job) -> None:
    assert job.fence > 0
