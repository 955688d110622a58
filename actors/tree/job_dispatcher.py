"""The dispatcher of jobs as a child of the tree: it writes the files of jobs that can run."""

import secrets
from typing import Final

from ..otp import ChildSpec, Start
from ..specs.job_files import Courier
from ..specs.lease_loop import Post
from ..specs.shell import Round
from .lease_loop_cell import SHUTDOWN_MS, RoundsCell
from .plan import Plan

NAME: Final = "job_dispatcher"


class JobDispatcherCell(RoundsCell):
    name = NAME

    def begin(self) -> Round:
        plan = self._plan
        assert plan.job_files is not None
        post = Post(plan.name, secrets.token_hex(4), plan.ttl_seconds * 1_000)
        return Round(Courier(post), plan.state_dir, plan.job_files, reported=self.tell)


def child(plan: Plan) -> ChildSpec:
    """The dispatcher of a plan that asks for one."""
    return ChildSpec(NAME, Start(JobDispatcherCell, (plan,), NAME), shutdown=SHUTDOWN_MS)
