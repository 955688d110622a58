"""The chain runner as a child of the tree: it makes the jobs of specs."""

import secrets
from typing import Final

from ..otp import ChildSpec, Start
from ..specs.lease_loop import Post
from ..specs.runner import ChainRunner
from ..specs.shell import Shift
from .lease_loop_cell import SHUTDOWN_MS, RoundsCell
from .plan import Plan

NAME: Final = "chain_runner"


class ChainRunnerCell(RoundsCell):
    name = NAME

    def begin(self) -> Shift:
        post = Post(self._plan.name, secrets.token_hex(4), self._plan.ttl_seconds * 1_000)
        return Shift(ChainRunner(post), self._plan.state_dir, reported=self.tell)


def child(plan: Plan) -> ChildSpec:
    """The runner of a plan that asks for one."""
    return ChildSpec(NAME, Start(ChainRunnerCell, (plan,), NAME), shutdown=SHUTDOWN_MS)
