"""`make bench` itself, in rounds of an instant: what it says, what it writes, what it leaves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks import kernel, restart
from benchmarks.progress import Progress
from tests.long import LONG, few
from tests.services.server import private_folder

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
TINY = ("--rounds", "1", "--seconds", "0.1")


def bench(output: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = ("UNDERSTUDY_REQUIRE_SERVICES", "UNDERSTUDY_REDIS_URL")
    ours = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, *TINY, "--output", output],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ours | environment,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def only(*names: str) -> list[str]:
    return [part for name in names for part in ("--only", name)]


def read(output: Path) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(output.read_bytes())
    return value


@LONG
def test_a_run_says_and_writes_what_it_measured(tmp_path: Path) -> None:
    output = tmp_path / "new" / "bench.json"
    done = bench(output, *only("cycles", "latency", "understudy", "sqlite", "8", "256"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # progress is for terminals
    found = read(output)
    for system in ("understudy", "sqlite"):
        assert found["systems"][system]["failure"] is None
        assert {len(each) for each in found["systems"][system]["rates"].values()} == {1}
        assert set(found["systems"][system]["rates"]) == {"8", "256 in flight"}
    assert len(found["systems"]["understudy"]["latency"]["p99_ms"]) == 1
    assert all(bar["name"] in done.stdout for bar in found["bars"])


@LONG
def test_a_peer_that_is_not_found_is_named_and_an_error_only_where_required(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    wanted = only("cycles", "redis", "sqlite", "1")
    done = bench(output, *wanted, PATH="/nowhere")
    assert done.returncode == 0, done.stderr
    assert "no redis-server on the path" in done.stdout
    assert "no redis-server on the path" in read(output)["missing"]["redis"]
    assert bench(output, *wanted, PATH="/nowhere", UNDERSTUDY_REQUIRE_SERVICES="1").returncode == 1


@pytest.mark.parametrize("number", few([signal.SIGTERM, signal.SIGKILL]))
def test_nothing_outlives_a_run_that_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    with private_folder(Path("/var/tmp")) as above:
        flags: list[str | Path] = [*only("cycles", "understudy", "8"), "--folder", above]
        run = subprocess.Popen(
            [sys.executable, "-m", "benchmarks", *flags, "--output", tmp_path / "bench.json"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        try:
            _wait(lambda: any("authority serve" in line for line in _processes(above)))
        finally:
            run.send_signal(number)
            run.wait()
        _wait(lambda: not _processes(above) and not list(above.iterdir()))


@pytest.mark.parametrize("way", kernel.WAYS)
def test_every_way_to_decide_is_measured_on_requests_that_are_granted(way: str) -> None:
    assert kernel.decisions_per_second(way, resources=700, cycles=600) > 0


@LONG
def test_a_restart_is_measured_at_every_length(tmp_path: Path) -> None:
    found = restart.measure(tmp_path / "restart", [50, 1_100], 2, Progress())
    assert [each.rows for each in found] == [50, 1_100]
    for each in found:
        assert len(each.seconds) == 2
        assert all(
            0 < now <= most for now, most in zip(each.resident_bytes, each.peak_bytes, strict=True)
        )


def _processes(folder: Path) -> list[str]:
    """Command lines that name something in the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if f"{folder}/" in line]


def _wait(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.05)
