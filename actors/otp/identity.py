"""Which process is meant: its pid and the tick of its start.

I1  A pid is used again, and a pair of pid and tick is not, until the machine boots again; what
    outlives a boot is marked with `boot_id`.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_ENDED = "ZX"  # states of a process: it is not waited for yet, or about to go
_ASLEEP = "TZXx"  # and those in which it does nothing, for it is stopped or ended


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of this machine, for ever (I1)."""

    pid: int
    ticks: int

    @classmethod
    def find(cls, pid: int) -> Self | None:
        """Of a process that may be gone."""
        facts = _facts(pid)
        return None if facts is None else cls(pid, int(facts[19]))

    @property
    def is_alive(self) -> bool:
        return ticks_of(self.pid) == self.ticks

    @property
    def is_awake(self) -> bool:
        """Whether it is alive, and not stopped."""
        facts = _facts(self.pid)
        return facts is not None and int(facts[19]) == self.ticks and facts[0] not in _ASLEEP

    @property
    def parent(self) -> Self | None:
        facts = _facts(self.pid)
        return None if facts is None or int(facts[1]) <= 1 else self.find(int(facts[1]))

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Send a signal to it, and to no later process of its pid; False where it is gone."""
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            # The descriptor's process was there before this look.
            if not self.is_alive:
                return False
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True


def identity(pid: int | None = None) -> Identity:
    """Of a process that is there, or has not been waited for; ours, if none is named."""
    pid = os.getpid() if pid is None else pid
    found = Identity.find(pid)
    if found is None:
        raise ProcessLookupError(pid)
    return found


def ticks_of(pid: int) -> int | None:
    """When a living process was started; a zombie is not alive."""
    facts = _facts(pid)
    return None if facts is None or facts[0] in _ENDED else int(facts[19])


def state_of(pid: int) -> str | None:
    """The letter that proc(5) has for what a process does."""
    facts = _facts(pid)
    return None if facts is None else facts[0]


def boot_id() -> str:
    """The name of the time since the machine was started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _facts(pid: int) -> list[str] | None:
    """From the state on, as in proc(5): the parent is next, the tick of the start 19 further."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold anything, so count from behind it.
    return text.rpartition(b")")[2].decode("ascii").split() or None
