"""The gluer as a child of the tree: a process that merges what workers leave into their branch.

What is run is the plan's to say, since commands live above this room. It is started last, and again
when it dies: whatever it had begun, the next one settles. It has no socket to be asked at; its
leases show whether it lives.
"""

from typing import Final

from ..otp import ChildSpec, Start
from ..process.port import Command
from ..process.portchild import PortChild
from .plan import Plan

NAME: Final = "gluer"
LOG: Final = "gluer.log"
_START_MS = 30_000
_STOP_GRACE_MS = 10_000  # its pass hands the lease back


def child(plan: Plan) -> ChildSpec:
    """The gluer of a plan that asks for one."""
    command = Command(plan.gluer, cwd=plan.cwd, log=plan.run_dir / LOG, grace_ms=_STOP_GRACE_MS)
    return ChildSpec(
        NAME,
        Start(PortChild, (command,), NAME),
        shutdown=_STOP_GRACE_MS + 5_000,
        start_timeout_ms=_START_MS,
    )
