"""The real gateway in a process of its own, serving HTTP for as long as a block lasts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.server import Server
from tests.surfaces.process import ROOT, UNDERSTUDY, commanded, environment

_URL = re.compile(r"http://\S+/mcp")


@dataclass(frozen=True, slots=True)
class Stand:
    """Where it serves, and whose."""

    url: str
    state_dir: Path
    log: Path

    @property
    def pump(self) -> list[str]:
        """The command that an agent's settings name."""
        return [str(UNDERSTUDY), "mcp", "--state-dir", str(self.state_dir)]


@contextmanager
def standing(folder: Path, *options: str, **variables: str) -> Iterator[Stand]:
    """A gateway with a state directory in this folder; made unless it is there."""
    state_dir, log = folder / "state", folder / "gateway.log"
    if not state_dir.exists():
        assert commanded("--state-dir", state_dir, "init").returncode == 0
    log.touch()
    command: list[str | Path] = [
        UNDERSTUDY,
        "gateway",
        "--state-dir",
        state_dir,
        "--http",
        "0",
        *options,
    ]
    with Server(command, log, env=environment(PYTHONPATH=str(ROOT), **variables)) as server:
        server.wait_for(lambda: _URL.search(log.read_text("utf-8")) is not None)
        found = _URL.search(log.read_text("utf-8"))
        assert found is not None
        yield Stand(found[0], state_dir, log)
