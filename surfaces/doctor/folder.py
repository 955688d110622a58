"""Checks of a state directory: who can reach it, who holds it, and who serves it."""

import fcntl
import os
import shlex
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ...actors.otp import identity
from ...authority import SOCKET, TRAJECTORY
from ...authority.journal import state_files
from ...authority.service import sidecar, sockets
from ...contracts import Reason, contract_digest, limits
from .finding import DoctorFinding, Status

_GREETING_SECONDS = 2.0  # a sidecar greets at once, or it is stopped
_NOT_IGNORED = 1  # as `git check-ignore` says it; 128 where there is no repository
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NAMES_MAX = 16  # of files that are open to others, in the report
_CLOSE = "`understudy doctor --fix` closes them"


def missing(folder: Path) -> DoctorFinding | None:
    """Why there is nothing to look at, if there is not."""
    denied = Reason.STATE_DIR_DENIED.wire
    try:
        if (folder / state_files.JOURNAL).exists() or (folder / state_files.URL_FILE).exists():
            return None
        has_evidence = (folder / TRAJECTORY).exists()
    except OSError as error:
        remedy = "give it to the user who works here, or name another one with --state-dir"
        return DoctorFinding("state", "problem", f"{folder}: {error.strerror}", remedy, denied)
    if folder.exists() and not folder.is_dir():
        remedy = "name a directory with --state-dir"
        return DoctorFinding("state", "problem", f"{folder} is no directory", remedy, denied)
    if has_evidence:
        words = f"{folder} has evidence and no journal"
        remedy = (
            f"restore {state_files.JOURNAL} from a backup, together with its -wal, if it has one"
        )
        return DoctorFinding("state", "problem", words, remedy, Reason.STATE_DIR_MISSING.wire)
    words = f"there is no journal in {folder}"
    return DoctorFinding("state", "note", words, "`understudy init` makes one")


def reach(folder: Path) -> Iterator[DoctorFinding]:
    """Whether any other user can read or write it, or what we have made in it."""
    found = folder.stat()
    mode = stat.S_IMODE(found.st_mode)
    facts: dict[str, Any] = {"mode": f"{mode:04o}", "owner": found.st_uid, "path": str(folder)}
    failure = Reason.STATE_DIR_DENIED.wire
    if found.st_uid != os.geteuid() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        remedy = (
            f"run as user {found.st_uid}, or give it to the user who works here: "
            f"chown -R {os.geteuid()} {folder}"
        )
        words = f"{folder} is not ours to use"
        yield DoctorFinding("state", "problem", words, remedy, failure, facts)
        return
    exposed = dict(open_to_others(folder))
    facts["openToOthers"] = [str(path.relative_to(folder)) for path in exposed][:_NAMES_MAX]
    writable = mode & _OTHERS and any(each & _OTHERS_WRITE for each in exposed.values())
    if writable:
        words = f"others can write in {folder} (mode {mode:04o}), and so take any lease"
        yield DoctorFinding("state", "problem", words, _CLOSE, failure, facts)
    elif exposed:
        names = ", ".join(facts["openToOthers"][:3])
        words = f"{len(exposed)} of our files and folders are open to others ({names})"
        yield DoctorFinding("state", "note", words, _CLOSE, facts=facts)
    else:
        yield DoctorFinding("state", "ok", f"{folder} is its owner's alone", facts=facts)


def open_to_others(folder: Path) -> Iterator[tuple[Path, int]]:
    """What we have made and others could open, with its mode; first the folder itself."""
    known = [each for each in folder.iterdir() if _is_ours(each.name)]
    below = (path for each in known if each.is_dir() for path in each.rglob("*"))
    for path in (folder, *sorted(known), *below):
        with suppress(FileNotFoundError):  # gone meanwhile
            mode = path.lstat().st_mode
            if mode & _OTHERS and not stat.S_ISLNK(mode):
                yield path, stat.S_IMODE(mode)


def _is_ours(name: str) -> bool:
    return name.startswith(state_files.OURS) or name in state_files.OUR_FOLDERS


def close_to_others(folder: Path) -> int:
    """Take from others what they could do with what we have made; how many files and folders."""
    exposed = list(open_to_others(folder))
    for path, mode in exposed:
        with suppress(FileNotFoundError):
            path.chmod(mode & ~_OTHERS)
    return len(exposed)


def ignored(folder: Path) -> Iterator[DoctorFinding]:
    """Whether git would commit it with `add -A`, and delete the journal with `clean -fd`."""
    words = ["git", "-C", str(folder), "check-ignore", "--quiet", state_files.JOURNAL]
    try:
        code = subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode  # noqa: S603 - no shell, and no word of a caller but a path
    except FileNotFoundError:
        return  # without git there is nothing to fear from it
    if code == _NOT_IGNORED:
        path = shlex.quote(str(folder))
        remedy = f"echo '*' > {path}/{state_files.IGNORED}"
        remedy += f", and if git tracks it: git rm -r --cached {path}"
        detail = f"git would commit {folder}, and `git clean` delete it"
        yield DoctorFinding("git", "note", detail, remedy, facts={"ignored": False})


