"""Places where a test may end the process, to prove that a crash there loses nothing.

`UNDERSTUDY_FAILPOINT=append.written:3` kills the process with SIGKILL when it comes to that place
for the third time; with `:stop` behind it the process is frozen with SIGSTOP instead. Without the
variable a failpoint is one look into an empty dictionary.
"""

import os
import signal

NAMES = (  # on the way of a commit
    "append.begun",
    "append.written",
    "append.committed",
    "trajectory.written",
    "trajectory.synced",
    "answer.ready",
    "snapshot.begun",
    "tables.written",
)
GLUE_NAMES = (  # on the way of a glue
    "glue.merging",
    "glue.merged",
    "glue.asking",
    "glue.authorized",
    "glue.moving",
    "glue.moved",
    "glue.sealing",
    "glue.sealed",
)


def _armed() -> dict[str, int]:
    name, count, *_ = [*os.environ.get("UNDERSTUDY_FAILPOINT", "").split(":"), "1"]
    return {name: int(count)} if name in NAMES + GLUE_NAMES else {}


_countdown = _armed()
_freezes = os.environ.get("UNDERSTUDY_FAILPOINT", "").endswith(":stop")


def failpoint(name: str) -> None:
    if name not in _countdown:
        return
    _countdown[name] -= 1
    if _countdown[name] == 0:
        os.kill(os.getpid(), signal.SIGSTOP if _freezes else signal.SIGKILL)
