"""A job as a file for its worker: written whole or not at all, and the same by every courier.

I1  The bytes follow from the job alone. Who dispatches it, under which fence, at which attempt is
    not in them, so that two dispatchers who both believe in their lease write the same file. The
    authority's record of the dispatch has the fence, and the worker of the job gets one of its own.
I2  A file is visible when all of it is on disk, and its name is on disk when we say so: a temporary
    file in the same folder, flushed, renamed, and the folder flushed.
I3  Nothing is renamed after the deadline of its lease, as our own clock has it.
I4  Nothing outside the folder is written: names have no separators, links are not followed.
"""

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ...contracts import canonical

JOB_FOLDER: Final = Path("runtime", "narrative")  # below the working directory
SCHEMA: Final = "understudy.job.v1"
_COMPLETION = "complete/"  # the operations that a job waits for are completions of jobs
_NAME_BYTES_MAX = 255  # of a file system
_STEM_MAX = 160  # of a name that is cut, before the digest of the whole
_SUFFIX = ".json"
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,256}")
_SCRATCH = re.compile(r"\.job-[0-9a-f]{16}\.tmp")
_LITTER_SECONDS = 3_600  # the courier of a temporary file of this age is gone
# What one file cannot have while others can; anything else is wrong with the folder or the disk.
_ITS_OWN = (errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT)

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A file to be written, and until when."""

    job_id: str
    name: str
    data: bytes
    until_ms: int

    @property
    def digest(self) -> str:
        """As `sha256sum` has it."""
        return f"sha256:{hashlib.sha256(self.data).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Placed:
    """It is there, by us or by another courier."""


@dataclass(frozen=True, slots=True)
class Late:
    """Its lease was over before it could be renamed; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Why it is not there; where the folder is at fault, no other file can be written either."""

    detail: str
    of_folder: bool


Outcome = Placed | Late | Failed


def sheet(job: Mapping[str, Any], until_ms: int) -> Sheet:
    """The file of a job, from what `dispatch.claim` says of it (I1)."""
    payload = job["payload"]
    depends_on = [
        each.removeprefix(_COMPLETION).removeprefix(f"{payload['specId']}:")
        for each in job["causalDeps"]
    ]
    content = {
        "schema": SCHEMA,
        "jobId": job["jobId"],
        "specId": payload["specId"],
        "stepKey": payload["stepKey"],
        "kind": job["kind"],
        "inputs": payload.get("inputs"),
        "dependsOn": sorted(depends_on),
    }
    data = canonical.encode(content) + b"\n"
    return Sheet(job["jobId"], spelled(job["jobId"]), data, until_ms)


def spelled(job_id: str) -> str:
    """The name of a job's file. No two jobs share one, and none has a separator or leads up.

    A colon is spelled `+`, which no id contains. A name that is too long for a file system keeps
    its beginning, and `~` (in no id either) and the SHA-256 of the whole stand for the rest.
    """
    if not _JOB_ID.fullmatch(job_id):
        raise ValueError(f"{job_id!r} is no id of a job")
    name = job_id.replace(":", "+")
    if len(name) + len(_SUFFIX) > _NAME_BYTES_MAX:
        name = f"{name[:_STEM_MAX]}~{hashlib.sha256(job_id.encode()).hexdigest()}"
    return name + _SUFFIX


def place(folder: Path, sheets: Sequence[Sheet], clock: Clock) -> list[Outcome]:
    """Write some files; what became of each. They share one flush of the folder (I2)."""
    outcomes: list[Outcome] = []
    try:
        with _opened(folder) as handle:
            for each in sheets:
                outcomes.append(_placed(handle, each, clock))
                if isinstance(outcomes[-1], Failed) and outcomes[-1].of_folder:
                    break
            os.fsync(handle)
    except OSError as error:
        return [Failed(_complaint(folder, error), of_folder=True)] * len(sheets)
    last = outcomes[-1] if outcomes else None
    if isinstance(last, Failed) and last.of_folder:
        last = replace(last, detail=f"{folder}: {last.detail}")
        outcomes[-1:] = [last] * (len(sheets) - len(outcomes) + 1)
    return outcomes


def sweep(folder: Path) -> int:
    """Remove the temporary files that dispatchers who were killed have left; how many."""
    swept = 0
    with suppress(OSError):  # it is there for no other reason than to be tidy
        for entry in os.scandir(folder):
            if not _SCRATCH.fullmatch(entry.name):
                continue
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _LITTER_SECONDS:
                Path(entry.path).unlink()
                swept += 1
    return swept


# --- one file -------------------------------------------------------------------------------------


def _placed(handle: int, each: Sheet, clock: Clock) -> Outcome:
    try:
        if _is_there(handle, each):
            return Placed()
        return _written(handle, each, clock)
    except _Refused as error:
        return Failed(str(error), of_folder=False)
    except OSError as error:
        return Failed(f"{each.name}: {error.strerror}", of_folder=error.errno not in _ITS_OWN)


class _Refused(Exception):
    """What is in the way is not ours to replace."""


def _is_there(handle: int, each: Sheet) -> bool:
    """Whether a dispatcher before us has written it; then its bytes are made to last."""
    try:
        found = os.stat(each.name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a regular file"
        raise _Refused(f"{each.name} is {what}; move it away")
    if found.st_size != len(each.data):
        return False
    file = os.open(each.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
    try:
        if os.read(file, len(each.data) + 1) != each.data:
            return False
        os.fsync(file)
    finally:
        os.close(file)
    return True


def _written(handle: int, each: Sheet, clock: Clock) -> Outcome:
    scratch = f".job-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(scratch, flags, 0o666, dir_fd=handle)
    try:
        with os.fdopen(file, "wb", buffering=0) as out:
            left = memoryview(each.data)
            while left:
                left = left[out.write(left) :]
            os.fsync(file)
        if clock() >= each.until_ms:  # I3
            os.unlink(scratch, dir_fd=handle)
            return Late()
        os.rename(scratch, each.name, src_dir_fd=handle, dst_dir_fd=handle)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch, dir_fd=handle)
        raise
    return Placed()


# --- the folder -----------------------------------------------------------------------------------


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """The folder by descriptor, made if need be; what it becomes later is not followed (I4)."""
    _make(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _make(folder: Path) -> None:
    if folder.is_dir():
        return
    _make(folder.parent)
    with suppress(FileExistsError):  # another dispatcher was faster; or a file is in the way
        folder.mkdir()
    above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(above)
    finally:
        os.close(above)


def _complaint(folder: Path, error: OSError) -> str:
    if folder.is_symlink():
        return f"{folder} is a symbolic link; name the folder that it leads to"
    if error.errno == errno.ENOTDIR:
        return f"{folder}: {error.strerror}; move away the file that is in its place"
    return f"{folder}: {error.strerror}; make room there, or name another folder"
