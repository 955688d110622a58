"""How long tests wait for what must come: far beyond anything that works, and no longer."""

import threading
from collections.abc import Callable

PATIENCE_SECONDS = 60
_PAUSE_SECONDS = 0.002


def eventually(holds: Callable[[], object]) -> None:
    """Look again and again, until it is so; a test that waits for nothing fails."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / _PAUSE_SECONDS)):
        if holds():
            return
        pause.wait(_PAUSE_SECONDS)
    raise AssertionError("it never came to that")
