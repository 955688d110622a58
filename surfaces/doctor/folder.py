"""Checks of a state directory: who can reach it, who holds it, and who serves it."""

import fcntl
import os
import shlex
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ...actors.otp import identity
from ...authority import SOCKET, TRAJECTORY
from ...authority.journal import state_files
from ...authority.service import sidecar, sockets
from ...contracts import Reason, contract_digest
from .finding import DoctorFinding, Status

_GREETING_SECONDS = 2.0  # a sidecar greets at once, or it is stopped
_NOT_IGNORED = 1  # as `git check-ignore` says it; 128 where there is no repository
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


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
    """Whether anybody else can read or write it. What lies in a private folder is private."""
    found = folder.stat()
    mode = stat.S_IMODE(found.st_mode)
    facts: dict[str, Any] = {"mode": f"{mode:04o}", "owner": found.st_uid, "path": str(folder)}
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"give it to the user who works here: chown {os.geteuid()} {folder}"
        failure = Reason.STATE_DIR_DENIED.wire
        yield DoctorFinding(
            "state", "problem", f"{folder} is not ours to use", remedy, failure, facts
        )
        return
    if not mode & _OTHERS:
        yield DoctorFinding("state", "ok", f"{folder} is its owner's alone", facts=facts)
        return
    files = [each for each in folder.iterdir() if not each.is_symlink()]
    writable = sorted(each.name for each in files if each.stat().st_mode & _OTHERS_WRITE)
    facts["writableByOthers"] = writable
    remedy = f"chmod 700 {folder}"
    if mode & _OTHERS_WRITE or writable:
        words = f"others can write in {folder} (mode {mode:04o}), and so take any lease"
        failure = Reason.STATE_DIR_DENIED.wire
        yield DoctorFinding("state", "problem", words, remedy, failure, facts)
    else:
        words = f"others can look into {folder} (mode {mode:04o})"
        yield DoctorFinding("state", "note", words, remedy, facts=facts)


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
    return DoctorFinding("sidecar", "ok", words, facts=facts)


def _greeting(folder: Path) -> dict[str, Any]:
    """What a sidecar says of itself. A client would wait for one that is stopped."""
    hello = {"hello": {"protocol": sidecar.PROTOCOL, "transport": "cli"}}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(_GREETING_SECONDS)
        sockets.connect(channel, folder, SOCKET)
        try:
            channel.sendall(orjson.dumps(hello) + b"\n")
            with channel.makefile("rb") as lines:
                line = lines.readline(65_536)
        except ConnectionError:
            line = b""
    if not line:
        raise EOFError("it hangs up")
    value = orjson.loads(line)
    return value if isinstance(value, dict) else {}
