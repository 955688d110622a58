"""More clients than a sidecar has room for: the next is told so, and the others notice nothing."""

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.served import Caller, Served
from tests.patience import eventually
from tests.surfaces.process import commanded, room_for_files
from understudy.contracts import limits

SPARE = 200  # files of ours and of the sidecar's that are no connections


@contextmanager
def crowded(state_dir: Path, files: int) -> Iterator[tuple[list[Caller], Served]]:
    """A sidecar that may open so many files, and as many connections as it lets in."""
    with (
        room_for_files(limits.CONNECTIONS_MAX + SPARE) as allowed,
        Served(state_dir, prepare=lambda: _limit(files)) as running,
        ExitStack() as opened,
    ):
        if allowed < min(files, limits.CONNECTIONS_MAX + SPARE):
            pytest.skip(f"this process may open {allowed} files")
        callers: list[Caller] = []
        while (caller := opened.enter_context(Caller(state_dir))).greeted:
            callers.append(caller)
        assert caller.greeting
        assert b"authority_overloaded" in caller.greeting
        yield callers, running


def _limit(files: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


@pytest.mark.parametrize(
    ("files", "room"),
    [(limits.CONNECTIONS_MAX + SPARE, limits.CONNECTIONS_MAX), (256, 256 - 32)],
    ids=["connections", "files"],
)
def test_a_crowd_is_bounded_and_harms_no_client_that_is_there(
    state_dir: Path, files: int, room: int
) -> None:
    with crowded(state_dir, files) as (callers, running):
        assert len(callers) == room
        for number, caller in enumerate(callers[:: room // 16]):
            answer = caller.ask("issue.add", id=f"i{number}", title="t")
            assert answer["result"] == "accepted"
        refused = commanded("issue", "list", "--state-dir", state_dir)
        assert refused.returncode == 75
        assert b"no room for another connection" in refused.stderr
        said = commanded("doctor", "--state-dir", state_dir)
        assert b"it has as many connections as it may have" in said.stdout
        callers.pop().close()
        eventually(lambda: commanded("issue", "list", "--state-dir", state_dir).returncode == 0)
        assert running.terminate() == 0, running.complaint()
        assert "Traceback" not in running.complaint()
