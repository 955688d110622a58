"""Commands as groups of processes, some of them troublemakers, for the tests of this room."""

import sys
from pathlib import Path

from tests.actors.litter import TROUBLE, Mark
from tests.patience import PATIENCE_SECONDS, eventually
from understudy.actors.process.port import Command, Ended, ProcessGroup, keeper

KINDS = ("sleep", "deaf", "daemons", "tree", "runner")
PATIENCE_MS = PATIENCE_SECONDS * 1000
OWNER = """
import sys
from pathlib import Path
from understudy.actors.process.port import Command, ProcessGroup
groups = [
    ProcessGroup(Command([sys.executable, "-I", "-S", sys.argv[1], kind], grace_ms=100,
                         log=Path(sys.argv[2]) / kind))
    for kind in sys.argv[3:]
]
print("owner", flush=True)
for group in groups:
    group.wait()
"""


def made(mark: Mark, *argv: str | Path, **more: object) -> ProcessGroup:
    return ProcessGroup(Command(argv, env=mark.env, **more))  # type: ignore[arg-type]  # members by name


def troubled(mark: Mark, kind: str, log: Path, **more: object) -> ProcessGroup:
    """A troublemaker whose trouble is on its way."""
    group = made(mark, sys.executable, "-I", "-S", TROUBLE, kind, log=log, **more)
    eventually(lambda: log.exists() and b"up" in log.read_bytes())
    return group


def helpers(group: ProcessGroup) -> tuple[int, int]:
    """The warden and the keeper."""
    assert group.wait_begun(PATIENCE_MS)
    assert group.warden_pid is not None
    assert keeper().pid is not None
    return group.warden_pid, keeper().pid or 0


def ended(group: ProcessGroup) -> Ended:
    end = group.wait(PATIENCE_MS)
    assert end is not None, "it should have ended"
    group.close()
    return end
