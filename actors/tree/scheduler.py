"""The scheduler as a child of the tree: it proposes the firings of schedules."""

from typing import Final

from ..otp import ChildSpec, Start
from ..specs.scheduler import Scheduler
from ..specs.shell import Shift
from .lease_loop_cell import SHUTDOWN_MS, RoundsCell
from .plan import Plan

NAME: Final = "scheduler"


class SchedulerCell(RoundsCell):
    name = NAME

    def begin(self) -> Shift:
        return Shift(Scheduler(), self._plan.state_dir, reported=self.tell)


def child(plan: Plan) -> ChildSpec:
    """The scheduler of a plan that asks for one."""
    return ChildSpec(NAME, Start(SchedulerCell, (plan,), NAME), shutdown=SHUTDOWN_MS)
