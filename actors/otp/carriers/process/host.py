"""The process behind a system: it starts Thespian, watches over it, and leaves nothing behind.

    program --starts--> backstage --> Thespian's admin --> root --> first cells --> ...
                                            \\--> its logger

A fresh interpreter, so that nothing of the program is inherited: no threads that are not there
after a fork, no open files, no pipes to wait on. Each of these processes is tied to the
one before: where one is killed, everything to its right goes.

I1  It ends when the program does, when the admin does, and when the root does, and takes along all
    that is left of the system: every process that carries its mark.
I2  The last thing it says is why.
"""

import json
import os
import pickle
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from ...cell import ExitReason, Ref, Start
from ...identity import Identity, boot_id, identity
from . import process_id, run_file
from .registry import RegistryFolder, Roll

ROOT: Final = "0"  # the serial of the root
RUN_FILE: Final = "run.json"
LIVE: Final = "live"  # the folder of the roll, while there is something to be on it
_ROOT_SECONDS: Final = 10.0
_SPARE_SECONDS: Final = 2.0  # that a root gets beyond what it was given
_TIDY_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Orders:
    """What the program wants, on the standard input, as one line of JSON."""

    path: list[str]
    system: str
    build: str
    secret: str
    folder: str
    reports: str
    sockets: str
    port: int
    leader: str | None
    capabilities: dict[str, Any]
    program: dict[str, int]
    is_tied: bool
    door: int
    control: int


class Backstage:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._folder = Path(orders.folder)
        self._control = socket.socket(fileno=orders.control)
        self._program = Identity(**orders.program)
        self._roll = Roll(self._folder / LIVE, orders.system)

    def run(self) -> NoReturn:
        try:
            self._start()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must hear of it
            self._leave("failed", ExitReason("crash", f"{type(error).__name__}: {error}"))
        self._say("up", port=self._orders.port, admin=self._admin.pid, root=self._root.pid)
        self._leave("ended", self._watch())

    # --- the start --------------------------------------------------------------------------------

    def _start(self) -> None:
        from thespian.actors import ActorSystem  # costs time, and reads variables

        from . import hooks, thespian_actor
        from .birth import Charter
        from .root import RootCell

        orders = self._orders
        reader = hooks.install(
            Path(orders.sockets),
            bytes.fromhex(orders.secret),
            thespian_actor.kept_fds,
            (orders.door,),
        )
        capabilities = {
            **orders.capabilities,
            "Admin Port": orders.port,
            thespian_actor.SYSTEM: orders.system,
            thespian_actor.BUILD: orders.build,
            thespian_actor.FOLDER: str(self._roll.folder),
            thespian_actor.REPORTS: orders.reports,
        }
        if orders.leader is not None:
            capabilities["Convention Address.IPv4"] = orders.leader
        self._system = ActorSystem("multiprocTCPBase", capabilities, transientUnique=True)
        self._admin = identity(int(os.read(reader, 32)))
        me = Ref(orders.system, ROOT, "root", RegistryFolder(""))
        start = pickle.dumps(Start(RootCell, (orders.door,), "root"))
        charter = Charter(me, None, self._admin, start, (orders.door,))
        requirements = thespian_actor.Requirements(charter, orders.build, {})
        self._system.createActor(thespian_actor.Player, targetActorRequirements=requirements)
        os.close(orders.door)
        self._root = self._find_root()
        self._write_run_file()

    def _find_root(self) -> Identity:
        deadline = time.monotonic() + _ROOT_SECONDS
        while time.monotonic() < deadline:
            entry = self._roll.find(ROOT)
            if entry is not None:
                return entry.place.identity
            time.sleep(0.001)
        raise TimeoutError(f"no root after {_ROOT_SECONDS} s")

    def _write_run_file(self) -> None:
        row = {
            "system": self._orders.system,
            "build": self._orders.build,
            "port": self._orders.port,
            "boot": boot_id(),
            "program": self._orders.program,
            **{
                name: {"pid": who.pid, "ticks": who.ticks}
                for name, who in (
                    ("backstage", identity()),
                    ("admin", self._admin),
                    ("root", self._root),
                )
            },
        }
        draft = self._folder / f".{RUN_FILE}"
        run_file.write(draft, json.dumps(row, sort_keys=True) + "\n")
        draft.rename(self._folder / RUN_FILE)

    # --- the watch --------------------------------------------------------------------------------

    def _watch(self) -> ExitReason:
        """Until something ends that must not, or is asked to."""
        program, admin, root = (
            os.pidfd_open(who.pid) for who in (self._program, self._admin, self._root)
        )
        poll = select.poll()
        for fd in (program, admin, root, self._control.fileno()):
            poll.register(fd, select.POLLIN)
        deadline: float | None = None
        while True:
            ready = {fd for fd, _ in poll.poll(_TIDY_MS)}
            if program in ready:
                return ExitReason("killed", "the program that started it has ended")
            if admin in ready:
                return self._how_admin_ended()
            if root in ready:
                return self._how_root_ended(wanted=deadline is not None)
            if self._control.fileno() in ready:
                line = self._control.recv(4_096)
                if not line:
                    return ExitReason("killed", "the program that started it has let go")
                deadline = time.monotonic() + json.loads(line)["stop_ms"] / 1000 + _SPARE_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                return ExitReason("timeout", "the root did not end in time")
            self._bury_orphans()

    def _how_admin_ended(self) -> ExitReason:
        _, status = os.waitpid(self._admin.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return ExitReason("signal", f"Thespian's admin: {signal.Signals(-code).name}", -code)
        return ExitReason("exit", "Thespian's admin", code)

    def _how_root_ended(self, *, wanted: bool) -> ExitReason:
        reason = self._roll.how(ROOT)
        if not wanted:
            kind, code = ("killed", None) if reason is None else (reason.kind, reason.code)
            return ExitReason(
                kind, f"the root: {reason.detail if reason else 'no last word'}", code
            )
        if self._admin.is_alive:
            self._system.shutdown()
        return reason or ExitReason("killed", "the root: no last word")

    def _bury_orphans(self) -> None:
        """Processes that lost their parent are ours now; only the admin's end is waited for."""
        while True:
            with suppress(ChildProcessError):
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if found is not None and found.si_pid != self._admin.pid:
                    os.waitpid(found.si_pid, 0)
                    continue
            return

    # --- the end ----------------------------------------------------------------------------------

    def _leave(self, word: str, reason: ExitReason) -> NoReturn:
        swept = process_id.sweep(self._orders.system)
        (self._folder / RUN_FILE).unlink(missing_ok=True)
        self._say(
            word,
            kind=reason.kind,
            detail=reason.detail,
            code=reason.code,
            swept=[each.pid for each in swept],
        )
        sys.stderr.flush()
        os._exit(0 if reason.is_clean else 1)

    def _say(self, word: str, **what: object) -> None:
        with suppress(OSError):
            self._control.sendall(json.dumps({"word": word, **what}).encode() + b"\n")


def main(line: str) -> NoReturn:
    orders = Orders(**json.loads(line))
    with open(os.devnull) as nothing:  # noqa: PTH123 - it is no path
        os.dup2(nothing.fileno(), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if orders.is_tied:
        process_id.tie_to_parent(orders.program["pid"])
    process_id.adopt_orphans()
    process_id.allow_many_files()
    Backstage(orders).run()
