"""Cells for the tests of the troupe: one that does what it is told, and some that go wrong."""

import ctypes
import logging
import mmap
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.actors.otp import NORMAL, Cell, Exited, ExitReason, GenServer, Ref, Start, Target
from understudy.actors.otp.calls import Caller
from understudy.actors.otp.carriers.process.cell import Body
from understudy.actors.otp.carriers.process.mailbox import Overloaded


@dataclass(frozen=True, slots=True)
class _Now:
    targets: list[Ref]
    count: int


class Puppet(GenServer):
    """Does what a call says, in its own process, and remembers what it hears."""

    def __init__(self, *, traps: bool = True) -> None:
        self._traps = traps
        self._heard: list[object] = []
        self._told: list[Any] = []
        self._last_ms = self._gap_ms = 0

    def init(self) -> None:
        self.cell.trap_exits = self._traps

    def handle_call(self, request: object, caller: Caller) -> object:
        assert isinstance(request, tuple)
        verb, *args = request
        return getattr(self, f"do_{verb}")(*args)

    def handle_cast(self, message: object) -> None:
        now_ms = self.cell.now_ms()
        self._gap_ms = max(self._gap_ms, now_ms - (self._last_ms or now_ms))
        self._last_ms = now_ms
        if message == "slowly":
            time.sleep(0.05)
        self._told.append(message)

    def handle_info(self, message: object) -> None:
        if isinstance(message, _Now):
            for number in range(message.count):
                for ref in message.targets:
                    self.cast(ref, (number, b""))
        else:
            self._heard.append(message)

    def parent_exited(self, reason: ExitReason) -> None:
        self._heard.append(Exited(self.cell.parent or self.cell.me, reason))
        super().parent_exited(reason)

    # --- what it can be told ----------------------------------------------------------------------

    def do_pid(self) -> int:
        return os.getpid()

    def do_me(self) -> Ref:
        return self.cell.me

    def do_heard(self) -> list[object]:
        return list(self._heard)

    def do_count(self) -> int:
        return len(self._told)

    def do_numbers(self) -> list[int]:
        return [number for number, _ in self._told]

    def do_longest_gap_ms(self) -> int:
        return self._gap_ms

    def do_parent(self) -> Ref | None:
        return self.cell.parent

    def do_echo(self, value: object) -> object:
        return value

    def do_big(self, size: int) -> bytes:
        return b"x" * size

    def do_spawn(self, start: Start, count: int = 1) -> list[Ref]:
        return [self.cell.spawn(start) for _ in range(count)]

    def do_spawn_on(self, start: Start, capabilities: dict[str, object]) -> list[Ref]:
        assert isinstance(self.cell, Body)
        return [self.cell.spawn(start, capabilities)]

    def do_print(self, text: str) -> None:
        print(text)  # to see where it goes

    def do_log(self, text: str) -> None:
        logging.getLogger("cast").warning(text)

    def do_send(self, target: Target, message: object) -> None:
        self.cell.send(target, message)

    def do_burst(self, target: Target, count: int, size: int = 0) -> int:
        for number in range(count):
            self.cast(target, (number, b"x" * size))
        return count

    def do_burst_at(self, due_ms: int, targets: list[Ref], count: int) -> None:
        """To all others at the same moment as they do."""
        others = [ref for ref in targets if ref != self.cell.me]
        self.cell.after(due_ms - self.cell.now_ms(), _Now(others, count))

    def do_overload(self, target: Target) -> int:
        """Send until it is refused; how many were taken."""
        for number in range(1_000_000):
            try:
                self.cast(target, (number, b""))
            except Overloaded:
                return number
        raise AssertionError("there is no bound")

    def do_signal(self, target: Target, reason: ExitReason) -> None:
        self.cell.signal(target, reason)

    def do_link(self, ref: Ref) -> None:
        self.cell.link(ref)

    def do_unlink(self, ref: Ref) -> None:
        self.cell.unlink(ref)

    def do_monitor(self, target: Target) -> str:
        return self.cell.monitor(target)

    def do_demonitor(self, monitor: str) -> None:
        self.cell.demonitor(monitor)

    def do_register(self, name: str) -> bool:
        return self.cell.register(name)

    def do_whereis(self, name: str) -> None:
        self.cell.whereis(name, name)

    def do_after(self, delays: list[tuple[int, object]]) -> list[str]:
        return [self.cell.after(delay_ms, message) for delay_ms, message in delays]

    def do_cancel(self, timer: str) -> None:
        self.cell.cancel(timer)

    def do_leave(self, reason: ExitReason = NORMAL) -> None:
        self.leave(reason)

    def do_raise(self, text: str) -> None:
        raise RuntimeError(text)

    def do_sleep(self, seconds: float) -> str:
        time.sleep(seconds)
        return "slept"

    def do_fds(self) -> list[str]:
        return [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]

    def do_open(self, path: str) -> int:
        return os.open(path, os.O_RDONLY)

    def do_daemon(self) -> int:
        """A process that has left our session and our parenthood."""
        reader, writer = os.pipe()
        with os.fdopen(reader) as lines:
            command = f"setsid sh -c 'echo $$ >&{writer}; exec sleep 600' & "
            subprocess.run(["sh", "-c", command], pass_fds=(writer,), check=True)
            os.close(writer)
            return int(lines.readline())

    def do_env(self, name: str) -> str | None:
        return os.environ.get(name)


