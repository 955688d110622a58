"""Cells as processes, carried by Thespian: the carrier for real work.

    with Troupe(run_dir) as system:
        ref = system.spawn(supervise(...))
        system.call("lease_dispatcher", request, timeout_ms=5_000)

One cell is one actor is one process of the operating system. Thespian makes the processes and moves
the mail; what it lacks is in the modules beside this one, and what it does wrong is listed in
`hooks`. The program that starts a troupe loads none of it: it talks to a process of its own.

I1  When this object is stopped, or the program ends, however it ends, no process is left.
I2  One run directory has one system at a time; what an older one left behind is swept, not used.
I3  What listens is a socket in a folder that no other user may enter; nothing is on a network.
"""

import fcntl
import hashlib
import json
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Self

from ...calls import Cast
from ...cell import CallFailed, ExitReason, OtpError, Ref, Start, Target
from ...identity import Identity, boot_id, identity
from . import private_socket, process_id, run_file
from .frames import pickled
from .host import LIVE, RUN_FILE
from .process_id import MARK
from .registry import SOCKETS, Roll
from .root import Ask, Close, Find, Join, Order, Signal, Spawn, Tell
from .root_client import Hung, Line

REPORTS: Final = "reports.jsonl"
LOG: Final = "troupe.log"
START_MS: Final = 30_000
STOP_MS: Final = 10_000
_LOCK: Final = "lock"
_HELD_SECONDS: Final = 0.5  # a program that was killed this moment is still seen
_LEFT_SECONDS: Final = 5.0  # how long the processes of a killed program may take to go
_SLACK_SECONDS: Final = 5.0  # what an answer may take beyond the time it was given
_BOOTSTRAP: Final = (
    "import json, sys; line = sys.stdin.readline(); sys.path[:] = json.loads(line)['path']; "
    "from understudy.actors.otp.carriers.process.host import main; main(line)"
)


class StartupFailed(OtpError):
    """The system did not come up."""


class AlreadyRunning(OtpError):
    """Another system uses this run directory."""


class SystemEnded(OtpError):
    """The system is not there any more, and this is why."""

    def __init__(self, reason: ExitReason) -> None:
        super().__init__(f"the system has ended: {reason.kind} {reason.detail}".rstrip())
        self.reason = reason


