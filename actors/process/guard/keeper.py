"""A keeper: one process below an owner, which makes a warden for each of the owner's commands.

    owner --- keeper --- warden --- command --- whatever it starts
                    \\--- warden --- command ...

I1  None of its children but the wardens has a right to live: they are orphans of one that was
    killed, and are killed too, before the owner hears of it.
I2  When its owner is gone, however it went, it leaves after the last warden has.

Any one of owner, keeper, warden and command may be killed, and nothing below it survives. With one
helper the owner would have to adopt what a killed one leaves behind, and could not tell it from
children that it has for reasons of its own.

It is a program (`python -I -S`) and not a fork of the owner: a fork would hold the owner's files
and the locks on them, and copy whatever its threads are in the middle of. A program takes some 13
ms to start, but once for all commands; a warden is a fork of the keeper, which is small and has no
threads, so that a command costs some 3 ms.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` costs 3 ms of enumerations
import _socket  # and `socket` 7
import gc
import marshal
import os
import select
import sys

from . import descendants
from .warden import Warden, wake_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # at run time it costs 3 ms

_PARENTLESS_TICK_MS = 200  # where no descriptor tells that a process is gone
_SWEEP_TICK_MS = 5
_SWEEP_MS_MAX = 10_000  # another user's, or stuck in the kernel: reported, and left alone
_PATIENCE_MS = 10_000  # how long a warden may take beyond its grace when the owner is gone
_FILES_MAX = 8
_FILE_BYTES = 4  # of an `int`
_CLOEXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)


class WardenKeeper:
    """Runs in a process of its own. `run` returns when the owner and all wardens are gone."""

    def __init__(self, control: int, owner_pid: int) -> None:
        self._control = _socket.socket(fileno=control)
        self._owner_pid = owner_pid
        self._owner = descendants.watch(owner_pid)
        self._wardens: dict[int, tuple[int, int]] = {}  # pid -> its channel, its grace
        self._lost: list[tuple[int, int]] = []  # channel and status of wardens that were killed
        self._sweep_until_ms = 0
        self._leaving = False  # nothing more is started
        self._hurry_at_ms: int | None = None  # when the owner is gone: the end of all patience
        self._poll = select.poll()

    def run(self) -> None:
        descendants.adopt_orphans()
        descendants.set_name("us-keeper")
        self._wake = wake_up()
        for each in (self._control.fileno(), self._owner, self._wake):
            if each is not None:
                self._poll.register(each, select.POLLIN)
        if os.getppid() != self._owner_pid:
            return
        while not self._leaving or self._wardens or self._lost:
            self._hear(self._poll.poll(self._pause_ms()))
            self._reap()
            self._sweep()
            self._hurry()

    def _pause_ms(self) -> int | None:
        if self._lost:
            return _SWEEP_TICK_MS
        return _PARENTLESS_TICK_MS if self._owner is None or self._hurry_at_ms else None

    def _hear(self, events: list[tuple[int, int]]) -> None:
        ready = {file for file, _ in events}
        if self._wake in ready and set(os.read(self._wake, 4096)) - {signal.SIGCHLD}:
            self._bereaved(signal.SIGTERM)  # this very process was asked to end
        elif self._owner in ready or os.getppid() != self._owner_pid:
            self._bereaved(signal.SIGCONT)  # wardens see it for themselves, unless they are stopped
        if not self._leaving and self._control.fileno() in ready:
            self._obey()

    def _leave(self) -> None:
        """Start nothing more; an owner that is still there notices, and starts another keeper."""
        if not self._leaving:
            self._leaving = True
            self._poll.unregister(self._control.fileno())
            self._control.close()

    def _bereaved(self, number: int) -> None:
        self._leave()
        if self._hurry_at_ms is not None:
            return
        grace_ms = max((grace for _, grace in self._wardens.values()), default=0)
        self._hurry_at_ms = descendants.now_ms() + grace_ms + _PATIENCE_MS
        if self._owner is not None:
            self._poll.unregister(self._owner)
        for pid in self._wardens:
            descendants.send(pid, signal.SIGCONT)
            descendants.send(pid, number)

    def _obey(self) -> None:
        """Make a warden for an order: its channel, the order itself, then files of the command."""
        room = _socket.CMSG_SPACE(_FILES_MAX * _FILE_BYTES)
        try:
            data, controls, flags, _ = self._control.recvmsg(1, room, _CLOEXEC)
        except OSError:
            data = b""
        if not data:
            self._leave()
            return
        files = [file for _, _, packed in controls for file in _integers(packed)]
        for each in files:
            os.set_inheritable(each, False)  # noqa: FBT003 - its own signature
        if flags & _socket.MSG_CTRUNC:  # we may open no more files; the owner hears a hang-up
            for each in files:
                os.close(each)
            return
        channel, paper, *files = files
        order = _read(paper)
        try:
            pid = os.fork()
        except OSError as error:  # too many processes
            os.write(channel, f"no {error.errno} fork\n".encode())
            os.close(channel)
        else:
            if pid == 0:
                self._become(order, channel, files)
            self._wardens[pid] = (channel, order["grace_ms"])
        for each in files:
            os.close(each)

    def _become(self, order: dict[str, Any], channel: int, files: list[int]) -> None:
        """In the new process: be the warden, with no file that is not its own."""
        code = 70
        try:
            mine = {channel, *files, self._owner}
            self._control.close()
            for each, _ in (*self._wardens.values(), *self._lost, (self._wake, 0)):
                if each not in mine:
                    os.close(each)
            Warden(order, channel, files, self._owner).run()
            code = 0
        finally:
            os._exit(code)

    # --- wardens that are gone ------------------------------------------------------------------

    def _reap(self) -> None:
        for pid, status in descendants.reap()[0]:
            if pid not in self._wardens:
                continue  # an orphan that we ended
            channel, _ = self._wardens.pop(pid)
            if status == 0:
                os.close(channel)
            else:
                self._lost.append((channel, status))
                self._sweep_until_ms = descendants.now_ms() + _SWEEP_MS_MAX

    def _sweep(self) -> None:
        """End what a killed warden left behind, and then say so (I1)."""
        if not self._lost:
            return
        orphans = _orphans(self._wardens)
        for pid in orphans:
            descendants.send(pid, signal.SIGKILL)
        # A list that is made while others come and go may miss one, so there must be two.
        if (orphans or _orphans(self._wardens)) and descendants.now_ms() < self._sweep_until_ms:
            return
        for channel, status in self._lost:
            try:
                os.write(channel, f"lost {status} {len(orphans)}\n".encode())
            except OSError:
                pass  # the owner listens no more
            os.close(channel)
        self._lost.clear()

    def _hurry(self) -> None:
        if self._hurry_at_ms is not None and descendants.now_ms() >= self._hurry_at_ms:
            for pid in self._wardens:
                descendants.send(pid, signal.SIGKILL)


def _orphans(wardens: dict[int, tuple[int, int]]) -> list[int]:
    return (
        [pid for pid in descendants.children() if pid not in wardens] if descendants.LINUX else []
    )


def _integers(packed: bytes) -> list[int]:
    whole = len(packed) - len(packed) % _FILE_BYTES
    return list(memoryview(packed[:whole]).cast("i"))


def _read(paper: int) -> dict[str, Any]:
    os.lseek(paper, 0, os.SEEK_SET)
    with open(paper, "rb") as file:
        order: dict[str, Any] = marshal.loads(file.read())  # noqa: S302 - our owner's own words
    return order


def main() -> None:
    gc.disable()  # nothing here goes in circles, and a collection would copy pages into each fork
    control, owner_pid = map(int, sys.argv[1:])
    WardenKeeper(control, owner_pid).run()
