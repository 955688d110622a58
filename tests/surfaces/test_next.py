"""`issue next` says by its exit code that nothing is ready, and waits for work if it is told to."""

import signal
import subprocess
from pathlib import Path

import orjson
import pytest

from tests.patience import PATIENCE_SECONDS
from tests.surfaces.conftest import Run
from tests.surfaces.process import UNDERSTUDY, environment, journal_rows
from understudy.contracts import limits

_NEXT = ("issue", "next", "--assignee", "ada", "--json")


def waiting(state_dir: Path, *words: str) -> "subprocess.Popen[bytes]":
    """A command that has looked and found nothing."""
    command = ["issue", "next", "--assignee", "ada", "--state-dir", str(state_dir), *words]
    process = subprocess.Popen(
        [UNDERSTUDY, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"nothing is ready; waiting for work\n"
    return process


@pytest.mark.parametrize("time", ["60", "60s", "1m", "1h"])
def test_work_that_comes_while_it_waits_is_taken(call: Run, state_dir: Path, time: str) -> None:
    with waiting(state_dir, "--wait", time) as process:
        call("issue", "add", "late", "--id", "a")
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert out.startswith(b"a  in_progress  late\n")


def test_an_interrupt_ends_the_wait_and_leaves_no_lease(call: Run, state_dir: Path) -> None:
    with waiting(state_dir, "--wait", "1h") as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err.strip()) == (130, b"", b"interrupted")
    assert call("issue", "leases").out == "no leases\n"


def test_a_wait_leaves_few_rows_and_a_repeated_request_gets_the_same_work(
    call: Run, state_dir: Path
) -> None:
    words = (*_NEXT, "--wait", "1s", "--request-id", "r")
    assert call(*words).code == 10
    assert len(journal_rows(state_dir)) <= 2
    call("issue", "add", "late", "--id", "a")
    call("issue", "add", "later", "--id", "b")
    first = orjson.loads(call(*words, "--wait", "9s").out)
    again = orjson.loads(call(*words, "--wait", "9s").out)
    assert first["issue"]["lease"] == again["issue"]["lease"]


@pytest.mark.parametrize("time", ["", "s", "-1", "1.5", "1d", "soon", "٣", "9" * 5000, "25h"])
def test_what_is_no_time_is_a_usage_error(call: Run, time: str) -> None:
    assert call(*_NEXT, "--wait", time).code == 2


def test_the_longest_wait_is_a_day(call: Run) -> None:
    call("issue", "add", "there", "--id", "a")
    assert call(*_NEXT, "--wait", f"{limits.WAIT_SECONDS_MAX + 1}s").code == 2
    assert call(*_NEXT, "--wait", f"{limits.WAIT_SECONDS_MAX}s").code == 0