class Troupe:
    """A system of processes. Implements `System`; may be used by several threads."""

    def __init__(
        self,
        run_dir: Path,
        *,
        report: Path | None = None,
        sockets: Path | None = None,
        capabilities: Mapping[str, object] | None = None,
        convention_leader: str | None = None,
        secret: bytes | None = None,
    ) -> None:
        """`sockets` is the folder where its processes are reached, made where it is missing.

        Systems of one convention need one such folder, and one `secret` of 16 to 64 bytes; alone,
        one is drawn. A leader is given as its `address`.
        """
        self.run_dir = run_dir.absolute()
        self.reports = (report or self.run_dir / REPORTS).absolute()
        self.sockets = (sockets or self.run_dir / LIVE / SOCKETS).absolute()
        self.port = 0
        self.name = f"t{secrets.token_hex(6)}"
        self.build = build_digest()
        self._capabilities = dict(capabilities or {})
        self._leader = convention_leader
        self._secret = secrets.token_bytes(32) if secret is None else secret
        if not 16 <= len(self._secret) <= 64:
            raise ValueError(f"secret: {len(self._secret)} bytes, and it takes 16 to 64")
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        self._ending = threading.Lock()
        self._reason: ExitReason | None = None
        self._swept: list[int] = []
        self._is_closed = False

    # --- start and stop ---------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(STOP_MS)

    def start(self) -> None:
        """Returns when the root is there; raises `StartupFailed` and the like."""
        if self._process is not None:
            raise StartupFailed("a troupe is started once")
        if sys.platform != "linux":
            raise StartupFailed(f"it needs what only Linux has, and this is {sys.platform}")
        run_file.make_folder(self.run_dir)
        self._lock = self._locked()
        try:
            self._sweep_older()
            self._start_process()
        except BaseException:
            if not self._is_closed:
                os.close(self._lock)
            raise

    def stop(self, timeout_ms: int = STOP_MS) -> None:
        """End the first cells, last one first, and everything else; then nothing is left."""
        if self._process is None or self._pid != os.getpid():  # a fork of the program has no say
            return
        with self._ending:
            if self._reason is None:
                with suppress(OSError):
                    self._control.sendall(json.dumps({"stop_ms": timeout_ms}).encode() + b"\n")
                with suppress(Hung, TimeoutError):
                    self._line.ask(Close(timeout_ms), timeout_ms / 1000 + _SLACK_SECONDS)
                self._gather(timeout_ms / 1000 + 2 * _SLACK_SECONDS)
            self._close()

    @property
    def address(self) -> str:
        """What others join as `convention_leader`."""
        return f"{private_socket.HOST}:{self.port}"

    @property
    def pids(self) -> Mapping[str, int]:
        """Of the processes that are no cells, and the root."""
        return self._pids

    def fileno(self) -> int:
        """Readable when the system has ended."""
        return self._pidfd

    def wait(self, timeout_ms: int | None = None) -> ExitReason | None:
        """Why the system has ended; None where it has not by then."""
        with self._ending:
            if self._reason is None:
                self._gather(None if timeout_ms is None else timeout_ms / 1000)
            return self._reason

    # --- as `System` has it -----------------------------------------------------------------------

    def spawn(
        self,
        start: Start,
        on: Mapping[str, object] | None = None,
        timeout_ms: int = START_MS,
    ) -> Ref:
        """With `on`, in a system of the convention that has these capabilities.

        Raises `NotImportable` where the cell could not import what it is to run.
        """
        order = Spawn(pickled(start), start.label, dict(on or {}), timeout_ms)
        ref = self._order(order, timeout_ms)
        assert isinstance(ref, Ref)
        return ref

    def call(self, target: Target, request: object, timeout_ms: int) -> object:
        try:
            return self._ask(Ask(target, pickled(request), timeout_ms), timeout_ms)
        except TimeoutError as error:
            raise CallFailed(target, ExitReason("timeout", "no answer in time")) from error

    def send(self, target: Target, message: object) -> None:
        """Returns when it is on its way; raises `Overloaded` where too much is."""
        self._order(Tell(target, pickled(message)))

    # --- beyond it --------------------------------------------------------------------------------

    def cast(self, target: Target, message: object) -> None:
        self.send(target, Cast(message))

    def signal(self, target: Target, reason: ExitReason) -> None:
        """From the root, which is the parent of what `spawn` made."""
        self._order(Signal(target, reason))

    def whereis(self, name: str) -> Ref | None:
        found = self._order(Find(name))
        assert found is None or isinstance(found, Ref)
        return found

    def join(self, target: Target, timeout_ms: int | None = None) -> ExitReason | None:
        """Why a cell has ended, `noproc` if that was before; None where it has not by then."""
        reason = self._order(Join(target, timeout_ms), timeout_ms)
        assert reason is None or isinstance(reason, ExitReason)
        return reason

    def processes(self) -> list[Identity]:
        """Every process of this system, cells or not."""
        return process_id.members(self.name)

    def _order(self, order: Order, timeout_ms: int | None = 0) -> object:
        try:
            return self._ask(order, timeout_ms)
        except TimeoutError as error:
            raise CallFailed("root", ExitReason("timeout", "no answer in time")) from error

    def _ask(self, order: Order, timeout_ms: int | None) -> object:
        """The answer of the root, which keeps the time; we give it a little more."""
        if self._process is None:
            raise StartupFailed("a troupe is started before it is used")
        timeout_s = None if timeout_ms is None else timeout_ms / 1000 + _SLACK_SECONDS
        try:
            value = self._line.ask(order, timeout_s)
        except Hung as error:
            raise SystemEnded(self.wait(STOP_MS) or ExitReason("killed", str(error))) from error
        if isinstance(value, OtpError):
            raise value
        return value

    # --- the start --------------------------------------------------------------------------------

    def _locked(self) -> int:
        """Held by us and by the process behind the system, so that it outlives neither."""
        fd = run_file.opener(self.run_dir / _LOCK, os.O_RDWR | os.O_CREAT)
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                holder = _read_run_file(self.run_dir)
                is_held = holder is not None and Identity(**holder["program"]).is_alive
                if time.monotonic() - began > (_HELD_SECONDS if is_held else _LEFT_SECONDS):
                    os.close(fd)
                    raise AlreadyRunning(self._told_of(holder)) from None
            time.sleep(0.01)

    def _told_of(self, holder: dict[str, Any] | None) -> str:
        if holder is None:
            return f"{self.run_dir} is used by a system that is being started or stopped"
        code = "the same code" if holder["build"] == self.build else "other code than ours"
        return f"{self.run_dir} is used by process {holder['program']['pid']}, with {code}"

    def _sweep_older(self) -> None:
        """What is still there of a system whose program is gone."""
        older = _read_run_file(self.run_dir)
        if older is not None and older["boot"] == boot_id():
            process_id.sweep(older["system"])
        (self.run_dir / RUN_FILE).unlink(missing_ok=True)
        live = self.run_dir / LIVE
        if live.is_symlink():
            live.unlink()  # it would lead the files of this system elsewhere
        shutil.rmtree(live, ignore_errors=True)
        Roll(live, self.name).prepare()
        private_socket.prepare(self.sockets)
        with suppress(FileExistsError):  # its own
            (live / SOCKETS).symlink_to(self.sockets)

    def _start_process(self) -> None:
        self.port = private_socket.take_number(self.sockets)
        door, their_door = socket.socketpair()
        self._control, their_control = socket.socketpair()
        with their_door, their_control:
            self._process = self._launch(their_door.fileno(), their_control.fileno())
        self._line = Line(door)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._said = bytearray()
        word = self._read_word(time.monotonic() + START_MS / 1000)
        if word is None or word["word"] != "up":
            self._note_end(word)
            self._gather(_SLACK_SECONDS)
            detail = "nothing was heard of it" if self._reason is None else self._reason.detail
            self._close()
            raise StartupFailed(f"{detail}; see {self.run_dir / LOG}")
        self._pids = {"backstage": self._process.pid, "admin": word["admin"], "root": word["root"]}

    def _launch(self, door: int, control: int) -> subprocess.Popen[bytes]:
        me = identity()
        orders = {
            "path": [each or str(Path.cwd()) for each in sys.path],
            "system": self.name,
            "build": self.build,
            "secret": self._secret.hex(),
            "folder": str(self.run_dir),
            "reports": str(self.reports),
            "sockets": str(self.sockets),
            "port": self.port,
            "leader": self._leader,
            "capabilities": self._capabilities,
            "program": {"pid": me.pid, "ticks": me.ticks},
            # The tie is to the thread that starts it; others may end before the program does.
            "is_tied": threading.current_thread() is threading.main_thread(),
            "door": door,
            "control": control,
        }
        line = json.dumps(orders).encode() + b"\n"
        with open(self.run_dir / LOG, "ab", opener=run_file.opener) as log:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter, and our own words
                [sys.executable, "-c", _BOOTSTRAP],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(door, control, self._lock),
                start_new_session=True,
                env={
                    **os.environ,
                    MARK: self.name,
                    "THESPIAN_BASE_IPADDR": private_socket.HOST,
                    "THESPLOG_FILE": str(self.run_dir / "thespian.log"),
                },
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(line)
        return process

    # --- the end ----------------------------------------------------------------------------------

    def _gather(self, timeout_s: float | None) -> None:
        """Wait for the end of the process behind the system, and for its last word."""
        assert self._process is not None
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._note_end(self._read_word(deadline))
        if self._reason is None and deadline is not None and _is_running(self._pidfd, deadline):
            return
        code = self._process.wait()
        process_id.sweep(self.name)
        if self._reason is None:
            reason = ExitReason("exit", "the process behind it ended", code)
            if code < 0:
                reason = ExitReason("signal", "the process behind it was killed", -code)
            self._reason = reason

    def _note_end(self, word: dict[str, Any] | None) -> None:
        if word is not None and word["word"] in ("ended", "failed"):
            self._reason = ExitReason(word["kind"], word["detail"], word["code"])
            self._swept = word["swept"]

    def _read_word(self, deadline: float | None) -> dict[str, Any] | None:
        """The next word of the process behind the system; None at the deadline, or its end."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while b"\n" not in self._said:
            left_ms = None if deadline is None else (deadline - time.monotonic()) * 1000
            if (left_ms is not None and left_ms <= 0) or not poll.poll(left_ms):
                return None
            try:
                data = self._control.recv(65_536)
            except ConnectionResetError:
                return None  # it ended before it had read what we said
            if not data:
                return None
            self._said += data
        line, _, self._said = self._said.partition(b"\n")
        word: dict[str, Any] = json.loads(line)
        return word

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._line.close()
        self._control.close()
        os.close(self._pidfd)
        os.close(self._lock)
        shutil.rmtree(self.run_dir / LIVE, ignore_errors=True)


def end_by_force(run_dir: Path) -> list[int]:
    """Kill the program of a system and every process of it; the pids of those that are left."""
    run = _read_run_file(run_dir)
    if run is None or run["boot"] != boot_id():
        return []
    Identity(**run["program"]).kill()
    process_id.sweep(run["system"])
    return [each.pid for each in process_id.members(run["system"])]


def build_digest() -> str:
    """Of the code that carries cells; systems with another one do not host ours."""
    digest = hashlib.sha256(metadata.version("thespian").encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _read_run_file(run_dir: Path) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads((run_dir / RUN_FILE).read_bytes())
    except FileNotFoundError:
        return None
    return row


def _is_running(pidfd: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return not poll.poll(max(deadline - time.monotonic(), 0) * 1000)
