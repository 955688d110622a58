"""Who is on, under which name, and how the others left: small files that every cell can read.

    cells/<serial>   from its spawn until its parent has seen its end
    ends/<serial>    its reason, from its end on, for a while
    names/<digest>   a registered name and who holds it
    faults/<serial>  what a fault in C code left behind
    sockets/<port>   where a cell takes its mail; for a convention, a link to its folder

Files, since they answer at once, need no process that could be dead or slow, and are still there
when a cell and its parent were killed together. Whether a cell is alive is not written anywhere:
the kernel is asked.

I1  A cell has one end: who writes it first is right.
I2  A name has one living holder: it changes hands under a lock, after a look at the holder.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from ...cell import ExitReason, Ref
from ...identity import Identity
from . import run_file

STALE_SECONDS = 120.0  # how long an end is told; a late watcher hears `noproc`
GUESTS = "guests"  # the folder of those who belong to other systems
SOCKETS = "sockets"
_FOLDERS = ("cells", "ends", "names", "faults")


@dataclass(frozen=True, slots=True)
class RegistryFolder:
    """Where a cell is, as far as is known: the carrier's part of a `Ref`."""

    node: str  # the system that hosts it: its own, unless it is away
    pid: int = 0
    ticks: int = 0
    host: str = ""
    port: int = 0

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.ticks)


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A cell on the roll, and who will see its end."""

    place: RegistryFolder
    parent: str
    keeper: Identity


class Roll:
    """The files of one system."""

    def __init__(self, folder: Path, system: str, sockets: Path | None = None) -> None:
        self.folder = folder
        self.system = system
        self._sockets = sockets or folder / SOCKETS
        self._cells, self._ends, self._names, self._faults = (folder / name for name in _FOLDERS)
        self._written = 0

    @classmethod
    def of(cls, folder: Path, node: str, system: str) -> Self:
        """The roll of a system on a node; where it is not its own, of its cells that are there."""
        if node == system:
            return cls(folder, system)
        guests = cls(folder / GUESTS / system, system, folder / SOCKETS)
        guests.prepare()
        return guests

    def prepare(self) -> None:
        for name in _FOLDERS:
            run_file.make_folder(self.folder / name)

    # --- cells ------------------------------------------------------------------------------------

    def enter(self, serial: str, entry: RegistryEntry, *, anew: bool = False) -> None:
        """Put a cell on the roll; `anew` where it knows more than its parent did."""
        path = self._cells / serial
        draft = self._draft(asdict(entry))
        if anew:
            draft.rename(path)
            return
        with suppress(FileExistsError):  # the child was faster
            path.hardlink_to(draft)
        draft.unlink()

    def find(self, serial: str) -> RegistryEntry | None:
        row = _read(self._cells / serial)
        if row is None:
            return None
        return RegistryEntry(
            RegistryFolder(**row["place"]), row["parent"], Identity(**row["keeper"])
        )

    def leave(self, serial: str) -> None:
        entry = self.find(serial)
        if entry is not None:
            (self._sockets / str(entry.place.port)).unlink(missing_ok=True)
        (self._cells / serial).unlink(missing_ok=True)

    # --- ends -------------------------------------------------------------------------------------

    def end(self, serial: str, reason: ExitReason) -> ExitReason:
        """Write how a cell ended, unless that is known (I1); what is known then.

        On a full disk nothing is written, and only those who see it themselves know.
        """
        with suppress(OSError):
            draft = self._draft(asdict(reason))
            with suppress(FileExistsError):
                (self._ends / serial).hardlink_to(draft)
            draft.unlink()
        return self.how(serial) or reason

    def how(self, serial: str) -> ExitReason | None:
        row = _read(self._ends / serial)
        return None if row is None else ExitReason(**row)

    def fault_path(self, serial: str) -> Path:
        return self._faults / serial

    def fault(self, serial: str) -> str:
        """What a fault left behind; told once."""
        path = self._faults / serial
        try:
            text = path.read_text(errors="replace")
            path.unlink()
        except OSError:
            return ""
        return text

    # --- names ------------------------------------------------------------------------------------

    def take(self, name: str, ref: Ref) -> bool:
        """Take a name for a living cell; False where one has it."""
        with self._lock():
            if self.holder(name) is not None:
                return False
            row = {"name": name, "serial": ref.serial, "label": ref.label, **asdict(ref.place)}
            self._draft(row).rename(self._name_path(name))
        return True

    def holder(self, name: str) -> Ref | None:
        """Who has a name; None where that cell has ended (I2)."""
        row = _read(self._name_path(name))
        if row is None:
            return None
        _, serial, label = row.pop("name"), row.pop("serial"), row.pop("label")
        place = RegistryFolder(**row)
        if not place.identity.is_alive:
            return None
        return Ref(self.system, serial, label, place)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        fd = run_file.opener(self._names / ".lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _name_path(self, name: str) -> Path:
        return self._names / hashlib.sha256(name.encode()).hexdigest()

    # --- housekeeping -----------------------------------------------------------------------------

    def tidy(self, node: str) -> None:
        """Forget old ends, cells that left unseen, and the names of the dead."""
        horizon = time.time() - STALE_SECONDS
        for path in self._ends.iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < horizon:
                    path.unlink()
        for path in self._cells.iterdir():
            entry = self.find(path.name)
            if entry and entry.place.node == node and not entry.place.identity.is_alive:
                self.leave(path.name)
                self.fault_path(path.name).unlink(missing_ok=True)
        with self._lock():
            for path in self._names.iterdir():
                row = _read(path)
                if row is not None and not Identity(row["pid"], row["ticks"]).is_alive:
                    path.unlink()
        for guests in (self.folder / GUESTS).glob("*"):
            Roll(guests, guests.name, self._sockets).tidy(node)

    def _draft(self, row: dict[str, Any]) -> Path:
        """A whole file under a name of its own: a reader of the real one reads all of it."""
        self._written += 1
        path = self.folder / f".{os.getpid()}-{self._written}"
        run_file.write(path, json.dumps(row))
        return path


def _read(path: Path) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, json.JSONDecodeError):  # a lock file holds nothing
        return None
    return row
