"""One line on a terminal that says what is being measured; silence everywhere else."""

import sys
import time


class Progress:
    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """Replace the line."""
        if self._shown:
            passed = time.monotonic() - self._begun
            print(f"\r\033[K{passed:5.0f} s  {text}"[:120], end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
