"""`make bench`: Understudy and its peers on the same work, in one run on one machine, fsync on.

Prints a table of medians and ratios, and writes the same as JSON. Missed bars do not fail it.
"""

import argparse
import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

from benchmarks import (
    console,
    descent_glue,
    descent_overlaps,
    descent_worktrees,
    failover,
    jobs,
    mcp,
    relay,
    report,
    restart,
    stage,
)
from benchmarks.bars import BATCH, REFERENCE
from benchmarks.cycles import CATALOGUE, SHAPES_BY_KEY, Contest
from benchmarks.kernel import WAYS, decisions_per_second
from benchmarks.load import Pace
from benchmarks.progress import Progress
from benchmarks.results import Results, machine
from tests.services.server import Missing, private_folder
from understudy.authority.engine import ffi

SECTIONS = (
    "kernel", "cycles", "latency", "restart", "growth", "stage", "mcp", "failover", "relay", "jobs",
    "overlaps", "worktrees", "glue", "console",
)  # fmt: skip
_KERNEL_CYCLES = {"reference": 1_024}  # others are faster, and get more
_KERNEL_CYCLES_FAST = 8_192
_WARM_UP_SECONDS = 0.3


def main() -> None:
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    with private_folder(options.folder) as folder:
        results = _measure(options, folder)
    text = report.as_text(results)
    print(text)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report.as_json(results), indent=2) + "\n")
    # What the lock does not have need not be there.
    if set(results.missing) - {"procrastinate"} and os.environ.get("UNDERSTUDY_REQUIRE_SERVICES"):
        sys.exit("bench: UNDERSTUDY_REQUIRE_SERVICES is set, and not every peer was found")


def _leave(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler
    """At once. An exception could meet us inside a fork, where Python swallows it; and whatever
    we started ends with us anyway, the data with it (S1 and S2 of `tests/services/server.py`).
    """
    os._exit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=...",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[*SECTIONS, *CATALOGUE, *SHAPES_BY_KEY],
        metavar="NAME",
        help=f"a section ({', '.join(SECTIONS)}), a system ({', '.join(CATALOGUE)})"
        f" or a number of requests at once ({', '.join(SHAPES_BY_KEY)}); repeatable",
    )
    parser.add_argument("--rounds", type=int, help="rounds of each measurement (5)")
    parser.add_argument("--seconds", type=float, help="length of a round (1)")
    parser.add_argument("--quick", action="store_true", help="about a minute in all, and coarse")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("/var/tmp"),
        help="where data lie; on a disk (%(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/bench.json"),
        help="where the JSON goes (%(default)s)",
    )
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.seconds = options.seconds or (0.3 if options.quick else 1.0)
    options.systems = [name for name in options.only if name in CATALOGUE] or list(CATALOGUE)
    shapes = [SHAPES_BY_KEY[name] for name in options.only if name in SHAPES_BY_KEY]
    options.shapes = shapes or list(SHAPES_BY_KEY.values())
    sections = [name for name in options.only if name in SECTIONS]
    if not sections:
        sections = ["cycles", "latency"] if options.only else list(SECTIONS)
    options.sections = sections
    return options


def _measure(options: argparse.Namespace, folder: Path) -> Results:
    progress = Progress()
    results = Results(machine(folder), options.rounds, options.seconds)
    if not ffi.available():
        results.missing["native"] = str(ffi.why_not())
    if "kernel" in options.sections:
        _measure_kernel(results, options.rounds, progress)
    if {"cycles", "latency"} & set(options.sections):
        _measure_cycles(results, options, folder, progress)
    if "restart" in options.sections:
        lengths = [10_000, 100_000] if options.quick else [10_000, 100_000, 1_000_000]
        rounds = min(options.rounds, 3)
        results.restarts = restart.measure(folder / "restart", lengths, rounds, progress)
    if "growth" in options.sections:
        _measure_growth(results, options, progress)
    if "stage" in options.sections:
        issues, rounds = (20, 1) if options.quick else (200, min(options.rounds, 3))
        results.stage = stage.measure(
            folder / "stage", rounds, issues, progress, quick=options.quick
        )
    if "mcp" in options.sections:
        rounds = min(options.rounds, 3)
        results.mcp = mcp.measure(folder / "mcp", rounds, 3 * options.seconds, progress)
    if "failover" in options.sections:
        try:
            rounds = min(options.rounds, 3)
            results.failover = failover.measure(folder / "failover", rounds, progress)
        except Missing as error:
            results.missing["failover"] = str(error)
    if "relay" in options.sections:
        try:
            rounds = min(options.rounds, 3)
            results.relay = relay.measure(folder / "relay", rounds, options.seconds, progress)
        except Missing as error:
            results.missing["relay"] = str(error)
    if "jobs" in options.sections:
        results.jobs = jobs.measure(options.rounds, progress)
    if "overlaps" in options.sections:
        sample, rounds = (100, 1) if options.quick else (500, min(options.rounds, 3))
        results.overlaps = descent_overlaps.measure(folder / "overlaps", rounds, sample, progress)
    if "worktrees" in options.sections:
        results.worktrees = descent_worktrees.measure(
            folder / "worktrees", options.rounds, progress
        )
    if "glue" in options.sections:
        sections, rounds = (8, 1) if options.quick else (50, min(options.rounds, 2))
        results.glue = descent_glue.measure(folder / "glue", sections, rounds, progress)
    if "console" in options.sections:
        rounds = min(options.rounds, 3)
        seconds = max(3.0, options.seconds)  # pages come again once a second
        results.console = console.measure(folder / "console", rounds, seconds, progress)
    progress.clear()
    return results


def _measure_kernel(results: Results, rounds: int, progress: Progress) -> None:
    for number in range(rounds):
        for kind in WAYS:
            progress.say(f"kernel, round {number + 1} of {rounds}: {kind}")
            rate = decisions_per_second(kind, 10_000, _KERNEL_CYCLES.get(kind, _KERNEL_CYCLES_FAST))
            results.kernel.setdefault(kind, []).append(rate)


def _measure_cycles(
    results: Results, options: argparse.Namespace, folder: Path, progress: Progress
) -> None:
    pace, rounds = Pace(options.seconds, _WARM_UP_SECONDS), options.rounds
    contest = Contest(folder, options.systems, options.shapes)
    with closing(contest):
        contest.open(progress)
        contest.measure_rates(pace, rounds, progress)
        if "latency" in options.sections:
            contest.measure_latencies(pace, min(rounds, 3), progress)
    results.systems = contest.figures
    results.missing |= contest.missing


def _measure_growth(results: Results, options: argparse.Namespace, progress: Progress) -> None:
    most = 100_000 if options.quick else 1_000_000
    for kind, last in ((REFERENCE, most // 10), (BATCH, most)):
        count = 1_000 if kind in WAYS else last + 1
        while count <= last:
            progress.say(f"growth: {kind}, {count} resources")
            cycles = min(count, _KERNEL_CYCLES.get(kind, _KERNEL_CYCLES_FAST))
            rounds = 1 if count >= 1_000_000 else min(options.rounds, 3)
            rates = [decisions_per_second(kind, count, cycles) for _ in range(rounds)]
            results.growth.setdefault(kind, {})[count] = rates
            count *= 10


if __name__ == "__main__":
    try:
        main()
    except Missing as error:
        sys.exit(f"bench: {error}")
