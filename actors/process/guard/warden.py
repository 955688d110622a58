"""A warden: one process that stands over one command, and leaves only when nothing is left of it.

    running --leader ends, told to, too late, owner or keeper gone--> ending --grace--> killing
       \\------------------------- all are gone ------------------------/----------------/--> gone

I1  Orphans below it become its children, so that without children it has no descendants.
I2  The command is killed with it, and every other descendant becomes the keeper's.
I3  It ends the command by itself when its owner or its keeper is gone, and at a time that the owner
    sets ahead: an owner that is frozen holds nothing up.
I4  It never waits for a reader of the output.

It speaks lines over a socket that it shares with its keeper.

    to the owner     pid COMMAND WARDEN | no ERRNO WHERE | end STATUS LATE LEFT SIZE DROPPED
    from the owner   term GRACE_MS NUMBER | sig NUMBER | until CLOCK_MS

After `end` it stays as long as what was printed is still read.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` costs 3 ms of enumerations
import _thread
import errno
import os
import select

from . import descendants
from .spool import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # at run time it costs 3 ms

_TICK_MS = 1_000  # a deadline is looked at this often, also after the machine slept
_PARENTLESS_TICK_MS = 200  # where no descriptor tells that a process is gone
_ENDING_TICK_MS = 20  # who was orphaned meanwhile is told too
_KILLING_TICK_MS = 5
_UNKILLABLE_MS = 10_000  # another user's, or stuck in the kernel: reported, and left alone
_LAST_WORDS_SECONDS = 1.0  # what is in the pipe when the last writer is gone
_SLOW_READER_SECONDS = 0.1  # how often it is looked whether anybody still wants it
_READ_BYTES = 1_048_576
_RESET = (
    signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGQUIT, signal.SIGTERM,
    signal.SIGXFSZ,
)  # fmt: skip


class Warden:
    """Runs in a process of its own. `run` returns when nothing is left."""

    def __init__(
        self, order: dict[str, Any], channel: int, files: list[int], owner: int | None
    ) -> None:
        self._order = order
        self._channel = channel
        self._files = files  # standard input, and where output is echoed to
        self._owner = owner
        self._owner_pid: int = order["owner"]
        self._keeper_pid = os.getppid()
        self._grace_ms: int = order["grace_ms"]
        self._until_ms: int | None = order["until_ms"]
        self._phase = "running"
        self._kill_at_ms = self._give_up_at_ms = 0
        self._leader = 0
        self._status: int | None = None
        self._told: set[int] = set()
        self._heard = b""
        self._abandoned = False  # the owner or the keeper is gone
        self._late = False  # it was ended at its time
        self._poll = select.poll()
        self._spool: Spool | None = None
        self._writing = _thread.allocate_lock()
        self._pumps: list[Any] = []

    def run(self) -> None:
        descendants.adopt_orphans()
        descendants.set_name("us-warden")
        self._wake = wake_up()
        self._watch(self._channel, self._wake, self._owner, descendants.watch(self._keeper_pid))
        if self._order["log"] is not None:
            self._spool = Spool(self._order["log"])
        if not self._start():
            return
        while not self._reap_all():
            self._hear(self._poll.poll(self._pause_ms()))
            self._turn()
        self._finish()

    # --- the command ----------------------------------------------------------------------------

    def _start(self) -> bool:
        inputs, outputs, pipes = self._streams()
        report, failure = os.pipe()
        warden = os.getpid()
        try:
            self._leader = os.fork()
        except OSError as error:  # too many processes
            self._say(f"no {error.errno} fork")
            return False
        if self._leader == 0:
            self._become(warden, inputs, outputs, failure)
        for each in {failure, inputs, *outputs, *self._files} - {echo for _, echo in pipes}:
            os.close(each)
        said = os.read(report, 64)
        os.close(report)
        if said:
            os.waitpid(self._leader, 0)
            self._say(f"no {said.decode()}")
            return False
        self._say(f"pid {self._leader} {warden}")
        self._pumps = [self._pump(source, echo) for source, echo in pipes]
        return True

    def _streams(self) -> tuple[int, tuple[int, int], list[tuple[int, int | None]]]:
        """What the command reads from and writes to, and what is to be copied where."""
        files = list(self._files)
        inputs = files.pop(0) if self._order["stdin"] else _null(os.O_RDONLY)
        if self._spool is None:
            outputs = files or [_null(os.O_WRONLY)]
            return inputs, (outputs[0], outputs[-1]), []
        if len(files) < 2:  # one pipe, so that the order of what is said is kept
            source, sink = os.pipe()
            return inputs, (sink, sink), [(source, files[0] if files else None)]
        out, out_sink = os.pipe()
        err, err_sink = os.pipe()
        return inputs, (out_sink, err_sink), [(out, files[0]), (err, files[1])]

    def _become(self, warden: int, inputs: int, outputs: tuple[int, int], failure: int) -> None:
        """In the new process: be the command, or say why not."""
        where = "exec"
        try:
            os.setsid()
            if descendants.LINUX:
                descendants.die_with_parent(signal.SIGKILL, warden)
            for number in _RESET:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for target, source in enumerate((inputs, *outputs)):
                os.dup2(source, target)
            if self._order["cwd"] is not None:
                where = "cwd"
                os.chdir(self._order["cwd"])
                where = "exec"
            _execute(self._order["argv"], self._order["env"])
        except OSError as error:
            os.write(failure, f"{error.errno or errno.ENOEXEC} {where}".encode())
        finally:
            os._exit(127)

    def _pump(self, source: int, echo: int | None) -> Any:  # a lock has no public name
        """Copy a stream in a thread, so that a slow reader holds up nothing else."""
        done = _thread.allocate_lock()
        done.acquire()

        def copy(target: int | None) -> None:
            assert self._spool is not None
            try:
                while data := os.read(source, _READ_BYTES):
                    with self._writing:
                        self._spool.write(data)
                    target = _copied(target, data)
            finally:
                done.release()

        _thread.start_new_thread(copy, (echo,))
        return done

    # --- events ---------------------------------------------------------------------------------

    def _watch(self, *files: int | None) -> None:
        for each in files:
            if each is not None:
                self._poll.register(each, select.POLLIN)

    def _pause_ms(self) -> int | None:
        if self._phase == "killing":
            return _KILLING_TICK_MS
        if self._phase == "ending":
            return _ENDING_TICK_MS
        if self._owner is None:
            return _PARENTLESS_TICK_MS
        if self._until_ms is None:
            return None
        return max(0, min(_TICK_MS, self._until_ms - descendants.now_ms()))

    def _hear(self, events: list[tuple[int, int]]) -> None:
        for file, _ in events:
            if file == self._wake:
                if set(os.read(self._wake, 4096)) - {signal.SIGCHLD}:
                    self._end(self._grace_ms)  # this very process was asked to end
            elif file == self._channel:
                self._listen()
            else:
                self._abandon(file)
        if self._owner is None and not self._has_parents():
            self._abandon(None)

    def _abandon(self, file: int | None) -> None:
        """The owner or the keeper is gone, or let go of us."""
        if file is not None:
            self._poll.unregister(file)
        self._abandoned = True
        self._end(self._grace_ms)

    def _has_parents(self) -> bool:
        if os.getppid() != self._keeper_pid:
            return False
        try:
            os.kill(self._owner_pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _listen(self) -> None:
        try:
            data = os.read(self._channel, 4096)
        except OSError:
            data = b""
        if not data:
            self._abandon(self._channel)
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            match line.split():
                case [b"term", grace_ms, number]:
                    self._end(int(grace_ms), int(number))
                case [b"sig", number] if self._status is None:
                    descendants.send_group(self._leader, int(number))
                case [b"until", until_ms]:
                    self._until_ms = int(until_ms)
                case _:
                    pass  # a signal to a command that has just ended

    # --- the end --------------------------------------------------------------------------------

    def _end(self, grace_ms: int, number: int = signal.SIGTERM) -> None:
        """Begin to end it; a second call may only make it sooner."""
        now_ms = descendants.now_ms()
        if self._phase == "running":
            self._phase, self._kill_at_ms = "ending", now_ms + grace_ms
            if self._status is None:
                descendants.send_group(self._leader, number)
                descendants.send_group(self._leader, signal.SIGCONT)
                self._told.add(self._leader)
        self._kill_at_ms = min(self._kill_at_ms, now_ms + grace_ms)

    def _turn(self) -> None:
        now_ms = descendants.now_ms()
        if self._phase == "running" and self._until_ms is not None and now_ms >= self._until_ms:
            self._late = True
            self._end(self._grace_ms)
        if self._phase == "ending" and now_ms >= self._kill_at_ms:
            self._phase, self._give_up_at_ms = "killing", now_ms + _UNKILLABLE_MS
        if self._phase == "ending":
            for pid in set(descendants.children() if descendants.LINUX else ()) - self._told:
                descendants.send(pid, signal.SIGTERM)
                descendants.send(pid, signal.SIGCONT)
                self._told.add(pid)
        elif self._phase == "killing":
            for pid in descendants.children() if descendants.LINUX else ():
                descendants.send(pid, signal.SIGKILL)
            if not descendants.LINUX or self._status is None:
                descendants.send_group(self._leader, signal.SIGKILL)

    def _reap_all(self) -> bool:
        """Reap what has ended, and end what the leader left behind; whether nothing is left."""
        ended, childless = descendants.reap()
        for pid, status in ended:
            self._told.discard(pid)
            if pid == self._leader:
                self._status = status
        alone = childless if descendants.LINUX else self._group_is_gone()
        if not alone and self._status is not None:
            self._end(self._grace_ms)
        return alone or (self._phase == "killing" and descendants.now_ms() >= self._give_up_at_ms)

    def _group_is_gone(self) -> bool:
        return self._status is not None and not descendants.send_group(self._leader, 0)

    def _finish(self) -> None:
        left = len(descendants.children()) if self._phase == "killing" and descendants.LINUX else 0
        busy = [done for done in self._pumps if not done.acquire(timeout=_LAST_WORDS_SECONDS)]
        status = -1 if self._status is None else self._status
        size, dropped = (self._spool.size, self._spool.dropped) if self._spool else (0, 0)
        self._say(f"end {status} {self._late:d} {left} {size} {dropped}")
        while busy and self._files and not self._abandoned:  # a reader is slow
            busy = [done for done in busy if not done.acquire(timeout=_SLOW_READER_SECONDS)]
            self._hear(self._poll.poll(0))

    def _say(self, line: str) -> None:
        try:
            os.write(self._channel, line.encode() + b"\n")
        except OSError:
            return  # the owner listens no more


def wake_up() -> int:
    """A descriptor that can be read after a signal; the bytes are the signals' numbers."""
    wake, sink = os.pipe()
    for each in (wake, sink):
        os.set_blocking(each, False)
    signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return wake


def _execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Become the command, as the shell finds it. `os.execvpe` does so too, and takes 2 ms."""
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)
    failure = OSError(errno.ENOENT, "")
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        try:
            os.execve(os.path.join(folder, argv[0]), argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:  # there is one, and it cannot be run; another may
            failure = error
    raise failure


def _copied(target: int | None, data: bytes) -> int | None:
    """Write it all; None once the reader is gone, which ends no command of ours."""
    if target is None:
        return None
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        return None
    return target


def _null(flags: int) -> int:
    return os.open(os.devnull, flags | os.O_CLOEXEC)
