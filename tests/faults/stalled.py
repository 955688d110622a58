"""A runner or a dispatcher that is stopped, or killed, at the worst of moments.

`python -m tests.faults.stalled STATE_DIR FOLDER CLOCKS MOMENT`: its clock is the file that the
authority reads its own from, so that it sleeps through its lease whenever the test likes; only the
unaware one has a clock that stands still, and learns from the authority what it has missed.
"""

import os
import secrets
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.clockwork import steady
from tests.patience import eventually
from understudy.actors.specs.job_files import Courier
from understudy.actors.specs.lease_loop import Post
from understudy.actors.specs.runner import ChainRunner
from understudy.actors.specs.shell import Round, Shift
from understudy.authority.service.client import Client, ClientCall

TTL_MS = 30_000


def stop_once(number: signal.Signals) -> Callable[[], None]:
    left = [number]

    def stop() -> None:
        if left:
            os.kill(os.getpid(), left.pop())

    return stop


def arm(moment: str) -> None:
    """Have it happen the first time that a thread gets there."""
    fsync, rename, ask_many = os.fsync, os.rename, Client.ask_many
    stop, kill = stop_once(signal.SIGSTOP), stop_once(signal.SIGKILL)

    def flush(fd: Any) -> None:
        fsync(fd)
        if stat.S_ISREG(os.fstat(fd).st_mode):  # and not the folder
            stop()

    def stop_and_rename(*args: Any, **options: Any) -> None:
        stop()
        rename(*args, **options)

    def rename_and_die(*args: Any, **options: Any) -> None:
        rename(*args, **options)
        kill()

    def ask(self: Client, calls: list[ClientCall]) -> list[dict[str, Any]]:
        if any(each.action == "spec.materialize" for each in calls):
            stop()
        return ask_many(self, calls)

    if moment == "flushed":
        os.fsync = flush
    elif moment == "renamed":
        os.rename = rename_and_die
    elif moment == "claimed":
        Client.ask_many = ask  # type: ignore[assignment,method-assign]  # the fault
    else:
        os.rename = stop_and_rename


def shift_of(
    role: str, name: str, state_dir: Path, folder: Path, clock: Callable[[], int]
) -> Shift:
    post = Post(name, secrets.token_hex(4), TTL_MS)
    said = lambda each: print(each.what, each.detail)  # noqa: E731 - one line of a script
    if role == "runner":
        return Shift(ChainRunner(post), state_dir, clock=clock, reported=said)
    return Round(Courier(post), state_dir, folder, clock=clock, reported=said)


def work(shift: Shift) -> None:
    """Until something was held, and is not any more."""
    for wanted in (False, True):
        eventually(partial(_is_idle, shift, wanted=wanted))


def _is_idle(shift: Shift, *, wanted: bool) -> bool:
    shift.turn()
    assert isinstance(shift.machine, ChainRunner | Courier)
    return shift.machine.is_idle is wanted


def main(state_dir: str, folder: str, clocks: str, moment: str) -> None:
    clock = (lambda: 0) if moment == "unaware" else steady(Path(clocks))
    arm(moment)
    role = "runner" if moment == "claimed" else "dispatcher"
    with closing(shift_of(role, "zombie", Path(state_dir), Path(folder), clock)) as shift:
        work(shift)


if __name__ == "__main__":
    main(*sys.argv[1:])
