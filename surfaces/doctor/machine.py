"""Checks of the machine and of what is installed: they need no state directory."""

import os
import platform
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw

from ... import __version__
from ...authority import decider
from ...authority.engine import ffi
from ...contracts import Reason, contract_digest, limits, startup_check
from .finding import DoctorFinding

FREE_BYTES_LOW = 1024**3  # less than this is worth knowing
FREE_BYTES_MIN = 64 * 1024**2  # less than this, and the next checkpoint may fail
SPARE_FILES = 64  # descriptors of a sidecar that are no connections, generously


def program() -> Iterator[DoctorFinding]:
    python = platform.python_version()
    words = f"understudy {__version__}, {platform.python_implementation()} {python}"
    facts = {"version": __version__, "python": python, "platform": platform.platform()}
    yield DoctorFinding("program", "ok", words, facts=facts)


def boundary(wanted: str | None, *, served: bool) -> Iterator[DoctorFinding]:
    """Who decides here, and why; and who would, if a sidecar was started."""
    why_not, compiler = ffi.why_not(), _compiler()
    mode = decider(wanted, is_served=served)
    facts = {"mode": mode, "native": why_not is None, "whyNot": why_not, "compiler": compiler}
    words = f"{mode}: {_WHY[wanted is not None, mode]}"
    if why_not is None:
        words += f"; C is there, with ABI {ffi.ABI}, and sidecars use it"
        yield DoctorFinding("boundary", "ok", words, facts=facts)
        return
    words += f"; there is no C, and sidecars do without, with the same bytes: {why_not}"
    remedy = "install understudy again, and see what the compiler says"
    if compiler is None:
        words += "; no C compiler was found"
        remedy = "install a C compiler, then understudy again"
    elif "ABI" in why_not:
        remedy = "the library was left by another version: install understudy again"
    serious = wanted == "native" or "ABI" in why_not
    yield DoctorFinding("boundary", "problem" if serious else "note", words, remedy, facts=facts)


_WHY = {
    (False, "sidecar"): "commands go through the one that runs",
    (False, "reference"): "no sidecar runs, so commands decide in Python",
    (True, "sidecar"): "as you ask, commands go through one",
    (True, "reference"): "as you ask, commands decide in Python",
    (True, "native"): "as you ask, commands decide in C",
}


def _compiler() -> str | None:
    names = [os.environ.get("CC", "").split(" ")[0], "cc", "gcc", "clang"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


def contract() -> Iterator[DoctorFinding]:
    """Whether the published documents are those that were published."""
    report = startup_check()
    facts = {"contractDigest": contract_digest(), "failureClasses": report["failureClasses"]}
    if report["result"] == "accepted":
        yield DoctorFinding(
            "contract", "ok", f"it is what it was ({contract_digest()})", facts=facts
        )
        return
    words = f"it is not what was published: {', '.join(report['failureClasses'])}"
    remedy = "`understudy check` names each deviation; install understudy again"
    failure = Reason.CONTRACT_DRIFT.wire
    yield DoctorFinding("contract", "problem", words, remedy, failure, facts)


def sqlite() -> Iterator[DoctorFinding]:
    facts = {"sqlite": apsw.sqlite_lib_version(), "apsw": apsw.apsw_version()}
    words = f"SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()}"
    yield DoctorFinding("sqlite", "ok", words, facts=facts)


def files() -> Iterator[DoctorFinding]:
    """How many connections a sidecar that is started from here can have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.CONNECTIONS_MAX + SPARE_FILES
    facts = {"soft": _number(soft), "hard": _number(hard), "wanted": wanted}
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        words = f"a sidecar may have all its {limits.CONNECTIONS_MAX} connections"
        yield DoctorFinding("files", "ok", words, facts=facts)
        return
    words = (
        f"{soft} open files are allowed: a sidecar has room for about "
        f"{max(1, soft - SPARE_FILES)} of {limits.CONNECTIONS_MAX} connections"
    )
    remedy = f"`ulimit -n {wanted}` before it is started, if so many are wanted"
    yield DoctorFinding("files", "note", words, remedy, facts=facts)


def _number(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def disk(folder: Path) -> Iterator[DoctorFinding]:
    """Room for the journal; where there is no folder yet, in the one that it would be made in."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    facts = {"freeBytes": free, "freeFiles": found.f_favail, "path": str(place)}
    words = f"{free / 1024**3:.1f} GiB are free"
    remedy = "make room: an authority whose disk is full answers nothing"
    if free < FREE_BYTES_MIN or (found.f_files and not found.f_favail):
        if found.f_files and not found.f_favail:
            words += ", and no inode is"
        yield DoctorFinding("disk", "problem", words, remedy, facts=facts)
    elif free < FREE_BYTES_LOW:
        yield DoctorFinding("disk", "note", words, remedy, facts=facts)
    else:
        yield DoctorFinding("disk", "ok", words, facts=facts)
