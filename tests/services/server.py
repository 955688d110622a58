"""Servers of other makers, run for us alone: set up in a folder of ours, gone when we are gone.

S1  A server ends with us, however we end: the kernel sends it a signal when its parent dies.
S2  Its data lie in a private folder on a real disk, and the folder goes too; after a SIGKILL
    a sweeper does it, which only waits for our end of a pipe to close.
S3  A server that cannot be had is `Missing`, with every reason that was met on the way.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_SECONDS = 30.0  # far beyond any server that starts at all
_PR_SET_PDEATHSIG = 1
_NOT_ON_DISK = {"tmpfs", "ramfs", "devtmpfs"}
_SWEEP = 'read -r line; sleep 1; rm -rf -- "$1"'


class Missing(Exception):
    """There is no such server here; the text says what was tried."""


class Server:
    """A process of ours that serves; leaving the block ends it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        user: str | None = None,
        farewell: signal.Signals = signal.SIGTERM,
        if_orphaned: signal.Signals = signal.SIGKILL,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._farewell, self._log = farewell, log
        with log.open("ab") as output:
            try:
                # Its own session: a Ctrl-C at the terminal is for us, and we end it in order.
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    user=user,
                    env=env,
                    preexec_fn=ends_with_parent(if_orphaned),  # noqa: PLW1509 - it only calls prctl
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise Missing(f"{command[0]}: {error}") from error

    def wait_for(self, is_ready: Callable[[], bool]) -> None:
        """Return once it serves; `Missing` if it ends first, or never does."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > give_up:
                self.stop()
                raise Missing(f"{self.process.args!r} does not start: {self.last_words()}")
            time.sleep(0.01)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(self._farewell)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """No goodbye."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:]) or "it says nothing"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@contextmanager
def private_folder(above: Path) -> Iterator[Path]:
    """A folder for data that must reach a disk; it is removed however we end (S2)."""
    kind = file_system(above)
    if kind in _NOT_ON_DISK:
        raise Missing(f"{above} is {kind}, and nothing there is ever on a disk")
    folder = Path(tempfile.mkdtemp(prefix="understudy-", dir=above))
    folder.chmod(0o711)  # a server that runs as another user must reach its own part
    sweeper = subprocess.Popen(
        ["/bin/sh", "-c", _SWEEP, "sweep", folder], stdin=subprocess.PIPE, start_new_session=True
    )
    assert sweeper.stdin is not None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        sweeper.kill()
        sweeper.stdin.close()
        sweeper.wait()


def ends_with_parent(number: signal.Signals) -> Callable[[], None]:
    """For a child between fork and exec: be sent this signal when the parent dies."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arrange() -> None:
        if prctl(_PR_SET_PDEATHSIG, int(number)) != 0 or os.getppid() != parent:
            os._exit(1)

    return arrange


def file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on."""
    device = os.stat(folder).st_dev  # noqa: PTH116 - the number is what the table has
    mark = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        front, _, back = line.partition(" - ")
        if front.split()[2] == mark:
            return back.split()[0]
    return "unknown"


def lesser_user() -> str | None:
    """Whom to run as a server that refuses root; None where we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise Missing("we are root, and there is no other user to run it as")
