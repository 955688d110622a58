"""A state directory: what lies in it, who holds it, and where its journal is."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ...contracts import Reason, limits
from . import journal_url, private
from .journal import Storage, Unavailable
from .sqlite import SqliteJournal, flush_folder
from .state_files import EVIDENCE_LOCK, IGNORED, JOURNAL, LOCK, URL_FILE


@contextmanager
def held(path: Path, wait_ms: int) -> Iterator[None]:
    """Hold a lock file; the operating system lets go of it however we end."""
    handle = _lock(path, wait_ms)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """Hold the state directory."""
    _require(state_dir)
    with held(state_dir / LOCK, limits.LOCK_WAIT_MS):
        yield


@contextmanager
def evidence_locked(state_dir: Path, *, wait_ms: int | None = None) -> Iterator[None]:
    """Hold the trajectory: of all processes only the holder writes it."""
    _require(state_dir)
    wait_ms = limits.LOCK_WAIT_MS if wait_ms is None else wait_ms
    with held(state_dir / EVIDENCE_LOCK, wait_ms):
        yield


@contextmanager
def open_journal(state_dir: Path, *, read_only: bool, lasting: bool = False) -> Iterator[Storage]:
    """The journal of a state directory, and nothing else of it."""
    _require(state_dir)
    shared = journal_url.of(state_dir)
    journal: Storage
    if shared is None:
        path = state_dir / JOURNAL
        journal = SqliteJournal(path, read_only=read_only, lasting=lasting)
    else:
        home = None if read_only else _home(state_dir)
        engine = journal_url.engine().PostgresJournal
        journal = engine(shared, read_only=read_only, lasting=lasting, home=home)
    with closing(journal):
        yield journal


def _home(state_dir: Path) -> str:
    """The folder's lock, as no other lock on any machine is called."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    found = (state_dir / LOCK).stat()
    return f"{boot}.{found.st_dev}.{found.st_ino}"


def _require(state_dir: Path) -> None:
    if not any((state_dir / name).exists() for name in (JOURNAL, URL_FILE)):
        raise Unavailable(Reason.STATE_DIR_MISSING, str(state_dir))
    _refuse_exposed(state_dir)


def _refuse_exposed(state_dir: Path) -> None:
    try:
        private.refuse_exposed(state_dir)
    except OSError as error:
        raise Unavailable(Reason.STATE_DIR_DENIED, f"{state_dir}: {error.strerror}") from error


def _lock(path: Path, wait_ms: int) -> int:
    try:
        handle = private.opener(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise Unavailable(Reason.STATE_DIR_DENIED, f"{path}: {error.strerror}") from error
    give_up = time.monotonic() + wait_ms / 1000
    pause = 0.001
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            return handle
        if not wait_ms or time.monotonic() > give_up:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            os.close(handle)
            raise Unavailable(Reason.AUTHORITY_BUSY, f"{path} is held by process {holder}")
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def create_state_dir(state_dir: Path, node: str, url: str | None = None) -> bool:
    """Make a state directory with an empty journal; False where there is one already.

    With the URL of a database the journal is there; of one that exists, this becomes one more
    state directory. A folder that is there and empty becomes private; one with more in it keeps its
    mode, unless others can write in it, which is refused.
    """
    if url is not None:
        journal_url.refuse_secret(url, "the URL")
    if url is not None and (state_dir / JOURNAL).exists():
        raise Unavailable(Reason.JOURNAL_URL_INVALID, f"{state_dir} has a journal of its own")
    fresh = not any((state_dir / name).exists() for name in (JOURNAL, URL_FILE))
    missing = [each for each in (state_dir, *state_dir.parents) if not each.exists()]
    try:
        state_dir.parent.mkdir(parents=True, exist_ok=True)
        make_folder(state_dir)
        for folder in missing:
            flush_folder(folder.parent)
    except OSError as error:
        raise Unavailable(Reason.STATE_DIR_DENIED, f"{state_dir}: {error.strerror}") from error
    _refuse_exposed(state_dir)
    shared = journal_url.of(state_dir) if url is None else journal_url.parsed(url)
    if shared is None:
        SqliteJournal.create(state_dir / JOURNAL, node)
        return fresh
    if url is not None:
        journal_url.remember(state_dir, url)
    journal_url.engine().PostgresJournal.create(shared, node)
    flush_folder(state_dir)
    return fresh


def make_folder(state_dir: Path) -> None:
    """A folder that its owner alone can enter, and that git neither commits nor cleans away.

    One with something in it may be a place where people work: it stays as it is.
    """
    if not state_dir.exists() or not any(state_dir.iterdir()):
        private.make_folder(state_dir)
        private.write(state_dir / IGNORED, b"*\n")
