"""How long tests wait for what must come: far beyond anything that works, and no longer."""

import threading
from collections.abc import Callable

PATIENCE_SECONDS = 60
_FIRST_SECONDS, _LAST_SECONDS = 0.002, 0.02  # looking costs time that others could use


def eventually(holds: Callable[[], object]) -> None:
    """Look again and again, until it is so; a test that waits for nothing fails."""
    pause, seconds, left = threading.Event(), _FIRST_SECONDS, float(PATIENCE_SECONDS)
    while left > 0:
        if holds():
            return
        pause.wait(seconds)
        left -= seconds
        seconds = min(1.2 * seconds, _LAST_SECONDS)
    raise AssertionError("it never came to that")