class Fragile:
    """Writes down every message before it goes wrong; dies in the way that it is told."""

    def __init__(self, path: str = os.devnull) -> None:
        self._path = Path(path)

    def start(self, cell: Cell) -> bool:
        return True

    def receive(self, cell: Cell, message: object) -> None:
        with self._path.open("a") as file:
            file.write(f"{message}\n")
        getattr(self, f"_{message}")()

    def stop(self, cell: Cell, reason: ExitReason) -> None: ...

    def summary(self) -> object:
        return {"path": self._path.name}

    def _raise(self) -> None:
        raise ValueError("as told")

    def _exit(self) -> None:
        os._exit(7)

    def _leave(self) -> None:
        raise SystemExit(3)

    def _segv(self) -> None:
        ctypes.string_at(0)

    def _abort(self) -> None:
        ctypes.CDLL(None).abort()

    def _bus(self) -> None:
        """Read a page behind the end of a file."""
        path = self._path.with_suffix(".bus")
        path.write_bytes(b"x" * mmap.PAGESIZE)
        with path.open("r+b") as file:
            view = mmap.mmap(file.fileno(), 0)
            file.truncate(0)
            view[0]

    def _hang(self) -> None:
        signal.pause()


class Stillborn:
    """Raises in the way that it is told, before it is ready."""

    def __init__(self, where: str) -> None:
        if where == "make":
            raise ValueError("not even made")
        self._where = where

    def start(self, cell: Cell) -> bool:
        if self._where == "start":
            raise ValueError("no start")
        if self._where == "exit":
            os._exit(9)
        if self._where == "never":
            return False
        signal.pause()
        return True

    def receive(self, cell: Cell, message: object) -> None: ...

    def stop(self, cell: Cell, reason: ExitReason) -> None: ...

    def summary(self) -> object:
        return None


class Stubborn:
    """Traps the request to end, and does not."""

    def start(self, cell: Cell) -> bool:
        cell.trap_exits = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return True

    def receive(self, cell: Cell, message: object) -> None: ...

    def stop(self, cell: Cell, reason: ExitReason) -> None: ...

    def summary(self) -> object:
        return None


class Scribe:
    """Writes a line to a file when it starts and when it stops."""

    def __init__(self, path: str, name: str) -> None:
        self._path = Path(path)
        self._name = name

    def _note(self, word: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{word} {self._name}\n")

    def start(self, cell: Cell) -> bool:
        self._note("start")
        return True

    def receive(self, cell: Cell, message: object) -> None: ...

    def stop(self, cell: Cell, reason: ExitReason) -> None:
        self._note("stop")

    def summary(self) -> object:
        return None


class Unpicklable:
    """Can be sent, but not opened."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _raising, ()


def _raising() -> None:
    raise ValueError("cannot be opened")
