"""Runs passes of a gluer, each under a lease on the branch: claimed, renewed, and given back.

    what waits? --something--> claim --> pass --> release --> what waits? ...
                \\--nothing--> that is all, or look again later

The pass is a process of its own, which its warden ends before the lease does, also while everybody
else is frozen; and git refuses whatever it would do later.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from ...contracts import Exit
from ..run.runner import Outcome, Runner, Task
from .glue_desk import Ask
from .glue_program import GlueOrder
from .gluing import GlueSettings, ready

TTL_SECONDS: Final = 60
_PROGRAM: Final = "understudy.actors.descent.glue_program"
_CONTENDED: Final = int(Exit.CONFLICT)

WorkFound = Literal["nothing", "something", "taken"]  # the last: another gluer is at it


@dataclass(frozen=True, slots=True)
class PassEnd:
    """How a pass ended. `report` is what it wrote down, and empty where it was killed."""

    code: int
    diagnostic: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    is_contended: bool = False  # another gluer holds the branch


@dataclass(frozen=True, slots=True)
class Gluer:
    """Glues to one branch of one repository. `ask` goes to the authority."""

    ask: Ask
    state_dir: Path
    folder: Path  # of the repository
    target: str
    owner: str
    settings: GlueSettings = field(default_factory=GlueSettings)
    ttl_seconds: int = TTL_SECONDS
    boundary: str | None = None
    wake: int | None = None  # with the numbers of signals that are passed on
    echo: tuple[int, int] | None = None
    tell: Callable[[str], None] = lambda _: None

    def look(self) -> WorkFound:
        """Whether something may be glued, or an earlier gluer has left something to settle."""
        shown = self.ask("descent.show", {"target": self.target})
        glue = shown.get("glue", {})
        if "pending" not in glue and not (glue and ready(shown)):
            return "nothing"
        return "taken" if glue.get("lease", {}).get("state") == "active" else "something"

    def run(self) -> PassEnd:
        """One pass, if the branch is free."""
        with tempfile.TemporaryDirectory(prefix="understudy-glue-") as folder:
            report = Path(folder) / "report.json"
            order = GlueOrder(str(self.folder), str(report), self.boundary, self.settings)
            task = Task(
                name=self.target,
                owner=self.owner,
                argv=(sys.executable, "-m", _PROGRAM, order.encoded()),
                family="glue",
                ttl_seconds=self.ttl_seconds,
                cwd=self.folder,
                echo=self.echo,
            )
            runner = Runner(
                task,
                self.ask,
                self.state_dir,
                boundary=self.boundary,
                wake=self.wake,
                tell=self.tell,
            )
            outcome = runner.run()
            written = orjson.loads(report.read_bytes()) if report.exists() else {}
        return _end(outcome, written)


def _end(outcome: Outcome, written: dict[str, Any]) -> PassEnd:
    if outcome.result == "refused":
        said = f"{outcome.diagnostic} ({outcome.failure})"
        return PassEnd(outcome.code, said, is_contended=outcome.code == _CONTENDED)
    said = written.get("stopped") or outcome.diagnostic
    if not written and outcome.code and not said:
        log = f"; its output is in {outcome.log}" if outcome.log else ""
        said = f"the pass ended with {outcome.code} and left no report{log}"
    return PassEnd(outcome.code, said, written)
