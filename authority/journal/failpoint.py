"""Places where a test may end the process, to prove that a crash there loses nothing.

`UNDERSTUDY_FAILPOINT=append.written:3` kills the process with SIGKILL when it comes to that place
for the third time. Without the variable a failpoint is one look into an empty dictionary.
"""

import os
import signal

NAMES = (
    "append.begun",
    "append.written",
    "append.committed",
    "trajectory.written",
    "trajectory.synced",
    "answer.ready",
    "snapshot.begun",
    "tables.written",
)


def _armed() -> dict[str, int]:
    name, _, count = os.environ.get("UNDERSTUDY_FAILPOINT", "").partition(":")
    return {name: int(count or "1")} if name in NAMES else {}


_countdown = _armed()


def failpoint(name: str) -> None:
    if name not in _countdown:
        return
    _countdown[name] -= 1
    if _countdown[name] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
