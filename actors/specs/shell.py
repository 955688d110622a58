"""The shell of a runner or a courier: their clock, their dice, their connection, and the disk.

It blocks while the authority is slow or away, so it belongs into a process or a cell of its own.
"""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...authority import Unavailable
from ...authority.service import client
from ..leasing.moment import DICE_MAX, Moment
from ..leasing.outstanding import Answer
from ..process.guard.descendants import now_ms
from . import job_file_format
from .job_files import Courier
from .lease_loop import RoundsReport

_RETRY_SECONDS = 2.0  # how long a lost sidecar is waited for; then the rounds decide
_SILENCE_SECONDS = 5.0  # of a sidecar that is there
_FAREWELL_MS = 10_000  # to give back what is held

Clock = Callable[[], int]


class Machine(Protocol):
    """What is asked and heard in turns: a runner, a courier, a scheduler."""

    reports: list[RoundsReport]

    @property
    def next_ms(self) -> int: ...
    @property
    def is_over(self) -> bool: ...
    def asks(self, moment: Moment) -> list[client.ClientCall]: ...
    def heard(self, answers: Sequence[Answer], moment: Moment) -> None: ...
    def unheard(self, moment: Moment) -> None: ...
    def wake(self, moment: Moment) -> None: ...
    def stop(self, reason: str) -> None: ...
    def summary(self, now_ms: int) -> dict[str, Any]: ...


class Shift:
    """Turns of a machine; `reported` hears what it has to say."""

    def __init__(
        self,
        machine: Machine,
        state_dir: Path,
        *,
        reported: Callable[[RoundsReport], None] = lambda _: None,
        retry_seconds: float = _RETRY_SECONDS,
        clock: Clock = now_ms,
    ) -> None:
        self.machine = machine
        self._state_dir, self._reported = state_dir, reported
        self._retry_seconds, self._clock = retry_seconds, clock
        self._random = random.Random()  # noqa: S311 - nothing hangs on it but the load
        self._client: client.Client | None = None

    def turn(self) -> int:
        """Ask what is to be asked; how long there is nothing to do then."""
        calls = self.machine.asks(self._moment())
        if calls:
            try:
                answers = self._connection().ask_many(calls)
            except Unavailable:
                self.close()
                self.machine.unheard(self._moment())
            else:
                self.machine.heard(answers, self._moment())
        self._between()
        for each in self.machine.reports:
            self._reported(each)
        self.machine.reports.clear()
        return self.pause_ms

    @property
    def pause_ms(self) -> int:
        """How long there is nothing to do."""
        return max(0, self.machine.next_ms - self._clock())

    def wake(self) -> None:
        """There may be something to claim."""
        self.machine.wake(self._moment())

    def stop(self, reason: str) -> None:
        """Give everything back; what the authority does not hear of in time lapses by itself."""
        self.machine.stop(reason)
        give_up = self._clock() + _FAREWELL_MS
        while not self.machine.is_over and self._clock() < give_up:
            pause_ms = self.turn()
            if self._client is None:
                return  # no sidecar is there to hear it
            time.sleep(pause_ms / 1_000)

    def close(self) -> None:
        """Hang up; the next turn connects again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _between(self) -> None:
        """What is to be done outside of the authority."""

    def _moment(self) -> Moment:
        return Moment(self._clock(), lambda: self._random.randint(0, DICE_MAX))

    def _connection(self) -> client.Client:
        if self._client is None:
            self._client = client.Client(
                self._state_dir,
                "coordinator",
                retry_seconds=self._retry_seconds,
                silence_seconds=_SILENCE_SECONDS,
            )
        return self._client


class Round(Shift):
    """The turns of a courier, with the folder that it writes to."""

    machine: Courier

    def __init__(self, machine: Courier, state_dir: Path, folder: Path, **options: Any) -> None:
        super().__init__(machine, state_dir, **options)
        self._folder = folder
        job_file_format.sweep(folder)

    def _between(self) -> None:
        sheets = self.machine.writes(self._moment())
        if sheets:
            outcomes = job_file_format.place(self._folder, sheets, self._clock)
            self.machine.written(sheets, outcomes, self._moment())
