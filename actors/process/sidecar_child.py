"""A sidecar as a child of ours: how one is started, and how it is known to serve.

It runs under a warden, and so lives as long as its parent and no longer, also if that is killed.
"""

import sys
from pathlib import Path
from typing import Any, Final

from ...authority.service import client
from ...contracts import Transport
from .port import Command, ProcessGroup

LOG: Final = "sidecar.log"  # in the run folder
START_MS: Final = 30_000  # a long journal takes a while to fold
STOP_GRACE_MS: Final = 10_000


def start(state_dir: Path, run_dir: Path, *options: str) -> ProcessGroup:
    """Begin to serve the state directory; `greeting` says when it does."""
    words = [sys.executable, "-m", "understudy", "authority", "serve"]
    words += ["--state-dir", str(state_dir), *options]
    return ProcessGroup(Command(words, log=run_dir / LOG, grace_ms=STOP_GRACE_MS))


def greeting(state_dir: Path, transport: Transport, silence_seconds: float) -> dict[str, Any]:
    """What the sidecar says of itself, ours or another's; `Unavailable` where none answers."""
    with client.Client(
        state_dir, transport, retry_seconds=0, silence_seconds=silence_seconds
    ) as found:
        return found.server
