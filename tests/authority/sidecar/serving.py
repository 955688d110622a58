"""A sidecar in a thread of this process, whose commits a test can hold up or let fail."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.patience import PATIENCE_SECONDS
from understudy.authority import Office, open_journal
from understudy.authority.engine.engine import recover
from understudy.authority.journal.journal import Row
from understudy.authority.service.sidecar import Sidecar
from understudy.authority.views.replay import replay


class Commits:
    """Every `append` of a journal, counted; a test may hold them up, or let them fail."""

    def __init__(self, append: Callable[[Sequence[Row], int, int], None]) -> None:
        self._append = append
        self.sizes: list[int] = []
        self.begun = threading.Semaphore(0)
        self.way = threading.Event()
        self.way.set()
        self.failure: Exception | None = None

    def __call__(self, rows: Sequence[Row], expected_seq: int, epoch: int) -> None:
        self.begun.release()
        assert self.way.wait(PATIENCE_SECONDS), "the test forgot to let it go"
        if self.failure is not None:
            raise self.failure
        self._append(rows, expected_seq, epoch)
        self.sizes.append(len(rows))

    def hold(self) -> None:
        self.way.clear()

    def wait_for_one(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE_SECONDS), "no commit begins"

    def go(self) -> None:
        self.way.set()


class Serving:
    """A sidecar in a thread of this process. Leaving the block stops it."""

    def __init__(self, state_dir: Path, *, frozen_clock: bool = False) -> None:
        self.state_dir = state_dir
        self.office = Office(state_dir)
        self.commits = Commits(self.office.journal.append)
        setattr(self.office.journal, "append", self.commits)  # noqa: B010 - a method, to mypy
        self.sidecar = Sidecar(self.office, frozen_clock=frozen_clock)
        self.ended_with: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="sidecar")
        self._thread.start()
        assert self.sidecar.ready.wait(PATIENCE_SECONDS), "the sidecar does not come up"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.commits.go()
        self.stop()
        self.wait()
        self._loop.close()
        self.office.close()

    def stop(self) -> None:
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self.sidecar.stop)

    def wait(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "it does not stop"

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self.sidecar.run())
        except BaseException as error:  # noqa: BLE001 - the test asks for it
            self.ended_with = error


def rows_of(state_dir: Path) -> list[Row]:
    with open_journal(state_dir, read_only=True) as journal:
        return list(journal.read())


def prove(state_dir: Path) -> None:
    """The journal replays to its bytes, and a start from its snapshot gives what replay gives."""
    with open_journal(state_dir, read_only=True) as journal:
        result = replay(journal)
        assert result.mismatch is None
        assert recover(journal)[1] == result.head
