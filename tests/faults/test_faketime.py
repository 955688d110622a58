"""The clock of the machine jumps below a sidecar with holders: real calls of the system, by
libfaketime."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.served import Caller, Served
from understudy.authority import open_journal
from understudy.authority.views.replay import replay

JUMPS = ("+3600", "-3600", "+86400", "-86400", "+0")


def _library() -> Path | None:
    """Where Debian's package `faketime` puts it."""
    program = shutil.which("faketime")
    if program is None:
        return None
    found = Path(program).parents[1].glob("lib/*/faketime/libfaketime.so.1")
    return next(found, None)


LIBRARY = _library()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed: `faketime`")


class MachineClock:
    """How far the machine's clock is off, for a process that asks the system for the time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.jump("+0")

    def jump(self, seconds: str) -> None:
        """Whole or not at all: the process reads it at every look at the clock."""
        fresh = self._path.with_suffix(".new")
        fresh.write_text(f"{seconds}\n")
        fresh.replace(self._path)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


@pytest.fixture
def clock(tmp_path: Path) -> MachineClock:
    return MachineClock(tmp_path / "faketimerc")


@pytest.fixture(autouse=True)
def _replays(state_dir: Path) -> Iterator[None]:
    yield
    with open_journal(state_dir, read_only=True) as journal:
        assert replay(journal).mismatch is None


def _claimed(caller: Caller, name: str) -> dict[str, Any]:
    caller.ask("issue.add", id=name, title=name)
    return caller.ask("issue.claim", id=name, assignee="holder", leaseTtlSeconds=60)


def _fence(claim: dict[str, Any]) -> int:
    return int(claim["issue"]["lease"]["fence"])


def test_a_jump_ends_no_lease_and_gives_none_twice(state_dir: Path, clock: MachineClock) -> None:
    with Served(state_dir, env=clock.environment) as running, Caller(state_dir) as caller:
        lease = _claimed(caller, "held")["issue"]["lease"]
        fences = [lease["fence"]]
        for place, jump in enumerate(JUMPS):
            clock.jump(jump)
            other = caller.ask("issue.claim", id="held", assignee="other")
            assert other["failureClasses"] == ["lease_contention_active"], jump
            renewed = caller.ask(
                "issue.lease_renew", id="held", assignee="holder", leaseId=lease["leaseId"],
                fence=lease["fence"], leaseTtlSeconds=60,
            )  # fmt: skip
            assert renewed["result"] == "accepted", renewed
            fences.append(_fence(_claimed(caller, f"after{place}")))
        assert fences == sorted(set(fences))
        assert running.terminate() == 0, running.complaint()


@pytest.mark.parametrize("jump", JUMPS[:4])
def test_a_start_after_a_jump_gives_out_later_fences(
    state_dir: Path, clock: MachineClock, jump: str
) -> None:
    claims: list[dict[str, Any]] = []
    for offset in ("+0", jump, "+0"):
        clock.jump(offset)
        with Served(state_dir, env=clock.environment) as running, Caller(state_dir) as caller:
            claims.append(_claimed(caller, f"i{len(claims)}"))
            running.kill()
    fences = [_fence(claim) for claim in claims]
    assert fences == sorted(set(fences))
    stamps = [claim["stamp"]["wallMs"] for claim in claims]
    assert stamps == sorted(stamps)
    assert stamps[1] - stamps[0] >= 1000 * max(0, int(jump)), "the process saw the jump"
