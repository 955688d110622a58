"""`python -m understudy.actors.descent.glue_program ORDER`: one pass, under the lease that the
environment names.

ORDER is a JSON object of `GlueOrder`. What came of the pass is written to the file that it names.
Progress goes to standard error. Exit 0 when nothing waits any more, 75 to be asked again later, 6
when the lease is lost, 1 when a person has to look.
"""

import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ...authority import Unavailable, open_authority
from ...contracts import Exit
from ..leasing.work_kind import HeldLease
from .branch import Deposed
from .git import Git, GitRefused
from .glue_desk import GlueDesk, GlueRefused, GlueStopped, LeaseOver
from .gluing import GlueLater, GluePass, GlueSettings

READS = frozenset({"descent.show", "issue.show", "required.projection"})


@dataclass(frozen=True, slots=True)
class GlueOrder:
    """What a pass is told, beside its lease."""

    folder: str  # of the repository
    report: str  # the file to write what came of it to
    boundary: str | None = None
    settings: GlueSettings = field(default_factory=GlueSettings)

    def encoded(self) -> str:
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def decoded(cls, text: str) -> "GlueOrder":
        found = orjson.loads(text)
        return cls(**found | {"settings": GlueSettings(**found["settings"])})


def main(words: list[str]) -> int:
    """Run the pass; the exit code."""
    order = GlueOrder.decoded(words[0])
    state_dir = Path(os.environ["UNDERSTUDY_STATE_DIR"])
    desk = GlueDesk(_asking(state_dir, order.boundary), _held(os.environ))
    work = GluePass(desk, Git(Path(order.folder)), state_dir, order.settings, _tell)
    try:
        work.run()
        code, stopped = int(Exit.OK), ""
    except GlueLater as error:
        code, stopped = int(Exit.TRY_LATER), str(error)
    except (LeaseOver, Deposed) as error:
        code, stopped = int(Exit.LEASE_LOST), str(error)
    except (GlueStopped, GlueRefused, GitRefused, Unavailable) as error:
        code, stopped = int(Exit.FAILED), str(error)
    found = asdict(work.report) | {"stopped": stopped, "code": code}
    Path(order.report).write_bytes(orjson.dumps(found))
    return code


def _held(env: Any) -> HeldLease:
    names = ("UNDERSTUDY_GLUE", "UNDERSTUDY_GLUER", "UNDERSTUDY_LEASE")
    target, gluer, lease_id = (env[name] for name in names)
    return HeldLease(target, gluer, lease_id, int(env["UNDERSTUDY_FENCE"]), family="glue")


def _asking(state_dir: Path, boundary: str | None) -> Any:
    def ask(action: str, payload: dict[str, Any]) -> dict[str, Any]:
        # Opened anew for each: who renews our lease has to get in as well.
        writable = action not in READS
        with open_authority(state_dir, "cli", boundary=boundary, writable=writable) as authority:
            return authority.ask(action, payload)

    return ask


def _tell(words: str) -> None:
    sys.stderr.write(f"glue: {words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
