"""Programs that are killed: `python -m tests.faults.firing ROLE STATE_DIR [POINT]`.

A `scheduler` proposes what is due, again and again; at a point of a firing it may kill itself: it
has `looked`, and proposes nothing yet, or the firing is `decided`, and it does not hear of it. A
`worker` claims and completes whatever it may
until nothing is left that it could ever claim.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.patience import PATIENCE_SECONDS
from understudy.actors.leasing.moment import Moment
from understudy.actors.leasing.outstanding import Answer
from understudy.actors.specs.scheduler import Scheduler
from understudy.actors.specs.shell import Shift
from understudy.authority.service.client import Client, ClientCall, Unreachable

_TURN_SECONDS = 0.02


class Mortal(Scheduler):
    """Dies at a point, the first time that something is due."""

    def __init__(self, point: str) -> None:
        super().__init__()
        self._point = point

    def heard(self, answers: Sequence[Answer], moment: Moment) -> None:
        if self._point == "decided" and answers[0]["action"] == "schedule.fire":
            os.kill(os.getpid(), signal.SIGKILL)
        super().heard(answers, moment)
        if self._point == "looked" and self.summary(moment.ms)["claiming"]:
            os.kill(os.getpid(), signal.SIGKILL)


def schedule(state_dir: Path, point: str = "") -> None:
    shift = Shift(Mortal(point), state_dir, retry_seconds=float(PATIENCE_SECONDS))
    while True:
        shift.wake()  # the clock of the test moves as it likes
        time.sleep(min(shift.turn() / 1_000, _TURN_SECONDS))


def _connected(state_dir: Path) -> Client:
    """A client, as soon as the host serves: a worker may be born while it is dead."""
    for _ in range(int(PATIENCE_SECONDS / _TURN_SECONDS)):
        with suppress(Unreachable):
            return Client(state_dir, "cli", retry_seconds=PATIENCE_SECONDS)
        time.sleep(_TURN_SECONDS)
    raise TimeoutError(state_dir)


def work(state_dir: Path) -> None:
    worker = f"w{os.getpid()}"
    with _connected(state_dir) as client:
        while True:
            found = client.ask("job.roster", {"worker": worker, "limit": 8})
            if not found["jobs"] and "limited" not in found and not found["jobCounts"]["claimed"]:
                return
            claim = {"worker": worker, "leaseDurationMs": 60_000}
            claims = [
                ClientCall("job.claim", claim | {"jobId": each["jobId"]}) for each in found["jobs"]
            ]
            for job in [each["job"] for each in client.ask_many(claims) if "job" in each]:
                lease = job["lease"]
                held = {"jobId": job["jobId"], "worker": worker}
                held |= {"leaseId": lease["leaseId"], "fence": lease["fence"]}
                assert client.ask("job.complete", held)["result"] == "accepted"


if __name__ == "__main__":
    {"scheduler": schedule, "worker": work}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
