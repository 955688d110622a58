"""Everything that one run measured, and where."""

import os
import platform
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cycles import Figures
from benchmarks.mcp import Found as Agents
from benchmarks.restart import Restart
from benchmarks.stage import Found
from tests.services.server import file_system


@dataclass(slots=True)
class Results:
    """Everything of one run; a section that was not asked for stays empty."""

    machine: dict[str, Any]
    rounds: int
    seconds: float
    kernel: dict[str, list[float]] = field(default_factory=dict)
    systems: dict[str, Figures] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    restarts: list[Restart] = field(default_factory=list)
    growth: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    stage: Found = field(default_factory=dict)
    mcp: Agents | None = None
    failover: dict[str, list[float]] = field(default_factory=dict)
    relay: dict[str, list[float]] = field(default_factory=dict)
    jobs: dict[str, list[float]] = field(default_factory=dict)
    overlaps: dict[str, list[float]] = field(default_factory=dict)
    worktrees: dict[str, list[float]] = field(default_factory=dict)
    glue: dict[str, list[float]] = field(default_factory=dict)
    console: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)


def machine(folder: Path) -> dict[str, Any]:
    """Where this was measured."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "file_system": file_system(folder),
        "fsync_ms": _fsync_ms(folder),
        "load_average": os.getloadavg()[0],
    }


def _fsync_ms(folder: Path) -> float:
    """What one durable write costs here at the least."""
    times = []
    path = folder / "probe"
    with path.open("wb", buffering=0) as file:
        for _ in range(50):
            begun = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    path.unlink()
    return 1000 * statistics.median(times)