def lock(folder: Path) -> Iterator[DoctorFinding]:
    """Who writes here. Taking the lock is not needed to see that it is held."""
    holder = holder_of(folder)
    if holder is None:
        yield DoctorFinding("lock", "ok", "no process holds it", facts={"pid": None})
        return
    facts = {"pid": holder, "state": identity.state_of(holder)}
    words = f"process {holder or '?'} holds it"
    if facts["state"] == "T":
        words += ", and is stopped"
        failure = Reason.AUTHORITY_BUSY.wire
        yield DoctorFinding("lock", "problem", words, f"kill -CONT {holder}", failure, facts)
    else:
        yield DoctorFinding("lock", "ok", words, facts=facts)


def holder_of(folder: Path) -> int | None:
    """The process that has the lock; 0 where it does not say who it is."""
    try:
        handle = os.open(folder / state_files.LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # no process has ever written, or we may not look
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 32, 0).strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(handle)
    return None


# --- the sidecar ----------------------------------------------------------------------------------


def served(folder: Path, wanted: str | None) -> Iterator[DoctorFinding]:
    """Whether a sidecar answers, and whether it is one of ours."""
    path, unreachable = folder / SOCKET, Reason.SIDECAR_UNREACHABLE.wire
    if not (path.exists() or path.is_symlink()):
        words = "none runs; commands open the journal themselves"
        facts = {"running": False}
        if wanted == "sidecar":
            remedy = "start one with `understudy authority serve`"
            yield DoctorFinding("sidecar", "problem", words, remedy, unreachable, facts)
        else:
            yield DoctorFinding("sidecar", "ok", words, facts=facts)
        return
    try:
        hello = _greeting(folder)
    except PermissionError as error:
        words = f"it was not asked, since another user could be there: {error.strerror}"
        yield DoctorFinding("sidecar", "problem", words, _CLOSE, unreachable, {"running": False})
    except TimeoutError:
        words = "something takes connections on the socket, and says nothing"
        remedy = "is it stopped? `kill -CONT`, or end it and start it again"
        yield DoctorFinding("sidecar", "problem", words, remedy, unreachable, {"running": True})
    except (EOFError, ValueError) as error:
        words = f"something answers on the socket, but does not greet us: {error}"
        remedy = "it may be stopping, or have no room for more connections: look again"
        yield DoctorFinding("sidecar", "problem", words, remedy, unreachable, {"running": True})
    except OSError as error:
        words = f"none runs; {SOCKET} was left by one that died ({error.strerror})"
        remedy = "nothing to do: the next `understudy authority serve` replaces it"
        status: Status = "problem" if wanted == "sidecar" else "note"
        yield DoctorFinding("sidecar", status, words, remedy, unreachable, {"running": False})
    else:
        yield _greeted(hello)


def _greeted(hello: dict[str, Any]) -> DoctorFinding:
    said = hello.get("hello")
    overloaded = Reason.AUTHORITY_OVERLOADED.wire
    if hello.get("failureClasses") == [overloaded]:
        words = "it has as many connections as it may have"
        remedy = f"end some of its clients; {limits.CONNECTIONS_MAX} and `ulimit -n` bound them"
        return DoctorFinding("sidecar", "problem", words, remedy, overloaded, {"running": True})
    if not isinstance(said, dict):
        words = f"it speaks another protocol than ours, which is {sidecar.PROTOCOL}"
        remedy = "stop it, and start the one that belongs to this command"
        failure = Reason.PROTOCOL_MISMATCH.wire
        return DoctorFinding("sidecar", "problem", words, remedy, failure, {"running": True})
    names = ("pid", "protocol", "boundary", "contractDigest", "node")
    facts = {"running": True} | {name: said.get(name) for name in names}
    words = f"process {said.get('pid')} serves, with {said.get('boundary')} decisions"
    if said.get("standby"):
        facts |= {"standby": True, "relaysTo": said.get("relaysTo")}
        words += f", as a standby: it relays to {said.get('relaysTo', 'another')}"
    if said.get("contractDigest") != contract_digest():
        words += ", by another contract than ours"
        remedy = "stop it, and start it again with the version that is installed"
        failure = Reason.CONTRACT_DRIFT.wire
        return DoctorFinding("sidecar", "problem", words, remedy, failure, facts)
    if said.get("snapshotFailure"):
        words += f"; it could write no snapshot: {said['snapshotFailure']}"
        remedy = "nothing to do: it tries again; until then a start is slow"
        return DoctorFinding("sidecar", "note", words, remedy, facts=facts)
    return DoctorFinding("sidecar", "ok", words, facts=facts)


def _greeting(folder: Path) -> dict[str, Any]:
    """What a sidecar says of itself. A client would wait for one that is stopped."""
    hello = {"hello": {"protocol": sidecar.PROTOCOL, "transport": "cli"}}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(_GREETING_SECONDS)
        sockets.connect(channel, folder, SOCKET)
        with suppress(BrokenPipeError):  # it may have said why it hangs up
            channel.sendall(orjson.dumps(hello) + b"\n")
        try:
            with channel.makefile("rb") as lines:
                line = lines.readline(65_536)
        except ConnectionError:
            line = b""
    if not line:
        raise EOFError("it hangs up")
    value = orjson.loads(line)
    return value if isinstance(value, dict) else {}
