"""The tracer as a child of the tree: a process that sends the spans of work to a collector.

What is run is the plan's to say, since commands live above this room. It is started last, and again
when it dies: it remembers how far it came. Whether the collector is there is no matter of the
tree's; a tracer that cannot send waits.
"""

from typing import Final

from ..otp import ChildSpec, Start
from ..process.port import Command
from ..process.portchild import PortChild
from .plan import Plan

NAME: Final = "tracer"
LOG: Final = "tracer.log"
_START_MS = 30_000
_STOP_GRACE_MS = 10_000  # it sends what has ended


def child(plan: Plan) -> ChildSpec:
    """The tracer of a plan that asks for one."""
    command = Command(plan.tracer, cwd=plan.cwd, log=plan.run_dir / LOG, grace_ms=_STOP_GRACE_MS)
    return ChildSpec(
        NAME,
        Start(PortChild, (command,), NAME),
        shutdown=_STOP_GRACE_MS + 5_000,
        start_timeout_ms=_START_MS,
    )
