"""A command whose two clocks are a file: `python -m tests.faults.clockwork FILE authority serve`.

The file holds the wall clock and the steady one, in nanoseconds. They are read whenever the process
asks for the time, so a clock can be set while it runs, and stands still while it is not moved.
"""

import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

_FORMAT = "2q"
_SIZE = struct.calcsize(_FORMAT)


class Clocks:
    """The clocks of a process, from outside."""

    def __init__(self, path: Path, wall_ms: int) -> None:
        self.path = path
        self.wall_ms, self.steady_ms = wall_ms, 0
        path.write_bytes(bytes(_SIZE))
        self._show()

    def passes(self, ms: int) -> None:
        self.steady_ms += ms
        self.wall_ms += ms
        self._show()

    def set_wall(self, ms: int) -> None:
        """Set the wall clock forward or back; no time passes."""
        self.wall_ms += ms
        self._show()

    def _show(self) -> None:
        data = struct.pack(_FORMAT, self.wall_ms * 1_000_000, self.steady_ms * 1_000_000)
        handle = os.open(self.path, os.O_WRONLY)
        os.pwrite(handle, data, 0)
        os.close(handle)


def steady(path: Path) -> Callable[[], int]:
    """The steady clock of the file, in milliseconds, for who takes a clock as an argument."""
    return lambda: int(struct.unpack(_FORMAT, path.read_bytes())[1] // 1_000_000)


def main(path: str, arguments: list[str]) -> None:
    handle = os.open(path, os.O_RDONLY)

    def read() -> tuple[int, int]:
        wall_ns, steady_ns = struct.unpack(_FORMAT, os.pread(handle, _SIZE, 0))
        return wall_ns, steady_ns

    def since_boot(clock: int, other: Callable[[int], int] = time.clock_gettime_ns) -> int:
        return read()[1] if clock == time.CLOCK_BOOTTIME else other(clock)

    time.time_ns = lambda: read()[0]
    time.clock_gettime_ns = since_boot
    from understudy.surfaces.cli.main import main as command  # it binds the clocks

    command(arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
